/**
 * Handles the requests of a store's clients.
 *
 * @module
 */
import { messageForPeers } from "../../support/driver_errors.ts";
import { CudaError, SharingError } from "../../support/errors.ts";
import { isTooDeep, maximumDepth } from "../operator/checked_json.ts";
import { flagOf, type JsonObject, memberOf, numberOf, numbersOf, objectsOf, textOf } from "../protocol/documents.ts";
import { badMessage, limitExceeded } from "../protocol/messages.ts";
import { checkOfferName } from "../protocol/metadata.ts";
import { digestDigits, isDigest, minimumDigits } from "../../support/sha256.ts";
import type { PeerProcess } from "../transport/peer_process.ts";
import {
  briefMapAnswer,
  documentAnswer,
  equivalentAnswer,
  listAnswer,
  mapAnswer,
  moveAnswer,
  type StoreAnswer,
  wakeAnswer,
} from "./memories/store_answer.ts";
import {
  type Holder,
  type Mappings,
  maximumEntryMetadata,
  metadataBytes,
  type PartOfSet,
  placeNamed,
  type Publication,
  setOf,
  type Stored,
} from "./memories/store_table.ts";
import { maximumRanks } from "./memories/publication_sets.ts";
import type { NeededMove } from "./memories/memory_allocator.ts";
import type { PendingRequest } from "./memories/pending_request.ts";
import type { CreateRequest, MapRequest, MoveTarget, StoredMemories } from "./memories/stored_memories.ts";

/** The maximum number of characters of the ID of a set. */
const maximumIdLength = 255;

/** A holder of allocations that represents the process of a client. */
export interface ClientProcess extends Holder {
  readonly process: PeerProcess;
}

/**
 * The outcome of a request. `answer` encodes the answer, and is called only when the answer can be sent, so that a
 * pending outcome does not keep the encoded answer or an allocation in memory.
 */
export type RequestOutcome =
  | { readonly answer: () => StoreAnswer }
  /** The number of an allocation whose descriptor is sent before the answer. */
  | { readonly id: number; readonly answer: (memory: Stored) => StoreAnswer };

/** The dependencies of `StoreRequests`, which its connection provides. */
interface RequestsParts {
  readonly client: ClientProcess;
  readonly memories: StoredMemories;
  /**
   * Called when a reconnected client claims allocations. `held` maps the number of each allocation to the mappings that
   * the client has of it.
   */
  readonly onClaim: (held: ReadonlyMap<number, Mappings>) => void;
  /** Called when the client has sent "leave". Must cancel the client's other requests. */
  readonly onLeave: () => void;
}

/** Handles the requests of a client. */
export class StoreRequests {
  readonly #client: ClientProcess;
  readonly #memories: StoredMemories;
  readonly #onClaim: (held: ReadonlyMap<number, Mappings>) => void;
  readonly #onLeave: () => void;

  constructor({ client, memories, onClaim, onLeave }: RequestsParts) {
    this.#client = client;
    this.#memories = memories;
    this.#onClaim = onClaim;
    this.#onLeave = onLeave;
  }

  /**
   * Handles a request, and returns its outcome. Returns undefined if the outcome is not known yet; it is then passed to
   * `pending.settle` later.
   *
   * @param what the requested operation: the document's member "do"
   * @throws {SharingError} the error to send to the client
   */
  perform(what: string, document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    switch (what) {
      case "create":
        return this.#create(document, pending);
      case "publish":
        return this.#publish(document, pending);
      case "map":
        return this.#map(document, pending);
      case "release": {
        const released = { count: 1, sleeping: flagOf(document, "sleeping") ? 1 : 0 };
        return done({ held: this.#memories.release(this.#client, numberOf(document, "id", 1), released) });
      }
      case "move":
        return this.#move(document, pending);
      case "source":
        return this.#source(numberOf(document, "id", 1));
      case "moved":
        return this.#moved(document);
      case "sleep":
        return this.#sleep(numberOf(document, "id", 1));
      case "remove":
        return this.#remove(textOf(document, "name"));
      case "entries":
        return this.#entries(document);
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

  #create(document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    const name = textOf(document, "name");
    checkOfferName(name);
    const request = {
      name,
      device: textOf(document, "device"),
      byteLength: numberOf(document, "byteLength", 1),
      metadata: metadataOf(document, `create ${JSON.stringify(name)}`),
      set: checkedSet(document),
      offloads: flagOf(document, "offloads"),
    };
    const begin = () =>
      void this.#createWhenThereIsRoom(request, pending).catch(failureOf).then((outcome) => pending.settle(outcome));
    if (flagOf(document, "once")) return this.#createOnce(document, { request, pending, begin });
    return begin();
  }

  /**
   * Handles "create" with "once", which waits while another client writes memory of the name. If a generation other than
   * the one to be replaced is then published, there is nothing to create.
   */
  #createOnce(
    document: JsonObject,
    { request, pending, begin }: {
      readonly request: CreateRequest;
      readonly pending: PendingRequest<RequestOutcome>;
      readonly begin: () => void;
    },
  ): RequestOutcome | undefined {
    const { name, set } = request;
    const replaced = memberOf(document, "replaces") === undefined ? 0 : numberOf(document, "replaces");
    const isPublished = (): boolean => ![0, replaced].includes(this.#memories.generationOfSet(name, set?.count ?? 1));
    if (isPublished()) return done({ published: true });
    if (!this.#memories.isBeingWritten(request)) return void begin();
    const uncharge = this.#memories.chargeMetadata(this.#client, request);
    try {
      pending.wait(() => {
        endWait();
        uncharge();
        pending.settle(failureOf(pending.reason));
      });
    } catch (error) {
      uncharge();
      throw error;
    }
    const attempt = (): boolean => {
      // Retrying another waiting request may have canceled this one.
      if (pending.reason !== undefined) return true;
      const hasEnded = isPublished();
      if (!hasEnded && this.#memories.isBeingWritten(request)) return false;
      pending.endWait();
      uncharge();
      if (hasEnded) pending.settle(done({ published: true }));
      else begin();
      return true;
    };
    const endWait = this.#memories.awaitName(name, { attempt });
    return undefined;
  }

  async #createWhenThereIsRoom(request: CreateRequest, pending: PendingRequest): Promise<RequestOutcome> {
    const created = await this.#memories.create(this.#client, request, pending);
    if ("offload" in created) return neededMove(created);
    const { id, size } = created;
    if (pending.reason !== undefined) {
      this.#memories.release(this.#client, id);
      throw pending.reason;
    }
    // Tell the client that the memory is part of a set, because stores of earlier versions have none.
    const set: JsonObject = request.set === undefined ? {} : { set: true };
    return { id, answer: () => documentAnswer({ ok: true, id, size, ...set }) };
  }

  #publish(document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    const id = numberOf(document, "id", 1);
    const memory = this.#memories.writtenBy(this.#client, id);
    const metadata = metadataOf(document, `publish memory ${id}`);
    const digest = digestOf(document, digestDigits);
    const layout = digestOf(document, digestDigits, "layout");
    const keep = flagOf(document, "keep");
    const same = memberOf(document, "same") === undefined ? undefined : numberOf(document, "same");
    const equivalent = same === undefined ? undefined : this.#memories.find(same);
    // Tell the client what the store has stored, because stores of earlier versions do not.
    const stored = {
      ...metadata === undefined ? {} : { metadata: true },
      ...digest === undefined ? {} : { digest: true },
      ...keep ? { keep } : {},
    };
    const answer = ({ generation, descriptor }: Stored) =>
      done({ generation, ...stored, ...equivalent?.descriptor === descriptor ? { same: true } : {} });
    if (memory !== undefined) {
      const publication = { metadata, digest, layout, keep };
      const offered = same === undefined ? this.#memories.equivalentOf(memory, publication) : undefined;
      if (offered !== undefined) {
        this.#memories.hold(this.#client, offered);
        return { id: offered.id, answer: equivalentAnswer };
      }
      const isAgreed = equivalent?.readers.has(this.#client) && equivalent.digest === digest &&
        equivalent.layout === layout;
      const shared = isAgreed ? equivalent : undefined;
      if (memory.set !== undefined) {
        return this.#publishPart(memory, { publication, equivalent: shared, pending, answer });
      }
      this.#memories.publish(memory, publication, shared);
      return answer(memory);
    }
    // An earlier store may have published the allocation and exited before it could answer.
    const found = this.#memories.find(id);
    if (found !== undefined && found.generation > 0 && found.readers.has(this.#client)) {
      return answer(found);
    }
    throw new SharingError("not-found", `Cannot publish memory ${id}: this process does not write it`);
  }

  /** Publishes an allocation of a set, which may have to wait for the other ranks. */
  #publishPart(
    memory: Stored,
    { pending, answer, ...what }: {
      readonly publication: Publication;
      readonly equivalent: Stored | undefined;
      readonly pending: PendingRequest<RequestOutcome>;
      readonly answer: (memory: Stored) => RequestOutcome;
    },
  ): RequestOutcome | undefined {
    let hasEnded = false;
    pending.wait(() => {
      this.#memories.withdrawPart(memory);
      pending.settle(failureOf(pending.reason));
    });
    try {
      this.#memories.publishPart(memory, what, (error) => {
        hasEnded = true;
        pending.settle(error === undefined ? answer(memory) : failureOf(error));
      });
    } catch (error) {
      if (!hasEnded) pending.endWait();
      throw error;
    }
    return undefined;
  }

  /**
   * Handles "map". While the request waits, keeps only the needed members of the document, because many requests may
   * wait.
   */
  #map(document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    if (flagOf(document, "sleeping")) return this.#wake(numberOf(document, "id", 1), pending);
    const name = textOf(document, "name");
    checkOfferName(name);
    const request = {
      name,
      write: flagOf(document, "write"),
      digest: digestOf(document, minimumDigits),
      rank: rankOf(document),
    };
    const options = { brief: flagOf(document, "brief"), places: flagOf(document, "places") };
    const wait = flagOf(document, "wait");
    const outcome = this.#tryMap(request, options);
    if (outcome !== undefined) return outcome;
    if (!wait && this.#memories.publishedAs(name) === undefined) throw this.#notPublished("map", name);
    return this.#attemptLater(name, pending, () => this.#tryMap(request, options));
  }

  /** Repeats an attempt when memory is published under a name, and when memory of the name has been moved. */
  #attemptLater(
    name: string,
    pending: PendingRequest<RequestOutcome>,
    tryAgain: () => RequestOutcome | "begun" | undefined,
  ): undefined {
    const waiter = {
      attempt: (): boolean => {
        // Retrying another waiting request may have canceled this one.
        if (pending.reason !== undefined) return true;
        let outcome: RequestOutcome | "begun" | undefined;
        try {
          outcome = tryAgain();
        } catch (error) {
          outcome = failureOf(error);
        }
        if (outcome === "begun") pending.endWait();
        else if (outcome !== undefined) pending.settle(outcome);
        return outcome !== undefined;
      },
    };
    pending.wait(() => {
      endWait();
      const [code, message] = codeAndMessageOf(pending.reason);
      // The client lists the published names in the error of its aborted wait.
      const answer = () => documentAnswer({ ok: false, code, message, instead: this.#memories.insteadOf(name) });
      pending.settle({ answer });
    });
    const endWait = this.#memories.awaitName(name, waiter);
  }

  /**
   * Maps the allocation published under a name for the client. Returns undefined if nothing is published under the
   * name, or if the allocation is being moved.
   */
  #tryMap(
    request: MapRequest,
    { brief, places }: { readonly brief: boolean; readonly places: boolean },
  ): RequestOutcome | undefined {
    const found = this.#memories.wanted(request);
    if (found === undefined || found.mover !== undefined) return undefined;
    if (found.place !== "device" && !places) {
      throw new SharingError(
        "incompatible",
        `Cannot map ${
          JSON.stringify(request.name)
        }: it was moved from its device to ${found.place}; bring it back by ` +
          "poolpass weights wake, or with a client of this version",
      );
    }
    const memory = this.#memories.map(this.#client, request);
    if (memory === undefined) return undefined;
    const answer = brief ? briefMapAnswer : mapAnswer;
    if (memory.place === "device") return { id: memory.id, answer };
    // The client holds it as it would hold it asleep, and brings it back.
    this.#memories.sleep(this.#client, memory.id);
    return { answer: () => answer(memory) };
  }

  #sleep(id: number): RequestOutcome {
    if (this.#memories.sleep(this.#client, id)) return done({});
    throw new SharingError("not-found", `Cannot let memory ${id} sleep: this process does not map it`);
  }

  #wake(id: number, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    const outcome = this.#tryWake(id);
    if (outcome !== undefined) return outcome;
    return this.#attemptLater(this.#memories.find(id)!.name, pending, () => this.#tryWake(id));
  }

  /** Wakes a mapping. Returns undefined if the allocation is being moved. */
  #tryWake(id: number): RequestOutcome | undefined {
    const found = this.#memories.find(id);
    const mappings = found?.readers.get(this.#client);
    if (found === undefined || mappings === undefined || mappings.sleeping === 0) {
      throw new SharingError("not-found", `Cannot wake memory ${id}: this process has no mapping of it that sleeps`);
    }
    if (found.mover !== undefined) return undefined;
    // The client has to bring it back first.
    if (found.place !== "device") return { answer: () => wakeAnswer(found) };
    this.#memories.wake(this.#client, id);
    return { id, answer: wakeAnswer };
  }

  /** Handles "move", which waits while another client moves the allocation. */
  #move(document: JsonObject, pending: PendingRequest<RequestOutcome>): RequestOutcome | undefined {
    const to = textOf(document, "place");
    if (to !== "device" && to !== "host" && to !== "file") {
      throw new SharingError("bad-message", `Cannot move memory to ${JSON.stringify(to.slice(0, 40))}`);
    }
    const id = memberOf(document, "id") === undefined ? undefined : numberOf(document, "id", 1);
    const name = id === undefined ? textOf(document, "name") : undefined;
    const rank = rankOf(document);
    const offloads = flagOf(document, "offloads");
    const attempt = (): RequestOutcome | "begun" | undefined => {
      const source = this.#movable(name ?? id!, rank);
      const { place } = source;
      if (this.#memories.isMoving(source)) return undefined;
      const isThere = place === to || to === "file" && place !== "device" && place !== "host";
      if (isThere) return done({ id: source.id, done: true, place });
      if (to !== "device" && place !== "device") {
        throw new SharingError("bad-message", `Cannot move ${JSON.stringify(source.name)} from ${place} to a ${to}`);
      }
      const begun = this.#moveWhenThereIsRoom(source, { to, offloads, pending });
      void begun.catch(failureOf).then((outcome) => pending.settle(outcome));
      return "begun";
    };
    const outcome = attempt();
    if (outcome === "begun") return undefined;
    return outcome ?? this.#attemptLater(this.#movable(name ?? id!, rank).name, pending, attempt);
  }

  /** Returns the allocation to move: the one published under a name, or one that the client holds. */
  #movable(which: string | number, rank: readonly [number, number]): Stored {
    if (typeof which === "string") {
      const memory = this.#memories.wanted({ name: which, digest: undefined, rank });
      if (memory === undefined) throw this.#notPublished("move", which);
      return memory;
    }
    const memory = this.#memories.find(which);
    if (memory?.readers.has(this.#client)) return memory;
    throw new SharingError("not-found", `Cannot move memory ${which}: this process does not hold it`);
  }

  async #moveWhenThereIsRoom(
    source: Stored,
    how: { readonly to: MoveTarget; readonly offloads: boolean; readonly pending: PendingRequest },
  ): Promise<RequestOutcome> {
    const { pending } = how;
    const target = await this.#memories.beginMove(this.#client, source, how);
    if (target !== undefined && "offload" in target) return neededMove(target);
    if (pending.reason !== undefined) {
      this.#memories.abandonMove(this.#client, source);
      throw pending.reason;
    }
    if (target === undefined) return { answer: () => moveAnswer(source, undefined) };
    return { id: target.id, answer: () => moveAnswer(source, target) };
  }

  /** Handles "source": sends the memory that the client moves. */
  #source(id: number): RequestOutcome {
    const source = this.#memories.find(id);
    if (source?.handle !== undefined && this.#memories.isMover(this.#client, source)) {
      return {
        id,
        answer: () => documentAnswer({ ok: true }),
      };
    }
    throw new SharingError("not-found", `Cannot send memory ${id}: this process does not move it`);
  }

  /** Handles "moved", which may be repeated after the store that was asked first is gone. */
  #moved(document: JsonObject): RequestOutcome {
    const id = numberOf(document, "id", 1);
    const source = this.#memories.find(id);
    const refuse = (): never => {
      throw new SharingError("not-found", `Cannot end the move of memory ${id}: this process does not move it`);
    };
    if (source === undefined) return refuse();
    if (flagOf(document, "abandoned")) return done({ held: this.#memories.abandonMove(this.#client, source) });
    if (memberOf(document, "memory") === undefined) {
      const file = placeNamed(textOf(document, "file"));
      if (file === undefined || file === "device" || file === "host") return refuse();
      if (source.place === file) return done({});
      if (!this.#memories.isMover(this.#client, source)) return refuse();
      this.#memories.endMove(this.#client, source, { file });
      return done({});
    }
    const number = numberOf(document, "memory", 1);
    const target = this.#memories.find(number);
    if (target === undefined && source.descriptor === number) return done({});
    const isOurs = target?.writer === this.#client && target.target === id && source.mover === this.#client;
    if (!isOurs) return refuse();
    this.#memories.endMove(this.#client, source, target);
    return done({});
  }

  #entries(document: JsonObject): RequestOutcome {
    const withReplaced = flagOf(document, "replaced");
    const { published } = this.#memories;
    return { answer: () => listAnswer(withReplaced ? [...published, ...this.#memories.replaced()] : published) };
  }

  #remove(name: string): RequestOutcome {
    if (this.#memories.remove(this.#client, name)) return done({});
    throw this.#notPublished("remove", name);
  }

  #notPublished(what: string, name: string): SharingError {
    const message = `Cannot ${what} ${JSON.stringify(name)}: nothing is published under this name`;
    return new SharingError("not-found", `${message}; ${this.#memories.insteadOf(name)}`);
  }

  /**
   * Returns whether the client may claim an unpublished allocation: the client's user created the allocation, and no
   * other process is its writer.
   */
  #mayWrite({ uid, writer }: Stored): boolean {
    if (uid !== this.#client.peer.uid) return false;
    return writer === undefined || (writer as ClientProcess).process.isSameAs(this.#client.process);
  }

  /**
   * Returns whether the client may claim an allocation as a reader: the client's process holds the allocation already,
   * or the allocation was restored and the process may have held it before.
   */
  #mayRead(memory: Stored): boolean {
    if (memory.mayBeClaimed) return this.#memories.mayHold(this.#client, memory);
    const { peer, process } = this.#client;
    for (const reader of memory.readers.keys()) {
      if (reader.peer.pid === peer.pid && (reader as ClientProcess).process.isSameAs(process)) return true;
    }
    return false;
  }

  /** Handles "claim", in which a reconnected client lists the allocations that its process holds. */
  #claim(document: JsonObject): RequestOutcome {
    const unknown: number[] = [];
    const known = new Map<number, Mappings>();
    for (const held of objectsOf(document, "held")) {
      const id = numberOf(held, "id", 1);
      const memory = this.#memories.find(id);
      if (memory === undefined) {
        unknown.push(id);
      } else if (memory.state === "new") {
        if (this.#mayWrite(memory)) this.#memories.claimToWrite(this.#client, memory);
        else unknown.push(id);
      } else {
        const mappings = mappingsOf(held);
        if (this.#mayRead(memory)) {
          this.#memories.claim(this.#client, memory, mappings);
          known.set(id, mappings);
        } else {
          unknown.push(id);
        }
      }
    }
    this.#onClaim(known);
    return done({ unknown });
  }

  /**
   * Handles "leave", in which a client that is about to disconnect lists the allocations that its process continues to
   * hold.
   */
  #leave(document: JsonObject): RequestOutcome {
    // Cancel the client's waiting requests first, so that memory released below is not allocated to them.
    this.#onLeave();
    const held = new Map<number, Mappings>();
    for (const each of objectsOf(document, "held")) held.set(numberOf(each, "id", 1), mappingsOf(each));
    this.#memories.releaseAll(this.#client, held);
    return done({});
  }
}

/** Returns the mappings that a client says it has of an allocation. */
function mappingsOf(held: JsonObject): Mappings {
  const count = numberOf(held, "count", 1);
  const sleeping = memberOf(held, "sleeping") === undefined ? 0 : numberOf(held, "sleeping");
  return { count, sleeping: Math.min(count, sleeping) };
}

/**
 * Returns the digits of a digest in a request. Undefined if the request has none. Throws `bad-message` unless there are
 * `minimum` to 64 hexadecimal digits.
 */
function digestOf(document: JsonObject, minimum: number, name = "digest"): string | undefined {
  if (memberOf(document, name) === undefined) return undefined;
  const digest = textOf(document, name);
  if (isDigest(digest, minimum)) return digest;
  throw badMessage(`a digest does not have ${minimum} to 64 hexadecimal digits`);
}

/** Returns the set in a request. Throws `bad-message` if it is none. */
function checkedSet(document: JsonObject): PartOfSet | undefined {
  const set = setOf(document);
  if (set === undefined) return undefined;
  const { id, count, rank } = set;
  if (count <= maximumRanks && rank < count && id.length <= maximumIdLength) return set;
  throw badMessage(
    `a set has at most ${maximumRanks} ranks, counted from 0, and an ID of ${maximumIdLength} characters`,
  );
}

/** Returns the rank and the number of ranks in a request to map memory. */
function rankOf(document: JsonObject): readonly [rank: number, count: number] {
  if (memberOf(document, "rank") === undefined) return [0, 1];
  const [rank = 0, count = 0, ...more] = numbersOf(document, "rank");
  if (rank >= count || more.length > 0) throw badMessage("a rank is not below the number of ranks");
  return [rank, count];
}

/** Returns the outcome of a request whose client has to move an allocation to host memory before it asks again. */
function neededMove({ offload: { name, set } }: NeededMove): RequestOutcome {
  return done({ offload: { name, ...set === undefined ? {} : { rank: [set.rank, set.count] } } });
}

/** Returns the outcome of a successful request whose answer has only the given members. */
export function done(members: JsonObject): RequestOutcome {
  return { answer: () => documentAnswer({ ok: true, ...members }) };
}

/**
 * Returns the outcome of a failed request. Keeps only the error's code and message in memory, because the answer may be
 * sent much later.
 */
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

/** Returns the metadata of a request, as JSON in UTF-8. Throws if it is too long or nested too deeply. */
function metadataOf(document: JsonObject, what: string): Uint8Array<ArrayBuffer> | undefined {
  const metadata = memberOf(document, "metadata");
  if (metadata === undefined) return undefined;
  const json = JSON.stringify(metadata);
  if (json.length > maximumEntryMetadata) throw limitExceeded(what, `${maximumEntryMetadata} characters of metadata`);
  // Reject metadata that is nested so deeply that a receiver might fail to print or forward it.
  if (isTooDeep(metadata)) {
    throw limitExceeded("create memory with such metadata", `${maximumDepth} levels of arrays and objects`);
  }
  return metadataBytes(json);
}
