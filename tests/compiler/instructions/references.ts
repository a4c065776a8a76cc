/**
 * Operations whose bits PTX defines, each with a reference in TypeScript, and kernels that apply them to many operands.
 */
import { isLong, someOf } from "../../support/test.ts";

/** An instruction to test. */
export interface Operation {
  /** One or several instructions with their modifiers. The operands are `d`, `a`, `b` and `c`. */
  readonly text: string;
  /** The types of d, a, b and c. */
  readonly types: readonly string[];
  /** Maps operands to the result, as bits in the width of their types. Undefined if PTX does not define the result. */
  readonly reference: (...operands: bigint[]) => bigint | undefined;
  /** Operands to test in addition to the usual ones. */
  readonly cases?: readonly (readonly bigint[])[];
}

const width = (type: string): number => type === "pred" ? 1 : Number(type.slice(1));
const unsigned = (value: bigint, bits: number): bigint => BigInt.asUintN(bits, value);
const signed = (value: bigint, bits: number): bigint => BigInt.asIntN(bits, value);
/** The number with an operand's bits, by its type. */
const number = (value: bigint, type: string): bigint =>
  type[0] === "s" ? signed(value, width(type)) : unsigned(value, width(type));

const scratch = new DataView(new ArrayBuffer(8));

/** The 16-bit, 32-bit or 64-bit float with the given bits. */
export function floatOf(bits: bigint, type: string): number {
  if (type === "f16") {
    const exponent = Number(bits >> 10n & 31n);
    const fraction = Number(bits & 0x3ffn);
    const sign = bits >> 15n === 1n ? -1 : 1;
    if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
    return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
  }
  if (type === "f64") {
    scratch.setBigUint64(0, bits);
    return scratch.getFloat64(0);
  }
  scratch.setUint32(0, Number(bits));
  return scratch.getFloat32(0);
}

/** The bits of a number, rounded to 32 bits if the type has them. A NaN is the one that arithmetic gives. */
export function bitsOf(value: number, type: string): bigint {
  if (type === "f64") {
    if (Number.isNaN(value)) return 0xfff8_0000_0000_0000n;
    scratch.setFloat64(0, value);
    return scratch.getBigUint64(0);
  }
  if (Number.isNaN(value)) return 0x7fff_ffffn;
  scratch.setFloat32(0, value);
  return BigInt(scratch.getUint32(0));
}

/** The bits of a number, rounded to 16 bits. A NaN is the one that conversions from 32 bits give. */
function halfBitsOf(value: number): bigint {
  if (Number.isNaN(value)) return 0x7fffn;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000n : 0n;
  if (!Number.isFinite(value)) return sign | 0x7c00n;
  scratch.setFloat64(0, Math.abs(value));
  const bits = scratch.getBigUint64(0);
  const exponent = Number(bits >> 52n);
  const fraction = bits & 0xf_ffff_ffff_ffffn;
  return exponent === 0
    ? sign | roundTo("f16", fraction, -1074)
    : sign | roundTo("f16", fraction | 1n << 52n, exponent - 1075);
}

/** The NaN that 64-bit arithmetic gives: the last operand that is a NaN, made quiet. */
function nanOf(...operands: bigint[]): bigint {
  const nan = operands.findLast((operand) => Number.isNaN(floatOf(operand, "f64")));
  return nan === undefined ? 0xfff8_0000_0000_0000n : nan | 0x0008_0000_0000_0000n;
}

/** The bits of a result, computed from operands of the same type. */
function resultOf(value: number, type: string, operands: bigint[]): bigint {
  return type === "f64" && Number.isNaN(value) ? nanOf(...operands) : bitsOf(value, type);
}

const operations: Operation[] = [];

function add(text: string, types: string, reference: Operation["reference"], cases?: Operation["cases"]): void {
  operations.push({ text, types: types.split(" "), reference, ...(cases === undefined ? {} : { cases }) });
}

function clamp(value: bigint, type: string): bigint {
  const bits = BigInt(width(type));
  const minimum = type[0] === "s" ? -(1n << bits - 1n) : 0n;
  const maximum = type[0] === "s" ? (1n << bits - 1n) - 1n : (1n << bits) - 1n;
  return value < minimum ? minimum : value > maximum ? maximum : value;
}

/** A position or a length of a bit field. The manual takes it modulo 256, an H200 only in 32 bits. */
const fieldPlace = (value: bigint, bits: number) => Number(bits === 32 ? value & 0xffn : value > 255n ? 255n : value);

const absolute = (value: bigint) => value < 0n ? -value : value;

for (const type of ["b16", "b32", "b64"]) {
  add(`setp.eq.${type} d, a, b`, `pred ${type} ${type}`, (a, b) => a === b ? 1n : 0n);
  add(`setp.ne.${type} d, a, b`, `pred ${type} ${type}`, (a, b) => a !== b ? 1n : 0n);
}

for (const type of ["u16", "s16", "u32", "s32", "u64", "s64"]) {
  const bits = width(type);
  const two = (text: string, compute: (a: bigint, b: bigint) => bigint | undefined) =>
    add(`${text}.${type} d, a, b`, `${type} ${type} ${type}`, (a, b) => compute(number(a!, type), number(b!, type)));
  const three = (text: string, compute: (a: bigint, b: bigint, c: bigint) => bigint) =>
    add(
      `${text}.${type} d, a, b, c`,
      `${type} ${type} ${type} ${type}`,
      (a, b, c) => compute(number(a!, type), number(b!, type), number(c!, type)),
    );
  two("add", (a, b) => a + b);
  two("sub", (a, b) => a - b);
  two("mul.lo", (a, b) => a * b);
  two("mul.hi", (a, b) => a * b >> BigInt(bits));
  two("div", (a, b) => b === 0n ? -1n : a / b);
  two("rem", (a, b) => b === 0n ? -1n : a % b);
  two("min", (a, b) => a < b ? a : b);
  two("max", (a, b) => a > b ? a : b);
  three("mad.lo", (a, b, c) => a * b + c);
  three("mad.hi", (a, b, c) => (a * b >> BigInt(bits)) + c);
  three("sad", (a, b, c) => absolute(a - b) + c);
  if (type[0] === "s") {
    add(`abs.${type} d, a`, `${type} ${type}`, (a) => absolute(signed(a!, bits)));
    add(`neg.${type} d, a`, `${type} ${type}`, (a) => -a!);
  }
  if (bits < 64) {
    const wide = `${type[0]}${bits * 2}`;
    add(`mul.wide.${type} d, a, b`, `${wide} ${type} ${type}`, (a, b) => number(a!, type) * number(b!, type));
    add(
      `mad.wide.${type} d, a, b, c`,
      `${wide} ${type} ${type} ${wide}`,
      (a, b, c) => number(a!, type) * number(b!, type) + c!,
    );
  }
  add(`shr.${type} d, a, b`, `${type} ${type} u32`, (a, b) => number(a!, type) >> (b! > 64n ? 64n : b!));
  const comparisons: [string, (a: bigint, b: bigint) => boolean][] = [
    ["eq", (a, b) => a === b],
    ["ne", (a, b) => a !== b],
    ["lt", (a, b) => a < b],
    ["le", (a, b) => a <= b],
    ["gt", (a, b) => a > b],
    ["ge", (a, b) => a >= b],
  ];
  if (type[0] === "u") {
    comparisons.push(["lo", (a, b) => a < b], ["ls", (a, b) => a <= b], ["hi", (a, b) => a > b], [
      "hs",
      (a, b) => a >= b,
    ]);
  }
  for (const [name, compare] of comparisons) {
    const truth = (a: bigint, b: bigint) => compare(number(a, type), number(b, type)) ? 1n : 0n;
    add(`setp.${name}.${type} d, a, b`, `pred ${type} ${type}`, (a, b) => truth(a!, b!));
    add(`set.${name}.u32.${type} d, a, b`, `u32 ${type} ${type}`, (a, b) => -truth(a!, b!));
  }
  for (
    const [combination, combine] of [
      ["and", (x: bigint, y: bigint) => x & y],
      ["or", (x: bigint, y: bigint) => x | y],
      [
        "xor",
        (x: bigint, y: bigint) => x ^ y,
      ],
    ] as const
  ) {
    add(
      `setp.lt.${combination}.${type} d, a, b, c`,
      `pred ${type} ${type} pred`,
      (a, b, c) => combine(number(a!, type) < number(b!, type) ? 1n : 0n, c!),
    );
    add(
      `setp.lt.${combination}.${type} _|d, a, b, !c`,
      `pred ${type} ${type} pred`,
      (a, b, c) => combine(number(a!, type) < number(b!, type) ? 0n : 1n, 1n - c!),
    );
  }
}

for (
  const [text, compute] of [["add", (a: bigint, b: bigint) => a + b], ["sub", (a: bigint, b: bigint) => a - b]] as const
) {
  add(
    `${text}.sat.s32 d, a, b`,
    "s32 s32 s32",
    (a, b) => clamp(compute(signed(a!, 32), signed(b!, 32)), "s32"),
  );
}

for (const bits of [16, 32, 64]) {
  const type = `b${bits}`;
  const triple = `${type} ${type} ${type}`;
  add(`and.${type} d, a, b`, triple, (a, b) => a! & b!);
  add(`or.${type} d, a, b`, triple, (a, b) => a! | b!);
  add(`xor.${type} d, a, b`, triple, (a, b) => a! ^ b!);
  add(`not.${type} d, a`, `${type} ${type}`, (a) => ~a!);
  add(`cnot.${type} d, a`, `${type} ${type}`, (a) => a === 0n ? 1n : 0n);
  add(`shl.${type} d, a, b`, `${type} ${type} u32`, (a, b) => b! >= 64n ? 0n : a! << b!);
  add(`shr.${type} d, a, b`, `${type} ${type} u32`, (a, b) => b! >= 64n ? 0n : a! >> b!);
  add(`selp.${type} d, a, b, c`, `${triple} pred`, (a, b, c) => c === 1n ? a! : b!);
  add(`slct.${type}.s32 d, a, b, c`, `${triple} s32`, (a, b, c) => signed(c!, 32) >= 0n ? a! : b!);
}

for (const bits of [32, 64]) {
  const type = `b${bits}`;
  const binary = (value: bigint) => value.toString(2).padStart(bits, "0");
  add(`popc.${type} d, a`, `u32 ${type}`, (a) => BigInt(binary(a!).replaceAll("0", "").length));
  add(`clz.${type} d, a`, `u32 ${type}`, (a) => BigInt(binary(a!).indexOf("1") < 0 ? bits : binary(a!).indexOf("1")));
  add(`brev.${type} d, a`, `${type} ${type}`, (a) => BigInt(`0b${[...binary(a!)].reverse().join("")}`));
  for (const sign of ["u", "s"]) {
    const highest = (a: bigint) => {
      const value = sign === "s" && signed(a, bits) < 0n ? unsigned(~a, bits) : a;
      return value === 0n ? -1n : BigInt(value.toString(2).length - 1);
    };
    add(`bfind.${sign}${bits} d, a`, `u32 ${type}`, (a) => highest(a!));
    add(
      `bfind.shiftamt.${sign}${bits} d, a`,
      `u32 ${type}`,
      (a) => highest(a!) < 0n ? -1n : BigInt(bits - 1) - highest(a!),
    );
    add(`bfe.${sign}${bits} d, a, b, c`, `${type} ${type} u32 u32`, (a, b, c) => {
      const [position, length] = [fieldPlace(b!, bits), fieldPlace(c!, bits)];
      const bit = (index: number) => a! >> BigInt(index) & 1n;
      const signBit = sign === "u" || length === 0 ? 0n : bit(Math.min(position + length - 1, bits - 1));
      let result = 0n;
      for (let index = 0; index < bits; index++) {
        const taken = index < length && position + index < bits ? bit(position + index) : signBit;
        result |= taken << BigInt(index);
      }
      return result;
    });
  }
  add(
    `{ .reg .b${bits} e; mov.b${bits} e, 0x5a5a1234; bfi.${type} d, a, e, b, c; }`,
    `${type} ${type} u32 u32`,
    (a, b, c) => {
      const [position, length] = [fieldPlace(b!, bits), fieldPlace(c!, bits)];
      let result = 0x5a5a1234n;
      for (let index = 0; index < length && position + index < bits; index++) {
        const at = BigInt(position + index);
        result = result & ~(1n << at) | (a! >> BigInt(index) & 1n) << at;
      }
      return result;
    },
  );
}

for (const table of [0x00, 0x80, 0x96, 0xe8, 0xca, 0x1b, 0xff]) {
  add(`lop3.b32 d, a, b, c, ${table}`, "b32 b32 b32 b32", (a, b, c) => {
    let result = 0n;
    for (let bit = 0n; bit < 32n; bit++) {
      const index = (a! >> bit & 1n) << 2n | (b! >> bit & 1n) << 1n | c! >> bit & 1n;
      result |= (BigInt(table) >> index & 1n) << bit;
    }
    return result;
  });
}

add("prmt.b32 d, a, b, c", "b32 b32 b32 b32", (a, b, c) => {
  const bytes = b! << 32n | a!;
  let result = 0n;
  for (let index = 0n; index < 4n; index++) {
    const selector = c! >> 4n * index & 15n;
    const byte = bytes >> 8n * (selector & 7n) & 0xffn;
    const taken = selector < 8n ? byte : byte >= 0x80n ? 0xffn : 0n;
    result |= taken << 8n * index;
  }
  return result;
});

for (const mode of ["clamp", "wrap"]) {
  const amount = (c: bigint) => mode === "wrap" ? c & 31n : c > 32n ? 32n : c;
  add(`shf.l.${mode}.b32 d, a, b, c`, "b32 b32 b32 u32", (a, b, c) => (b! << 32n | a!) << amount(c!) >> 32n);
  add(`shf.r.${mode}.b32 d, a, b, c`, "b32 b32 b32 u32", (a, b, c) => (b! << 32n | a!) >> amount(c!));
}

const integerTypes = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
for (const from of integerTypes) {
  for (const to of integerTypes) {
    add(`cvt.${to}.${from} d, a`, `${to} ${from}`, (a) => number(a!, from));
    // The instruction exists only if something can saturate.
    if (to[0] === from[0] ? width(to) >= width(from) : from[0] === "u" && width(to) > width(from)) continue;
    add(`cvt.sat.${to}.${from} d, a`, `${to} ${from}`, (a) => clamp(number(a!, from), to));
  }
  // A 64-bit integer would be rounded twice by way of a number: it is rounded to 32 bits explicitly.
  add(`cvt.rn.f64.${from} d, a`, `f64 ${from}`, (a) => bitsOf(Number(number(a!, from)), "f64"));
  add(`cvt.rn.f32.${from} d, a`, `f32 ${from}`, (a) => roundTo("f32", number(a!, from), 0));
  add(`cvt.rn.f16.${from} d, a`, `f16 ${from}`, (a) => roundTo("f16", number(a!, from), 0));
}

const roundings: readonly [string, (value: number) => number][] = [
  ["rzi", Math.trunc],
  ["rmi", Math.floor],
  ["rpi", Math.ceil],
  ["rni", (value) => {
    const floor = Math.floor(value);
    const difference = value - floor;
    const up = difference > 0.5 || (difference === 0.5 && floor % 2 !== 0);
    const result = up ? floor + 1 : floor;
    return result === 0 && (value < 0 || Object.is(value, -0)) ? -0 : result;
  }],
];
for (const type of ["f16", "f32", "f64"]) {
  for (const [rounding, round] of roundings) {
    for (const to of integerTypes) {
      add(`cvt.${rounding}.${to}.${type} d, a`, `${to} ${type}`, (a) => {
        const value = floatOf(a!, type);
        if (Number.isNaN(value)) return width(to) === 64 || type === "f64" ? 1n << BigInt(width(to) - 1) : 0n;
        if (!Number.isFinite(value)) return clamp(value < 0 ? -(1n << 70n) : 1n << 70n, to);
        return clamp(BigInt(round(value)), to);
      });
    }
  }
}
for (const type of ["f32", "f64"]) {
  for (const [rounding, round] of roundings) {
    add(`cvt.${rounding}.${type}.${type} d, a`, `${type} ${type}`, (a) => {
      const value = floatOf(a!, type);
      return resultOf(Number.isFinite(value) ? round(value) : value, type, [a!]);
    });
  }
  const two = (text: string, compute: (a: number, b: number) => number) =>
    add(
      `${text}.${type} d, a, b`,
      `${type} ${type} ${type}`,
      (a, b) => resultOf(compute(floatOf(a!, type), floatOf(b!, type)), type, text === "div.rn" ? [b!, a!] : [a!, b!]),
    );
  two("add.rn", (a, b) => a + b);
  two("add", (a, b) => a + b);
  two("sub.rn", (a, b) => a - b);
  two("mul.rn", (a, b) => a * b);
  two("div.rn", (a, b) => a / b);
  two("min", (a, b) => Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b));
  two("max", (a, b) => Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b));
  add(`sqrt.rn.${type} d, a`, `${type} ${type}`, (a) => resultOf(Math.sqrt(floatOf(a!, type)), type, [a!]));
  add(`rcp.rn.${type} d, a`, `${type} ${type}`, (a) => resultOf(1 / floatOf(a!, type), type, [a!]));
  const sign = 1n << BigInt(width(type) - 1);
  add(`neg.${type} d, a`, `${type} ${type}`, (a) => resultOf(-floatOf(a!, type), type, [a!]));
  add(`abs.${type} d, a`, `${type} ${type}`, (a) => resultOf(Math.abs(floatOf(a!, type)), type, [a!]));
  add(`copysign.${type} d, a, b`, `${type} ${type} ${type}`, (a, b) => b! & ~sign | a! & sign);
  add(`mov.${type} d, a`, `${type} ${type}`, (a) => a!);
  const ordered: readonly [string, (a: number, b: number) => boolean][] = [
    ["eq", (a, b) => a === b],
    ["ne", (a, b) => a < b || a > b],
    ["lt", (a, b) => a < b],
    ["le", (a, b) => a <= b],
    ["gt", (a, b) => a > b],
    ["ge", (a, b) => a >= b],
  ];
  const isUnordered = (a: number, b: number) => Number.isNaN(a) || Number.isNaN(b);
  const comparisons = [
    ...ordered,
    ...ordered.map(([name, compare]): [string, (a: number, b: number) => boolean] => {
      return [`${name}u`, (a, b) => isUnordered(a, b) || compare(a, b)];
    }),
    ["num", (a: number, b: number) => !isUnordered(a, b)] as const,
    ["nan", isUnordered] as const,
  ];
  for (const [name, compare] of comparisons) {
    const reference = (a?: bigint, b?: bigint) => compare(floatOf(a!, type), floatOf(b!, type)) ? 1n : 0n;
    add(`setp.${name}.${type} d, a, b`, `pred ${type} ${type}`, reference);
    add(`set.${name}.f32.${type} d, a, b`, `f32 ${type} ${type}`, (a, b) => reference(a, b) === 1n ? 0x3f80_0000n : 0n);
  }
  const infinity = type === "f32" ? 0x7f80_0000n : 0x7ff0_0000_0000_0000n;
  const normal = type === "f32" ? 0x0080_0000n : 0x0010_0000_0000_0000n;
  const properties: readonly [string, (magnitude: bigint) => boolean][] = [
    ["finite", (magnitude) => magnitude < infinity],
    ["infinite", (magnitude) => magnitude === infinity],
    ["number", (magnitude) => magnitude <= infinity],
    ["notanumber", (magnitude) => magnitude > infinity],
    ["normal", (magnitude) => magnitude === 0n || (magnitude >= normal && magnitude < infinity)],
    ["subnormal", (magnitude) => magnitude > 0n && magnitude < normal],
  ];
  for (const [name, has] of properties) {
    add(`testp.${name}.${type} d, a`, `pred ${type}`, (a) => has(a! & ~sign) ? 1n : 0n);
  }
}

const flush = (value: number) => Math.abs(value) < 2 ** -126 ? (value < 0 || Object.is(value, -0) ? -0 : 0) : value;
const saturate = (value: number) => value > 0 ? Math.min(value, 1) : 0;
for (
  const [text, compute] of [
    ["add.rn.ftz.f32", (a: number, b: number) => flush(Math.fround(flush(a) + flush(b)))],
    ["sub.ftz.f32", (a: number, b: number) => flush(Math.fround(flush(a) - flush(b)))],
    ["add.sat.f32", (a: number, b: number) => saturate(a + b)],
    ["mul.rn.sat.f32", (a: number, b: number) => saturate(a * b)],
  ] as const
) {
  add(
    `${text} d, a, b`,
    "f32 f32 f32",
    (a, b) => bitsOf(compute(floatOf(a!, "f32"), floatOf(b!, "f32")), "f32"),
  );
}
add(
  "setp.gt.ftz.f32 d, a, b",
  "pred f32 f32",
  (a, b) => flush(floatOf(a!, "f32")) > flush(floatOf(b!, "f32")) ? 1n : 0n,
);
add("cvt.f64.f32 d, a", "f64 f32", (a) => {
  if (!Number.isNaN(floatOf(a!, "f32"))) return bitsOf(floatOf(a!, "f32"), "f64");
  return (a! >> 31n) << 63n | 0x7ff8_0000_0000_0000n | (a! & 0x7f_ffffn) << 29n;
});
add("cvt.rn.f32.f64 d, a", "f32 f64", (a) => {
  if (!Number.isNaN(floatOf(a!, "f64"))) return bitsOf(floatOf(a!, "f64"), "f32");
  return (a! >> 63n) << 31n | 0x7fc0_0000n | (a! & 0xf_ffff_ffff_ffffn) >> 29n;
});
for (
  const [text, compute] of [
    ["sqrt.rn.ftz.f32", (a: number) => Math.sqrt(flush(a))],
    ["rcp.rn.ftz.f32", (a: number) => flush(Math.fround(1 / flush(a)))],
    ["neg.ftz.f32", (a: number) => -flush(a)],
    ["abs.ftz.f32", (a: number) => Math.abs(flush(a))],
    ["cvt.ftz.f32.f32", flush],
    ["cvt.rzi.ftz.f32.f32", (a: number) => Math.trunc(flush(a))],
  ] as const
) {
  const cases = [0x7e80_0000n, 0x7e80_0001n, 0x7e7f_ffffn, 0xfe80_0001n].map((bits) => [bits]);
  add(`${text} d, a`, "f32 f32", (a) => bitsOf(compute(floatOf(a!, "f32")), "f32"), cases);
}
/** All halves, and numbers that are halfway between and next to halves, including the first and the last. */
const halves = Array.from({ length: 65536 }, (_, bits) => [BigInt(bits)]);
const nearHalves = (type: "f32" | "f64") => {
  const extra = type === "f32" ? 13n : 42n;
  const offset = type === "f32" ? 112n << 23n : 1008n << 52n;
  const half = 1n << extra - 1n;
  const normal = [0x0400n, 0x07ffn, 0x3bffn, 0x3c00n, 0x3c01n, 0x7bfen, 0x7bffn].flatMap((bits) => {
    const exact = (bits << extra) + offset;
    return [exact, exact + 1n, exact - 1n, exact + half, exact + half + 1n, exact + half - 1n];
  });
  const subnormal = [0.5, 1, 1.5, 2, 2.5, 3, 511.5, 512.5, 1022.5, 1023, 1023.5].flatMap((units) => {
    const exact = bitsOf(units * 2 ** -24, type);
    return [exact, exact + 1n, exact - 1n];
  });
  const sign = 1n << BigInt(width(type) - 1);
  return [...normal, ...subnormal].flatMap((bits) => [[bits], [bits | sign]]);
};
add("cvt.f32.f16 d, a", "f32 f16", (a) => bitsOf(floatOf(a!, "f16"), "f32"), halves);
add("cvt.f64.f16 d, a", "f64 f16", (a) => {
  if (!Number.isNaN(floatOf(a!, "f16"))) return bitsOf(floatOf(a!, "f16"), "f64");
  return (a! >> 15n) << 63n | 0x7ff8_0000_0000_0000n | (a! & 0x3ffn) << 42n;
}, halves);
add("cvt.rn.f16.f32 d, a", "f16 f32", (a) => halfBitsOf(floatOf(a!, "f32")), nearHalves("f32"));
add("cvt.rn.ftz.f16.f32 d, a", "f16 f32", (a) => halfBitsOf(flush(floatOf(a!, "f32"))), nearHalves("f32"));
add("cvt.rn.sat.f16.f32 d, a", "f16 f32", (a) => halfBitsOf(saturate(floatOf(a!, "f32"))), nearHalves("f32"));
add("cvt.rn.f16.f64 d, a", "f16 f64", (a) => {
  if (!Number.isNaN(floatOf(a!, "f64"))) return halfBitsOf(floatOf(a!, "f64"));
  return (a! >> 63n) << 15n | 0x7e00n | a! >> 42n & 0x3ffn;
}, nearHalves("f64"));
add("cvt.f16.f16 d, a", "f16 f16", (a) => halfBitsOf(floatOf(a!, "f16")), halves);
add("cvt.sat.f16.f16 d, a", "f16 f16", (a) => halfBitsOf(saturate(floatOf(a!, "f16"))), halves);
add("cvt.sat.f32.f16 d, a", "f32 f16", (a) => bitsOf(saturate(floatOf(a!, "f16")), "f32"), halves);
for (const [rounding, round] of roundings) {
  add(`cvt.${rounding}.f16.f16 d, a`, "f16 f16", (a) => {
    const value = floatOf(a!, "f16");
    return halfBitsOf(Number.isFinite(value) ? round(value) : value);
  }, halves);
}
add("cvt.sat.f32.f32 d, a", "f32 f32", (a) => bitsOf(saturate(floatOf(a!, "f32")), "f32"));
/** Sums that are halfway between two 32-bit floats after rounding to 64 bits, normal and subnormal. */
const roundedTwice = [
  [0x1a00_0001n, 0x19ff_fffen, 0x0040_0001n],
  [0x1a00_0001n, 0x19ff_fffen, 0x0040_0000n],
  [0x9a00_0001n, 0x19ff_fffen, 0x0040_0001n],
  [0x1a00_0001n, 0x9a00_0001n, 0x8040_0001n],
  [0x3f80_0001n, 0x33ff_fffen, 0x3f80_0001n],
  [0x3380_0001n, 0x3f7f_fffen, 0x3f80_0001n],
  [0x3380_0001n, 0x3f7f_fffen, 0x3f80_0000n],
  [0xb380_0001n, 0x3f7f_fffen, 0xbf80_0001n],
];
for (const text of ["fma.rn.f32", "mad.rn.f32"]) {
  add(`${text} d, a, b, c`, "f32 f32 f32 f32", (...bits) => {
    const [a, b, c] = bits.map((operand) => floatOf(operand, "f32")) as [number, number, number];
    if (![a, b, c].every(Number.isFinite)) return bitsOf(a * b + c, "f32");
    const exact = unitsOf(a) * unitsOf(b) + (unitsOf(c) << 149n);
    // The 64-bit sum also tells whether a zero is -0.
    return exact === 0n ? bitsOf(a * b + c, "f32") : roundTo("f32", exact, -298);
  }, roundedTwice);
}

/** A finite 32-bit float as a multiple of 2^-149. */
function unitsOf(value: number): bigint {
  return BigInt(value * 2 ** 149);
}

const formats = {
  f16: { precision: 11, least: -24, signBit: 0x8000n, infinity: 0x7c00n },
  f32: { precision: 24, least: -149, signBit: 0x8000_0000n, infinity: 0x7f80_0000n },
} as const;

/** The bits of `units` * 2^`exponent`, rounded to nearest even. */
function roundTo(type: keyof typeof formats, units: bigint, exponent: number): bigint {
  const { precision, least, signBit, infinity } = formats[type];
  const sign = units < 0n ? signBit : 0n;
  const magnitude = absolute(units);
  if (magnitude === 0n) return sign;
  const length = magnitude.toString(2).length;
  const lowest = Math.max(length - precision + exponent, least);
  const shift = lowest - exponent;
  let rounded = shift <= 0 ? magnitude << BigInt(-shift) : magnitude >> BigInt(shift);
  if (shift > 0) {
    const rest = magnitude - (rounded << BigInt(shift));
    const half = 1n << BigInt(shift - 1);
    if (rest > half || (rest === half && (rounded & 1n) === 1n)) rounded++;
  }
  // The exponent is counted from the lowest bit, so that a carry increments it.
  const fractionBits = BigInt(precision - 1);
  const bits = (rounded < 1n << fractionBits ? 0n : BigInt(lowest - least) << fractionBits) + rounded;
  return sign | (bits > infinity ? infinity : bits);
}

/** All operations. */
export function allOperations(): readonly Operation[] {
  return operations;
}

const integerPatterns = [
  0n,
  1n,
  2n,
  3n,
  5n,
  7n,
  8n,
  15n,
  16n,
  17n,
  23n,
  31n,
  32n,
  33n,
  63n,
  64n,
  65n,
  100n,
  127n,
  128n,
  255n,
  256n,
  0x7fffn,
  0x8000n,
  0x8001n,
  0xffffn,
  0x1_0000n,
  0x1234_5678n,
  0x7fff_ffffn,
  0x8000_0000n,
  0x8000_0001n,
  0xffff_ff80n,
  0xffff_ffffn,
  0x1_0000_0000n,
  0x1_0000_0001n,
  0x0123_4567_89ab_cdefn,
  0x7fff_ffff_ffff_ffffn,
  0x8000_0000_0000_0000n,
  0xffff_ffff_0000_0000n,
  0xffff_ffff_8000_0000n,
  0xffff_ffff_ffff_fffen,
  0xffff_ffff_ffff_ffffn,
];
const halfPatterns = [
  0x0000n,
  0x0001n,
  0x03ffn,
  0x0400n,
  0x37ffn,
  0x3800n,
  0x3801n,
  0x3c00n,
  0x3e00n,
  0x4100n,
  0x57f0n,
  0x5c00n,
  0x7800n,
  0x7bffn,
  0x7c00n,
  0x7c01n,
  0x7e00n,
  0x7fffn,
].flatMap((bits) => [bits, bits | 0x8000n]);
const singlePatterns = [
  0x0000_0000n,
  0x8000_0000n,
  0x0000_0001n,
  0x8000_0001n,
  0x007f_ffffn,
  0x807f_ffffn,
  0x0080_0000n,
  0x8080_0000n,
  0x0080_0001n,
  0x3f80_0000n,
  0xbf80_0000n,
  0x3f80_0001n,
  0x3f7f_ffffn,
  0x3f00_0000n,
  0xbf00_0000n,
  0x3fc0_0000n,
  0xbfc0_0000n,
  0x4020_0000n,
  0xc020_0000n,
  0x4049_0fdbn,
  0x3eaa_aaabn,
  0x4b00_0001n,
  0x4b7f_ffffn,
  0x437f_8000n,
  0x4f00_0000n,
  0x4eff_ffffn,
  0xcf00_0000n,
  0xcf00_0001n,
  0x4f80_0000n,
  0x5f00_0000n,
  0xdf00_0000n,
  0x5f80_0000n,
  0x7f7f_ffffn,
  0xff7f_ffffn,
  0x7f80_0000n,
  0xff80_0000n,
  0x7fc0_0000n,
  0xffc0_0001n,
  0x7f80_0001n,
  0x7fff_ffffn,
];
const doublePatterns = [
  0n,
  1n,
  0x000f_ffff_ffff_ffffn,
  0x0010_0000_0000_0000n,
  0x3ff0_0000_0000_0000n,
  0x3ff0_0000_0000_0001n,
  0x3fef_ffff_ffff_ffffn,
  0x3fe0_0000_0000_0000n,
  0x3ff8_0000_0000_0000n,
  0x4004_0000_0000_0000n,
  0x4009_21fb_5444_2d18n,
  0x3fd5_5555_5555_5555n,
  0x41df_ffff_ffc0_0000n,
  0x41e0_0000_0000_0000n,
  0x41df_ffff_ffff_ffffn,
  0x43e0_0000_0000_0000n,
  0x43f0_0000_0000_0000n,
  0x4330_0000_0000_0001n,
  0x47ef_ffff_f000_0000n,
  0x47ef_ffff_e000_0000n,
  0x3690_0000_0000_0000n,
  0x3690_0000_0000_0001n,
  0x380f_ffff_f000_0000n,
  0x7fef_ffff_ffff_ffffn,
  0x7ff0_0000_0000_0000n,
  0x7ff8_0000_0000_0000n,
  0x7ff0_0000_0000_0001n,
  0x7fff_ffff_ffff_ffffn,
].flatMap((bits) => [bits, bits | 1n << 63n]);

/** Pseudo-random numbers from xorshift, the same in every run. */
export function randomNumbers(seed: bigint): () => bigint {
  let state = seed;
  return () => {
    state ^= unsigned(state << 13n, 64);
    state ^= state >> 7n;
    state ^= unsigned(state << 17n, 64);
    return state;
  };
}

/**
 * The operands for an operation: all pairs of edge cases or as many triples, and some random numbers. Unless the run is
 * long, each edge case is paired with one in four others, and long lists of operands are cut to one in four.
 */
export function operandsFor({ types, cases: more = [] }: Operation): bigint[][] {
  const random = randomNumbers(0x9e37_79b9_7f4a_7c15n);
  const lists = types.slice(1).map((type) => {
    if (type === "pred") return [0n, 1n];
    if (type === "f16") return halfPatterns;
    if (type === "f32") return singlePatterns;
    return type === "f64" ? doublePatterns : integerPatterns;
  });
  const pick = (list: readonly bigint[]) => list[Number(random() % BigInt(list.length))]!;
  const cases: bigint[][] = [];
  if (lists.length === 1) { for (const a of lists[0]!) cases.push([a]); }
  if (lists.length === 2) {
    lists[0]!.forEach((a, at) => {
      lists[1]!.forEach((b, index) => {
        if (isLong || (at + index) % 8 === 0) cases.push([a, b]);
      });
    });
  }
  if (lists.length === 3) { for (let count = 0; count < (isLong ? 1600 : 160); count++) cases.push(lists.map(pick)); }
  for (let count = 0; count < (isLong ? 200 : 100); count++) {
    cases.push(lists.map((list) => list.length === 2 ? pick(list) : random()));
  }
  cases.push(...someOf(more, more.length > 100 ? 8 : 1).map((operands) => [...operands]));
  return cases.map((operands) => operands.map((operand, index) => unsigned(operand, width(types[index + 1]!))));
}

/**
 * A kernel that applies an operation to groups of three 8-byte operands at `in`, and writes 8-byte results to `out`,
 * one for each of `count` threads.
 */
export function operationKernel({ text, types }: Operation, name: string): string {
  const registers = ["d", "a", "b", "c"].slice(0, types.length);
  const declared = (type: string) => type === "pred" || type[0] === "f" ? type : `b${Math.max(16, width(type))}`;
  const lines = registers.map((register, index) => `.reg .${declared(types[index]!)} ${register};`);
  registers.slice(1).forEach((register, index) => {
    const type = types[index + 1]!;
    const address = `[source+${8 * index}]`;
    if (type === "pred") lines.push(`ld.global.u32 word, ${address};`, `setp.ne.u32 ${register}, word, 0;`);
    else lines.push(`ld.global.${type === "f16" ? "b16" : type} ${register}, ${address};`);
  });
  lines.push(text.endsWith("}") ? text : `${text};`);
  if (types[0] === "pred") lines.push("selp.u32 word, 1, 0, d;", "st.global.u32 [target], word;");
  else lines.push(`st.global.b${width(types[0]!)} [target], d;`);
  return `.visible .entry ${name}(.param .u64 out, .param .u64 in, .param .u32 count)
{
  .reg .b32 index, word, size, block;
  .reg .b64 source, target, base;
  .reg .pred beyond;
  mov.u32 size, %ntid.x;
  mov.u32 block, %ctaid.x;
  mov.u32 index, %tid.x;
  mad.lo.u32 index, block, size, index;
  ld.param.u32 word, [count];
  setp.ge.u32 beyond, index, word;
  @beyond ret;
  ld.param.u64 base, [in];
  cvta.to.global.u64 base, base;
  mad.wide.u32 source, index, 24, base;
  ld.param.u64 base, [out];
  cvta.to.global.u64 base, base;
  mad.wide.u32 target, index, 8, base;
  ${lines.join("\n  ")}
  ret;
}
`;
}
