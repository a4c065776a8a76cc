/**
 * A memory that a store has, and who holds it.
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

/** What somebody maps, and since when. */
interface Reading {
  count: number;
  readonly since: number;
}

/** A memory, and who holds it. */
export interface Stored extends StoredRecord {
  readonly handle: ShareableHandle;
  /** Who writes it. It has not published it. */
  writer: Holder | undefined;
  /** Whether somebody may claim it who held it before this process took over. */
  mayBeClaimed: boolean;
  /** Whether the table has it. */
  isWritten: boolean;
  readonly readers: Map<Holder, Reading>;
  /** When it was mapped or released last, in milliseconds since 1970. */
  lastUse: number;
}

/** Memory that another process had, which those may claim who hold it. */
export function restoredMemory(record: StoredRecord, handle: ShareableHandle): Stored {
  return { ...unheldMemory(record, handle), mayBeClaimed: true, isWritten: true };
}

/** Memory that its writer has asked for. The table does not have it yet. */
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

/** Whether memory goes soon, unless somebody claims it who held it before this process took over. */
export function isUnclaimed({ mayBeClaimed, state, writer, readers }: Stored): boolean {
  return mayBeClaimed && state !== "published" && writer === undefined && readers.size === 0;
}

/** What the table says of a memory. */
export function recordOf(memory: Stored): StoredRecord {
  const { id, name, device, byteLength, size, metadata, uid, created, generation, published, state } = memory;
  return { id, name, device, byteLength, size, metadata, uid, created, generation, published, state };
}
