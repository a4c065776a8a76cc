import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { results } from "./float_results.ts";
import { bitsOf, floatOf, randomNumbers } from "./references.ts";
import { formatOf, halfValues } from "./float_references.ts";
import {
  decode,
  double,
  FloatArithmetic,
  isNaNBits,
  single,
  unitInTheLastPlace,
} from "../../corpus/float_reference.ts";

const bitsOf32 = (value: number) => bitsOf(value, "f32");
const bitsOf64 = (value: number) => bitsOf(value, "f64");
const floatOf32 = (bits: bigint) => floatOf(bits, "f32");
const floatOf64 = (bits: bigint) => floatOf(bits, "f64");
/** A `.bf16` is the upper half of a 32-bit float. */
const numberOf16 = (bits: bigint, type: string) => type === "bf16" ? floatOf32(bits << 16n) : floatOf(bits, type);

const infinity = 0x7f80_0000n;
const nan = 0x7fff_ffffn;
const sign = 0x8000_0000n;
const one = 0x3f80_0000n;

function operation(opcode: string, types: readonly string[]) {
  const operands = types.length === 3 ? "d, a, b" : "d, a";
  return { text: `${opcode} ${operands}`, types, reference: () => undefined };
}

/** 32-bit floats of all magnitudes, with more of them between -`limit` and `limit`. */
function singles(limit: number): bigint[] {
  const random = randomNumbers(0x5eed_5eed_5eedn);
  const numbers = Array.from({ length: 3000 }, () => BigInt.asUintN(32, random()));
  for (let index = 0; index < 3000; index++) numbers.push(bitsOf32((index / 1500 - 1) * limit));
  for (const value of [0.5, 1, 2, 3, Math.PI / 2, Math.PI, 100, 2 ** 20, 1e30]) {
    for (const bits of [bitsOf32(value), bitsOf32(-value)]) numbers.push(bits - 1n, bits, bits + 1n);
  }
  return numbers;
}

const functions: readonly {
  readonly name: string;
  readonly limit: number;
  readonly compute: (value: number) => number;
  /** Special operands and their results. */
  readonly special: readonly (readonly [operand: bigint, result: bigint])[];
}[] = [
  {
    name: "ex2",
    limit: 150,
    compute: (value) => 2 ** value,
    special: [[0n, one], [sign, one], [1n, one], [infinity, infinity], [sign | infinity, 0n], [nan, nan]],
  },
  {
    name: "lg2",
    limit: 2,
    compute: Math.log2,
    special: [
      [0n, sign | infinity],
      [sign, sign | infinity],
      [infinity, infinity],
      [sign | infinity, nan],
      [sign | one, nan],
      [one, 0n],
      [1n, bitsOf32(-149)],
      [0x7fc0_0001n, nan],
    ],
  },
  {
    name: "sin",
    limit: 40,
    compute: Math.sin,
    special: [[0n, 0n], [sign, sign], [1n, 1n], [infinity, nan], [sign | infinity, nan], [nan, nan]],
  },
  {
    name: "cos",
    limit: 40,
    compute: Math.cos,
    special: [[0n, one], [sign, one], [1n, one], [infinity, nan], [sign | infinity, nan], [nan, nan]],
  },
  {
    name: "rsqrt",
    limit: 4,
    compute: (value) => 1 / Math.sqrt(value),
    special: [
      [0n, infinity],
      [sign, sign | infinity],
      [infinity, 0n],
      [sign | infinity, nan],
      [sign | one, nan],
      [1n, bitsOf32(2 ** 74.5)],
      [nan, nan],
    ],
  },
  {
    name: "rcp",
    limit: 4,
    compute: (value) => 1 / value,
    special: [[0n, infinity], [sign, sign | infinity], [infinity, 0n], [sign | infinity, sign], [nan, nan]],
  },
  {
    name: "sqrt",
    limit: 4,
    compute: Math.sqrt,
    special: [[0n, 0n], [sign, sign], [infinity, infinity], [sign | infinity, nan], [sign | one, nan], [nan, nan]],
  },
  {
    name: "tanh",
    limit: 4,
    compute: Math.tanh,
    special: [[0n, 0n], [sign, sign], [1n, 1n], [infinity, one], [sign | infinity, sign | one], [nan, nan]],
  },
];

for (const { name, limit, compute, special } of functions) {
  test(`${name}.approx nearly always gives the nearest number, and follows the manual for special ones`, () => {
    const operands = singles(limit);
    const actual = results(operation(`${name}.approx.f32`, ["f32", "f32"]), operands.map((bits) => [bits]));
    let far = 0;
    operands.forEach((bits, index) => {
      const expected = compute(floatOf32(bits));
      const result = floatOf32(actual[index]!);
      if (!Number.isFinite(Math.fround(expected))) return assertEquals(result, Math.fround(expected));
      const distance = Math.abs(result - expected) / unitInTheLastPlace(single, expected);
      assert(distance < 0.501, `${name} of ${floatOf32(bits)}: ${result}, not ${expected}`);
      if (result !== Math.fround(expected)) far++;
    });
    assert(far <= 3, `${far} results are not the nearest`);
    assertEquals(
      results(operation(`${name}.approx.f32`, ["f32", "f32"]), special.map(([bits]) => [bits])),
      special.map(([, result]) => result),
    );
  });
}

test("approximations flush subnormal numbers", () => {
  const flushed: readonly (readonly [string, bigint, bigint])[] = [
    ["ex2", bitsOf32(-130), 0n],
    ["lg2", 1n, sign | infinity],
    ["sin", sign | 1n, sign],
    ["rsqrt", 1n, infinity],
    ["rcp", sign | 1n, sign | infinity],
    ["rcp", bitsOf32(2 ** 127), 0n],
    ["sqrt", 0x007f_ffffn, 0n],
    ["sqrt", sign | 1n, sign],
  ];
  for (const [name, operand, result] of flushed) {
    const actual = results(operation(`${name}.approx.ftz.f32`, ["f32", "f32"]), [[operand]]);
    assertEquals(actual, [result], name);
  }
});

test("approximations have the same bits on every engine", () => {
  let sum = 0n;
  for (const { name, limit } of functions) {
    const cases = singles(limit).map((bits) => [bits]);
    for (const result of results(operation(`${name}.approx.f32`, ["f32", "f32"]), cases)) {
      sum = BigInt.asUintN(64, sum * 0x5851_f42d_4c95_7f2dn + result);
    }
  }
  // The sum that Deno, Node and Bun gave. The tests above check that results are correct.
  assertEquals(`0x${sum.toString(16)}`, "0x40c51d6f070d412b");
});

test("div.approx and div.full divide", () => {
  const random = randomNumbers(0xd117_1de5n);
  const cases = Array.from({ length: 2000 }, () => [BigInt.asUintN(32, random()), BigInt.asUintN(32, random())]);
  const arithmetic = new FloatArithmetic(single);
  for (const name of ["div.approx.f32", "div.full.f32"]) {
    const actual = results(operation(name, ["f32", "f32", "f32"]), cases);
    cases.forEach(([a = 0n, b = 0n], index) => {
      if (Math.abs(floatOf32(b)) > 2 ** 126 && name !== "div.full.f32") return;
      assertEquals(actual[index], arithmetic.divide(a, b), `${name} of ${a} and ${b}`);
    });
  }
  // 1 / b is 0 if b exceeds 2^126.
  const large = bitsOf32(2 ** 127);
  const special = [[one, large], [one, sign | large], [infinity, large], [large, bitsOf32(2 ** 126)], [
    one,
    infinity,
  ]];
  assertEquals(results(operation("div.approx.f32", ["f32", "f32", "f32"]), special), [
    0n,
    sign,
    nan,
    bitsOf32(2),
    0n,
  ]);
});

test("64-bit approximations read the upper half of a number, or all of it", () => {
  const random = randomNumbers(0x6464_6464n);
  const cases = Array.from({ length: 1000 }, () => [random()]);
  const checks: readonly (readonly [string, (value: number) => number, number])[] = [
    ["rcp.approx.ftz.f64", (value) => 1 / value, 2 ** -19],
    ["rsqrt.approx.ftz.f64", (value) => 1 / Math.sqrt(value), 2 ** -19],
    ["rsqrt.approx.f64", (value) => 1 / Math.sqrt(value), 2 ** -51],
  ];
  for (const [name, compute, bound] of checks) {
    const actual = results(operation(name, ["f64", "f64"]), cases);
    let normal = 0;
    cases.forEach(([bits = 0n], index) => {
      const expected = compute(floatOf64(bits));
      if (name.includes("ftz")) assertEquals(actual[index]! & 0xffff_ffffn, 0n);
      if (!(Math.abs(expected) >= 2 ** -1022 && Math.abs(expected) < Infinity)) return;
      normal++;
      const result = floatOf64(actual[index]!);
      assert(Math.abs(result / expected - 1) < bound, `${name} of ${floatOf64(bits)}: ${result}`);
    });
    assert(normal > 400, `${name}: only ${normal} results are normal`);
  }
  const special = [0n, 1n << 63n, 1n, bitsOf64(Infinity), bitsOf64(-Infinity)];
  assertEquals(
    results(operation("rcp.approx.ftz.f64", ["f64", "f64"]), special.map((bits) => [bits])),
    [Infinity, -Infinity, Infinity, 0, -0].map(bitsOf64),
  );
});

test("16-bit ex2 and tanh round once", () => {
  for (const [name, compute] of [["ex2", (value: number) => 2 ** value], ["tanh", Math.tanh]] as const) {
    for (const type of ["f16", "bf16"]) {
      const format = formatOf(type);
      const suffix = name === "ex2" && type === "bf16" ? "approx.ftz" : "approx";
      const random = randomNumbers(0x16_16n);
      const operands = [...halfValues(type), ...Array.from({ length: 2000 }, () => BigInt.asUintN(16, random()))];
      const arithmetic = new FloatArithmetic(format);
      const reference = (bits: bigint) => {
        if (isNaNBits(format, bits)) return 0x7fffn;
        return arithmetic.round(decode(double, bitsOf64(compute(numberOf16(bits, type)))));
      };
      const one = results(operation(`${name}.${suffix}.${type}`, ["b16", "b16"]), operands.map((bits) => [bits]));
      const two = results(
        operation(`${name}.${suffix}.${type}x2`, ["b32", "b32"]),
        operands.map((bits) => [bits << 16n | (bits ^ 0x55n)]),
      );
      operands.forEach((bits, index) => {
        assertEquals(one[index], reference(bits), `${name}.${type} of 0x${bits.toString(16)}`);
        assertEquals(two[index], reference(bits) << 16n | reference(bits ^ 0x55n), `${name}.${type}x2`);
      });
    }
  }
});
