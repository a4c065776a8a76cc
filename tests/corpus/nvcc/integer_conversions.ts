import { type Column, integerEdges, mixedOperands, RandomBits, tableProgram, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const numberOf = (type: string, bits: bigint) => {
  const width = Number(type.slice(1));
  return type[0] === "s" ? BigInt.asIntN(width, bits) : BigInt.asUintN(width, bits);
};

/** Converts the low bits of a value to each of the types in turn, and the result to 64 bits. */
const through = (...types: string[]): Column => (value) => types.reduce((bits, type) => numberOf(type, bits), value!);

/** Clamps to the range of a type. The result is a register of the given width. */
function saturated(to: string, from: string, registerWidth: number): Column {
  const width = BigInt(to.slice(1));
  const [least, most] = to[0] === "s" ? [-(1n << width - 1n), (1n << width - 1n) - 1n] : [0n, (1n << width) - 1n];
  return (value) => {
    const number = numberOf(from, value!);
    return BigInt.asUintN(registerWidth, number < least ? least : number > most ? most : number);
  };
}

const random = new RandomBits(3);
const edges = [8, 16, 32, 64].flatMap(integerEdges).flatMap((value) => [value, -value]);
const [values] = mixedOperands(edges, () => random.next(64) >> BigInt(random.below(64)), {
  operands: 1,
  mixtures: 200,
  seed: 4,
});

export const program: CorpusProgram = tableProgram("cvt between integers of 8 to 64 bits, with and without .sat", [{
  kernel: "convert",
  operands: [words64(values!)],
  width: 64,
  columns: [
    through("s8"),
    through("u8"),
    through("s16"),
    through("u16"),
    through("s32"),
    through("u32"),
    through("s8", "u32"),
    through("s8", "u16"),
    through("s16"),
    saturated("s8", "s32", 32),
    saturated("u8", "s32", 32),
    saturated("s8", "u32", 32),
    saturated("u8", "s16", 32),
    saturated("s8", "s64", 32),
    saturated("u8", "u64", 32),
    saturated("s16", "s32", 16),
    saturated("u16", "s32", 16),
    saturated("s16", "u32", 16),
    saturated("u16", "u64", 16),
    saturated("u16", "s16", 16),
    saturated("s32", "s64", 32),
    saturated("u32", "s64", 32),
    saturated("s32", "u64", 32),
    saturated("u32", "s32", 32),
    saturated("s32", "u32", 32),
    saturated("u64", "s64", 64),
    saturated("u64", "s32", 64),
    saturated("s64", "u64", 64),
  ],
}]);
