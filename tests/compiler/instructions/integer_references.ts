/**
 * Integer operations beyond those that every type has, each with a reference in TypeScript: carries, literal bit fields
 * and shifts, packed numbers, bytes.
 */
import type { Operation } from "./references.ts";

const unsigned = (value: bigint, bits: number): bigint => BigInt.asUintN(bits, value);
const signed = (value: bigint, bits: number): bigint => BigInt.asIntN(bits, value);
const clamp = (value: bigint, minimum: bigint, maximum: bigint): bigint =>
  value < minimum ? minimum : value > maximum ? maximum : value;
const smaller = (a: bigint, b: bigint): bigint => a < b ? a : b;
const larger = (a: bigint, b: bigint): bigint => a > b ? a : b;
const distance = (a: bigint, b: bigint): bigint => a > b ? a - b : b - a;
/** The parts of a 32-bit number, the lowest first. */
const parts = (value: bigint, bits: number, extend: typeof unsigned = unsigned): bigint[] =>
  Array.from({ length: 32 / bits }, (_, index) => extend(value >> BigInt(index * bits), bits));
const joined = (values: readonly bigint[], bits: number): bigint =>
  values.reduce((sum, value, index) => sum | unsigned(value, bits) << BigInt(index * bits), 0n);

const operations: Operation[] = [];

function add(text: string, types: string, reference: Operation["reference"]): void {
  operations.push({ text, types: types.split(" "), reference });
}

for (const type of ["u32", "s32", "u64", "s64"]) {
  const bits = Number(type.slice(1));
  const extend = type[0] === "s" ? signed : unsigned;
  const carryOf = (sum: bigint) => sum >> BigInt(bits);
  const borrowOf = (difference: bigint) => difference < 0n ? 1n : 0n;
  const three = `${type} ${type} ${type} ${type}`;
  const chain = (text: string, reference: Operation["reference"]) =>
    add(`{ .reg .b${bits} e; ${text.replaceAll("TYPE", type)} }`, three, reference);
  chain("add.cc.TYPE e, a, b; addc.TYPE d, c, c;", (a, b, c) => c! + c! + carryOf(a! + b!));
  chain("add.cc.TYPE e, a, b; addc.cc.TYPE d, c, b;", (a, b, c) => c! + b! + carryOf(a! + b!));
  chain(
    "add.cc.TYPE e, a, b; addc.cc.TYPE e, c, b; addc.TYPE d, 0, 0;",
    (a, b, c) => carryOf(c! + b! + carryOf(a! + b!)),
  );
  chain("sub.cc.TYPE e, a, b; subc.TYPE d, c, b;", (a, b, c) => c! - b! - borrowOf(a! - b!));
  chain("sub.cc.TYPE e, a, b; subc.cc.TYPE d, c, a;", (a, b, c) => c! - a! - borrowOf(a! - b!));
  chain(
    "sub.cc.TYPE e, a, b; subc.cc.TYPE e, c, a; subc.TYPE d, 0, 0;",
    (a, b, c) => -borrowOf(c! - a! - borrowOf(a! - b!)),
  );
  for (const half of ["lo", "hi"]) {
    const product = (a: bigint, b: bigint) =>
      unsigned(extend(a, bits) * extend(b, bits) >> BigInt(half === "hi" ? bits : 0), bits);
    chain(`mad.${half}.cc.TYPE d, a, b, c;`, (a, b, c) => product(a!, b!) + c!);
    chain(`mad.${half}.cc.TYPE e, a, b, c; addc.TYPE d, 0, 0;`, (a, b, c) => carryOf(product(a!, b!) + c!));
    chain(
      `add.cc.TYPE e, a, b; madc.${half}.TYPE d, b, c, a;`,
      (a, b, c) => product(b!, c!) + a! + carryOf(a! + b!),
    );
    chain(
      `add.cc.TYPE e, a, b; madc.${half}.cc.TYPE e, b, c, a; addc.TYPE d, 0, 0;`,
      (a, b, c) => carryOf(product(b!, c!) + a! + carryOf(a! + b!)),
    );
  }
}
// Other instructions between one that sets the carry and one that reads it leave the carry unchanged.
add(
  "{ .reg .b32 e; add.cc.u32 e, a, b; mul.lo.u32 e, e, c; add.u32 e, e, c; addc.u32 d, e, 0; }",
  "u32 u32 u32 u32",
  (a, b, c) => unsigned(a! + b!, 32) * c! + c! + (a! + b! >> 32n),
);

for (const type of ["u32", "s32"]) {
  const extend = type[0] === "s" ? signed : unsigned;
  const product = (a: bigint, b: bigint) => extend(a, 24) * extend(b, 24);
  const three = `${type} ${type} ${type}`;
  add(`mul24.lo.${type} d, a, b`, three, (a, b) => product(a!, b!));
  add(`mul24.hi.${type} d, a, b`, three, (a, b) => product(a!, b!) >> 16n);
  add(`mad24.lo.${type} d, a, b, c`, `${three} ${type}`, (a, b, c) => product(a!, b!) + c!);
  add(`mad24.hi.${type} d, a, b, c`, `${three} ${type}`, (a, b, c) => (product(a!, b!) >> 16n) + c!);
  for (const mode of ["clamp", "wrap"]) {
    add(`szext.${mode}.${type} d, a, b`, three, (a, b) => {
      const count = mode === "wrap" ? b! & 31n : smaller(b!, 32n);
      return extend(a!, Number(count));
    });
  }
}
const saturated = (value: bigint) => clamp(value, -0x8000_0000n, 0x7fff_ffffn);
add(
  "mad24.hi.sat.s32 d, a, b, c",
  "s32 s32 s32 s32",
  (a, b, c) => saturated(signed(signed(a!, 24) * signed(b!, 24) >> 16n, 32) + signed(c!, 32)),
);
add(
  "mad.hi.sat.s32 d, a, b, c",
  "s32 s32 s32 s32",
  (a, b, c) => saturated((signed(a!, 32) * signed(b!, 32) >> 32n) + signed(c!, 32)),
);
for (const [name, pick] of [["min", smaller], ["max", larger]] as const) {
  const relu = (a?: bigint, b?: bigint) => larger(0n, pick(signed(a!, 32), signed(b!, 32)));
  add(`${name}.relu.s32 d, a, b`, "s32 s32 s32", relu);
  // As in the CUDA headers.
  add(`${name}.s32.relu d, a, b`, "s32 s32 s32", relu);
  for (const [type, extend] of [["u16x2", unsigned], ["s16x2", signed]] as const) {
    const pairs = (a: bigint, b: bigint, least?: bigint) => {
      const [x, y] = [parts(a, 16, extend), parts(b, 16, extend)];
      const picked = x.map((value, index) => pick(value, y[index]!));
      return joined(picked.map((value) => least === undefined ? value : larger(value, least)), 16);
    };
    add(`${name}.${type} d, a, b`, "b32 b32 b32", (a, b) => pairs(a!, b!));
    if (type === "s16x2") add(`${name}.relu.${type} d, a, b`, "b32 b32 b32", (a, b) => pairs(a!, b!, 0n));
  }
}
for (const type of ["u16x2", "s16x2"]) {
  add(`add.${type} d, a, b`, "b32 b32 b32", (a, b) => {
    const y = parts(b!, 16);
    return joined(parts(a!, 16).map((value, index) => value + y[index]!), 16);
  });
}

for (const first of ["u32", "s32"]) {
  for (const second of ["u32", "s32"]) {
    const extendA = first === "s32" ? signed : unsigned, extendB = second === "s32" ? signed : unsigned;
    const sum = (a: readonly bigint[], b: readonly bigint[], c: bigint) =>
      a.reduce((total, value, index) => total + value * b[index]!, c);
    add(
      `dp4a.${first}.${second} d, a, b, c`,
      "b32 b32 b32 b32",
      (a, b, c) => sum(parts(a!, 8, extendA), parts(b!, 8, extendB), c!),
    );
    for (const [half, begin] of [["lo", 0], ["hi", 2]] as const) {
      add(
        `dp2a.${half}.${first}.${second} d, a, b, c`,
        "b32 b32 b32 b32",
        (a, b, c) => sum(parts(a!, 16, extendA), parts(b!, 8, extendB).slice(begin), c!),
      );
    }
  }
}

for (const lanes of [2, 4]) {
  const bits = 32 / lanes;
  const differences = (a: bigint, b: bigint) => {
    const y = parts(b, bits);
    return parts(a, bits).map((value, index) => distance(value, y[index]!));
  };
  const text = `vabsdiff${lanes}.u32.u32.u32`;
  add(`${text} d, a, b, c`, "b32 b32 b32 b32", (a, b) => joined(differences(a!, b!), bits));
  add(
    `${text}.add d, a, b, c`,
    "b32 b32 b32 b32",
    (a, b, c) => differences(a!, b!).reduce((sum, value) => sum + value, c!),
  );
}

for (const type of ["u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"]) {
  const bits = Number(type.slice(1));
  const limits = type[0] === "s"
    ? [-(1n << BigInt(bits - 1)), (1n << BigInt(bits - 1)) - 1n] as const
    : [0n, (1n << BigInt(bits)) - 1n] as const;
  const packed = (a: bigint, b: bigint) =>
    unsigned(clamp(signed(a, 32), ...limits), bits) << BigInt(bits) | unsigned(clamp(signed(b, 32), ...limits), bits);
  if (bits === 16) add(`cvt.pack.sat.${type}.s32 d, a, b`, "b32 b32 b32", (a, b) => packed(a!, b!));
  else {
    add(
      `cvt.pack.sat.${type}.s32.b32 d, a, b, c`,
      "b32 b32 b32 b32",
      (a, b, c) => packed(a!, b!) | c! << BigInt(2 * bits),
    );
  }
}

for (const mode of ["clamp", "wrap"]) {
  add(`bmsk.${mode}.b32 d, a, b`, "b32 b32 b32", (a, b) => {
    const [position, length] = mode === "wrap" ? [a! & 31n, b! & 31n] : [a!, smaller(b!, 32n)];
    return position >= 32n ? 0n : ((1n << length) - 1n) << position;
  });
}
add("fns.b32 d, a, b, c", "b32 b32 b32 s32", (a, b, c) => findNth(a!, b!, signed(c!, 32)));
for (const offset of [-40n, -3n, -2n, -1n, 0n, 1n, 2n, 3n, 7n, 33n]) {
  add(`{ and.b32 b, b, 31; fns.b32 d, a, b, ${offset}; }`, "b32 b32 b32", (a, b) => findNth(a!, b! & 31n, offset));
}

/** As in the manual, or as on an H200 if the manual leaves the result undefined. */
function findNth(mask: bigint, base: bigint, offset: bigint): bigint {
  if (offset === -0x8000_0000n) return 0n;
  if (base > 31n) return -1n;
  if (offset === 0n) return mask >> base & 1n ? base : -1n;
  const step = offset > 0n ? 1n : -1n;
  let left = (offset > 0n ? offset : -offset) - 1n;
  for (let position = base; position >= 0n && position < 32n; position += step) {
    if ((mask >> position & 1n) === 0n) continue;
    if (left-- === 0n) return position;
  }
  return -1n;
}

for (const type of ["b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64"]) {
  const bits = Number(type.slice(1));
  const extend = type[0] === "s" ? signed : unsigned;
  for (const amount of [0n, 1n, 7n, 15n, 16n, 31n, 32n, 33n, 63n, 64n, 255n, 0xffff_ffffn]) {
    const far = smaller(amount, 64n);
    if (type[0] === "b") add(`shl.${type} d, a, ${amount}`, `${type} ${type}`, (a) => a! << far);
    add(`shr.${type} d, a, ${amount}`, `${type} ${type}`, (a) => extend(a!, bits) >> far);
  }
  if (type[0] === "b") continue;
  for (const divisor of type[0] === "s" ? [1n, 3n, -1n, -2n, 0n, 16n, -100n] : [1n, 3n, 0n, 16n, 641n]) {
    add(`div.${type} d, a, ${divisor}`, `${type} ${type}`, (a) => divisor === 0n ? -1n : extend(a!, bits) / divisor);
    add(`rem.${type} d, a, ${divisor}`, `${type} ${type}`, (a) => divisor === 0n ? -1n : extend(a!, bits) % divisor);
  }
}

for (const mode of ["clamp", "wrap"]) {
  for (const direction of ["l", "r"]) {
    const funnel = (low: bigint, high: bigint, amount: bigint) => {
      const distance = mode === "wrap" ? amount & 31n : smaller(amount, 32n);
      const both = high << 32n | low;
      return direction === "l" ? both << distance >> 32n : both >> distance;
    };
    for (const amount of [0n, 1n, 13n, 31n, 32n, 33n, 255n]) {
      const text = `shf.${direction}.${mode}.b32`;
      add(`${text} d, a, b, ${amount}`, "b32 b32 b32", (a, b) => funnel(a!, b!, amount));
      add(`${text} d, a, a, ${amount}`, "b32 b32", (a) => funnel(a!, a!, amount));
    }
    add(`shf.${direction}.${mode}.b32 d, a, a, b`, "b32 b32 b32", (a, b) => funnel(a!, a!, b!));
  }
}

for (const bits of [32, 64]) {
  const fields = [[0, 8], [8, 8], [24, 8], [5, 1], [0, bits], [0, 0], [bits - 1, 1], [bits - 4, 8], [bits, 1], [
    3,
    255,
  ]];
  fields.push([255, 4], [16, 16], [7, bits - 7], [1, bits - 2]);
  for (const [position, length] of fields as [number, number][]) {
    const type = `b${bits}`;
    const end = BigInt(Math.min(position + length, bits));
    const begin = smaller(BigInt(position), BigInt(bits));
    add(`bfe.u${bits} d, a, ${position}, ${length}`, `${type} ${type}`, (a) => unsigned(a!, Number(end)) >> begin);
    add(
      `bfe.s${bits} d, a, ${position}, ${length}`,
      `${type} ${type}`,
      (a) => length === 0 ? 0n : position >= bits ? signed(a!, bits) >> 64n : signed(a!, Number(end)) >> begin,
    );
    add(`bfi.b${bits} d, a, b, ${position}, ${length}`, `${type} ${type} ${type}`, (a, b) => {
      const mask = larger(0n, (1n << end) - (1n << begin));
      return b! & ~mask | a! << begin & mask;
    });
  }
}

const permuted = (a: bigint, b: bigint, selectors: bigint): bigint => {
  const bytes = b << 32n | a;
  return [0n, 1n, 2n, 3n].reduce((result, index) => {
    const selector = selectors >> 4n * index & 15n;
    const byte = bytes >> 8n * (selector & 7n) & 0xffn;
    return result | (selector < 8n ? byte : byte >= 0x80n ? 0xffn : 0n) << 8n * index;
  }, 0n);
};
const selectors = [
  0x3210n,
  0x0123n,
  0x5410n,
  0x7632n,
  0x7654n,
  0x4440n,
  0x4321n,
  0x6543n,
  0x1032n,
  0x2103n,
  0x0000n,
  0x7777n,
  0x8888n,
  0xba98n,
  0xbb99n,
  0xfedcn,
  0x3b19n,
  0x9180n,
  0x4140n,
  0x0706n,
  0x5140n,
  0x5f3dn,
  0x4404n,
];
for (const selector of selectors) {
  add(`prmt.b32 d, a, b, ${selector}`, "b32 b32 b32", (a, b) => permuted(a!, b!, selector));
  add(`prmt.b32 d, a, a, ${selector}`, "b32 b32", (a) => permuted(a!, a!, selector));
  add(`prmt.b32 d, a, 0, ${selector}`, "b32 b32", (a) => permuted(a!, 0n, selector));
}
/** The bytes in the manual's table for each mode, the highest first. */
const byteModes: readonly [string, readonly string[]][] = [
  ["f4e", ["3210", "4321", "5432", "6543"]],
  ["b4e", ["5670", "6701", "7012", "0123"]],
  ["rc8", ["0000", "1111", "2222", "3333"]],
  ["ecl", ["3210", "3211", "3222", "3333"]],
  ["ecr", ["0000", "1110", "2210", "3210"]],
  ["rc16", ["1010", "3232", "1010", "3232"]],
];
for (const [mode, rows] of byteModes) {
  const reference = (a: bigint, b: bigint, c: bigint) => permuted(a, b, BigInt(`0x${rows[Number(c & 3n)]}`));
  add(`prmt.b32.${mode} d, a, b, c`, "b32 b32 b32 b32", (a, b, c) => reference(a!, b!, c!));
  for (const known of [0n, 1n, 2n, 7n]) {
    add(`prmt.b32.${mode} d, a, b, ${known}`, "b32 b32 b32", (a, b) => reference(a!, b!, known));
  }
}

for (
  const [combine, apply] of [["or", (x: bigint, y: bigint) => x | y], ["and", (x: bigint, y: bigint) => x & y]] as const
) {
  const text = `lop3.${combine}.b32`;
  const some = (value: bigint) => value === 0n ? 0n : 1n;
  add(`${text} _|d, a, b, 0, 0x40, c`, "pred b32 b32 pred", (a, b, c) => apply(some(a! & b!), c!));
  add(`${text} _|d, a, b, 0, 0x14, !c`, "pred b32 b32 pred", (a, b, c) => apply(some(a! ^ b!), 1n - c!));
  add(`{ .reg .pred p; ${text} d|p, a, b, c, 0x96, p; }`, "b32 b32 b32 b32", (a, b, c) => a! ^ b! ^ c!);
}
for (const type of ["b16", "b32", "s32", "u64", "f32", "f64"]) {
  const sign = (c: bigint) => c >> 31n === 1n;
  const magnitude = (c: bigint) => c & 0x7fff_ffffn;
  const isPositive = (c: bigint, least: bigint) => magnitude(c) <= 0x7f80_0000n && (!sign(c) || magnitude(c) <= least);
  add(
    `slct.${type}.f32 d, a, b, c`,
    `${type} ${type} ${type} f32`,
    (a, b, c) => isPositive(c!, 0n) ? a! : b!,
  );
  add(
    `slct.ftz.${type}.f32 d, a, b, c`,
    `${type} ${type} ${type} f32`,
    (a, b, c) => isPositive(c!, 0x007f_ffffn) ? a! : b!,
  );
}
add("{ .reg .b16 e, f; mov.b32 {e, f}, a; mov.b32 d, {f, e}; }", "b32 b32", (a) => a! >> 16n | a! << 16n);
add("{ .reg .b32 e, f; mov.b64 {e, f}, a; mov.b64 d, {f, e}; }", "b64 b64", (a) => a! >> 32n | a! << 32n);
add("{ .reg .b32 e; mov.b64 {_, e}, a; mov.b64 d, {e, 5}; }", "b64 b64", (a) => a! >> 32n | 5n << 32n);
add(
  "{ .reg .b16 e, f, g, h; mov.b64 {e, f, g, h}, a; mov.b64 d, {h, g, f, e}; }",
  "b64 b64",
  (a) => [0n, 16n, 32n, 48n].reduce((result, at) => result | (a! >> at & 0xffffn) << 48n - at, 0n),
);
add("{ .reg .b8 e, f; mov.b16 {e, f}, a; mov.b16 d, {f, e}; }", "b16 b16", (a) => a! >> 8n | a! << 8n);
add(
  "{ .reg .b8 e, f, g, h; mov.b32 {e, f, g, h}, a; mov.b32 d, {h, g, f, e}; }",
  "b32 b32",
  (a) => permuted(a!, 0n, 0x0123n),
);
add("mov.b32 {d, _}, a", "b16 b32", (a) => a!);
add("mov.pred d, a", "pred pred", (a) => a!);
add("mov.pred d, 1", "pred pred", () => 1n);

/** All integer operations. */
export function integerOperations(): readonly Operation[] {
  return operations;
}
