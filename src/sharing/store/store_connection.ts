/**
 * The store's end of a connection to a client.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import {
  Documents,
  type JsonObject,
  maximumAskByteLength,
  messagesOfPieces,
  numberOf,
  textOf,
} from "../protocol/documents.ts";
import { badMessage, type DocumentMessage, limitExceeded, type Message } from "../protocol/messages.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { PendingRequest, type PendingRequestOwner } from "./memories/pending_request.ts";
import type { Mappings } from "./memories/store_table.ts";
import type { Shares } from "./memories/store_budget.ts";
import type { AnswerReader, StoreAnswer } from "./memories/store_answer.ts";
import type { StoredMemories } from "./memories/stored_memories.ts";
import { type ClientProcess, done, failureOf, type RequestOutcome, StoreRequests } from "./store_requests.ts";

/** The dependencies of `StoreConnection`, which its store provides. */
export interface StoreConnectionOwner {
  readonly memories: StoredMemories;
  /** The budget for the number of waiting requests of all clients. */
  readonly waiting: Shares;
  /** The budget for the bytes of all clients' requests that have not been started. */
  readonly unbegun: Shares;
  /** Called when the connection has been closed. The error is undefined if the client sent GOODBYE `done`. */
  onEnd(connection: StoreConnection, error: SharingError | undefined): void;
  /**
   * Called when a reconnected client claims allocations. `held` maps the number of each allocation to the mappings that
   * the client has of it.
   */
  onClaim(connection: StoreConnection, held: ReadonlyMap<number, Mappings>): void;
}

/** The maximum number of unanswered requests of a client. */
const maximumRequests = 16_384;
/** The maximum number of started but unanswered requests of a client, excluding waiting requests. */
const maximumBegun = 64;
/** The approximate number of bytes that a queued request occupies in addition to its document. */
const requestByteLength = 512;
/**
 * The granularity, in bytes, of the charge for requests that have not been started, so that the charge does not change
 * with every message.
 */
const unbegunUnit = 16_384;

/** A request whose outcome is known, but whose answer is not being sent yet. */
interface Finished {
  readonly request: PendingRequest<RequestOutcome>;
  readonly outcome: RequestOutcome;
}

/** The answer that is being sent, and an iterator over its unsent messages. */
interface Sending {
  readonly answer: StoreAnswer;
  readonly messages: Iterator<DocumentMessage>;
}

/**
 * The store's end of a connection to a client. Represents the client's process as a holder of allocations, even after
 * the connection was closed.
 *
 * Answers are encoded and sent one after another, as fast as the client reads them. Further requests wait.
 */
export class StoreConnection implements ClientProcess, AnswerReader, PendingRequestOwner<RequestOutcome> {
  readonly peer: Peer;
  readonly process: PeerProcess;
  isConnected = true;
  /**
   * Whether the client has sent "leave": the client will not reconnect, and holds its allocations until its process
   * exits.
   */
  hasLeft = false;
  /**
   * The number of clients in the process that may reconnect and claim the allocations held by this object. Exceeds one
   * if other connections were merged into this one.
   */
  clientCount = 1;
  #hasClaimed = false;
  readonly #stream: MessageStream;
  readonly #owner: StoreConnectionOwner;
  readonly #performer: StoreRequests;
  readonly #documents = new Documents(maximumAskByteLength);
  /**
   * The requests that have not been started yet, because the client reads answers too slowly or too many requests are
   * in progress.
   */
  readonly #queue: { readonly request: number; readonly document: JsonObject; readonly byteLength: number }[] = [];
  #queuedByteLength = 0;
  /** The unanswered requests, keyed by number. The value is undefined for a request that has not been started. */
  readonly #requests = new Map<number, PendingRequest<RequestOutcome> | undefined>();
  /** Requests with a known outcome whose answers have not been started. */
  readonly #finished: Finished[] = [];
  /** The number of started but unanswered requests. */
  #begunCount = 0;
  /** The number of started but unanswered requests that wait or have waited. */
  #waitingCount = 0;
  /** The bytes of this connection's unstarted requests that are charged to `StoreConnectionOwner.unbegun`. */
  #unbegunByteLength = 0;
  /** The reason why all requests were canceled. Undefined until then. */
  #endReason: SharingError | undefined;
  #sending: Sending | undefined;
  #isPumping = false;

  constructor(stream: MessageStream, owner: StoreConnectionOwner) {
    this.#stream = stream;
    this.#owner = owner;
    this.peer = stream.peer;
    this.process = stream.process;
    this.#performer = new StoreRequests({
      client: this,
      memories: owner.memories,
      onClaim: (held) => {
        if (this.#hasClaimed) return;
        this.#hasClaimed = true;
        owner.onClaim(this, held);
      },
      onLeave: () => {
        this.hasLeft = true;
        this.#endRequests();
      },
    });
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#pump(),
      onEnd: (error) => this.#onEnd(error),
    });
  }

  /** Closes the connection, because the store is closed. */
  close(): void {
    if (!this.isConnected) return;
    this.#stream.end("done", "the store was closed");
    this.#onEnd(undefined);
  }

  /**
   * Closes the connection because the client does not read its answers. Sends GOODBYE `done`, after which the client
   * may reconnect.
   */
  cutOff(error: SharingError): void {
    this.#stream.end("done", error.message);
    this.#onEnd(error);
  }

  /** Called when a request starts to wait. */
  onWait(): void {
    const { waiting } = this.#owner;
    waiting.check(this.peer.uid, 1, "let another request wait");
    waiting.add([this.peer.uid], 1);
    this.#waitingCount++;
  }

  /** Called when the outcome of a started request is known. */
  onSettled(request: PendingRequest<RequestOutcome>, outcome: RequestOutcome): void {
    if (!this.isConnected) return;
    this.#finished.push({ request, outcome });
    if (!this.#isPumping) this.#pump();
  }

  #onEnd(error: SharingError | undefined): void {
    this.isConnected = false;
    // A client may disconnect right after it has sent releases, without waiting for the answers. Perform the releases
    // that are still queued.
    for (const { request, document } of this.#queue.splice(0)) {
      if (document.do === "release" || document.do === "leave") {
        this.#perform(document, new PendingRequest(request, this));
      }
    }
    this.#finished.length = 0;
    this.#sending = undefined;
    this.#owner.memories.unsent.end(this);
    this.#endRequests();
    // Free the canceled requests, because this object may exist for as long as the client's process.
    this.#requests.clear();
    const { waiting, unbegun } = this.#owner;
    waiting.add([this.peer.uid], -this.#waitingCount);
    unbegun.add([this.peer.uid], -this.#unbegunByteLength);
    this.#owner.onEnd(this, error);
  }

  #endRequests(): void {
    const reason = this.#endReason ??= new SharingError("peer-gone", "The client is gone");
    for (const pending of this.#requests.values()) pending?.end(reason);
  }

  #onMessage(message: Message): void {
    if (message.type !== "ask") throw badMessage(`a message "${message.type}" comes from a client of a store`);
    const { request } = message;
    const document = this.#documents.add(message);
    if (document === undefined) return this.#countUnbegun();
    const byteLength = this.#documents.lastByteLength;
    if (this.#requests.has(request)) throw badMessage(`request ${request} is made again before its answer`);
    if (this.#requests.size >= maximumRequests) {
      throw limitExceeded("accept another request", `${maximumRequests} requests that are not answered`);
    }
    this.#requests.set(request, undefined);
    if (this.#queuedByteLength + byteLength > maximumAskByteLength) {
      throw limitExceeded("accept another request", `${maximumAskByteLength} bytes of documents of who does not read`);
    }
    this.#queuedByteLength += byteLength;
    this.#queue.push({ request, document, byteLength });
    this.#pump();
  }

  /**
   * Updates the charge for requests that have not been started. Throws `limit-exceeded` if the user would exceed its
   * share.
   */
  #countUnbegun(): void {
    if (!this.isConnected) return;
    const exact = this.#documents.byteLength + this.#queuedByteLength + requestByteLength * this.#queue.length;
    const byteLength = Math.ceil(exact / unbegunUnit) * unbegunUnit;
    const more = byteLength - this.#unbegunByteLength;
    if (more === 0) return;
    const { unbegun } = this.#owner;
    const { uid } = this.peer;
    if (more > 0) unbegun.check(uid, more, "accept another request");
    unbegun.add([uid], more);
    this.#unbegunByteLength = byteLength;
  }

  /** Starts and answers requests until the connection is backlogged. */
  #pump(): void {
    this.#isPumping = true;
    let hasSent = false;
    while (!this.#stream.isBacklogged) {
      if (this.#sending === undefined) {
        if (!this.#beginNext()) break;
        continue;
      }
      const { value, done } = this.#sending.messages.next();
      if (done === true) this.#sending = undefined;
      else this.#stream.send(value);
      hasSent = true;
    }
    this.#isPumping = false;
    if (hasSent) this.#stream.flush();
    const { unsent } = this.#owner.memories;
    if (this.#sending === undefined) unsent.end(this);
    else if (hasSent) unsent.progress(this, this.#sending.answer);
    this.#countUnbegun();
  }

  /**
   * Starts the answer to the next finished request, or else starts the next request. Returns false if nothing could be
   * started, because no request is finished or queued, or because too many requests are already being processed.
   */
  #beginNext(): boolean {
    const finished = this.#finished.shift();
    if (finished !== undefined) {
      this.#beginAnswer(finished);
      return true;
    }
    if (this.#begunCount - this.#waitingCount >= maximumBegun) return false;
    const next = this.#queue.shift();
    if (next === undefined) return false;
    this.#queuedByteLength -= next.byteLength;
    this.#begin(next.request, next.document);
    return true;
  }

  #begin(request: number, document: JsonObject): void {
    const pending = new PendingRequest<RequestOutcome>(request, this);
    pending.reason = this.#endReason;
    this.#requests.set(request, pending);
    this.#begunCount++;
    const outcome = this.#perform(document, pending);
    if (outcome !== undefined) this.#finished.push({ request: pending, outcome });
  }

  #perform(document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    try {
      const what = textOf(document, "do");
      if (what !== "cancel") return this.#performer.perform(what, document, pending);
      const request = numberOf(document, "request", 1);
      this.#requests.get(request)?.end(new SharingError("cut-off", "The client has given up"));
      return done({});
    } catch (error) {
      return failureOf(error);
    }
  }

  #beginAnswer({ request: { number: request, hasWaited }, outcome }: Finished): void {
    this.#requests.delete(request);
    this.#begunCount--;
    if (hasWaited) {
      this.#waitingCount--;
      this.#owner.waiting.add([this.peer.uid], -1);
    }
    const answer = "id" in outcome ? this.#answerWithMemory(request, outcome) : outcome.answer();
    this.#sending = { answer, messages: messagesOfPieces({ type: "answer", request }, answer) };
  }

  /** Sends the descriptor of an allocation, and returns the answer to send next. */
  #answerWithMemory(request: number, { id, answer }: Extract<RequestOutcome, { readonly id: number }>): StoreAnswer {
    const memory = this.#owner.memories.find(id);
    // Another request of the client may have released the allocation in the meantime.
    if (memory === undefined) return failureOf(new SharingError("not-found", `Memory ${id} is gone`)).answer();
    if (memory.handle === undefined) {
      return failureOf(new SharingError("not-found", `Memory ${id} is in a file`)).answer();
    }
    this.#stream.send({ type: "memory", request, handle: memory.handle });
    return answer(memory);
  }
}
