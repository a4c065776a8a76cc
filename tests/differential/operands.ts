/**
 * The values that operations are tried on: for each type its edge cases, and pseudorandom values.
 *
 * @module
 */
import type { OperandType, Operation } from "./operation.ts";
import { Random } from "./random.ts";

const words = (text: string): readonly bigint[] => text.trim().split(/\s+/).map(BigInt);

const integers16 = words(`
  0 1 2 3 7 8 15 16 17 31 32 0x7f 0x80 0xff 0x100 0x1234 0x5555 0x7ffe 0x7fff 0x8000 0x8001 0xaaaa 0xff80 0xfffe 0xffff`);

const integers32 = words(`
  0 1 2 3 7 8 31 32 33 0x7f 0x80 0xff 0x100 0x7fff 0x8000 0xffff 0x10000 0x12345678 0x7f80ff01 0x55555555 0x7ffffffe
  0x7fffffff 0x80000000 0x80000001 0xaaaaaaaa 0xdeadbeef 0xffff8000 0xffffff80 0xfffffffe 0xffffffff`);

const integers64 = words(`
  0 1 2 3 7 63 64 65 0x7f 0x80 0xff 0x7fff 0x8000 0xffff 0x7fffffff 0x80000000 0xffffffff 0x100000000 0x123456789abcdef0
  0x1fffffffffffff 0x20000000000001 0x5555555555555555 0x7ffffffffffffffe 0x7fffffffffffffff 0x8000000000000000
  0x8000000000000001 0xdeadbeefcafebabe 0xffffffff00000000 0xffffffff7fffffff 0xffffffff80000000 0xfffffffffffffffe
  0xffffffffffffffff`);

// Zeros, subnormal and smallest normal numbers, ties of every rounding, ends of the integer types and of the half types,
// the largest numbers, infinities, quiet and signalling NaNs of both signs.
const singles = words(`
  0 0x80000000 1 0x80000001 0x00400000 0x007fffff 0x807fffff 0x00800000 0x80800000 0x00800001 0x33000000 0x33000001
  0x33800000 0x387fe000 0x38800000 0x3e99999a 0x3eaaaaab 0x3effffff 0x3f000000 0xbf000000 0x3f000001 0x3f7fffff
  0x3f800000 0xbf800000 0x3f800001 0x3f808000 0x3f818000 0x3f801000 0x3f803000 0x3fc00000 0xbfc00000 0x40200000
  0x40490fdb 0x40600000 0x42fe0000 0x42ff0000 0x437f8000 0xc3008000 0x46fffe00 0x477fe000 0x477fefff 0x477ff000 0x477fff80
  0x4b000000 0x4b000001 0x4b7fffff 0x4b800001 0x4effffff 0x4f000000 0xcf000000 0xcf000001 0x4f7fffff 0x4f800000
  0x5effffff 0x5f000000 0xdf000000 0x5f7fffff 0x5f800000 0x7e967699 0x7effffff 0x7f000000 0x7f7f7fff 0x7f7fffff 0xff7fffff
  0x7f800000 0xff800000 0x7f800001 0x7fc00000 0x7fc12345 0x7fffffff 0xff800001 0xffc54321 0xffffffff`);

const doubles = words(`
  0 0x8000000000000000 1 0x8000000000000001 0x0008000000000000 0x000fffffffffffff 0x800fffffffffffff 0x0010000000000000
  0x8010000000000000 0x0010000000000001 0x3690000000000000 0x3690000000000001 0x36a0000000000000 0x380fffffffffffff
  0x3810000000000000 0x3e60000000000000 0x3e60000000000001 0x3f10000000000000 0x3fd5555555555555 0x3fdfffffffffffff
  0x3fe0000000000000 0xbfe0000000000000 0x3fefffffffffffff 0x3ff0000000000000 0xbff0000000000000 0x3ff0000000000001
  0x3ff0000010000000 0x3ff0000030000000 0x3ff0020000000000 0x3ff0060000000000 0x3ff8000000000000 0xbff8000000000000
  0x4004000000000000 0x400921fb54442d18 0x400c000000000000 0x405fc00000000000 0x405fe00000000000 0x406ff00000000000
  0x40dfffe000000000 0x40effc0000000000 0x40effdffffffffff 0x40effe0000000000 0x41dfffffffc00000 0x41dfffffffe00000
  0x41e0000000000000 0xc1e0000000000000 0xc1e0000000200000 0x41efffffffe00000 0x41f0000000000000 0x4330000000000000
  0x4330000000000001 0x43dfffffffffffff 0x43e0000000000000 0xc3e0000000000000 0xc3e0000000000001 0x43efffffffffffff
  0x43f0000000000000 0x47efffffe0000000 0x47efffffefffffff 0x47effffff0000000 0x7fe0000000000000 0x7fefffffffffffff
  0xffefffffffffffff 0x7ff0000000000000 0xfff0000000000000 0x7ff0000000000001 0x7ff8000000000000 0x7ff8123456789abc
  0x7fffffffffffffff 0xfff0000020000000 0xfff8cba987654321 0xffffffffffffffff`);

const halves = words(`
  0 0x8000 1 0x8001 0x0200 0x03ff 0x83ff 0x0400 0x8400 0x0401 0x1400 0x2e66 0x37ff 0x3800 0xb800 0x3bff 0x3c00 0xbc00
  0x3c01 0x3e00 0xbe00 0x4100 0x4248 0x4300 0x57f0 0x57f8 0x5bfc 0x6400 0x6401 0x67ff 0x6801 0x77ff 0x7800 0xf800 0x7bff
  0xfbff 0x7c00 0xfc00 0x7c01 0x7e00 0x7e55 0x7fff 0xfc01 0xfe55 0xffff`);

const brainHalves = words(`
  0 0x8000 1 0x8001 0x0040 0x007f 0x807f 0x0080 0x8080 0x0081 0x3380 0x3eab 0x3eff 0x3f00 0xbf00 0x3f7f 0x3f80 0xbf80
  0x3f81 0x3fc0 0xbfc0 0x4020 0x4049 0x4060 0x42fe 0x42ff 0x437f 0x4b00 0x4b7f 0x4eff 0x4f00 0xcf00 0x4f80 0x5f00 0xdf00
  0x7e96 0x7f00 0x7f7f 0xff7f 0x7f80 0xff80 0x7f81 0x7fc0 0x7fd5 0x7fff 0xff81 0xffd5 0xffff`);

const pairOf = (values: readonly bigint[]): readonly bigint[] =>
  values.map((value, index) => value | values[(index * 7 + 5) % values.length]! << 16n);

const everyByte = Array.from({ length: 256 }, (_, byte) => BigInt(byte * 0x101 ^ byte << 12 & 0xf000));

/** The edge cases of each type. Those of integers depend on the width only, not on the sign. */
const edges: Readonly<Record<string, readonly bigint[]>> = {
  pred: [0n, 1n],
  8: words("0 1 0x7e 0x7f 0x80 0x81 0xaa 0xfe 0xff 0x100 0x17f 0x1ff 0x7fffff80 0xabcdef80 0xffffff7f 0xffffffff"),
  16: integers16,
  32: integers32,
  64: integers64,
  f16: halves,
  bf16: brainHalves,
  f16x2: pairOf(halves),
  bf16x2: pairOf(brainHalves),
  u16x2: pairOf(integers16),
  s16x2: pairOf(integers16),
  f32: singles,
  tf32: singles,
  f64: doubles,
  e4m3x2: everyByte,
  e5m2x2: everyByte,
  // Amounts of shifts.
  amount: words(
    "0 1 2 7 8 15 16 17 30 31 32 33 47 48 63 64 65 127 128 255 256 0x10000 0x7fffffff 0x80000000 0xffffffff",
  ),
  // Positions and lengths of bit fields.
  place: words(
    "0 1 2 3 5 8 13 16 24 30 31 32 33 48 62 63 64 65 100 127 128 255 256 257 288 0x1001f 0x80000001 0xffffffff",
  ),
  // The lane operand of a shuffle, and the operand with the bounds of its segment: clamp value and segment mask.
  lane: words("0 1 2 3 4 5 8 15 16 17 24 30 31 32 33 63 0xfffffff0 0xffffffff"),
  clamp: words("0x1f 0x1f 0 7 0x1000 0x181f 0x1c03"),
  selector: words("0 1 0x3210 0x7654 0x0123 0xfedc 0x8888 0xba98 0x5140 0xffff 0x1f2e 0x40c8 0xabcd3210 0xffffffff"),
  // So few values that several threads are likely to have the same one.
  few: words("0 0 1 2 0x80000000 0xffffffff"),
};

function edgesOf({ name }: OperandType): readonly bigint[] {
  return edges[name] ?? edges[/\d+/.exec(name)![0]]!;
}

/** The position of the exponent of each float type, and the exponent of 1. */
const exponents: Readonly<Record<string, readonly [shift: number, one: number]>> = {
  f16: [10, 15],
  bf16: [7, 127],
  f32: [23, 127],
  tf32: [23, 127],
  f64: [52, 1023],
};

/** Returns a value for an operand: often an edge case, otherwise of any magnitude. */
export function randomOperand(
  type: OperandType,
  random: Random,
  { edgePercent = 60 }: { edgePercent?: number } = {},
): bigint {
  const { name } = type;
  if (type.bits === 1) return BigInt(random.below(2));
  if (name === "clamp" || name === "few" || random.percent(edgePercent)) return random.pick(edgesOf(type));
  if (name.endsWith("x2") && name.includes("f16")) {
    const half = { name: name.slice(0, -2), bits: 16 } as const;
    return randomOperand(half, random) | randomOperand(half, random) << 16n;
  }
  const any = BigInt.asUintN(type.bits, random.bits64());
  const exponent = exponents[name];
  if (exponent !== undefined) {
    if (random.percent(20)) return any;
    // Near 1, so that a sum of two values depends on both.
    const [shift, one] = exponent;
    const sign = any >> BigInt(type.bits - 1) << BigInt(type.bits - 1);
    const spread = Math.min(one - 1, 30);
    return sign | any & (1n << BigInt(shift)) - 1n | BigInt(one - spread + random.below(2 * spread)) << BigInt(shift);
  }
  return random.percent(50) ? any : any >> BigInt(random.below(type.bits));
}

/** Operand sets fill whole blocks of this size. */
const blockSize = 64;
/** Up to this many sets, all pairs of edge cases are tried. */
const maxPairs = 1200;
const sampleCount = 1024;

/**
 * Returns the operand sets that an operation is tried on alone: each edge case of one operand, all pairs of edge cases
 * of two, and samples of more. The sets fill whole blocks.
 */
export function operandSets({ operands, name }: Operation): readonly (readonly bigint[])[] {
  const random = new Random(hashOf(operands.map((type) => type.name).join(" ")));
  const sets: bigint[][] = [];
  if (operands.length === 0) return Array.from({ length: blockSize }, () => []);
  const sample = (edgePercent: number) => operands.map((type) => randomOperand(type, random, { edgePercent }));
  if (operands.length === 1) {
    for (const value of edgesOf(operands[0]!)) sets.push([value]);
    const more = operands[0]!.bits === 1 ? 0 : 64;
    for (let count = 0; count < more; count++) sets.push(sample(0));
  } else if (operands.length === 2) {
    const [first, second] = operands.map(edgesOf) as [readonly bigint[], readonly bigint[]];
    if (first.length * second.length <= maxPairs) {
      for (const a of first) for (const b of second) sets.push([a, b]);
    } else {
      // Combines each value with every `step`-th one, starting at another one in each row, so that every value occurs
      // on both sides.
      const step = Math.ceil(first.length * second.length / maxPairs);
      first.forEach((a, row) => {
        for (let at = row % step; at < second.length; at += step) sets.push([a, second[at]!]);
      });
      const special = (values: readonly bigint[]) => values.slice(-9);
      for (const a of special(first)) for (const b of special(second)) sets.push([a, b]);
    }
    for (let count = 0; count < 128; count++) sets.push(sample(10));
  } else {
    const isFused = /^(fma|mad)\.r/.test(name) && operands.every((type) => type.name === operands[0]!.name);
    for (let count = 0; count < sampleCount; count++) {
      const set = sample(count % 3 === 0 ? 20 : 85);
      if (isFused && count % 3 === 0) set[2] = nearlyCancelling(set, operands[0]!);
      sets.push(set);
    }
  }
  sets.push(...aroundSmallestNormal(name, operands));
  while (sets.length % blockSize !== 0) sets.push(sample(50));
  return sets;
}

/**
 * Returns operands whose exact result is just below the smallest normal number: as precise as a normal number, halfway
 * to it, and nearer. `.ftz` may or may not treat that result as subnormal.
 */
function aroundSmallestNormal(name: string, operands: readonly OperandType[]): bigint[][] {
  const [opcode, type] = [/^\w+/.exec(name)![0], /\.ftz.*\.(f16|f32|f64)(?:x2)? /.exec(name)?.[1]];
  const products = type === "f32"
    ? [[0x00800000n, 0x3f7fffffn], [0x00800708n, 0x3f7ff1f0n], [0x00800001n, 0x3f7ffffen]]
    : type === "f16"
    ? [[0x0400n, 0x3bffn], [0x0414n, 0x3bd8n], [0x0401n, 0x3bfen]]
    : [];
  const minus = type === "f16" ? 0x8000n : 0x8000_0000n;
  const bothSigns = (sets: readonly (readonly bigint[])[]) =>
    sets.flatMap(([first = 0n, ...others]) => [[first, ...others], [first | minus, ...others]]);
  switch (opcode) {
    case "mul":
      return bothSigns(products);
    case "fma":
    case "mad":
      return operands.length === 3 ? bothSigns(products.map((factors) => [...factors, 0n])) : [];
    case "div":
      return type === "f32" ? bothSigns([[0x00ffffffn, 0x40000000n], [0x00fffffen, 0x3fffffffn]]) : [];
    case "rcp":
      return type === "f32" ? bothSigns([[0x7e800001n], [0x7e800002n]]) : [];
    case "cvt":
      return type === "f64"
        ? [0x380fffffe0000000n, 0x380fffffe8000000n, 0x380ffffff0000000n, 0x380ffffff8000000n]
          .flatMap((value) => [[value], [value | 1n << 63n]])
        : [];
    default:
      return [];
  }
}

/** Returns the negated and rounded product. Its sum with the exact product is the rounding error. */
function nearlyCancelling([a, b]: readonly bigint[], { name }: OperandType): bigint {
  const view = new DataView(new ArrayBuffer(8));
  if (name === "f64") {
    const numberOf = (bits: bigint) => (view.setBigUint64(0, bits), view.getFloat64(0));
    view.setFloat64(0, -(numberOf(a!) * numberOf(b!)));
    return canonicalDouble(view.getBigUint64(0));
  }
  if (name === "f32") {
    const numberOf = (bits: bigint) => (view.setUint32(0, Number(bits)), view.getFloat32(0));
    view.setFloat32(0, -(numberOf(a!) * numberOf(b!)));
    return canonicalSingle(BigInt(view.getUint32(0)));
  }
  return a! ^ 0x8000n;
}

/** JavaScript engines compute NaNs with different bits. */
function canonicalDouble(bits: bigint): bigint {
  return (bits & 0x7fff_ffff_ffff_ffffn) > 0x7ff0_0000_0000_0000n ? 0x7ff8_0000_0000_0000n : bits;
}

function canonicalSingle(bits: bigint): bigint {
  return (bits & 0x7fff_ffffn) > 0x7f80_0000n ? 0x7fc0_0000n : bits;
}

function hashOf(text: string): number {
  let hash = 0;
  for (const character of text) hash = Math.imul(hash, 31) + character.charCodeAt(0) | 0;
  return hash;
}
