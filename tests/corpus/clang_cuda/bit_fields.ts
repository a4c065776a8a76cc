import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const [grid, block] = [2, 32];
const length = grid * block;

function chosen(value: number): number {
  switch (value) {
    case 0:
      return 11;
    case 1:
      return 3;
    case 2:
    case 3:
      return value + 5 << 2;
    case 4:
      return 16;
    case 9:
      return -1;
    case 10:
      return ~value;
    case 11:
      return value * value;
    case 12:
      return 2;
    case -2147483648:
      return 77;
  }
  return value >= 100 && value <= 120 ? value - 100 : value % 13;
}
const table = [(x: number) => x + 1, (x: number) => x * 2, (x: number) => x ^ 3, chosen];
const signed = (value: number, bits: number) => value << 32 - bits >> 32 - bits;

function rowOf(value: number, i: number): number[] {
  const a = (value & 7) + 1 & 7;
  const b = signed(signed(value >> 3, 5) - 3, 5);
  const c = BigInt.asUintN(37, BigInt(value) * 1234567n);
  const f = i & 63;
  const e = signed(value >> 8, 9) ^ f;
  const [number, word] = [new Float32Array(1), new Uint32Array(1)];
  number[0] = value & 0xffff;
  word[0] = new Uint32Array(number.buffer)[0]! ^ 0x8000_0000;
  const wide = BigInt(value) << 20n;
  return [
    a + b * 10 + Number((value & 64) !== 0) * 1000 + signed(e, 9) * 10000,
    Number(BigInt.asIntN(32, c >> 7n)) ^ f,
    chosen(value % 130) + chosen(value === 5 ? -2147483648 : value & 15),
    table[value & 3]!(i) + table[i & 1]!(value & 1023),
    -number[0]! + (word[0]! >>> 20),
    Math.imul(value, 3) + 1 + (value >> 5 << 16 >> 16) + Number(BigInt.asIntN(32, wide >> 24n)),
  ];
}

export const program: CorpusProgram = {
  covers: "bit fields, packed structures at odd addresses, unions, switches with gaps and ranges, tables of functions",
  buffers: () => ({
    x: Int32Array.from(randomWords(length, 2), (word, at) => at % 3 === 0 ? word % 140 : word),
    out: new Int32Array(length * 6),
    bytes: new Uint8Array(length * 16),
  }),
  launches: [{ kernel: "bit_fields", grid, block, arguments: ["x", "out", "bytes"] }],
  expected({ x }) {
    const words = Array.from(x as Int32Array);
    const bytes = new DataView(new ArrayBuffer(length * 16));
    words.forEach((value, i) => {
      bytes.setInt8(i * 16, value);
      bytes.setInt32(i * 16 + 1, Math.imul(value, 3), true);
      bytes.setInt16(i * 16 + 5, value >> 5, true);
      bytes.setBigInt64(i * 16 + 7, BigInt(value) << 20n, true);
    });
    return { out: Int32Array.from(words.flatMap(rowOf)), bytes: new Uint8Array(bytes.buffer) };
  },
};
