/**
 * A safetensors file of a size, written fast: its content does not matter.
 *
 * @module
 */
import { open as openFile } from "node:fs/promises";
import { encodeHeader, type SampleTensor } from "../../examples/weights/sample_file.ts";

const pieceByteLength = 16 * 2 ** 20;
const tensorByteLength = 64 * 2 ** 20;
const writers = 4;

/** Writes a file with so many bytes of tensors, which is a multiple of 1 MiB, and waits until the disk has it. */
export async function writeWeights(path: string, byteLength: number, signal: AbortSignal): Promise<void> {
  await using file = await openFile(path, "w");
  const header = encodeHeader({ metadata: new Map(), tensors: tensorsOf(byteLength) });
  await file.write(header, 0, header.length, 0);
  let next = 0;
  await Promise.all(Array.from({ length: writers }, async () => {
    const piece = new Uint8Array(pieceByteLength).map((_, index) => index * 2654435761 >>> 11);
    while (next < byteLength) {
      signal.throwIfAborted();
      const begin = next;
      next += pieceByteLength;
      const length = Math.min(pieceByteLength, byteLength - begin);
      new DataView(piece.buffer).setFloat64(0, begin);
      for (let done = 0; done < length;) {
        done += (await file.write(piece, done, length - done, header.length + begin + done)).bytesWritten;
      }
    }
  }));
  await file.sync();
}

function tensorsOf(byteLength: number): readonly SampleTensor[] {
  const count = Math.ceil(byteLength / tensorByteLength);
  return Array.from({ length: count }, (_, index) => {
    const byteOffset = index * tensorByteLength;
    const own = Math.min(tensorByteLength, byteLength - byteOffset);
    return { name: `tensor ${index}`, dtype: "BF16", shape: [own / 2 ** 11, 2 ** 10], byteOffset, byteLength: own };
  });
}
