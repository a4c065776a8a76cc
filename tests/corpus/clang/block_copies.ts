import { randomBytes } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 16;
const largeBytes = 176;
const rowBytes = 128;
const length = 77;

/** Returns random structs, in which the doubles are numbers. */
function larges(): Uint8Array {
  const bytes = new Uint8Array(randomBytes(threads * largeBytes));
  for (let i = 0; i < threads; i++) new DataView(bytes.buffer).setFloat64(i * largeBytes + 168, i - 2.75, true);
  return bytes;
}

function change(large: Uint8Array, by: number): void {
  const view = new DataView(large.buffer);
  const word = (by & 31) * 4;
  view.setInt32(word, view.getInt32(word, true) + by, true);
  large[160 + by % 7]! ^= 0x5a;
  view.setFloat64(168, view.getFloat64(168, true) * 2, true);
}

function copiesOf(large: Uint8Array, i: number): Uint8Array[] {
  const [own, other] = [large.slice(), large.slice()];
  for (let round = 0; round < i % 4; round++) change(other, i * 3 + round);
  const at = own.findIndex((byte, index) => index < 168 && byte !== other[index]);
  new DataView(own.buffer).setInt32(39 * 4, at < 0 ? 0 : own[at]! - other[at]!, true);
  return [own, other];
}

function writeRow(row: Uint8Array, large: Uint8Array, i: number): void {
  row.fill(i + 1, 0, length);
  row.fill(0, 100);
  row.set(large.subarray(4, 4 + Math.floor(length / 2)), 3);
  row.copyWithin(5, 1, 41);
  row.copyWithin(50, 53, 83);
  const words = new DataView(large.buffer, large.byteOffset);
  const packed = new DataView(row.buffer, row.byteOffset + 101);
  packed.setUint8(0, i);
  packed.setInt32(1, words.getInt32(8, true) + i, true);
  [1, length, -3].forEach((odd, index) => packed.setInt16(5 + index * 2, odd + (index === i % 3 ? 1 : 0), true));
  packed.setBigInt64(11, BigInt(words.getInt32(12, true)) * 0x100000001n, true);
}

/** LLVM's code for copies and fills. */
export const program: CorpusProgram = {
  covers: "memcpy, memset and memmove as loops and in parts, large and packed structs, byval parameters",
  buffers: () => ({
    larges: larges(),
    copies: new Uint8Array(threads * 2 * largeBytes),
    rows: new Uint8Array(randomBytes(threads * rowBytes, 77)),
  }),
  launches: [{ kernel: "block_copies", grid: 2, block: threads / 2, arguments: ["larges", "copies", "rows", length] }],
  expected({ larges, rows }) {
    const copies: Uint8Array[] = [];
    for (let i = 0; i < threads; i++) {
      const large = (larges as Uint8Array).subarray(i * largeBytes, (i + 1) * largeBytes);
      copies.push(...copiesOf(large, i));
      writeRow((rows as Uint8Array).subarray(i * rowBytes, (i + 1) * rowBytes), large, i);
    }
    return { copies: Uint8Array.from(copies.flatMap((copy) => [...copy])), rows: rows! };
  },
};
