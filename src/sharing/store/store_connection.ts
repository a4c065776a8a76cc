/**
 * The store's end of a connection to a client.
 *
 * @module
 */
import { CudaError, SharingError } from "../../support/errors.ts";
import { messageForPeers } from "../../support/driver_errors.ts";
import { Documents, type JsonObject, maximumAskByteLength, partsOfPieces } from "../protocol/documents.ts";
import { badMessage, type DocumentMessage, limitExceeded, type Message } from "../protocol/messages.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { numberOf, textOf } from "./fields.ts";
import { documentAnswer, type StoreAnswer } from "./memories/store_answer.ts";
import type { StoredMemories } from "./memories/stored_memories.ts";
import type { AnswerReader } from "./memories/unsent_answers.ts";
import { type ClientProcess, done, type Outcome, StoreRequests } from "./store_requests.ts";

/** What a connection needs from its store. */
export interface StoreConnectionOwner {
  readonly memories: StoredMemories;
  /** The connection has ended. The error is undefined if the client said goodbye. */
  onEnd(connection: StoreConnection, error: SharingError | undefined): void;
  /** The client says what it holds: what an ended connection of its process held is that, or gone. */
  onClaim(connection: StoreConnection): void;
}

/** The maximum number of requests of a client that are not answered. */
const maximumRequests = 16_384;

/** A request, and what has become of it. */
interface Finished {
  readonly request: number;
  readonly outcome: Outcome;
}

/** An answer, and what is left of it. */
interface Sending {
  readonly answer: StoreAnswer;
  readonly messages: Iterator<DocumentMessage>;
}

/**
 * A client of a store. It stands for the process that holds memory, also after the connection has ended.
 *
 * Answers are made and sent one after another, as fast as the client reads them. What it asks for meanwhile waits.
 */
export class StoreConnection implements ClientProcess, AnswerReader {
  readonly peer: Peer;
  readonly process: PeerProcess;
  isConnected = true;
  readonly #stream: MessageStream;
  readonly #owner: StoreConnectionOwner;
  readonly #performer: StoreRequests;
  readonly #documents = new Documents(maximumAskByteLength);
  /** What is asked for and not begun, because the client does not read the answers. */
  readonly #queue: { readonly request: number; readonly document: JsonObject; readonly byteLength: number }[] = [];
  #queuedByteLength = 0;
  /** What ends the requests that are not answered. */
  readonly #requests = new Map<number, AbortController>();
  /** The requests whose answers are not begun. */
  readonly #finished: Finished[] = [];
  #sending: Sending | undefined;

  constructor(stream: MessageStream, owner: StoreConnectionOwner) {
    this.#stream = stream;
    this.#owner = owner;
    this.peer = stream.peer;
    this.process = stream.process;
    this.#performer = new StoreRequests({
      client: this,
      memories: owner.memories,
      onClaim: () => owner.onClaim(this),
      onLeave: () => this.#abortRequests(),
    });
    stream.start({
      onMessage: (message) => this.#onMessage(message),
      onDrain: () => this.#pump(),
      onEnd: (error) => this.#onEnd(error),
    });
  }

  /** Ends the connection, because the store is closed. */
  close(): void {
    if (!this.isConnected) return;
    this.#stream.end("done", "the store was closed");
    this.#onEnd(undefined);
  }

  /** Ends the connection, because the client does not read. It has broken no rule: it may connect and ask again. */
  cutOff(error: SharingError): void {
    this.#stream.end("done", error.message);
    this.#onEnd(error);
  }

  #onEnd(error: SharingError | undefined): void {
    this.isConnected = false;
    // What it has given back before it left: nobody waits for the answers.
    for (const { document } of this.#queue.splice(0)) {
      if (document.do === "release" || document.do === "leave") this.#perform(document);
    }
    this.#finished.length = 0;
    this.#sending = undefined;
    this.#owner.memories.unsent.end(this);
    this.#abortRequests();
    this.#owner.onEnd(this, error);
  }

  #abortRequests(): void {
    for (const ending of this.#requests.values()) ending.abort(new SharingError("peer-gone", "The client is gone"));
  }

  #onMessage(message: Message): void {
    if (message.type !== "ask") throw badMessage(`a message "${message.type}" comes from a client of a store`);
    const { request } = message;
    const document = this.#documents.add(message);
    if (document === undefined) return;
    const byteLength = this.#documents.lastByteLength;
    if (this.#requests.has(request)) throw badMessage(`request ${request} is made again before its answer`);
    if (this.#requests.size >= maximumRequests) {
      throw limitExceeded("accept another request", `${maximumRequests} requests that are not answered`);
    }
    this.#requests.set(request, new AbortController());
    if (this.#queuedByteLength + byteLength > maximumAskByteLength) {
      throw limitExceeded("accept another request", `${maximumAskByteLength} bytes of documents of who does not read`);
    }
    this.#queuedByteLength += byteLength;
    this.#queue.push({ request, document, byteLength });
    this.#pump();
  }

  /** Does and answers what the client asks for, as long as it reads. */
  #pump(): void {
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
    if (hasSent) this.#stream.flush();
    const { unsent } = this.#owner.memories;
    if (this.#sending === undefined) unsent.end(this);
    else if (hasSent) unsent.progress(this, this.#sending.answer);
  }

  /** Begins to answer the next request whose outcome is known, or begins a request. Returns whether there was one. */
  #beginNext(): boolean {
    const finished = this.#finished.shift();
    if (finished !== undefined) {
      this.#beginAnswer(finished);
      return true;
    }
    const next = this.#queue.shift();
    if (next === undefined) return false;
    this.#queuedByteLength -= next.byteLength;
    this.#begin(next.request, next.document);
    return true;
  }

  #begin(request: number, document: JsonObject): void {
    const { signal } = this.#requests.get(request)!;
    const outcome = this.#perform(document, signal);
    if (!(outcome instanceof Promise)) return void this.#finished.push({ request, outcome });
    void outcome.catch(failureOf).then((outcome) => {
      if (!this.isConnected) return;
      this.#finished.push({ request, outcome });
      this.#pump();
    });
  }

  #perform(document: JsonObject, signal?: AbortSignal): Outcome | Promise<Outcome> {
    try {
      const what = textOf(document, "do");
      if (what !== "cancel") return this.#performer.perform(what, document, signal ?? AbortSignal.abort());
      const request = numberOf(document, "request", 1);
      this.#requests.get(request)?.abort(new SharingError("cut-off", "The client has given up"));
      return done({});
    } catch (error) {
      return failureOf(error);
    }
  }

  #beginAnswer({ request, outcome }: Finished): void {
    this.#requests.delete(request);
    const answer = "id" in outcome ? this.#answerWithMemory(request, outcome) : outcome.answer();
    this.#sending = { answer, messages: partsOfPieces({ type: "answer", request }, answer) };
  }

  /** Sends the memory first. */
  #answerWithMemory(request: number, { id, answer }: Extract<Outcome, { readonly id: number }>): StoreAnswer {
    const memory = this.#owner.memories.find(id);
    // The client may have given it back by another request meanwhile.
    if (memory === undefined) return documentOf(new SharingError("not-found", `Memory ${id} is gone`));
    this.#stream.send({ type: "memory", request, handle: memory.handle });
    return answer(memory);
  }
}

/** What a client is told of an error. */
function failureOf(error: unknown): Outcome {
  return { answer: () => documentOf(error) };
}

function documentOf(error: unknown): StoreAnswer {
  const [code, message] = codeAndMessageOf(error);
  return documentAnswer({ ok: false, code, message });
}

function codeAndMessageOf(error: unknown): readonly [code: string, message: string] {
  if (error instanceof SharingError) return [error.code, error.message];
  if (error instanceof CudaError) return ["device-lost", messageForPeers(error)];
  if (error instanceof RangeError || error instanceof TypeError) return ["bad-message", error.message];
  return ["internal-error", `The store could not do it: ${String(error)}`];
}
