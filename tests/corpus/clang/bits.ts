import { randomBytes } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const threads = 64;
const first = [0n, 1n, 2n ** 63n, 2n ** 64n - 1n, 0x8000_0000n << 7n, 2n ** 39n - 1n, 0xff80_0000n];

const digits = (value: bigint, width: number) => BigInt.asUintN(width, value).toString(2).padStart(width, "0");
const ones = (value: bigint, width: number) => digits(value, width).replaceAll("0", "").length;
const reversed = (value: bigint, width: number) => BigInt("0b" + [...digits(value, width)].reverse().join(""));
const orWidth = (index: number, width: number) => index < 0 ? width : index;
const leadingZeros = (value: bigint, width: number) => orWidth(digits(value, width).indexOf("1"), width);
const trailingZeros = (value: bigint, width: number) => leadingZeros(reversed(value, width), width);

function swapped(value: bigint, width: number): bigint {
  return BigInt("0x" + value.toString(16).padStart(width / 4, "0").match(/../g)!.reverse().join(""));
}

function rotatedLeft(value: bigint, { width, by }: { width: number; by: number }): bigint {
  const text = digits(value, width);
  const cut = (by % width + width) % width;
  return BigInt("0b" + text.slice(cut) + text.slice(0, cut));
}

function rowOf(wide: bigint, i: number): bigint[] {
  const [word, half, byte] = [[7n, 32], [13n, 16], [29n, 8]].map(([shift, width]) =>
    BigInt.asUintN(Number(width), wide >> BigInt(shift!))
  ) as [bigint, bigint, bigint];
  const by = (mask: number) => BigInt(i & mask);
  const signed = BigInt.asIntN(64, wide);
  return [
    ones(wide, 64),
    ones(word, 32) + ones(half, 16) * 100,
    leadingZeros(wide, 64),
    leadingZeros(word, 32),
    trailingZeros(wide, 64),
    trailingZeros(word, 32),
    (wide === 0n ? 0 : trailingZeros(wide, 64) + 1) + ones(word, 32) % 2 * 100,
    reversed(wide, 64),
    reversed(word, 32),
    reversed(half, 16) | reversed(byte, 8) << 16n,
    swapped(wide, 64),
    swapped(word, 32),
    swapped(half, 16),
    rotatedLeft(wide, { width: 64, by: i }),
    rotatedLeft(word, { width: 32, by: -i }),
    rotatedLeft(half, { width: 16, by: i }) | rotatedLeft(byte, { width: 8, by: -i }) << 16n,
    BigInt.asUintN(32, word << by(31)) | word >> 31n - by(31),
    wide >> by(63) ^ signed >> BigInt(i * 3 & 63),
    BigInt.asIntN(16, half) >> by(15) ^ BigInt.asUintN(8, byte << by(7)),
    word & half | BigInt.asUintN(32, word ^ ~byte) | BigInt.asIntN(8, byte),
    wide >> 17n & 0x1fffn | wide & ~(0xffn << 20n),
    leadingZeros(signed < 0n ? ~signed : signed, 64) - 1 + leadingZeros(half | 1n, 16),
  ].map((value) => BigInt.asUintN(64, BigInt(value)));
}

/** Clang's builtins on bits. */
export const program: CorpusProgram = {
  covers: "popc, clz, brev, prmt and shifts for counting, reversing, swapping and rotating 8 to 64 bits",
  buffers() {
    const input = new BigUint64Array(randomBytes(threads * 8));
    first.forEach((value, index) => input[index] = value);
    return { input, out: new BigUint64Array(threads * 22) };
  },
  launches: [{ kernel: "bits", grid: 2, block: threads / 2, arguments: ["input", "out"] }],
  expected: ({ input }) => ({ out: BigUint64Array.from([...input as BigUint64Array].flatMap(rowOf)) }),
};
