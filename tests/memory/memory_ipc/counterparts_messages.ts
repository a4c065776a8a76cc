/**
 * How the tests of this folder communicate with the processes that they start. A message is a header and a JSON string;
 * descriptors travel with the string.
 *
 * @module
 */
import type { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import type { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";

/** The location of memory, as another process needs it to map the memory. */
export interface MemoryAddress {
  /** Index of its pool among the pools that were sent. */
  readonly pool: number;
  /** The export data, in hexadecimal. */
  readonly data: string;
  readonly byteLength: number;
}

/** A task for an importing process. */
export type ImporterTask =
  /** Imports the pools whose handles come with this message, on a device. */
  | { readonly do: "import"; readonly device?: number }
  /** Maps, compares all bytes, overwrites them and frees. */
  | { readonly do: "use"; readonly memory: MemoryAddress; readonly expect: number; readonly write: number }
  /** Maps, and keeps the mapping. */
  | { readonly do: "keep"; readonly memory: MemoryAddress }
  /** Overwrites the kept memory with its first byte plus 1. */
  | { readonly do: "increment" }
  /** Sends a pool and its memory on to another importing process, which is to keep the memory. */
  | { readonly do: "forward"; readonly path: string; readonly memory: MemoryAddress }
  /** Makes a stream wait for an event, writes behind it, and reports whether the write is done immediately. */
  | { readonly do: "write behind"; readonly memory: MemoryAddress; readonly event: string; readonly write: number }
  /** Waits for the write behind the event. */
  | { readonly do: "finish" }
  /** Uses the memory on a second device: without access, with access, and after the access is revoked. */
  | { readonly do: "use as peer"; readonly memory: MemoryAddress; readonly isGivenFirst: boolean }
  /** Counts the process's resources. */
  | { readonly do: "count" }
  | { readonly do: "end" };

/** Sends a value. The caller keeps ownership of the handles. */
export async function sendValue(
  socket: UnixSocket,
  value: unknown,
  handles: readonly ShareableHandle[] = [],
): Promise<void> {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  await socket.send(new Uint8Array(new Uint32Array([bytes.length, handles.length]).buffer));
  await socket.send(bytes, { handles });
}

/** Receives a value. The caller owns the handles. */
export async function receiveValue<T>(socket: UnixSocket): Promise<{ value: T; handles: ShareableHandle[] }> {
  const header = await socket.receive(2 * Uint32Array.BYTES_PER_ELEMENT);
  const [byteLength, count] = new Uint32Array(header.bytes.buffer) as unknown as [number, number];
  const { bytes, handles } = await socket.receive(byteLength, { handles: count });
  return { value: JSON.parse(new TextDecoder().decode(bytes)), handles };
}

/** Sends a task and returns the answer. */
export async function ask<T>(
  socket: UnixSocket,
  task: ImporterTask,
  handles: readonly ShareableHandle[] = [],
): Promise<T> {
  await sendValue(socket, task, handles);
  return (await receiveValue<T>(socket)).value;
}

/** The job that an offer's metadata give a worker. */
export type Job =
  & { /** The worker's name; without it, the job is for all workers. */ readonly for?: string }
  & (
    | { readonly do: "use"; readonly expect: number; readonly write: number }
    | { readonly do: "hold"; readonly expect: number; readonly write?: number }
    /** Maps it several times through each of two connections, and frees one mapping after the other. */
    | { readonly do: "use at once"; readonly expect: number }
    | { readonly do: "let go" | "count" | "end" }
  );
