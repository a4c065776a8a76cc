/**
 * What the clients of a store ask for.
 *
 * @module
 */
import { SharingError } from "../../support/errors.ts";
import { isTooDeep, maximumDepth } from "../operator/checked_json.ts";
import type { JsonObject } from "../protocol/documents.ts";
import { limitExceeded } from "../protocol/messages.ts";
import { checkOfferName } from "../protocol/offer_name.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import { flagOf, memberOf, numberOf, objectsOf, textOf } from "./fields.ts";
import { briefMapAnswer, documentAnswer, listAnswer, mapAnswer, type StoreAnswer } from "./memories/store_answer.ts";
import type { Holder, Stored } from "./memories/stored.ts";
import type { CreateRequest, StoredMemories } from "./memories/stored_memories.ts";
import { maximumEntryMetadata, metadataBytes } from "./memories/stored_record.ts";

/** A client, which stands for a process. */
export interface ClientProcess extends Holder {
  readonly process: PeerProcess;
}

/**
 * What has become of a request. The answer is made when it can be sent: until then it keeps neither a list nor memory that
 * may go.
 */
export type Outcome =
  | { readonly answer: () => StoreAnswer }
  /** The answer comes with the memory's descriptor. */
  | { readonly id: number; readonly answer: (memory: Stored) => StoreAnswer };

/** What requests need from their store. */
interface RequestsParts {
  readonly client: ClientProcess;
  readonly memories: StoredMemories;
  /** The client says what it holds: what an ended connection of its process held is that, or gone. */
  readonly onClaim: () => void;
  /** The client gives up all that it has asked for. */
  readonly onLeave: () => void;
}

/** Does what a client asks for. */
export class StoreRequests {
  readonly #client: ClientProcess;
  readonly #memories: StoredMemories;
  readonly #onClaim: () => void;
  readonly #onLeave: () => void;

  constructor({ client, memories, onClaim, onLeave }: RequestsParts) {
    this.#client = client;
    this.#memories = memories;
    this.#onClaim = onClaim;
    this.#onLeave = onLeave;
  }

  /**
   * Does what a document asks for.
   *
   * @param what the document's member "do"
   * @param signal ends the request if it waits
   * @throws {SharingError} What the client is told
   */
  perform(what: string, document: JsonObject, signal: AbortSignal): Outcome | Promise<Outcome> {
    switch (what) {
      case "create":
        return this.#create(document, signal);
      case "publish":
        return this.#publish(numberOf(document, "id", 1));
      case "map":
        return this.#map(document, signal);
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

  #create(document: JsonObject, signal: AbortSignal): Promise<Outcome> {
    const name = textOf(document, "name");
    checkOfferName(name);
    const metadata = memberOf(document, "metadata");
    const json = metadata === undefined ? undefined : JSON.stringify(metadata);
    if (json !== undefined && json.length > maximumEntryMetadata) {
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
      metadata: json === undefined ? undefined : metadataBytes(json),
    };
    return this.#createWhenThereIsRoom(request, signal);
  }

  async #createWhenThereIsRoom(request: CreateRequest, signal: AbortSignal): Promise<Outcome> {
    const { id, size } = await this.#memories.create(this.#client, request, signal);
    if (signal.aborted) {
      this.#memories.release(this.#client, id);
      throw signal.reason;
    }
    return { id, answer: () => documentAnswer({ ok: true, id, size }) };
  }

  #publish(id: number): Outcome {
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

  #map(document: JsonObject, signal: AbortSignal): Promise<Outcome> {
    const name = textOf(document, "name");
    checkOfferName(name);
    const write = flagOf(document, "write");
    const wait = flagOf(document, "wait");
    const brief = flagOf(document, "brief");
    return this.#mapWhenThere({ name, write, wait, brief }, signal);
  }

  /** Keeps nothing of the document: many may wait. */
  async #mapWhenThere(
    { name, write, wait, brief }: {
      readonly name: string;
      readonly write: boolean;
      readonly wait: boolean;
      readonly brief: boolean;
    },
    signal: AbortSignal,
  ): Promise<Outcome> {
    for (;;) {
      const memory = this.#memories.map(this.#client, name, { write });
      if (memory !== undefined) return { id: memory.id, answer: brief ? briefMapAnswer : mapAnswer };
      if (!wait) {
        throw new SharingError("not-found", `Cannot map ${JSON.stringify(name)}: nothing is published under this name`);
      }
      await this.#memories.whenPublished(name, signal);
      // The client may have left since, and what it holds been released.
      signal.throwIfAborted();
    }
  }

  #remove(name: string): Outcome {
    if (this.#memories.remove(this.#client, name)) return done({});
    throw new SharingError("not-found", `Cannot remove ${JSON.stringify(name)}: nothing is published under this name`);
  }

  /** Whether it is this process that writes a memory, as far as the store can know. */
  #mayWrite({ uid, writer }: Stored): boolean {
    if (uid !== this.#client.peer.uid) return false;
    return writer === undefined || (writer as ClientProcess).process.isSameAs(this.#client.process);
  }

  /** The client has connected again. */
  #claim(document: JsonObject): Outcome {
    const unknown: number[] = [];
    for (const held of objectsOf(document, "held")) {
      const id = numberOf(held, "id", 1);
      const memory = this.#memories.find(id);
      if (memory === undefined || memory.state === "new" && !this.#mayWrite(memory)) {
        unknown.push(id);
      } else if (memory.state === "new") {
        memory.writer = this.#client;
      } else {
        this.#memories.claim(this.#client, memory, numberOf(held, "count", 1));
      }
    }
    this.#onClaim();
    return done({ unknown });
  }

  /** The client is about to say goodbye, and says all that it goes on holding. */
  #leave(document: JsonObject): Outcome {
    // First: it is not to get what it gives back.
    this.#onLeave();
    const held = new Map<number, number>();
    for (const each of objectsOf(document, "held")) held.set(numberOf(each, "id", 1), numberOf(each, "count", 1));
    this.#memories.releaseAll(this.#client, held);
    return done({});
  }
}

/** A short answer, which keeps nothing. */
export function done(members: JsonObject): Outcome {
  return { answer: () => documentAnswer({ ok: true, ...members }) };
}
