/**
 * The store's end of a connection to a client.
 *
 * @module
 */
import { CudaError, SharingError } from "../../support/errors.ts";
import { messageForPeers } from "../../support/driver_errors.ts";
import { Documents, encodeDocument, type JsonObject, maximumAskByteLength, partsOf } from "../protocol/documents.ts";
import { badMessage, limitExceeded, type Message } from "../protocol/messages.ts";
import type { MessageStream } from "../protocol/message_stream.ts";
import { checkOfferName } from "../protocol/offer_name.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import type { Peer } from "../transport/unix_socket.ts";
import { isTooDeep, maximumDepth } from "../operator/checked_json.ts";
import { flagOf, memberOf, numberOf, objectsOf, textOf } from "./fields.ts";
import { maximumEntryMetadata } from "./memories/stored_record.ts";
import type { Holder, Stored } from "./memories/stored.ts";
import type { CreateRequest, StoredMemories } from "./memories/stored_memories.ts";

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

/** An answer, and the memory that it is about. */
interface Answer {
  readonly document: JsonObject;
  readonly memory?: Stored;
}

/** A client of a store. It stands for the process that holds memory, also after the connection has ended. */
export class StoreConnection implements Holder {
  readonly peer: Peer;
  readonly process: PeerProcess;
  isConnected = true;
  readonly #stream: MessageStream;
  readonly #owner: StoreConnectionOwner;
  readonly #documents = new Documents(maximumAskByteLength);
  /** What is asked for and not begun, because the client does not read the answers. */
  readonly #queue: { readonly request: number; readonly document: JsonObject; readonly byteLength: number }[] = [];
  #queuedByteLength = 0;
  /** What ends the requests that are not answered. */
  readonly #requests = new Map<number, AbortController>();

  constructor(stream: MessageStream, owner: StoreConnectionOwner) {
    this.#stream = stream;
    this.#owner = owner;
    this.peer = stream.peer;
    this.process = stream.process;
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

  #onEnd(error: SharingError | undefined): void {
    this.isConnected = false;
    this.#queue.length = 0;
    for (const ending of this.#requests.values()) ending.abort(new SharingError("peer-gone", "The client is gone"));
    this.#owner.onEnd(this, error);
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

  #pump(): void {
    while (!this.#stream.isBacklogged) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      this.#queuedByteLength -= next.byteLength;
      void this.#answer(next.request, next.document);
    }
  }

  #answer(request: number, document: JsonObject): Promise<void> {
    const { signal } = this.#requests.get(request)!;
    let result: Answer | Promise<Answer>;
    try {
      result = this.#perform(document, signal);
    } catch (error) {
      result = Promise.reject(error);
    }
    return this.#send(request, result);
  }

  async #send(request: number, result: Answer | Promise<Answer>): Promise<void> {
    let memory: Stored | undefined;
    let bytes: Uint8Array<ArrayBuffer>;
    try {
      const answer = result instanceof Promise ? await result : result;
      memory = answer.memory;
      bytes = encodeDocument(answer.document);
    } catch (error) {
      memory = undefined;
      bytes = encodeDocument(this.#failure(error));
    }
    this.#requests.delete(request);
    if (!this.isConnected) return;
    if (memory !== undefined) {
      // The client may have given it back by another request meanwhile.
      if (this.#owner.memories.find(memory.id) === memory) {
        this.#stream.send({ type: "memory", request, handle: memory.handle });
      } else {
        bytes = encodeDocument(this.#failure(new SharingError("not-found", `Memory ${memory.id} is gone`)));
      }
    }
    for (const message of partsOf({ type: "answer", request }, bytes)) this.#stream.send(message);
    this.#stream.flush();
    this.#pump();
  }

  #failure(error: unknown): JsonObject {
    if (error instanceof SharingError) return { ok: false, code: error.code, message: error.message };
    if (error instanceof CudaError) return { ok: false, code: "device-lost", message: messageForPeers(error) };
    if (error instanceof RangeError || error instanceof TypeError) {
      return { ok: false, code: "bad-message", message: error.message };
    }
    return { ok: false, code: "internal-error", message: `The store could not do it: ${String(error)}` };
  }

  #perform(document: JsonObject, signal: AbortSignal): Answer | Promise<Answer> {
    const what = textOf(document, "do");
    switch (what) {
      case "create":
        return this.#create(document, signal);
      case "publish":
        return this.#publish(numberOf(document, "id", 1));
      case "map":
        return this.#map(document, signal);
      case "release":
        return done({ held: this.#owner.memories.release(this, numberOf(document, "id", 1)) });
      case "remove":
        return this.#remove(textOf(document, "name"));
      case "entries":
        return done({ entries: [...this.#owner.memories.published].map(describe) });
      case "claim":
        return this.#claim(document);
      case "cancel": {
        const request = numberOf(document, "request", 1);
        this.#requests.get(request)?.abort(new SharingError("cut-off", "The client has given up"));
        return done({});
      }
      default:
        throw new SharingError(
          "bad-message",
          `Cannot do ${JSON.stringify(what.slice(0, 40))}: a store does not know it`,
        );
    }
  }

  #create(document: JsonObject, signal: AbortSignal): Promise<Answer> {
    const name = textOf(document, "name");
    checkOfferName(name);
    const metadata = memberOf(document, "metadata");
    const length = metadata === undefined ? 0 : JSON.stringify(metadata).length;
    if (length > maximumEntryMetadata) {
      throw limitExceeded(`create ${JSON.stringify(name)}`, `${maximumEntryMetadata} characters of metadata`);
    }
    // Whoever shows it, or sends it on, might fail.
    if (metadata !== undefined && isTooDeep(metadata)) {
      throw limitExceeded("create memory with such metadata", `${maximumDepth} levels of arrays and objects`);
    }
    const request = {
      name,
      device: textOf(document, "device"),
      byteLength: numberOf(document, "byteLength", 1),
      metadata,
    };
    return this.#createWhenThereIsRoom(request, signal);
  }

  async #createWhenThereIsRoom(request: CreateRequest, signal: AbortSignal): Promise<Answer> {
    const { memories } = this.#owner;
    const memory = await memories.create(this, request, signal);
    if (!this.isConnected || signal.aborted) {
      memories.release(this, memory.id);
      throw signal.aborted ? signal.reason : new SharingError("peer-gone", "The client is gone");
    }
    return { memory, document: { ok: true, id: memory.id, size: memory.size } };
  }

  #publish(id: number): Answer {
    const { memories } = this.#owner;
    const memory = memories.writtenBy(this, id);
    if (memory !== undefined) {
      memories.publish(memory);
      return done({ generation: memory.generation });
    }
    // The answer may have been lost with the store that has published it.
    const found = memories.find(id);
    if (found !== undefined && found.generation > 0 && found.readers.has(this)) {
      return done({ generation: found.generation });
    }
    throw new SharingError("not-found", `Cannot publish memory ${id}: this process does not write it`);
  }

  #map(document: JsonObject, signal: AbortSignal): Promise<Answer> {
    const name = textOf(document, "name");
    checkOfferName(name);
    const write = flagOf(document, "write");
    const wait = flagOf(document, "wait");
    return this.#mapWhenThere({ name, write, wait }, signal);
  }

  /** Keeps nothing of the document: many may wait. */
  async #mapWhenThere(
    { name, write, wait }: { readonly name: string; readonly write: boolean; readonly wait: boolean },
    signal: AbortSignal,
  ): Promise<Answer> {
    const { memories } = this.#owner;
    for (;;) {
      const memory = memories.map(this, name, { write });
      if (memory !== undefined) {
        const { id, size, byteLength, device, generation, metadata } = memory;
        const described = { ok: true, id, size, byteLength, device, generation };
        return { memory, document: metadata === undefined ? described : { ...described, metadata } };
      }
      if (!wait) {
        throw new SharingError("not-found", `Cannot map ${JSON.stringify(name)}: nothing is published under this name`);
      }
      await memories.whenPublished(name, signal);
    }
  }

  #remove(name: string): Answer {
    if (this.#owner.memories.remove(this, name)) return done({});
    throw new SharingError("not-found", `Cannot remove ${JSON.stringify(name)}: nothing is published under this name`);
  }

  /** Whether it is this process that writes a memory, as far as the store can know. */
  #mayWrite({ uid, writer }: Stored): boolean {
    if (uid !== this.peer.uid) return false;
    return writer === undefined || (writer as StoreConnection).process.isSameAs(this.process);
  }

  /** The client has connected again. */
  #claim(document: JsonObject): Answer {
    const { memories } = this.#owner;
    const unknown: number[] = [];
    for (const held of objectsOf(document, "held")) {
      const id = numberOf(held, "id", 1);
      const memory = memories.find(id);
      if (memory === undefined || memory.state === "new" && !this.#mayWrite(memory)) {
        unknown.push(id);
      } else if (memory.state === "new") {
        memory.writer = this;
      } else {
        memories.claim(this, memory, numberOf(held, "count", 1));
      }
    }
    this.#owner.onClaim(this);
    return done({ unknown });
  }
}

function done(members: JsonObject): Answer {
  return { document: { ok: true, ...members } };
}

/** What a client is told of an entry. */
function describe({ name, byteLength, generation, device, published, metadata, readers }: Stored): JsonObject {
  return {
    name,
    byteLength,
    generation,
    device,
    since: published,
    ...metadata === undefined ? {} : { metadata },
    readers: [...readers.keys()].map(({ peer: { pid, uid, gid } }) => ({ pid, uid, gid })),
  };
}
