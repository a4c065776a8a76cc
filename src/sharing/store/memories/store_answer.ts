/**
 * A store's answers, which are encoded while they are sent, and the limit on the memory that unsent answers occupy.
 *
 * @module
 */
import { encodeDocument, type JsonObject, type PiecewiseDocument } from "../../protocol/documents.ts";
import type { Stored } from "./store_table.ts";
import type { SharingError } from "../../../support/errors.ts";
import { limitExceeded } from "../../protocol/messages.ts";

/** An answer of a store. Until the answer is sent, it retains the metadata of `memories` and further bytes. */
export interface StoreAnswer extends PiecewiseDocument {
  readonly memories: readonly Stored[];
  /** The approximate number of bytes that the answer retains in addition to the metadata. */
  readonly ownByteLength: number;
}

/**
 * A memory in a list, and the JSON of its readers at the time of the request. The rest of the memory's JSON never
 * changes.
 */
interface ListedEntry {
  readonly memory: Stored;
  readonly readers: Uint8Array<ArrayBuffer>;
}

/** The approximate number of bytes that a `ListedEntry` occupies without its readers. */
const entryByteLength = 64;

const encoder = new TextEncoder();
const listBegin = encoder.encode('{"ok":true,"entries":[');
const listEnd = encoder.encode("]}");
const noReaders = encoder.encode("[]");
const metadataBegin = encoder.encode(',"metadata":');
const objectEnd = encoder.encode("}");

/** Returns an answer that consists of a small document. */
export function documentAnswer(document: JsonObject): StoreAnswer {
  const bytes = encodeDocument(document);
  return { byteLength: bytes.length, pieces: () => [bytes], memories: [], ownByteLength: bytes.length };
}

/** Returns the answer to a client that maps memory, without the metadata. */
export function briefMapAnswer({ id, size, byteLength, device, generation }: Stored): StoreAnswer {
  return documentAnswer({ ok: true, id, size, byteLength, device, generation });
}

/** Returns the answer to a client that maps memory, with the metadata. */
export function mapAnswer(memory: Stored): StoreAnswer {
  const { id, size, byteLength, device, generation } = memory;
  const head = encodeDocument({ ok: true, id, size, byteLength, device, generation }).slice(0, -objectEnd.length);
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

/** Returns the answer that lists all published memories. */
export function listAnswer(published: Iterable<Stored>): StoreAnswer {
  const entries: ListedEntry[] = [];
  let byteLength = listBegin.length + listEnd.length;
  let ownByteLength = 0;
  for (const memory of published) {
    const readers = readersOf(memory);
    byteLength += headOfEntry(memory).length + readers.length + byteLengthOfRest(memory);
    ownByteLength += entryByteLength + readers.length;
    entries.push({ memory, readers });
  }
  // The first entry has no comma before it.
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

/** A cache of the constant part of the JSON of published memories, which may be listed often. */
const heads = new WeakMap<Stored, Uint8Array<ArrayBuffer>>();

/** Returns a comma and the JSON of an entry up to its readers. */
function headOfEntry(memory: Stored): Uint8Array<ArrayBuffer> {
  let head = heads.get(memory);
  if (head === undefined) {
    const { name, byteLength, generation, device, published } = memory;
    const object = JSON.stringify({ name, byteLength, generation, device, since: published });
    heads.set(memory, head = encoder.encode(`,${object.slice(0, -1)},"readers":`));
  }
  return head;
}

function readersOf({ readers }: Stored): Uint8Array<ArrayBuffer> {
  if (readers.size === 0) return noReaders;
  return encodeDocument([...readers.keys()].map(({ peer: { pid, uid, gid } }) => ({ pid, uid, gid })));
}

/** Yields the end of the JSON of a memory: the metadata and the closing brace. */
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

/** The maximum bytes of all unsent answers, not counting the metadata of memories. */
const maximumOwnByteLength = 64 * 2 ** 20;

/** A client to which an answer is being sent. */
export interface AnswerReader {
  /** Ends the connection, because the client does not read its answer. */
  cutOff(error: SharingError): void;
}

/**
 * Limits the memory of the answers that are being sent. Answers refer to the store's own metadata, so that a client
 * that does not read costs little. While an answer needs it, the metadata of freed memory is retained. If unsent
 * answers and retained metadata exceed a limit, the client that has read nothing for the longest time is disconnected.
 */
export class UnsentAnswers {
  readonly #maximum: number;
  /** The answers by client, beginning with the client that has read nothing for the longest time. */
  readonly #answers = new Map<AnswerReader, StoreAnswer>();
  /** By memory, the number of answers that need its metadata. */
  readonly #needed = new Map<Stored, number>();
  /** Freed memories whose metadata is still needed by an answer. */
  readonly #gone = new Set<Stored>();
  #byteLength = 0;
  #willCutOff = false;

  /** @param maximumMetadata the store's maximum number of bytes of metadata */
  constructor(maximumMetadata: number) {
    this.#maximum = maximumMetadata + maximumOwnByteLength;
  }

  /** Records that part of an answer was sent to a client, with more to follow. */
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

  /** Records that the answer to a client was sent completely, or that the client is gone. */
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

  /** Records that a memory was freed. */
  onGone(memory: Stored): void {
    if (!this.#needed.has(memory)) return;
    this.#gone.add(memory);
    this.#byteLength += memory.metadata?.length ?? 0;
    this.#cutOffSoon();
  }

  /**
   * Disconnects clients in a microtask if the limit is exceeded: disconnecting releases memory, and the caller may be
   * changing the store's memories.
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
      // A single answer never exceeds the limit, so its client is not disconnected, however slowly it reads.
      if (this.#byteLength <= this.#maximum || this.#answers.size === 1) return;
      this.end(reader);
      reader.cutOff(limitExceeded("keep an answer", `${this.#maximum} bytes of what clients have not read`));
    }
  }
}
