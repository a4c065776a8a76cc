/**
 * A memory of a store, and the processes that hold it.
 *
 * @module
 */
import type { ShareableHandle } from "../../../memory/handles/shareable_handle.ts";
import type { Peer } from "../../transport/unix_socket.ts";
import type { StoredRecord } from "./stored_record.ts";

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
