/**
 * A store's answers, which are encoded while they are sent, and the limit on the memory that unsent answers occupy.
 *
 * @module
 */
import { encodeDocument, type JsonObject, type PiecewiseDocument } from "../../protocol/documents.ts";
import type { Stored } from "./store_table.ts";
import type { SharingError } from "../../../support/errors.ts";
import { limitExceeded } from "../../protocol/messages.ts";

/**
 * An answer of a store. Until the answer is sent, it keeps `ownByteLength` bytes and the metadata of all allocations in
 * `memories` in memory.
 */
export interface StoreAnswer extends PiecewiseDocument {
  readonly memories: readonly Stored[];
  /** The approximate number of bytes that the answer keeps in memory, excluding the metadata of `memories`. */
  readonly ownByteLength: number;
}

/**
 * An allocation in a list, and its readers, sleepers and place at the time of the request, encoded as JSON. The rest of the allocation's
 * JSON never changes and is therefore generated later.
 */
interface ListedEntry {
  readonly memory: Stored;
  readonly readers: Uint8Array<ArrayBuffer>;
}

/** The approximate size in bytes of a `ListedEntry`, excluding `readers`. */
const entryByteLength = 64;

const encoder = new TextEncoder();
const listBegin = encoder.encode('{"ok":true,"entries":[');
const listEnd = encoder.encode("]}");
const noReaders = encoder.encode("[]");
const sleepersBegin = encoder.encode(',"sleepers":');
const metadataBegin = encoder.encode(',"metadata":');
const replaced = encoder.encode(',"replaced":true');
const objectEnd = encoder.encode("}");

/** Returns an answer that consists of a JSON object that is small enough to be encoded immediately. */
export function documentAnswer(document: JsonObject): StoreAnswer {
  const bytes = encodeDocument(document);
  return { byteLength: bytes.length, pieces: () => [bytes], memories: [], ownByteLength: bytes.length };
}

/** Returns the answer to a request to map memory, for a client that does not need the metadata. */
export function briefMapAnswer(memory: Stored): StoreAnswer {
  return documentAnswer(mappedDocument(memory));
}

/** Returns the answer to a client that publishes what another allocation has already. */
export function equivalentAnswer(memory: Stored): StoreAnswer {
  return documentAnswer({ ...mappedDocument(memory), same: true });
}

/** Returns the answer to a request to map the memory of a mapping that sleeps. */
export function wakeAnswer(memory: Stored): StoreAnswer {
  if (memory.place !== "device") return documentAnswer({ ok: true, place: memory.place });
  return documentAnswer({ ...mappedDocument(memory), woken: true });
}

function mappedDocument(memory: Stored): JsonObject {
  const { id, size, byteLength, device, generation, digest, place } = memory;
  const stated: JsonObject = digest === undefined ? {} : { digest };
  const document = { ok: true, id, size, byteLength, device, generation, ...stated, ...rankOf(memory) };
  return place === "device" ? document : { ...document, place };
}

function rankOf({ set }: Stored): JsonObject {
  return set === undefined ? {} : { rank: [set.rank, set.count] };
}

/** Returns the answer to a request to map memory, including the metadata. */
export function mapAnswer(memory: Stored): StoreAnswer {
  const head = encodeDocument(mappedDocument(memory)).slice(0, -objectEnd.length);
  return {
    byteLength: head.length + byteLengthOfRest(memory),
    *pieces() {
      yield head;
      yield* restOf(memory);
    },
    memories: [memory],
    ownByteLength: head.length,
  };
}

/** Returns the answer to a client that moves an allocation, with the metadata. `target` is the memory to fill. */
export function moveAnswer(source: Stored, target: Stored | undefined): StoreAnswer {
  const { id, size, byteLength, device, place } = source;
  const memory = target === undefined ? {} : { memory: target.id };
  const members = { ok: true, moving: true, id, size, byteLength, device, place, ...memory };
  const head = encodeDocument(members).slice(0, -objectEnd.length);
  return {
    byteLength: head.length + byteLengthOfRest(source),
    *pieces() {
      yield head;
      yield* restOf(source);
    },
    memories: [source],
    ownByteLength: head.length,
  };
}

/** Returns the answer that lists allocations. */
export function listAnswer(memories: Iterable<Stored>): StoreAnswer {
  const entries: ListedEntry[] = [];
  let byteLength = listBegin.length + listEnd.length;
  let ownByteLength = 0;
  for (const memory of memories) {
    const readers = memory.state === "replaced" ? joined(readersOf(memory), replaced) : readersOf(memory);
    byteLength += headOfEntry(memory).length + readers.length + byteLengthOfRest(memory);
    ownByteLength += entryByteLength + readers.length;
    entries.push({ memory, readers });
  }
  // The comma that begins each entry is omitted for the first one.
  if (entries.length > 0) byteLength--;
  return {
    byteLength,
    pieces: () => piecesOfList(entries),
    memories: entries.map(({ memory }) => memory),
    ownByteLength,
  };
}

function* piecesOfList(entries: readonly ListedEntry[]): Iterable<Uint8Array<ArrayBuffer>> {
  yield listBegin;
  for (const [index, { memory, readers }] of entries.entries()) {
    const head = headOfEntry(memory);
    yield index === 0 ? head.subarray(1) : head;
    yield readers;
    yield* restOf(memory);
  }
  yield listEnd;
}

/** Caches the results of `headOfEntry`, because published allocations may be listed often. */
const heads = new WeakMap<Stored, Uint8Array<ArrayBuffer>>();

/** Returns the first part of an entry of the list in JSON: a comma, and all members before the value of `readers`. */
function headOfEntry(memory: Stored): Uint8Array<ArrayBuffer> {
  let head = heads.get(memory);
  if (head === undefined) {
    const { name, byteLength, generation, device, published, digest, keep } = memory;
    const more = { digest, ...keep ? { keep } : {}, ...rankOf(memory) };
    const object = JSON.stringify({ name, byteLength, generation, device, since: published, ...more });
    heads.set(memory, head = encoder.encode(`,${object.slice(0, -1)},"readers":`));
  }
  return head;
}

function readersOf({ readers, place }: Pick<Stored, "readers" | "place">): Uint8Array<ArrayBuffer> {
  if (place !== "device") {
    const holders = readersOf({ readers, place: "device" });
    return joined(holders, encoder.encode(`,"place":${JSON.stringify(place)}`));
  }
  if (readers.size === 0) return noReaders;
  const awake: object[] = [], asleep: object[] = [];
  for (const [{ peer: { pid, uid, gid } }, { count, sleeping }] of readers) {
    if (count > sleeping) awake.push({ pid, uid, gid });
    if (sleeping > 0) asleep.push({ pid, uid, gid });
  }
  const encoded = encodeDocument(awake);
  return asleep.length === 0 ? encoded : joined(encoded, sleepersBegin, encodeDocument(asleep));
}

function joined(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let position = 0;
  for (const part of parts) {
    whole.set(part, position);
    position += part.length;
  }
  return whole;
}

/** Yields the last part of an allocation's JSON: the metadata and the closing brace. */
function* restOf({ metadata }: Stored): Iterable<Uint8Array<ArrayBuffer>> {
  if (metadata !== undefined) {
    yield metadataBegin;
    yield metadata;
  }
  yield objectEnd;
}

function byteLengthOfRest({ metadata }: Stored): number {
  return (metadata === undefined ? 0 : metadataBegin.length + metadata.length) + objectEnd.length;
}

/** The maximum number of bytes of all unsent answers together, excluding the metadata of allocations. */
const maximumOwnByteLength = 64 * 2 ** 20;

/** A client to which an answer is being sent. */
export interface AnswerReader {
  /** Closes the connection, because the client does not read its answer. */
  cutOff(error: SharingError): void;
}

/**
 * Limits the memory occupied by answers that are being sent. Answers share the metadata with the store, so that a
 * client that does not read costs little memory. The metadata of a freed allocation is retained until no unsent answer
 * refers to it. If unsent answers and retained metadata exceed a limit, the client that has read nothing for the
 * longest time is disconnected.
 */
export class UnsentAnswers {
  readonly #maximum: number;
  /** Maps each client to its unsent answer. The client that has read nothing for the longest time is first. */
  readonly #answers = new Map<AnswerReader, StoreAnswer>();
  /** Maps each allocation to the number of unsent answers that refer to its metadata. */
  readonly #needed = new Map<Stored, number>();
  /** Freed allocations whose metadata an unsent answer still refers to. */
  readonly #gone = new Set<Stored>();
  #byteLength = 0;
  #willCutOff = false;

  /** @param maximumMetadata the maximum number of bytes of metadata in the store */
  constructor(maximumMetadata: number) {
    this.#maximum = maximumMetadata + maximumOwnByteLength;
  }

  /** Called when part of an answer was sent to a client and the rest was not. */
  progress(reader: AnswerReader, answer: StoreAnswer): void {
    if (this.#answers.get(reader) === answer) {
      this.#answers.delete(reader);
      this.#answers.set(reader, answer);
      return;
    }
    this.end(reader);
    this.#answers.set(reader, answer);
    this.#byteLength += answer.ownByteLength;
    for (const memory of answer.memories) this.#needed.set(memory, (this.#needed.get(memory) ?? 0) + 1);
    this.#cutOffSoon();
  }

  /** Called when the answer to a client was sent completely, or the client is gone. */
  end(reader: AnswerReader): void {
    const answer = this.#answers.get(reader);
    if (answer === undefined) return;
    this.#answers.delete(reader);
    this.#byteLength -= answer.ownByteLength;
    for (const memory of answer.memories) {
      const count = this.#needed.get(memory)! - 1;
      if (count > 0) {
        this.#needed.set(memory, count);
        continue;
      }
      this.#needed.delete(memory);
      if (this.#gone.delete(memory)) this.#byteLength -= memory.metadata?.length ?? 0;
    }
  }

  /** Called when an allocation was freed. */
  onGone(memory: Stored): void {
    if (!this.#needed.has(memory)) return;
    this.#gone.add(memory);
    this.#byteLength += memory.metadata?.length ?? 0;
    this.#cutOffSoon();
  }

  /**
   * If the limit is exceeded, disconnects clients in a microtask, because disconnecting a client frees allocations, and
   * the caller may be modifying the list of allocations.
   */
  #cutOffSoon(): void {
    if (this.#willCutOff || this.#byteLength <= this.#maximum) return;
    this.#willCutOff = true;
    queueMicrotask(() => {
      this.#willCutOff = false;
      this.#cutOff();
    });
  }

  #cutOff(): void {
    for (const reader of this.#answers.keys()) {
      // A single answer never exceeds the limit, so the last client stays connected, however slowly it reads.
      if (this.#byteLength <= this.#maximum || this.#answers.size === 1) return;
      this.end(reader);
      reader.cutOff(limitExceeded("keep an answer", `${this.#maximum} bytes of what clients have not read`));
    }
  }
}
