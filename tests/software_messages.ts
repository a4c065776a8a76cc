/**
 * Calls of a driver between a test and its child: a length, and JSON that has bigints and bytes.
 *
 * @module
 */
import { SharingError } from "../src/errors.ts";
import type { UnixSocket } from "../src/sharing/unix_socket.ts";

const maxByteLength = 2 ** 20;

/** Sends a value that JSON has, or that has bigints and bytes beside. */
export async function sendMessage(socket: UnixSocket, value: unknown): Promise<void> {
  const bytes = new TextEncoder().encode(JSON.stringify(value, (_, part: unknown) => {
    if (typeof part === "bigint") return { bigint: String(part) };
    return part instanceof Uint8Array ? { bytes: part.toHex() } : part;
  }));
  await socket.send(new Uint8Array(Uint32Array.of(bytes.length).buffer));
  await socket.send(bytes);
}

/** What was sent, or undefined where the other side has gone. */
export async function receiveMessage(socket: UnixSocket): Promise<unknown> {
  try {
    const length = new DataView((await socket.receive(4)).bytes.buffer).getUint32(0, true);
    if (length > maxByteLength) throw new RangeError(`Cannot receive a message of ${length} bytes`);
    const { bytes } = await socket.receive(length);
    return JSON.parse(new TextDecoder().decode(bytes), (_, part: { bigint?: string; bytes?: string } | null) => {
      if (part?.bigint !== undefined) return BigInt(part.bigint);
      return part?.bytes !== undefined ? Uint8Array.fromHex(part.bytes) : part;
    });
  } catch (error) {
    if (error instanceof SharingError && error.code === "peer-gone") return undefined;
    throw error;
  }
}
