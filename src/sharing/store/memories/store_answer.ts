/**
 * A store's answers, encoded while they are sent.
 *
 * @module
 */
import { encodeDocument, type JsonObject, type PiecewiseDocument } from "../../protocol/documents.ts";
import type { Stored } from "./stored.ts";

/** An answer. Until it is sent, it needs the metadata of memories and some bytes of its own. */
export interface StoreAnswer extends PiecewiseDocument {
  readonly memories: readonly Stored[];
  /** The approximate number of its own bytes. */
  readonly ownByteLength: number;
}

/** An entry of a list, and the JSON of its current readers. The rest of its JSON does not change. */
interface ListedEntry {
  readonly memory: Stored;
  readonly readers: Uint8Array<ArrayBuffer>;
}

/** The approximate number of bytes of an entry of a list. */
const entryByteLength = 64;

const encoder = new TextEncoder();
const listBegin = encoder.encode('{"ok":true,"entries":[');
const listEnd = encoder.encode("]}");
const noReaders = encoder.encode("[]");
const metadataBegin = encoder.encode(',"metadata":');
const objectEnd = encoder.encode("}");

/** A short answer. */
export function documentAnswer(document: JsonObject): StoreAnswer {
  const bytes = encodeDocument(document);
  return { byteLength: bytes.length, pieces: () => [bytes], memories: [], ownByteLength: bytes.length };
}

/** Describes memory to the client that maps it, without the metadata. */
export function briefMapAnswer({ id, size, byteLength, device, generation }: Stored): StoreAnswer {
  return documentAnswer({ ok: true, id, size, byteLength, device, generation });
}

/** Describes memory to the client that maps it. */
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

/** Lists everything published. */
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

/** The constant part of the JSON of published memories, which are listed often. */
const heads = new WeakMap<Stored, Uint8Array<ArrayBuffer>>();

/** The comma before an entry of a list, and the entry up to its readers. */
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

/** The end of an object: its metadata and the closing brace. */
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
