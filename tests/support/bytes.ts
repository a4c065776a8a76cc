import { Buffer } from "node:buffer";

const pieceByteLength = 2 ** 20;

/**
 * Returns the index of the first byte that is not `value`, or -1. For buffers of many MiB, on which `findIndex` and
 * `every` take seconds.
 */
export function indexOfOther(bytes: Uint8Array, value: number): number {
  const expected = Buffer.alloc(Math.min(pieceByteLength, bytes.length), value);
  for (let begin = 0; begin < bytes.length; begin += pieceByteLength) {
    const piece = bytes.subarray(begin, begin + pieceByteLength);
    if (Buffer.compare(piece, expected.subarray(0, piece.length)) !== 0) {
      return begin + piece.findIndex((byte) => byte !== value);
    }
  }
  return -1;
}

/** Whether two typed arrays have the same bytes. */
export function haveSameBytes(one: ArrayBufferView, other: ArrayBufferView): boolean {
  return Buffer.compare(bytesOf(one), bytesOf(other)) === 0;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
