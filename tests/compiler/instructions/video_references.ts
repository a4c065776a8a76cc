/**
 * The video instructions, and instructions with random modifiers.
 *
 * They are the manual's pseudocode, section 9.7.18, with the deviations of an H200 with the driver of CUDA 13.0, each
 * behind a comment that names it. The deviations are those of the code that ptxas 13.0 for `sm_90` writes for the scalar
 * instructions, and the answers that `tests/differential` has recorded agree with them. The SIMD instructions follow
 * the manual.
 *
 * @module
 */
import { isLong } from "../../support/test.ts";
import { type Operation, randomNumbers } from "./references.ts";

const asSigned = (value: bigint, bits: number) => BigInt.asIntN(bits, value);
const asUnsigned = (value: bigint, bits: number) => BigInt.asUintN(bits, value);
/** A number of 32 bits, by its type. */
const numberOf = (value: bigint, type: string) => type === "s32" ? asSigned(value, 32) : asUnsigned(value, 32);
const least = (a: bigint, b: bigint) => a < b ? a : b;
const most = (a: bigint, b: bigint) => a > b ? a : b;
const clamp = (value: bigint, bits: number, isSigned: boolean) => {
  const half = 1n << BigInt(bits - 1);
  return isSigned ? most(-half, least(half - 1n, value)) : most(0n, least(2n * half - 1n, value));
};

/** `partSelectSignExtend` */
function partSelect(value: bigint, type: string, selector: string): bigint {
  if (selector === "") return numberOf(value, type);
  const bits = selector[1] === "h" ? 16 : 8;
  const part = value >> BigInt(Number(selector[2]) * bits);
  return type === "s32" ? asSigned(part, bits) : asUnsigned(part, bits);
}

interface Scalar {
  readonly operation: string;
  readonly types: readonly [d: string, a: string, b: string];
  readonly sat: boolean;
  readonly mode: string;
  readonly op2: string;
  readonly selectors: readonly [d: string, a: string, b: string];
}

const compared: Readonly<Record<string, (a: bigint, b: bigint) => boolean>> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
};

function scalarResult({ operation, types, sat, mode, op2, selectors }: Scalar, [a, b, c]: readonly bigint[]): bigint {
  const [, atype, btype] = types;
  // An H200 takes the type of the first source for the second operation of `vset`. The manual's is unsigned.
  const dtype = operation === "vset" ? atype : types[0];
  const isSigned = dtype === "s32";
  const [dsel, asel, bsel] = selectors;
  const ta = partSelect(a!, atype, asel);
  let tb = partSelect(b!, btype, bsel);
  const bits = dsel === "" ? 32 : dsel[1] === "h" ? 16 : 8;
  let tmp: bigint;
  if (operation === "vadd") tmp = ta + tb;
  else if (operation === "vsub") tmp = ta - tb;
  else if (operation === "vabsdiff") tmp = ta > tb ? ta - tb : tb - ta;
  else if (operation === "vmin") tmp = least(ta, tb);
  else if (operation === "vmax") tmp = most(ta, tb);
  else if (operation === "vset") tmp = compared[mode]!(ta, tb) ? 1n : 0n;
  else {
    if (mode === "clamp" && tb > 32n) tb = 32n;
    if (mode === "wrap") tb &= 31n;
    tmp = operation === "vshl" ? ta << tb : ta >> tb;
    // The manual wraps every result around at 34 bits. An H200 does so only with `.sat`, and clamps to 32 bits where the
    // manual clamps to the bits of a selected destination.
    if (sat) tmp = clamp(asSigned(tmp, 34), 32, isSigned);
  }
  if (sat && operation !== "vshl" && operation !== "vshr") {
    if (dsel !== "") {
      // An H200 replaces negative results by the largest number, the manual by the smallest.
      tmp = tmp < 0n ? clamp(1n << 32n, bits, isSigned) : clamp(tmp, bits, isSigned);
    } else if (isSigned) tmp = clamp(tmp, 32, true);
    else if (tmp < 0n) tmp = 0n;
    // An H200 lets unsigned results of more than 32 bits wrap around. The manual clamps them.
  }
  if (op2 === "add") return tmp + c!;
  if (op2 !== "") {
    // The manual's second operations compare 33 bits with their signs. Those of an H200 compare 64 bits, unsigned unless
    // the type of the result is signed. They see sums, differences and clamped shifts of 32 bits, with their signs.
    const isWord = ["vadd", "vsub"].includes(operation) || (["vshl", "vshr"].includes(operation) && sat);
    const wide = isWord ? asSigned(tmp, 32) : tmp;
    return (op2 === "min" ? least : most)(isSigned ? wide : asUnsigned(wide, 64), numberOf(c!, dtype));
  }
  if (dsel === "") return tmp;
  const first = BigInt(Number(dsel[2]) * bits);
  const mask = ((1n << BigInt(bits)) - 1n) << first;
  // The manual replaces a part by the lowest bits of the result. An H200 takes the upper half for the upper half.
  const moved = dsel === ".h1" ? tmp : tmp << first;
  return (moved & mask) | (c! & ~mask);
}

interface Product {
  readonly types: readonly [a: string, b: string];
  readonly negated: readonly [a: boolean, b: boolean, c: boolean];
  readonly po: boolean;
  readonly sat: boolean;
  readonly scale: number;
  readonly selectors: readonly [a: string, b: string];
}

function productResult(
  { types, negated, po, sat, scale, selectors }: Product,
  [a, b, third]: readonly bigint[],
): bigint {
  const isNegated = negated[0] !== negated[1];
  const signedFinal = types.includes("s32") || isNegated || negated[2];
  // To the manual, a whole register has its type. To an H200, it is signed, and so is the third source.
  const factor = (value: bigint, at: 0 | 1) =>
    partSelect(value, selectors[at] === "" ? "s32" : types[at], selectors[at]);
  let tmp = factor(a!, 0) * factor(b!, 1);
  let c = third!;
  let lsb = 0n;
  if (po) lsb = 1n;
  else if (isNegated) {
    tmp = ~tmp;
    lsb = 1n;
  } else if (negated[2]) {
    c = ~c;
    lsb = 1n;
  }
  tmp += asSigned(c, 32) + lsb;
  // The manual's sums have as many bits as they need. Those of an H200 have 64, and unsigned ones are shifted as such.
  const result = (signedFinal || scale === 0 ? tmp : asUnsigned(tmp, 64)) >> BigInt(scale);
  return sat ? clamp(result, 32, signedFinal) : result;
}

interface Packed {
  readonly operation: string;
  readonly count: 2 | 4;
  readonly types: readonly [d: string, a: string, b: string];
  readonly mode: string;
  readonly sat: boolean;
  readonly add: boolean;
  readonly mask: readonly number[];
  /** The selected elements, the lowest first. */
  readonly elements: readonly [a: readonly number[], b: readonly number[]];
}

function packedResult(
  { operation, count, types, mode, sat, add, mask, elements }: Packed,
  [a, b, c]: readonly bigint[],
): bigint {
  const bits = 32 / count;
  const both = asUnsigned(b!, 32) << 32n | asUnsigned(a!, 32);
  const element = (index: number, type: string) => {
    const value = both >> BigInt(index * bits);
    return type === "s32" ? asSigned(value, bits) : asUnsigned(value, bits);
  };
  let d = add ? c! : 0n;
  for (let i = 0; i < count; i++) {
    const va = element(elements[0][i]!, types[1]), vb = element(elements[1][i]!, types[2]);
    let t: bigint;
    if (operation === "vadd") t = va + vb;
    else if (operation === "vsub") t = va - vb;
    else if (operation === "vavrg") t = va + vb >= 0n ? (va + vb + 1n) >> 1n : (va + vb) >> 1n;
    else if (operation === "vabsdiff") t = va > vb ? va - vb : vb - va;
    else if (operation === "vmin") t = least(va, vb);
    else if (operation === "vmax") t = most(va, vb);
    else t = compared[mode]!(va, vb) ? 1n : 0n;
    if (sat) t = clamp(t, bits, types[0] === "s32");
    if (add) d += mask.includes(i) ? t : 0n;
    else d |= asUnsigned(mask.includes(i) ? t : c! >> BigInt(i * bits), bits) << BigInt(i * bits);
  }
  return d;
}

const next = randomNumbers(0x51de_0f_ba_c0ffn);
const pick = <T>(list: readonly T[]): T => list[Number(next() % BigInt(list.length))]!;
const chance = () => next() % 2n === 0n;
const types = ["u32", "s32"] as const;
const parts = ["", "", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"] as const;
const registers = ["b32", "b32", "b32", "b32"];
const joined = (...words: (string | false)[]) => words.filter(Boolean).join(".");

function scalarOperation(operation: string): Operation {
  const isShift = operation === "vshl" || operation === "vshr";
  const isSet = operation === "vset";
  const use = pick(["plain", "op2", "merge"]);
  const scalar: Scalar = {
    operation,
    types: [isSet ? "u32" : pick(types), pick(types), isShift ? "u32" : pick(types)],
    sat: !isSet && chance(),
    mode: isShift ? pick(["clamp", "wrap"]) : isSet ? pick(Object.keys(compared)) : "",
    op2: use === "op2" ? pick(["add", "min", "max"]) : "",
    selectors: [use === "merge" ? pick(parts.slice(2)) : "", pick(parts), pick(parts)],
  };
  const { types: [d, a, b], sat, mode, op2, selectors } = scalar;
  const modifiers = joined(operation, !isSet && d, a, b, sat && "sat", mode, op2);
  return {
    text: `${modifiers} d${selectors[0]}, a${selectors[1]}, b${selectors[2]}${use === "plain" ? "" : ", c"}`,
    types: use === "plain" ? registers.slice(0, 3) : registers,
    reference: (...operands) => scalarResult(scalar, operands),
    // Shifts of every amount.
    cases: isShift
      ? Array.from(
        { length: 40 },
        (_, amount) => [next(), BigInt(amount) * 0x0101_0101n, next()].slice(0, use === "plain" ? 2 : 3),
      )
      : [],
  };
}

function productOperation(): Operation {
  const sign = pick(["none", "none", "po", "a", "b", "ab", "c"]);
  const negated = (name: string) => sign !== "none" && sign !== "po" && sign.includes(name);
  const product: Product = {
    types: [pick(types), pick(types)],
    negated: [negated("a"), negated("b"), negated("c")],
    po: sign === "po",
    sat: chance(),
    scale: pick([0, 0, 7, 15]),
    selectors: [pick(parts), pick(parts)],
  };
  const { types: [a, b], po, sat, scale, selectors } = product;
  const modifiers = joined("vmad", pick(types), a, b, po && "po", sat && "sat", scale > 0 && `shr${scale}`);
  const signs = product.negated.map((isNegated) => isNegated ? "-" : "");
  return {
    text: `${modifiers} d, ${signs[0]}a${selectors[0]}, ${signs[1]}b${selectors[1]}, ${signs[2]}c`,
    types: registers,
    reference: (...operands) => productResult(product, operands),
  };
}

function packedOperation(operation: string, count: 2 | 4): Operation {
  const isSet = operation === "vset";
  const letter = count === 2 ? "h" : "b";
  const all = Array.from({ length: count }, (_, index) => index);
  const mask = chance() ? all : [...new Set([pick(all), ...all.filter(chance)])].sort();
  const elements = ([0, count] as const).map((first) => {
    return chance() ? all.map((index) => first + index) : all.map(() => pick([...all, ...all.map((i) => i + count)]));
  }) as [number[], number[]];
  const use = pick(["plain", "sat", "add"]);
  const packed: Packed = {
    ...{ operation, count, mask, elements },
    types: [isSet ? "u32" : pick(types), pick(types), pick(types)],
    mode: isSet ? pick(Object.keys(compared)) : "",
    sat: use === "sat" && !isSet,
    add: use === "add",
  };
  const selector = (digits: readonly number[], index: number) => {
    const isDefault = index >= 0 && digits.every((digit, at) => digit === at + index);
    return isDefault && chance() ? "" : `.${letter}${digits.toReversed().join("")}`;
  };
  const { types: [d, a, b], mode, sat, add } = packed;
  const modifiers = joined(`${operation}${count}`, !isSet && d, a, b, mode, sat && "sat", add && "add");
  const [first, second] = elements;
  const maskText = mask.length === count && chance() ? "" : `.${letter}${mask.toReversed().join("")}`;
  return {
    text: `${modifiers} d${maskText}, a${selector(first, 0)}, b${selector(second, count)}, c`,
    types: registers,
    reference: (...operands) => packedResult(packed, operands),
  };
}

/** Instructions of every kind, with random modifiers. */
export function videoOperations(): Operation[] {
  const times = isLong ? 60 : 12;
  const repeat = (make: () => Operation) => Array.from({ length: times }, make);
  return [
    ...["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset"].flatMap((operation) => {
      return repeat(() => scalarOperation(operation));
    }),
    ...repeat(productOperation),
    ...["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"].flatMap((operation) => {
      return ([2, 4] as const).flatMap((count) => repeat(() => packedOperation(operation, count)));
    }),
  ];
}
