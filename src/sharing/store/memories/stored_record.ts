/**
 * A memory of a store, the processes that hold it, and its record in the store's table.
 *
 * @module
 */
import { SharingError } from "../../../support/errors.ts";
import { type JsonObject, memberOf, numberOf, textOf } from "../../protocol/documents.ts";
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import type { Peer } from "../../transport/unix_socket.ts";

/** The maximum length of a memory's metadata, as JSON. */
export const maximumEntryMetadata: number = 4 * 2 ** 20;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * A memory of a store. Its state is `"new"` until it is published, `"replaced"` when another generation has its name,
 * and `"removed"` when its name was removed.
 */
export interface StoredRecord {
  readonly id: number;
  readonly name: string;
  /** The device's UUID. */
  readonly device: string;
  /** The requested size in bytes. */
  readonly byteLength: number;
  /** The actual size in bytes: a multiple of the granularity. */
  readonly size: number;
  /** JSON in UTF-8, sent to all clients as it is. */
  readonly metadata: Uint8Array<ArrayBuffer> | undefined;
  /** The user who created it. */
  readonly uid: number;
  /** When it was created, in milliseconds since 1970. */
  readonly created: number;
  /** 0 until it is published. */
  generation: number;
  /** When it was published. */
  published: number;
  state: "new" | "published" | "replaced" | "removed";
}

/** A change of a store's table. */
export type TableChange =
  | { readonly type: "memory"; readonly record: StoredRecord }
  | { readonly type: "published"; readonly id: number; readonly generation: number; readonly at: number }
  | { readonly type: "replaced" | "removed" | "gone"; readonly id: number };

/** A change as a record of the table: a JSON object. */
export function encodeChange(change: TableChange): string {
  if (change.type !== "memory") return JSON.stringify(change);
  const { metadata, ...record } = change.record;
  const json = JSON.stringify({ type: "memory", ...record });
  return metadata === undefined ? json : `${json.slice(0, -1)},"metadata":${metadataText(metadata)}}`;
}

/** Encodes metadata. */
export function metadataBytes(json: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(json);
}

/** Decodes metadata to JSON. */
export function metadataText(metadata: Uint8Array<ArrayBuffer>): string {
  return decoder.decode(metadata);
}

/**
 * Replays the records of a table.
 *
 * @returns the memories of the store, by number
 * @throws {SharingError} `bad-message` if a record is malformed
 */
export function replayTable(records: readonly JsonObject[]): Map<number, StoredRecord> {
  const memories = new Map<number, StoredRecord>();
  for (const record of records) {
    const type = textOf(record, "type");
    const id = numberOf(record, "id", 1);
    if (type === "memory") {
      memories.set(id, decodeRecord(record, id));
      continue;
    }
    const memory = memories.get(id);
    // A record about unknown memory is ignored, so that the others are not lost.
    if (memory === undefined) continue;
    switch (type) {
      case "published":
        // The record of the previous generation's replacement may be missing.
        for (const other of memories.values()) {
          if (other.name === memory.name && other.state === "published") other.state = "replaced";
        }
        memory.generation = numberOf(record, "generation", 1);
        memory.published = numberOf(record, "at");
        memory.state = "published";
        break;
      case "replaced":
      case "removed":
        memory.state = type;
        break;
      case "gone":
        memories.delete(id);
        break;
      default:
        throw nonsense(`a record is of the type "${type}"`);
    }
  }
  return memories;
}

function decodeRecord(record: JsonObject, id: number): StoredRecord {
  const state = textOf(record, "state");
  if (state !== "new" && state !== "published" && state !== "replaced" && state !== "removed") {
    throw nonsense(`memory ${id} is ${state}`);
  }
  const metadata = memberOf(record, "metadata");
  return {
    id,
    name: textOf(record, "name"),
    device: textOf(record, "device"),
    byteLength: numberOf(record, "byteLength", 1),
    size: numberOf(record, "size", 1),
    metadata: metadata === undefined ? undefined : metadataBytes(JSON.stringify(metadata)),
    uid: numberOf(record, "uid"),
    created: numberOf(record, "created"),
    generation: numberOf(record, "generation"),
    published: numberOf(record, "published"),
    state,
  };
}

function nonsense(what: string): SharingError {
  return new SharingError("bad-message", `Cannot use the table of a store: ${what}`);
}

/** A process that holds memory of a store. */
export interface Holder {
  readonly peer: Peer;
}

/** How often a process maps a memory, and since when. */
interface Reading {
  count: number;
  readonly since: number;
}

/** A memory and its holders. */
export interface Stored extends StoredRecord {
  readonly handle: ShareableHandle;
  /** The process that writes it and has not published it. */
  writer: Holder | undefined;
  /** Whether processes that held it before this store took over may still claim it. */
  mayBeClaimed: boolean;
  /** Whether it is in the table. */
  isWritten: boolean;
  readonly readers: Map<Holder, Reading>;
  /** When it was mapped or released last, in milliseconds since 1970. */
  lastUse: number;
}

/** Restores memory of an earlier process of the store, which its holders may claim. */
export function restoredMemory(record: StoredRecord, handle: ShareableHandle): Stored {
  return { ...unheldMemory(record, handle), mayBeClaimed: true, isWritten: true };
}

/** New memory for a writer. It is not in the table yet. */
export function newMemory(record: StoredRecord, handle: ShareableHandle, writer: Holder): Stored {
  return { ...unheldMemory(record, handle), writer };
}

function unheldMemory(record: StoredRecord, handle: ShareableHandle): Stored {
  return {
    ...record,
    handle,
    writer: undefined,
    mayBeClaimed: false,
    isWritten: false,
    readers: new Map(),
    lastUse: Date.now(),
  };
}

/** Whether memory is dropped soon unless a process that held it before the store took over claims it. */
export function isUnclaimed({ mayBeClaimed, state, writer, readers }: Stored): boolean {
  return mayBeClaimed && state !== "published" && writer === undefined && readers.size === 0;
}

/** The table's record of a memory. */
export function recordOf(memory: Stored): StoredRecord {
  const { id, name, device, byteLength, size, metadata, uid, created, generation, published, state } = memory;
  return { id, name, device, byteLength, size, metadata, uid, created, generation, published, state };
}
