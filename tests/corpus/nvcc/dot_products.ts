import { type Column, integerOperands, tableProgram, words32 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

type Sign = "s" | "u";

/** Returns a byte or a half of a word, counted from the lowest. */
function part(word: bigint, { index, width, sign }: { index: number; width: number; sign: Sign }): bigint {
  const bits = word >> BigInt(index * width);
  return sign === "s" ? BigInt.asIntN(width, bits) : BigInt.asUintN(width, bits);
}

const ofFour = (first: Sign, second: Sign): Column => (a, b, c) =>
  [0, 1, 2, 3].reduce(
    (sum, index) => sum + part(a!, { index, width: 8, sign: first }) * part(b!, { index, width: 8, sign: second }),
    c!,
  );

/** Multiplies the halves of `a` by the bytes of one half of `b`. */
const ofTwo = (half: "lo" | "hi", first: Sign, second: Sign): Column => (a, b, c) =>
  [0, 1].reduce(
    (sum, index) =>
      sum + part(a!, { index, width: 16, sign: first }) *
        part(b!, { index: half === "hi" ? index + 2 : index, width: 8, sign: second }),
    c!,
  );

export const program: CorpusProgram = tableProgram("dp4a and dp2a, lo and hi, signed, unsigned and mixed", [{
  kernel: "dot_products",
  operands: integerOperands(32, { operands: 3, mixtures: 250 }).map(words32),
  width: 32,
  columns: [
    ofFour("s", "s"),
    ofFour("u", "u"),
    ofFour("s", "u"),
    ofFour("u", "s"),
    ofTwo("lo", "s", "s"),
    ofTwo("hi", "s", "s"),
    ofTwo("lo", "u", "u"),
    ofTwo("hi", "u", "u"),
    ofTwo("lo", "s", "u"),
    ofTwo("hi", "s", "u"),
    ofTwo("lo", "u", "s"),
    ofTwo("hi", "u", "s"),
    (_, b, c) => ofFour("s", "s")(0xfc03_fe01n, b!, c!),
  ],
}]);
