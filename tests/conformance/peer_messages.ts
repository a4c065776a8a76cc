/**
 * The messages between a row and its second process: a header of four 32-bit numbers, then the bytes and one more
 * byte, which carries the descriptors even if the message has no bytes.
 *
 * @module
 */
import { duplicateDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import type { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import type { PeerMessage } from "./situation.ts";

/** A message and its kind. */
export interface Envelope extends PeerMessage {
  /**
   * 0 for a request or an answer; otherwise the number of a CUDA error, and the bytes are the name of the call that
   * failed.
   */
  readonly errorNumber: number;
  /** Whether the bytes name the role that the second process runs from now on, with a new driver. */
  readonly isRole: boolean;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly descriptors: number[];
}

/** Sends a message. The caller still owns the descriptors. */
export async function sendMessage(
  socket: UnixSocket,
  { bytes = new Uint8Array(0), descriptors = [] }: Partial<PeerMessage>,
  { errorNumber = 0, isRole = false }: Partial<Pick<Envelope, "errorNumber" | "isRole">> = {},
): Promise<void> {
  const body = new Uint8Array(bytes.length + 1);
  body.set(bytes);
  const handles = descriptors.map((descriptor) => ShareableHandle.fromFd(duplicateDescriptor(descriptor)));
  try {
    const header = new Uint32Array([errorNumber, Number(isRole), bytes.length, handles.length]);
    await socket.send(new Uint8Array(header.buffer));
    await socket.send(body, { handles });
  } finally {
    for (const handle of handles) handle[Symbol.dispose]();
  }
}

/** Receives a message. The caller owns the descriptors. */
export async function receiveMessage(socket: UnixSocket): Promise<Envelope> {
  const header = await socket.receive(4 * Uint32Array.BYTES_PER_ELEMENT);
  const numbers = new Uint32Array(header.bytes.buffer);
  const [errorNumber, isRole, byteLength, handleCount] = numbers as unknown as [number, number, number, number];
  const { bytes, handles } = await socket.receive(byteLength + 1, { handles: handleCount });
  return {
    errorNumber,
    isRole: isRole !== 0,
    bytes: bytes.slice(0, byteLength),
    descriptors: handles.map(({ fd }) => fd),
  };
}
