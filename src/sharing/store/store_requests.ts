/**
 * Handles the requests of a store's clients.
 *
 * @module
 */
import { messageForPeers } from "../../support/driver_errors.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { isTooDeep, maximumDepth } from "../operator/checked_json.ts";
import { flagOf, type JsonObject, memberOf, numberOf, objectsOf, textOf } from "../protocol/documents.ts";
import { limitExceeded } from "../protocol/messages.ts";
import { checkOfferName } from "../protocol/metadata.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { briefMapAnswer, documentAnswer, listAnswer, mapAnswer, type StoreAnswer } from "./memories/store_answer.ts";
import { type Holder, maximumEntryMetadata, metadataBytes, type Stored } from "./memories/store_table.ts";
import type { PendingRequest } from "./memories/pending_request.ts";
import type { CreateRequest, StoredMemories } from "./memories/stored_memories.ts";

/** A client, which represents a process. */
export interface ClientProcess extends Holder {
  readonly process: PeerProcess;
}

/**
 * The outcome of a request. The answer is encoded when it can be sent; until then, the outcome retains neither a list
 * nor memory that may be freed.
 */
export type RequestOutcome =
  | { readonly answer: () => StoreAnswer }
  /** The answer comes with the memory's descriptor. */
  | { readonly id: number; readonly answer: (memory: Stored) => StoreAnswer };

/** What requests need of their store. */
interface RequestsParts {
  readonly client: ClientProcess;
  readonly memories: StoredMemories;
  /** The client has reconnected and claims the memories that it holds, with a count for each number. */
  readonly onClaim: (held: ReadonlyMap<number, number>) => void;
  /** The client cancels all its requests. */
  readonly onLeave: () => void;
}

/** Handles the requests of a client. */
export class StoreRequests {
  readonly #client: ClientProcess;
  readonly #memories: StoredMemories;
  readonly #onClaim: (held: ReadonlyMap<number, number>) => void;
  readonly #onLeave: () => void;

  constructor({ client, memories, onClaim, onLeave }: RequestsParts) {
    this.#client = client;
    this.#memories = memories;
    this.#onClaim = onClaim;
    this.#onLeave = onLeave;
  }

  /**
   * Handles a request. Undefined if it has to wait: then it is completed later.
   *
   * @param what the document's member "do"
   * @throws {SharingError} the error for the client
   */
  perform(what: string, document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    switch (what) {
      case "create":
        return void this.#create(document, pending);
      case "publish":
        return this.#publish(numberOf(document, "id", 1));
      case "map":
        return this.#map(document, pending);
      case "release":
        return done({ held: this.#memories.release(this.#client, numberOf(document, "id", 1)) });
      case "remove":
        return this.#remove(textOf(document, "name"));
      case "entries":
        return { answer: () => listAnswer(this.#memories.published) };
      case "claim":
        return this.#claim(document);
      case "leave":
        return this.#leave(document);
      default:
        throw new SharingError(
          "bad-message",
          `Cannot do ${JSON.stringify(what.slice(0, 40))}: a store does not know it`,
        );
    }
  }

  #create(document: JsonObject, pending: PendingRequest<RequestOutcome>): void {
    const name = textOf(document, "name");
    checkOfferName(name);
    const metadata = memberOf(document, "metadata");
    const json = metadata === undefined ? undefined : JSON.stringify(metadata);
    if (json !== undefined && json.length > maximumEntryMetadata) {
      throw limitExceeded(`create ${JSON.stringify(name)}`, `${maximumEntryMetadata} characters of metadata`);
    }
    // A receiver that shows it or passes it on might fail.
    if (metadata !== undefined && isTooDeep(metadata)) {
      throw limitExceeded("create memory with such metadata", `${maximumDepth} levels of arrays and objects`);
    }
    const request = {
      name,
      device: textOf(document, "device"),
      byteLength: numberOf(document, "byteLength", 1),
      metadata: json === undefined ? undefined : metadataBytes(json),
    };
    void this.#createWhenThereIsRoom(request, pending).catch(failureOf).then((outcome) => pending.settle(outcome));
  }

  async #createWhenThereIsRoom(request: CreateRequest, pending: PendingRequest): Promise<RequestOutcome> {
    const { id, size } = await this.#memories.create(this.#client, request, pending);
    if (pending.reason !== undefined) {
      this.#memories.release(this.#client, id);
      throw pending.reason;
    }
    return { id, answer: () => documentAnswer({ ok: true, id, size }) };
  }

  #publish(id: number): RequestOutcome {
    const memory = this.#memories.writtenBy(this.#client, id);
    if (memory !== undefined) {
      this.#memories.publish(memory);
      return done({ generation: memory.generation });
    }
    // The answer may have been lost with the store that has published it.
    const found = this.#memories.find(id);
    if (found !== undefined && found.generation > 0 && found.readers.has(this.#client)) {
      return done({ generation: found.generation });
    }
    throw new SharingError("not-found", `Cannot publish memory ${id}: this process does not write it`);
  }

  /** Retains nothing of the document, because many requests may wait. */
  #map(document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    const name = textOf(document, "name");
    checkOfferName(name);
    const write = flagOf(document, "write");
    const wait = flagOf(document, "wait");
    const brief = flagOf(document, "brief");
    const outcome = this.#tryMap(name, write, brief);
    if (outcome !== undefined) return outcome;
    if (!wait) {
      throw new SharingError("not-found", `Cannot map ${JSON.stringify(name)}: nothing is published under this name`);
    }
    const waiter = {
      attempt: (): boolean => {
        // Another waiter's attempt may have ended this one.
        if (pending.reason !== undefined) return true;
        let outcome: RequestOutcome | undefined;
        try {
          outcome = this.#tryMap(name, write, brief);
        } catch (error) {
          outcome = failureOf(error);
        }
        if (outcome !== undefined) pending.settle(outcome);
        return outcome !== undefined;
      },
    };
    pending.wait(() => {
      endWait();
      pending.settle(failureOf(pending.reason));
    });
    const endWait = this.#memories.awaitName(name, waiter);
    return undefined;
  }

  /** Undefined if nothing is published under the name. */
  #tryMap(name: string, write: boolean, brief: boolean): RequestOutcome | undefined {
    const memory = this.#memories.map(this.#client, name, { write });
    return memory === undefined ? undefined : { id: memory.id, answer: brief ? briefMapAnswer : mapAnswer };
  }

  #remove(name: string): RequestOutcome {
    if (this.#memories.remove(this.#client, name)) return done({});
    throw new SharingError("not-found", `Cannot remove ${JSON.stringify(name)}: nothing is published under this name`);
  }

  /** Whether the client's process writes a memory, as far as the store can know. */
  #mayWrite({ uid, writer }: Stored): boolean {
    if (uid !== this.#client.peer.uid) return false;
    return writer === undefined || (writer as ClientProcess).process.isSameAs(this.#client.process);
  }

  /** Whether the client may claim memory as a reader: its process held it, or the store that knew is gone. */
  #mayRead(memory: Stored): boolean {
    if (memory.mayBeClaimed) return this.#memories.mayHold(this.#client, memory);
    const { peer, process } = this.#client;
    for (const reader of memory.readers.keys()) {
      if (reader.peer.pid === peer.pid && (reader as ClientProcess).process.isSameAs(process)) return true;
    }
    return false;
  }

  /** Handles the claim of a reconnected client. */
  #claim(document: JsonObject): RequestOutcome {
    const unknown: number[] = [];
    const known = new Map<number, number>();
    for (const held of objectsOf(document, "held")) {
      const id = numberOf(held, "id", 1);
      const memory = this.#memories.find(id);
      if (memory === undefined) {
        unknown.push(id);
      } else if (memory.state === "new") {
        if (this.#mayWrite(memory)) this.#memories.claimToWrite(this.#client, memory);
        else unknown.push(id);
      } else {
        const count = numberOf(held, "count", 1);
        if (this.#mayRead(memory)) {
          this.#memories.claim(this.#client, memory, count);
          known.set(id, count);
        } else {
          unknown.push(id);
        }
      }
    }
    this.#onClaim(known);
    return done({ unknown });
  }

  /** Handles the claim of a client that is about to say goodbye: everything that it will still hold. */
  #leave(document: JsonObject): RequestOutcome {
    // First, so that its waiting requests do not get the memory that it releases.
    this.#onLeave();
    const held = new Map<number, number>();
    for (const each of objectsOf(document, "held")) held.set(numberOf(each, "id", 1), numberOf(each, "count", 1));
    this.#memories.releaseAll(this.#client, held);
    return done({});
  }
}

/** A short answer that retains nothing. */
export function done(members: JsonObject): RequestOutcome {
  return { answer: () => documentAnswer({ ok: true, ...members }) };
}

/** The answer for an error. Retains nothing else of the error, because the answer may wait. */
export function failureOf(error: unknown): { readonly answer: () => StoreAnswer } {
  const [code, message] = codeAndMessageOf(error);
  return { answer: () => documentAnswer({ ok: false, code, message }) };
}

function codeAndMessageOf(error: unknown): readonly [code: string, message: string] {
  if (error instanceof SharingError) return [error.code, error.message];
  if (error instanceof CudaError) return ["device-lost", messageForPeers(error)];
  if (error instanceof RangeError || error instanceof TypeError) return ["bad-message", error.message];
  return ["internal-error", `The store could not do it: ${String(error)}`];
}
