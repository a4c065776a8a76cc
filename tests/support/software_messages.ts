/**
 * Driver calls between a test and its child process: a length, then JSON extended with bigints and bytes.
 *
 * @module
 */
import { SharingError } from "../../src/support/errors.ts";
import type { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { decodeValue, encodeValue } from "./call_values.ts";

const maxByteLength = 2 ** 20;

/** Sends a value of JSON types, bigints and bytes. */
export async function sendMessage(socket: UnixSocket, value: unknown): Promise<void> {
  const bytes = encodeValue(value);
  await socket.send(new Uint8Array(Uint32Array.of(bytes.length).buffer));
  await socket.send(bytes);
}

/** Receives a value, or undefined if the other side has closed. */
export async function receiveMessage(socket: UnixSocket): Promise<unknown> {
  try {
    const length = new DataView((await socket.receive(4)).bytes.buffer).getUint32(0, true);
    if (length > maxByteLength) throw new RangeError(`Cannot receive a message of ${length} bytes`);
    const { bytes } = await socket.receive(length);
    return decodeValue(bytes);
  } catch (error) {
    if (error instanceof SharingError && error.code === "peer-gone") return undefined;
    throw error;
  }
}
