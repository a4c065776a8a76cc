/**
 * A store's answers, whose bytes are made while they are sent.
 *
 * @module
 */
import { encodeDocument, type JsonObject, type PiecewiseDocument } from "../../protocol/documents.ts";
import { utf8ByteLength } from "../../protocol/text_length.ts";
import type { Peer } from "../../transport/unix_socket.ts";
import type { Stored } from "./stored.ts";

/** An answer. Until it was sent, it needs the metadata of memories, and some bytes of its own. */
export interface StoreAnswer extends PiecewiseDocument {
  readonly memories: readonly Stored[];
  /** About how many bytes it takes besides. */
  readonly ownByteLength: number;
}

/** An entry of a list, and who reads it at that moment. What else is said of it does not change. */
interface ListedEntry {
  readonly memory: Stored;
  readonly readers: readonly Peer[];
}

/** About what an entry of a list takes, and each of its readers. */
const entryByteLength = 64;
const readerByteLength = 16;

const encoder = new TextEncoder();
const listBegin = encoder.encode('{"ok":true,"entries":[');
const listEnd = encoder.encode("]}");
const comma = encoder.encode(",");
const objectEnd = encoder.encode("}");

/** A short answer. */
export function documentAnswer(document: JsonObject): StoreAnswer {
  const bytes = encodeDocument(document);
  return { byteLength: bytes.length, pieces: () => [bytes], memories: [], ownByteLength: bytes.length };
}

/** What a client is told of memory that it has mapped, without its metadata. */
export function briefMapAnswer({ id, size, byteLength, device, generation }: Stored): StoreAnswer {
  return documentAnswer({ ok: true, id, size, byteLength, device, generation });
}

/** What a client is told of memory that it has mapped. */
export function mapAnswer(memory: Stored): StoreAnswer {
  const { id, size, byteLength, device, generation } = memory;
  const head = headOf({ ok: true, id, size, byteLength, device, generation }, memory);
  return {
    byteLength: byteLengthOf(head, memory),
    pieces: () => piecesOf(head, memory),
    memories: [memory],
    ownByteLength: head.length,
  };
}

/** What a client is told of everything that is published. */
export function listAnswer(published: Iterable<Stored>): StoreAnswer {
  const entries: ListedEntry[] = [];
  let byteLength = listBegin.length + listEnd.length;
  let ownByteLength = 0;
  for (const memory of published) {
    const entry = { memory, readers: [...memory.readers.keys()].map(({ peer }) => peer) };
    if (entries.length > 0) byteLength += comma.length;
    byteLength += byteLengthOf(headOfEntry(entry), memory);
    ownByteLength += entryByteLength + readerByteLength * entry.readers.length;
    entries.push(entry);
  }
  return {
    byteLength,
    pieces: () => piecesOfList(entries),
    memories: entries.map(({ memory }) => memory),
    ownByteLength,
  };
}

function* piecesOfList(entries: readonly ListedEntry[]): Iterable<Uint8Array<ArrayBuffer>> {
  yield listBegin;
  for (const [index, entry] of entries.entries()) {
    if (index > 0) yield comma;
    yield* piecesOf(headOfEntry(entry), entry.memory);
  }
  yield listEnd;
}

function headOfEntry({ memory, readers }: ListedEntry): string {
  const { name, byteLength, generation, device, published } = memory;
  const processes = readers.map(({ pid, uid, gid }) => ({ pid, uid, gid }));
  return headOf({ name, byteLength, generation, device, since: published, readers: processes }, memory);
}

/** An object as JSON, up to the metadata, which is its last member. */
function headOf(object: JsonObject, { metadata }: Stored): string {
  return JSON.stringify(object).slice(0, -1) + (metadata === undefined ? "" : ',"metadata":');
}

function byteLengthOf(head: string, { metadata }: Stored): number {
  return utf8ByteLength(head) + (metadata?.length ?? 0) + objectEnd.length;
}

function* piecesOf(head: string, { metadata }: Stored): Iterable<Uint8Array<ArrayBuffer>> {
  yield encoder.encode(head);
  if (metadata !== undefined) yield metadata;
  yield objectEnd;
}
