/**
 * How the tests beside it talk to the processes that they start: a header, then a JSON text that descriptors travel with.
 *
 * @module
 */
import type { ShareableHandle } from "../../../src/memory/shareable_handle.ts";
import type { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";

/** Where memory is, by what another process needs to map it. */
export interface MemoryAddress {
  /** Which of the pools that were sent it is of. */
  readonly pool: number;
  /** The export data in hexadecimal digits. */
  readonly data: string;
  readonly byteLength: number;
}

/** What an importing process is asked to do. */
export type ImporterTask =
  /** Import the pools whose handles come with this, on a device. */
  | { readonly do: "import"; readonly device?: number }
  /** Map, compare all bytes, overwrite them and free. */
  | { readonly do: "use"; readonly memory: MemoryAddress; readonly expect: number; readonly write: number }
  /** Map, and keep it mapped. */
  | { readonly do: "keep"; readonly memory: MemoryAddress }
  /** Overwrite what is kept with its first byte and 1. */
  | { readonly do: "increment" }
  /** Send a pool and memory of it on to another importing process, which is to keep it. */
  | { readonly do: "forward"; readonly path: string; readonly memory: MemoryAddress }
  /** Let a stream wait for an event, write behind it, and say whether that is done at once. */
  | { readonly do: "write behind"; readonly memory: MemoryAddress; readonly event: string; readonly write: number }
  /** Wait for what was written behind the event. */
  | { readonly do: "finish" }
  /** Use the memory on a second device: without access, with it, and when that was taken back. */
  | { readonly do: "use as peer"; readonly memory: MemoryAddress; readonly isGivenFirst: boolean }
  /** Count what the process holds. */
  | { readonly do: "count" }
  | { readonly do: "end" };

/** Sends a value. The handles stay the caller's. */
export async function sendValue(
  socket: UnixSocket,
  value: unknown,
  handles: readonly ShareableHandle[] = [],
): Promise<void> {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  await socket.send(new Uint8Array(new Uint32Array([bytes.length, handles.length]).buffer));
  await socket.send(bytes, { handles });
}

/** Receives a value. The handles are the caller's. */
export async function receiveValue<T>(socket: UnixSocket): Promise<{ value: T; handles: ShareableHandle[] }> {
  const header = await socket.receive(2 * Uint32Array.BYTES_PER_ELEMENT);
  const [byteLength, count] = new Uint32Array(header.bytes.buffer) as unknown as [number, number];
  const { bytes, handles } = await socket.receive(byteLength, { handles: count });
  return { value: JSON.parse(new TextDecoder().decode(bytes)), handles };
}

/** Asks for something and gives the answer. */
export async function ask<T>(
  socket: UnixSocket,
  task: ImporterTask,
  handles: readonly ShareableHandle[] = [],
): Promise<T> {
  await sendValue(socket, task, handles);
  return (await receiveValue<T>(socket)).value;
}

/** What a worker does with an offer, as its metadata say. */
export type Job =
  & { /** The worker's name; all workers' unless given. */ readonly for?: string }
  & (
    | { readonly do: "use"; readonly expect: number; readonly write: number }
    | { readonly do: "hold"; readonly expect: number; readonly write?: number }
    /** Map it several times by each of two connections, and free one after the other. */
    | { readonly do: "use at once"; readonly expect: number }
    | { readonly do: "let go" | "count" | "end" }
  );
