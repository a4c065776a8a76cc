/** Floating-point operations, with references in exact arithmetic and with hard operands. */
import { bitsOf, floatOf, type Operation, randomNumbers } from "./references.ts";
import {
  bfloat16,
  canonicalNaN,
  compareFloats,
  decode,
  double,
  FloatArithmetic,
  type FloatFormat,
  flushed,
  half,
  isNaNBits,
  type Rounding,
  roundings,
  saturated,
  single,
} from "../../corpus/float_reference.ts";

const formats: Readonly<Record<string, FloatFormat>> = { f16: half, bf16: bfloat16, f32: single, f64: double };

/** The format of a type. */
export function formatOf(type: string): FloatFormat {
  return formats[type]!;
}

const widthOf = ({ exponentBits, fractionBits }: FloatFormat) => 1 + exponentBits + fractionBits;

/**
 * The 64-bit NaN that an instruction gives for NaNs among its operands: the second, the third or the first, made quiet,
 * or the default NaN.
 */
function nanOf([a = 0n, b = 0n, c = 0n]: readonly bigint[]): bigint {
  const nan = [b, c, a].find((operand) => isNaNBits(double, operand));
  return nan === undefined ? 0xfff8_0000_0000_0000n : nan | 0x0008_0000_0000_0000n;
}

/** Applies modifiers to a computation on bits. */
function modified(
  type: string,
  modifiers: readonly string[],
  compute: (operands: readonly bigint[]) => bigint,
): (...operands: bigint[]) => bigint {
  const format = formatOf(type);
  return (...given) => {
    const operands = modifiers.includes("ftz") ? given.map((operand) => flushed(format, operand)) : given;
    let result = compute(operands);
    if (modifiers.includes("ftz")) result = flushed(format, result);
    if (modifiers.includes("sat")) return saturated(format, result);
    if (modifiers.includes("relu") && !isNaNBits(format, result) && result >> BigInt(widthOf(format) - 1) === 1n) {
      return 0n;
    }
    return type === "f64" && isNaNBits(format, result) ? nanOf(operands) : result;
  };
}

interface Arithmetic {
  readonly opcode: string;
  readonly count: 1 | 2 | 3;
  readonly compute: (arithmetic: FloatArithmetic, operands: readonly bigint[]) => bigint;
}

const arithmetics: readonly Arithmetic[] = [
  { opcode: "add", count: 2, compute: (arithmetic, [a, b]) => arithmetic.add(a!, b!) },
  { opcode: "sub", count: 2, compute: (arithmetic, [a, b]) => arithmetic.subtract(a!, b!) },
  { opcode: "mul", count: 2, compute: (arithmetic, [a, b]) => arithmetic.multiply(a!, b!) },
  { opcode: "fma", count: 3, compute: (arithmetic, [a, b, c]) => arithmetic.fusedMultiplyAdd(a!, b!, c!) },
  { opcode: "mad", count: 3, compute: (arithmetic, [a, b, c]) => arithmetic.fusedMultiplyAdd(a!, b!, c!) },
  { opcode: "div", count: 2, compute: (arithmetic, [a, b]) => arithmetic.divide(a!, b!) },
  { opcode: "rcp", count: 1, compute: (arithmetic, [a]) => arithmetic.reciprocal(a!) },
  { opcode: "sqrt", count: 1, compute: (arithmetic, [a]) => arithmetic.squareRoot(a!) },
];

/** The registers of an instruction with the given number of operands. */
const names = (count: number) => ["d", "a", "b", "c"].slice(0, count + 1).join(", ");

/** Arithmetic in 32 and 64 bits, with all rounding modes and modifiers. */
export function roundedArithmetic(): Operation[] {
  const operations: Operation[] = [];
  for (const { opcode, count, compute } of arithmetics) {
    for (const type of ["f32", "f64"]) {
      const format = formatOf(type);
      const saturates = !["div", "rcp", "sqrt"].includes(opcode);
      const suffixes = type === "f64" ? [[]] : [[], ["ftz"], ...(saturates ? [["sat"], ["ftz", "sat"]] : [])];
      for (const rounding of roundings) {
        for (const modifiers of suffixes) {
          const arithmetic = new FloatArithmetic(format, rounding, { flushes: modifiers.includes("ftz") });
          const reference = modified(type, modifiers, (operands) => compute(arithmetic, operands));
          operations.push({
            text: `${[opcode, rounding, ...modifiers, type].join(".")} ${names(count)}`,
            types: Array.from({ length: count + 1 }, () => type),
            reference: opcode === "div" && type === "f64" ? divisionOf(reference) : reference,
            cases: hardOperands(format, count, opcode),
          });
        }
      }
    }
  }
  return operations;
}

/** In a 64-bit division, the first operand's NaN takes precedence. */
function divisionOf(reference: (...operands: bigint[]) => bigint): (...operands: bigint[]) => bigint {
  return (a, b) => {
    const result = reference(a!, b!);
    return isNaNBits(double, result) ? nanOf([b!, a!]) : result;
  };
}

/**
 * Operands whose results nearly cancel, are nearly halfway between two numbers, are subnormal, or are at the ends of
 * the range.
 */
function hardOperands(format: FloatFormat, count: number, opcode: string): bigint[][] {
  const random = randomNumbers(0x2545_f491_4f6c_dd1dn);
  const fraction = BigInt(format.fractionBits);
  const sign = 1n << BigInt(widthOf(format) - 1);
  const bias = (1n << BigInt(format.exponentBits - 1)) - 1n;
  const nearest = new FloatArithmetic(format);
  /** A number with the given exponent, and a fraction that is random, has few bits, is all ones or is zero. */
  const number = (exponent: bigint) => {
    const stored = exponent + bias < 0n ? 0n : exponent + bias >= 2n * bias ? 2n * bias : exponent + bias;
    const mask = (1n << fraction) - 1n;
    const bits = [random() & mask, random() & 3n, mask - (random() & 3n), (random() & 7n) << fraction - 3n];
    return (random() & 1n ? sign : 0n) | stored << fraction | bits[Number(random() & 3n)]!;
  };
  const spread = (width: bigint) => random() % (2n * width + 1n) - width;
  const nudged = (bits: bigint) => BigInt.asUintN(widthOf(format), bits + random() % 5n - 2n);
  const cases: bigint[][] = [];
  for (let index = 0; index < 120; index++) {
    const a = number(spread(4n));
    const b = number(spread(4n));
    if (count === 1) {
      cases.push([a], [number(spread(bias))], [number(bias)], [number(-bias)]);
    } else if (count === 2) {
      const far = number(spread(bias));
      cases.push([a, b], [a, nudged(a ^ sign)], [far, nudged(far)], [far, number(spread(bias))]);
      if (opcode === "mul" || opcode === "div") {
        const other = nearest.divide(number(-bias + random() % 3n), far);
        cases.push([far, opcode === "mul" ? nudged(other) : nearest.reciprocal(nudged(other))]);
        cases.push([nearest.multiply(a, b), b]);
      } else {
        cases.push([a, number(-fraction + spread(4n))], [number(-bias + 2n), number(-bias)]);
      }
    } else {
      const product = nearest.multiply(a, b);
      cases.push([a, b, nudged(product ^ sign)], [a, b, number(spread(2n * fraction))]);
      cases.push([number(spread(bias)), number(spread(bias)), number(spread(bias))]);
      const small = number(-bias / 2n + spread(fraction));
      const other = number(-bias / 2n + spread(fraction));
      cases.push([small, other, number(-bias + spread(fraction))]);
      const large = number(bias / 2n + spread(2n));
      cases.push([large, number(bias / 2n + spread(2n)), number(bias + spread(2n))]);
    }
  }
  return cases;
}

const pairs = (values: readonly bigint[]) => values.flatMap((a) => values.map((b) => [a, b]));

/** 16-bit floats at and near the ends of every range. */
export function halfValues(type: string): bigint[] {
  const { fractionBits, exponentBits } = formatOf(type);
  const fraction = BigInt(fractionBits);
  const one = (1n << BigInt(exponentBits - 1)) - 1n << fraction;
  const infinity = (1n << BigInt(exponentBits)) - 1n << fraction;
  const smallest = 1n << fraction;
  const magnitudes = [0n, 1n, 2n, smallest - 1n, smallest, smallest + 1n, one >> 1n, one - smallest, one - 1n, one];
  magnitudes.push(one + 1n, one + 3n, one + (smallest >> 1n), one + 2n * smallest, one + (fraction << fraction));
  magnitudes.push(infinity - smallest, infinity - 1n, infinity, infinity + 1n, infinity + (smallest >> 1n), 0x7fffn);
  return magnitudes.flatMap((bits) => [bits, bits | 0x8000n]);
}

/** Sums and products exactly halfway between two 16-bit floats, or next to that. */
function hardHalves(type: string): bigint[][] {
  const random = randomNumbers(0x1234_5678_9abc_def1n);
  const { fractionBits } = formatOf(type);
  const cases: bigint[][] = [];
  for (let index = 0; index < 600; index++) {
    const a = random() & 0xffffn, b = random() & 0xffffn;
    const product = new FloatArithmetic(formatOf(type)).multiply(a, b);
    const apart = BigInt(index % 40) << BigInt(fractionBits);
    cases.push([a, b, product ^ 0x8000n], [a, b, BigInt.asUintN(15, product - apart) | random() & 0x8000n]);
    cases.push([a, b, random() & 0x81ffn], [random() & 0xffffn, random() & 0xffffn, random() & 0xffffn]);
    if (index % 40 === 0) cases.push([outsideNaN, a, b], [a, outsideNaN, b], [a, b, outsideNaN]);
  }
  return cases;
}

/** Applies a 16-bit function to both halves of 32-bit operands. */
function paired(reference: (...operands: bigint[]) => bigint): (...operands: bigint[]) => bigint {
  return (...operands) => {
    const low = reference(...operands.map((operand) => operand & 0xffffn));
    return reference(...operands.map((operand) => operand >> 16n)) << 16n | low;
  };
}

/** Adds the form on pairs, whose operands combine adjacent cases. */
function withPairs(operation: Operation, pairType: string): Operation[] {
  const { text, types, reference, cases = [] } = operation;
  const name = pairType.replace("x2", "");
  const packed = cases.map((operands, index) =>
    operands.map((operand, place) => operand | cases[(index * 7 + 3) % cases.length]![place]! << 16n)
  );
  return [operation, {
    text: text.replace(`.${name} `, `.${pairType} `),
    types: types.map((type) => type === "b16" ? "b32" : type),
    reference: paired(reference as (...operands: bigint[]) => bigint),
    cases: packed,
  }];
}

function extreme(format: FloatFormat, modifiers: readonly string[], greater: boolean) {
  return ([a = 0n, b = 0n]: readonly bigint[]): bigint => {
    const sign = 1n << BigInt(widthOf(format) - 1);
    const isByMagnitude = modifiers.includes("xorsign");
    const [x, y] = isByMagnitude ? [a & ~sign, b & ~sign] : [a, b];
    const [first, second] = [isNaNBits(format, x), isNaNBits(format, y)];
    if ((first && second) || ((first || second) && modifiers.includes("NaN"))) return canonicalNaN(format);
    const key = (bits: bigint) => bits & sign ? -(bits & ~sign) - 1n : bits;
    const result = first ? y : second ? x : (key(x) > key(y)) === greater ? x : y;
    return isByMagnitude ? result & ~sign | (a ^ b) & sign : result;
  };
}

/** 16-bit arithmetic, on single elements and on pairs. */
export function halfArithmetic(): Operation[] {
  const operations: Operation[] = [];
  const add = (type: string, opcode: string, { modifiers, count, compute }: {
    modifiers: readonly string[];
    count: number;
    compute: (operands: readonly bigint[]) => bigint;
  }) => {
    const values = halfValues(type);
    const cases = count === 1 ? values.map((value) => [value]) : pairs(values);
    operations.push(...withPairs({
      text: `${[opcode, ...modifiers, type].join(".")} ${names(count)}`,
      types: Array.from({ length: count + 1 }, () => "b16"),
      reference: modified(type, modifiers, compute),
      cases: count === 3 ? hardHalves(type) : cases,
    }, `${type}x2`));
  };
  for (const type of ["f16", "bf16"]) {
    const format = formatOf(type);
    const modifiersOf = (opcode: string) => {
      const some = type === "f16" ? [[], ["ftz"], ["sat"], ["ftz", "sat"]] : [[]];
      if (opcode === "fma") some.push(["relu"], ...(type === "f16" ? [["ftz", "relu"]] : []));
      return some;
    };
    for (const { opcode, count, compute } of arithmetics.slice(0, 4)) {
      for (const modifiers of modifiersOf(opcode)) {
        const arithmetic = new FloatArithmetic(format, "rn", { flushes: modifiers.includes("ftz") });
        add(type, opcode, {
          modifiers: ["rn", ...modifiers],
          count,
          compute: (operands) => compute(arithmetic, operands),
        });
      }
    }
    const { count, compute } = arithmetics.find(({ opcode }) => opcode === "fma")!;
    const arithmetic = new FloatArithmetic(format, "rn", { flushes: false });
    for (const more of [[], ["relu"], ...type === "f16" ? [["sat"]] : []]) {
      add(type, "fma", {
        modifiers: ["rn", "oob", ...more],
        count,
        compute: (operands) => operands.slice(0, 2).includes(outsideNaN) ? 0n : compute(arithmetic, operands),
      });
    }
    const flushing = type === "f16" ? [[], ["ftz"]] : [[]];
    for (const modifiers of flushing) {
      const quieted = (change: (bits: bigint) => bigint) => ([a = 0n]: readonly bigint[]) =>
        isNaNBits(format, a) ? 0x7fffn : change(a);
      add(type, "neg", { modifiers, count: 1, compute: quieted((bits) => bits ^ 0x8000n) });
      add(type, "abs", { modifiers, count: 1, compute: quieted((bits) => bits & 0x7fffn) });
      for (const more of [[], ["NaN"], ["xorsign", "abs"], ["NaN", "xorsign", "abs"]]) {
        for (const opcode of ["min", "max"]) {
          const all = [...modifiers, ...more];
          add(type, opcode, { modifiers: all, count: 2, compute: extreme(format, all, opcode === "max") });
        }
      }
    }
  }
  return operations;
}

/** The 16-bit float with which tensor copies fill what is outside of a tensor, if it is to be a NaN. */
const outsideNaN = 0x7ff7n;

/** `setp` and `set` of 16-bit floats, on single elements and on pairs. */
export function halfComparisons(): Operation[] {
  const operations: Operation[] = [];
  const ordered: Readonly<Record<string, (difference: number) => boolean>> = {
    eq: (difference) => difference === 0,
    ne: (difference) => difference !== 0,
    lt: (difference) => difference < 0,
    le: (difference) => difference <= 0,
    gt: (difference) => difference > 0,
    ge: (difference) => difference >= 0,
  };
  const all = Object.entries(ordered).flatMap(([name, holds]) =>
    [[name, holds, false], [`${name}u`, holds, true]] as const
  );
  const comparisons: (readonly [string, (difference: number | undefined) => boolean])[] = all.map(
    ([name, holds, unordered]) => [name, (difference) => difference === undefined ? unordered : holds(difference)],
  );
  comparisons.push(["num", (difference) => difference !== undefined], [
    "nan",
    (difference) => difference === undefined,
  ]);
  for (const type of ["f16", "bf16"]) {
    const format = formatOf(type);
    const cases = pairs(halfValues(type));
    const packed = cases.map(([a = 0n, b = 0n], index) => {
      const [c = 0n, d = 0n] = cases[(index * 7 + 3) % cases.length]!;
      return [a | c << 16n, b | d << 16n];
    });
    for (const flush of type === "f16" ? [[], ["ftz"]] : [[]]) {
      for (const [name, holds] of comparisons) {
        const truth = (a: bigint, b: bigint) => {
          const [x, y] = flush.length > 0 ? [flushed(format, a), flushed(format, b)] : [a, b];
          return holds(compareFloats(format, [x, y]));
        };
        const low = (a: bigint, b: bigint) => truth(a & 0xffffn, b & 0xffffn);
        const high = (a: bigint, b: bigint) => truth(a >> 16n, b >> 16n);
        const text = (opcode: string, ...types: string[]) => [opcode, name, ...flush, ...types].join(".");
        const one = type === "f16" ? 0x3c00n : 0x3f80n;
        const both = (value: bigint) => (a: bigint, b: bigint) =>
          (low(a, b) ? value : 0n) | (high(a, b) ? value << 16n : 0n);
        const add = (text: string, types: string[], reference: (a: bigint, b: bigint) => bigint) => {
          const isPair = types[1] === "b32";
          operations.push({
            text,
            types,
            reference: reference as Operation["reference"],
            cases: isPair ? packed : cases,
          });
        };
        const single = ["b16", "b16"], double = ["b32", "b32"];
        add(`${text("setp", type)} d, a, b`, ["pred", ...single], (a, b) => truth(a, b) ? 1n : 0n);
        add(`${text("setp", `${type}x2`)} d|_, a, b`, ["pred", ...double], (a, b) => low(a, b) ? 1n : 0n);
        add(`${text("setp", `${type}x2`)} _|d, a, b`, ["pred", ...double], (a, b) => high(a, b) ? 1n : 0n);
        add(`${text("set", type, type)} d, a, b`, ["b16", ...single], (a, b) => truth(a, b) ? one : 0n);
        add(`${text("set", "u16", type)} d, a, b`, ["b16", ...single], (a, b) => truth(a, b) ? 0xffffn : 0n);
        add(`${text("set", "s32", type)} d, a, b`, ["b32", ...single], (a, b) => truth(a, b) ? 0xffff_ffffn : 0n);
        add(`${text("set", `${type}x2`, `${type}x2`)} d, a, b`, ["b32", ...double], both(one));
        add(`${text("set", "u32", `${type}x2`)} d, a, b`, ["b32", ...double], both(0xffffn));
      }
    }
    addOtherComparisons(operations, type);
  }
  return operations;
}

/** Comparisons of other types with a 16-bit result, and combined with a predicate. */
function addOtherComparisons(operations: Operation[], type: string): void {
  const one = type === "f16" ? 0x3c00n : 0x3f80n;
  operations.push({
    text: `set.lt.${type}.u32 d, a, b`,
    types: ["b16", "u32", "u32"],
    reference: (a, b) => a! < b! ? one : 0n,
  }, {
    text: `set.lt.${type}.f32 d, a, b`,
    types: ["b16", "f32", "f32"],
    reference: (a, b) => (compareFloats(single, [a!, b!]) ?? 1) < 0 ? one : 0n,
  }, {
    text: `set.lt.${type}.f64 d, a, b`,
    types: ["b16", "f64", "f64"],
    reference: (a, b) => (compareFloats(formatOf("f64"), [a!, b!]) ?? 1) < 0 ? one : 0n,
  }, {
    text: `setp.ge.and.${type} d, a, b, !c`,
    types: ["pred", "b16", "b16", "pred"],
    reference: (a, b, c) => (compareFloats(formatOf(type), [a!, b!]) ?? -1) >= 0 && c === 0n ? 1n : 0n,
  }, {
    text: `setp.ge.xor.${type}x2 _|d, a, b, c`,
    types: ["pred", "b32", "b32", "pred"],
    reference: (a, b, c) => {
      const holds = (compareFloats(formatOf(type), [a! >> 16n, b! >> 16n]) ?? -1) >= 0;
      return holds !== (c === 1n) ? 1n : 0n;
    },
  });
}

/** `min` and `max` of 32-bit floats, with their modifiers. */
export function singleExtremes(): Operation[] {
  const operations: Operation[] = [];
  for (const opcode of ["min", "max"]) {
    for (const flush of [[], ["ftz"]]) {
      for (const more of [[], ["NaN"], ["xorsign", "abs"], ["NaN", "xorsign", "abs"]]) {
        const modifiers = [...flush, ...more];
        operations.push({
          text: `${[opcode, ...modifiers, "f32"].join(".")} d, a, b`,
          types: ["f32", "f32", "f32"],
          reference: modified("f32", modifiers, extreme(single, modifiers, opcode === "max")),
        });
      }
    }
  }
  return operations;
}

const toFloats = ["f16", "bf16", "f32", "f64"] as const;
const registerOf = (type: string) => type === "f16" || type === "bf16" ? "b16" : type;

/** Numbers of a wider format at, next to, and halfway between those of a narrower one. */
function between(from: FloatFormat, to: FloatFormat): bigint[][] {
  const random = randomNumbers(0xfeed_beef_1234_5677n);
  const cases: bigint[][] = [];
  const wide = new FloatArithmetic(from);
  for (let index = 0; index < 500; index++) {
    const bits = index < 40 ? BigInt(index >> 1) << BigInt(to.fractionBits - 3) : random();
    const value = BigInt.asUintN(widthOf(to), index % 5 === 0 ? bits & (1n << BigInt(to.fractionBits + 1)) - 1n : bits);
    const next = value + 1n;
    const [first, second] = [wide.round(decode(to, value)), wide.round(decode(to, next))];
    const middle = first + second >> 1n;
    for (const near of [first, middle]) cases.push([near], [near + 1n], [near - 1n]);
  }
  return cases.map(([bits]) => [BigInt.asUintN(widthOf(from), bits!)]);
}

/** `cvt` between floats and from integers to floats, in all rounding modes. */
export function floatConversions(): Operation[] {
  const operations: Operation[] = [];
  for (const to of toFloats) {
    const format = formatOf(to);
    const finish = (modifiers: readonly string[], result: bigint) =>
      modifiers.includes("sat") ? saturated(format, result) : result;
    for (const from of toFloats) {
      const source = formatOf(from);
      if (from === to || (widthOf(format) > widthOf(source))) continue;
      for (const rounding of roundings) {
        for (const modifiers of to === "bf16" || from === "bf16" ? [[]] : [[], ["sat"]]) {
          operations.push({
            text: `${["cvt", rounding, ...modifiers, to, from].join(".")} d, a`,
            types: [registerOf(to), registerOf(from)],
            reference: (a) => {
              const result = new FloatArithmetic(format, rounding).convertFrom(source, a!);
              // 64-bit NaNs have their own tests.
              return from === "f64" && isNaNBits(format, result) ? undefined : finish(modifiers, result);
            },
            cases: between(source, format),
          });
        }
      }
    }
    for (const from of ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]) {
      // Only with .bf16, the register must have 8 bits.
      const isNarrow = to === "bf16" && from.endsWith("8");
      for (const rounding of roundings) {
        operations.push({
          text: isNarrow
            ? `{ .reg .b8 byte; cvt.u8.u16 byte, a; cvt.${rounding}.${to}.${from} d, byte; }`
            : `cvt.${rounding}.${to}.${from} d, a`,
          types: [registerOf(to), isNarrow ? "u16" : from],
          reference: (a) => {
            const bits = Number(from.slice(1));
            const value = from[0] === "s" ? BigInt.asIntN(bits, a!) : BigInt.asUintN(bits, a!);
            return new FloatArithmetic(format, rounding).fromInteger(value);
          },
          cases: hardIntegers(),
        });
      }
    }
  }
  return [...operations, ...implicitConversions(), ...narrowConversions(), ...flushingConversions()];
}

/** Conversions between `.f16` and `.bf16` that state no rounding, and from `.bf16` to registers of 8 bits. */
function implicitConversions(): Operation[] {
  const pairs = [["f16", "bf16"], ["bf16", "f16"]] as const;
  const toBytes = (["rni", "rzi", "rmi", "rpi"] as const).flatMap((rounding) =>
    (["u8", "s8"] as const).map((to): Operation => ({
      text: `{ .reg .b8 byte; cvt.${rounding}.${to}.bf16 byte, a; cvt.u16.u8 d, byte; }`,
      types: ["b16", "b16"],
      reference: (a) => {
        const number = floatOf(a! << 16n, "f32");
        if (Number.isNaN(number)) return 0n;
        const [least, most] = to === "u8" ? [0, 255] : [-128, 127];
        const whole = Math.max(least!, Math.min(most!, wholeNumber(number, rounding)));
        return BigInt.asUintN(8, BigInt(whole));
      },
      cases: Array.from(
        { length: 0x300 },
        (_, index) => [BigInt(0x3f00 + index % 0x180 + (index >= 0x180 ? 0x8000 : 0))],
      ),
    }))
  );
  return [
    ...toBytes,
    ...pairs.map(([to, from]): Operation => ({
      text: `cvt.${to}.${from} d, a`,
      types: ["b16", "b16"],
      reference: (a) => new FloatArithmetic(formatOf(to), "rn").convertFrom(formatOf(from), a!),
      cases: between(formatOf(from), formatOf(to)),
    })),
  ];
}

/** A number, rounded to a whole one: to nearest even, toward zero, down or up. */
function wholeNumber(number: number, rounding: "rni" | "rzi" | "rmi" | "rpi"): number {
  const floor = Math.floor(number);
  if (rounding === "rmi" || !Number.isFinite(number)) return floor;
  if (rounding === "rpi") return Math.ceil(number);
  if (rounding === "rzi") return Math.trunc(number);
  const rest = number - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
}

/** Integers halfway between two floats, or next to that. */
function hardIntegers(): bigint[][] {
  const random = randomNumbers(0x0dd_ba11n);
  const cases: bigint[][] = [];
  for (const precision of [8n, 11n, 24n, 53n]) {
    for (let index = 0n; index < 64n; index++) {
      const shift = index % (64n - precision);
      const middle = ((1n << precision) + 2n * (random() & 0x7fn) + 1n) << shift;
      cases.push([middle], [middle + 1n], [middle - 1n], [-middle], [-middle - 1n], [1n - middle]);
    }
  }
  return cases.map(([value]) => [BigInt.asUintN(64, value!)]);
}

function flushingConversions(): Operation[] {
  const operations: Operation[] = [];
  for (const rounding of roundings) {
    operations.push({
      text: `cvt.${rounding}.ftz.f32.f64 d, a`,
      types: ["f32", "f64"],
      reference: (a) => {
        const result = new FloatArithmetic(single, rounding, { flushes: true }).convertFrom(double, a!);
        return isNaNBits(single, result) ? undefined : result;
      },
      cases: between(double, single),
    }, {
      text: `cvt.${rounding}.ftz.f16.f32 d, a`,
      types: ["b16", "f32"],
      // An H200 does not flush here.
      reference: (a) => new FloatArithmetic(half, rounding).convertFrom(single, a!),
      cases: [...between(single, half), ...[1n, 0x8000_0001n, 0x007f_ffffn, 0x807f_ffffn].map((bits) => [bits])],
    }, {
      text: `cvt.${rounding}.ftz.bf16.f32 d, a`,
      types: ["b16", "f32"],
      reference: (a) => new FloatArithmetic(bfloat16, rounding).convertFrom(single, flushed(single, a!)),
      cases: between(single, bfloat16),
    });
  }
  operations.push({
    text: "cvt.f64.bf16 d, a",
    types: ["f64", "b16"],
    reference: (a) => isNaNBits(bfloat16, a!) ? undefined : new FloatArithmetic(double).convertFrom(bfloat16, a!),
    cases: halfValues("bf16").map((bits) => [bits]),
  }, {
    text: "cvt.ftz.f32.bf16 d, a",
    types: ["f32", "b16"],
    reference: (a) => isNaNBits(bfloat16, a!) ? undefined : flushed(bfloat16, a!) << 16n,
    cases: halfValues("bf16").map((bits) => [bits]),
  }, {
    text: "cvt.f32.bf16 d, a",
    types: ["f32", "b16"],
    reference: (a) => isNaNBits(bfloat16, a!) ? undefined : a! << 16n,
    cases: halfValues("bf16").map((bits) => [bits]),
  });
  const integerRoundings = [["rni", "rn"], ["rzi", "rz"], ["rmi", "rm"], ["rpi", "rp"]] as const;
  for (const [name, rounding] of integerRoundings) {
    operations.push({
      text: `cvt.${name}.bf16.bf16 d, a`,
      types: ["b16", "b16"],
      reference: (a) => roundToWhole(bfloat16, a!, rounding),
      cases: halfValues("bf16").map((bits) => [bits]),
    });
  }
  return operations;
}

/** Rounds a number to an integer in the same format. */
function roundToWhole(format: FloatFormat, bits: bigint, rounding: Rounding): bigint {
  const value = decode(format, bits);
  if (value.kind !== "finite") return new FloatArithmetic(format).round(value);
  // Rounding in a format whose last bit is 1 at this magnitude.
  const half = value.denominator / 2n;
  const floor = value.numerator / value.denominator;
  const rest = value.numerator % value.denominator;
  const up = rounding === "rn"
    ? rest > half || (rest === half && value.denominator > 1n && floor % 2n === 1n)
    : rest !== 0n && rounding !== "rz" && (rounding === "rm") === value.negative;
  return new FloatArithmetic(format).round({ ...value, numerator: up ? floor + 1n : floor, denominator: 1n });
}

const largest: Readonly<Record<string, bigint>> = { f16: 0x7bffn, bf16: 0x7f7fn };

/** Applies `.relu` and `.satfinite` to a 32-bit float before it is narrowed. */
function clamped(bits: bigint, modifiers: readonly string[], narrow: (bits: bigint) => bigint, limit: bigint): bigint {
  if (isNaNBits(single, bits)) return narrow(bits);
  const negative = bits >> 31n === 1n;
  if (negative && modifiers.includes("relu")) return narrow(0n);
  const result = narrow(bits);
  const sign = negative ? -1n : 0n;
  if (!modifiers.includes("satfinite")) return result;
  const magnitude = sign === 0n ? result : narrow(bits ^ 0x8000_0000n);
  return magnitude > limit ? result - magnitude + limit : result;
}

/** `cvt` with `.relu` and `.satfinite`, of single elements and pairs, and to `.tf32`. */
function narrowConversions(): Operation[] {
  const operations: Operation[] = [];
  for (const to of ["f16", "bf16"]) {
    for (const rounding of ["rn", "rz"] as const) {
      for (const modifiers of [[], ["relu"], ["satfinite"], ["relu", "satfinite"]]) {
        const arithmetic = new FloatArithmetic(formatOf(to), rounding);
        const convert = (bits: bigint) =>
          clamped(bits, modifiers, (bits) => arithmetic.convertFrom(single, bits), largest[to]!);
        const cases = between(single, formatOf(to));
        operations.push({
          text: `${["cvt", rounding, ...modifiers, to, "f32"].join(".")} d, a`,
          types: ["b16", "f32"],
          reference: (a) => convert(a!),
          cases,
        }, {
          text: `${["cvt", rounding, ...modifiers, `${to}x2`, "f32"].join(".")} d, a, b`,
          types: ["b32", "f32", "f32"],
          reference: (a, b) => convert(a!) << 16n | convert(b!),
          cases: cases.map(([a], index) => [a!, cases[(index * 11 + 5) % cases.length]![0]!]),
        });
      }
    }
  }
  const tensorFloat: FloatFormat = { exponentBits: 8, fractionBits: 10 };
  for (const [rounding, modifiers] of [["rna", []], ["rna", ["satfinite"]], ["rn", ["relu"]], ["rz", []]] as const) {
    const narrow = (bits: bigint) => {
      // As on an H200, which truncates a NaN with `.rna`, and subtracts one from its last place with `.satfinite`.
      if (isNaNBits(single, bits)) {
        if (rounding !== "rna") return 0x7fff_e000n;
        return (bits >> 13n << 13n) - (modifiers.some((modifier) => modifier === "satfinite") ? 0x2000n : 0n);
      }
      if (rounding !== "rna") return new FloatArithmetic(tensorFloat, rounding).convertFrom(single, bits) << 13n;
      return bits + 0x1000n >> 13n << 13n;
    };
    operations.push({
      text: `${["cvt", rounding, ...modifiers, "tf32.f32"].join(".")} d, a`,
      types: ["b32", "f32"],
      reference: (a) => clamped(a!, modifiers, narrow, 0x7f7f_e000n),
      cases: between(single, tensorFloat),
    });
  }
  return operations;
}

const eightBits = {
  e4m3: { format: { exponentBits: 4, fractionBits: 3 }, largest: 448 },
  e5m2: { format: { exponentBits: 5, fractionBits: 2 }, largest: 57344 },
} as const;

/** All 8-bit numbers of a format, by their bits. `.e4m3` has numbers in place of infinities and of most NaNs. */
function eightBitNumbers(name: keyof typeof eightBits): (number | undefined)[] {
  const { format: { exponentBits, fractionBits }, largest } = eightBits[name];
  return Array.from({ length: 256 }, (_, bits) => {
    const exponent = bits >> fractionBits & (1 << exponentBits) - 1;
    const fraction = bits & (1 << fractionBits) - 1;
    const bias = 2 ** (exponentBits - 1) - 1;
    const magnitude = exponent === 0
      ? fraction * 2 ** (1 - bias - fractionBits)
      : (fraction + 2 ** fractionBits) * 2 ** (exponent - bias - fractionBits);
    return magnitude > largest ? undefined : bits & 0x80 ? -magnitude : magnitude;
  });
}

/** `cvt` to and from pairs of 8-bit floats. */
export function eightBitConversions(): Operation[] {
  return (["e4m3", "e5m2"] as const).flatMap((name): Operation[] => {
    const numbers = eightBitNumbers(name);
    const { largest } = eightBits[name];
    const encode = (value: number, relu: boolean): bigint => {
      if (Number.isNaN(value)) return 0x7fn;
      const clamped = Math.max(relu ? 0 : -largest, Math.min(largest, value));
      const sign = !relu && (clamped < 0 || Object.is(clamped, -0)) ? 0x80 : 0;
      const distances = numbers.slice(0, 128).map((number) =>
        number === undefined ? Infinity : Math.abs(number - Math.abs(clamped))
      );
      const least = Math.min(...distances);
      const [first = 0, second = first] = distances.flatMap((distance, bits) => distance === least ? [bits] : []);
      return BigInt(sign | (first % 2 === 0 ? first : second));
    };
    const cases = numbers.flatMap((number = 0, index) => {
      const next = numbers[index + 1] ?? number;
      return [number, (number + next) / 2, (number + next) / 2 * (1 + 2 ** -20), 1.5 * number].map((value) =>
        bitsOf(value, "f32")
      );
    });
    const asNumber = (bits: bigint) => floatOf(bits, "f32");
    const asHalf = (bits: bigint) => floatOf(bits, "f16");
    const decoded = (bits: bigint, relu: boolean) => {
      const number = numbers[Number(bits)];
      if (number === undefined) {
        if (name === "e5m2" && (bits & 0x7fn) === 0x7cn) return relu && bits > 0x80n ? 0n : bits << 8n;
        return 0x7fffn;
      }
      return relu && bits >= 0x80n ? 0n : new FloatArithmetic(half).convertFrom(double, bitsOf(number, "f64"));
    };
    const couples = cases.map((bits, index) => [bits, cases[(index * 13 + 7) % cases.length]!]);
    const halves = couples.map((couple) =>
      couple.map((bits) => new FloatArithmetic(half).convertFrom(single, bits)) as [bigint, bigint]
    );
    return [false, true].flatMap((relu): Operation[] => {
      const suffix = relu ? ".relu" : "";
      return [
        {
          text: `cvt.rn.satfinite${suffix}.${name}x2.f32 d, a, b`,
          types: ["b16", "f32", "f32"],
          reference: (a, b) => encode(asNumber(a!), relu) << 8n | encode(asNumber(b!), relu),
          cases: couples,
        },
        {
          text: `cvt.rn.satfinite${suffix}.${name}x2.f16x2 d, a`,
          types: ["b16", "b32"],
          reference: (a) => encode(asHalf(a! >> 16n), relu) << 8n | encode(asHalf(a! & 0xffffn), relu),
          cases: halves.map(([a, b]) => [a << 16n | b]),
        },
        {
          text: `cvt.rn${suffix}.f16x2.${name}x2 d, a`,
          types: ["b32", "b16"],
          reference: (a) => decoded(a! >> 8n, relu) << 16n | decoded(a! & 0xffn, relu),
          cases: Array.from({ length: 256 }, (_, bits) => [BigInt(bits | (bits * 37 & 0xff) << 8)]),
        },
      ];
    });
  });
}
