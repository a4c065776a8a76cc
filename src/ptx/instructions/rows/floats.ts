/**
 * The rows of floating-point arithmetic, comparisons and selections.
 *
 * @module
 */
import { type InstructionRow, type InstructionTraits, pure } from "../instruction_traits.ts";
import { bits, onFirstUse, row, type Rows, selected, signed } from "./row.ts";

type OfBothSizes = `${"add" | "sub" | "mul" | "fma" | "mad" | "div" | "abs" | "neg" | "min" | "max" | "sqrt"}.${
  | "f32"
  | "f64"}`;
type Extremes = "min.xorsign.abs" | "max.xorsign.abs";
type Reciprocals = "rcp.approx" | "rcp" | "rcp.approx.ftz" | `rsqrt.approx.${"f32" | "f64" | "ftz"}`;
type Approximate =
  | "div.approx"
  | "div.full"
  | "sqrt.approx"
  | "sin.approx"
  | "cos.approx"
  | "lg2.approx"
  | "ex2.approx.f32";
type OfHalves = `${"add" | "sub" | "mul" | "neg" | "abs" | "min" | "max" | "tanh.approx" | "ex2.approx"}.f16`;
type HalfProductSums = "fma.rn.f16" | "fma.rn.relu" | "fma.rn.bf16" | "fma.rn.oob";

/** The names of the instruction table's rows for floating-point arithmetic. */
export type FloatName =
  | "testp"
  | "copysign"
  | OfBothSizes
  | Extremes
  | Reciprocals
  | Approximate
  | "tanh.approx.f32"
  | OfHalves
  | HalfProductSums
  | "ex2.approx.ftz";

/** The names of the instruction table's rows for comparisons and selections. */
export type ComparisonName = "set" | "set.f16" | "setp" | "setp.f16" | "selp" | "slct";

const rounding = "<rounding:rn|rz|rm|rp>";
/** The traits of 32-bit floating-point arithmetic, whose only NaN result is the canonical NaN. */
const arithmetic32: InstructionTraits = { ...pure, hasCanonicalNaN: () => true };
const arithmetic64: InstructionTraits = { ...pure, propagatesNaN64: true };
const noBound = "the manual states none";
const boundOfAngles = "2^-20.5 absolute from -2pi to 2pi, 2^-14.7 absolute from -100pi to 100pi, none beyond";

const product: InstructionTraits = { contraction: "product" };
const sum: InstructionTraits = { contraction: "sum" };
const difference: InstructionTraits = { contraction: "difference" };
const negation: InstructionTraits = { contraction: "negation" };
/** The traits of correctly rounded division and roots, for which `ptxas` emits a branch to a slow path. */
const rounded: InstructionTraits = { dividesBlock: () => true };

/** Returns the instruction table's rows for floating-point arithmetic. */
export const floatRows: () => Rows<FloatName> = onFirstUse((): Rows<FloatName> => ({
  // Floating-point arithmetic in 32 and 64 bits.
  testp: row(
    "testp.<property:finite|infinite|number|notanumber|normal|subnormal>.<type:f32|f64> p, a",
    "9.7.3.1",
    pure,
  ),
  copysign: row("copysign.<type:f32|f64> d, a, b", "9.7.3.2", pure),
  "add.f32": row(`add.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.3", { ...arithmetic32, ...sum }),
  "add.f64": row(`add.${rounding}?.<type:f64> d, a, b`, "9.7.3.3", { ...arithmetic64, ...sum }),
  "sub.f32": row(`sub.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.4", { ...arithmetic32, ...difference }),
  "sub.f64": row(`sub.${rounding}?.<type:f64> d, a, b`, "9.7.3.4", { ...arithmetic64, ...difference }),
  "mul.f32": row(`mul.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.5", { ...arithmetic32, ...product }),
  "mul.f64": row(`mul.${rounding}?.<type:f64> d, a, b`, "9.7.3.5", { ...arithmetic64, ...product }),
  "fma.f32": row(`fma.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.6", arithmetic32),
  "fma.f64": row(`fma.${rounding}.<type:f64> d, a, b, c`, "9.7.3.6", arithmetic64),
  "mad.f32": [
    row(`mad.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.7", arithmetic32),
    // Rounds to the nearest number.
    row("mad.ftz?.sat?.<type:f32> d, a, b, c", "9.7.3.7", { ...arithmetic32, removedIn: 3.2 }),
  ],
  "mad.f64": row(`mad.${rounding}.<type:f64> d, a, b, c`, "9.7.3.7", arithmetic64),
  "div.approx": row("div.approx.ftz?.<type:f32> d, a, b", "9.7.3.8", {
    ...arithmetic32,
    bound: "2 ulp for a divisor from 2^-126 to 2^126",
  }),
  "div.full": row("div.full.ftz?.<type:f32> d, a, b", "9.7.3.8", { ...arithmetic32, bound: "2 ulp" }),
  "div.f32": row(`div.${rounding}.ftz?.<type:f32> d, a, b`, "9.7.3.8", { ...arithmetic32, ...rounded }),
  "div.f64": row(`div.${rounding}.<type:f64> d, a, b`, "9.7.3.8", { ...arithmetic64, ...rounded }),
  "abs.f32": row("abs.ftz?.<type:f32> d, a", "9.7.3.9", arithmetic32),
  "abs.f64": row("abs.<type:f64> d, a", "9.7.3.9", arithmetic64),
  "neg.f32": row("neg.ftz?.<type:f32> d, a", "9.7.3.10", { ...arithmetic32, ...negation }),
  "neg.f64": row("neg.<type:f64> d, a", "9.7.3.10", { ...arithmetic64, ...negation }),
  "min.f32": row("min.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.11", arithmetic32),
  "min.xorsign.abs": row("min.ftz?.NaN?.xorsign.abs.<type:f32> d, a, b", "9.7.3.11", arithmetic32),
  "min.f64": row("min.<type:f64> d, a, b", "9.7.3.11", pure),
  "max.f32": row("max.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.12", arithmetic32),
  "max.xorsign.abs": row("max.ftz?.NaN?.xorsign.abs.<type:f32> d, a, b", "9.7.3.12", arithmetic32),
  "max.f64": row("max.<type:f64> d, a, b", "9.7.3.12", pure),
  "rcp.approx": row("rcp.approx.ftz?.<type:f32> d, a", "9.7.3.13", { ...arithmetic32, bound: "1 ulp" }),
  rcp: [
    row(`rcp.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.13", { ...arithmetic32, ...rounded }),
    row(`rcp.${rounding}.<type:f64> d, a`, "9.7.3.13", { ...arithmetic64, ...rounded }),
  ],
  "rcp.approx.ftz": row("rcp.approx.ftz.<type:f64> d, a", "9.7.3.14", { ...pure, bound: noBound }),
  "sqrt.approx": row("sqrt.approx.ftz?.<type:f32> d, a", "9.7.3.15", { ...arithmetic32, bound: "2^-23 relative" }),
  "sqrt.f32": row(`sqrt.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.15", { ...arithmetic32, ...rounded }),
  "sqrt.f64": row(`sqrt.${rounding}.<type:f64> d, a`, "9.7.3.15", { ...arithmetic64, ...rounded }),
  "rsqrt.approx.f32": row("rsqrt.approx.ftz?.<type:f32> d, a", "9.7.3.16", {
    ...arithmetic32,
    bound: "2^-22.9 relative",
  }),
  "rsqrt.approx.f64": row("rsqrt.approx.<type:f64> d, a", "9.7.3.16", { ...pure, ...rounded, bound: noBound }),
  "rsqrt.approx.ftz": row("rsqrt.approx.ftz.<type:f64> d, a", "9.7.3.17", { ...pure, bound: noBound }),
  "sin.approx": row("sin.approx.ftz?.<type:f32> d, a", "9.7.3.18", { ...arithmetic32, bound: boundOfAngles }),
  "cos.approx": row("cos.approx.ftz?.<type:f32> d, a", "9.7.3.19", { ...arithmetic32, bound: boundOfAngles }),
  "lg2.approx": row("lg2.approx.ftz?.<type:f32> d, a", "9.7.3.20", {
    ...arithmetic32,
    bound: "2^-22 absolute from 0.5 to 2, 2^-22 relative elsewhere",
  }),
  "ex2.approx.f32": row("ex2.approx.ftz?.<type:f32> d, a", "9.7.3.21", { ...arithmetic32, bound: "2 ulp" }),
  "tanh.approx.f32": row("tanh.approx.<type:f32> d, a", "9.7.3.22", { ...arithmetic32, bound: "2^-11 relative" }),
  // Floating-point arithmetic in 16 bits.
  "add.f16": [
    row("add.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.1", { ...pure, ...sum }),
    row("add.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.1", { ...pure, ...sum }),
  ],
  "sub.f16": [
    row("sub.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.2", { ...pure, ...difference }),
    row("sub.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.2", { ...pure, ...difference }),
  ],
  "mul.f16": [
    row("mul.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.3", { ...pure, ...product }),
    row("mul.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.3", { ...pure, ...product }),
  ],
  "fma.rn.f16": row("fma.rn.ftz?.sat?.<type:f16|f16x2> d, a, b, c", "9.7.4.4", pure),
  "fma.rn.relu": row("fma.rn.ftz?.relu.<type:f16|f16x2> d, a, b, c", "9.7.4.4", pure),
  "fma.rn.bf16": row("fma.rn.relu?.<type:bf16|bf16x2> d, a, b, c", "9.7.4.4", pure),
  "fma.rn.oob": [
    row("fma.rn.oob.relu?.<type:f16|f16x2|bf16|bf16x2> d, a, b, c", "9.7.4.4", pure),
    row("fma.rn.oob.sat.<type:f16|f16x2> d, a, b, c", "9.7.4.4", pure),
  ],
  "neg.f16": [
    row("neg.ftz?.<type:f16|f16x2> d, a", "9.7.4.5", { ...pure, ...negation }),
    row("neg.<type:bf16|bf16x2> d, a", "9.7.4.5", { ...pure, ...negation }),
  ],
  "abs.f16": [
    row("abs.ftz?.<type:f16|f16x2> d, a", "9.7.4.6", pure),
    row("abs.<type:bf16|bf16x2> d, a", "9.7.4.6", pure),
  ],
  "min.f16": extremesOfHalves("min", "9.7.4.7"),
  "max.f16": extremesOfHalves("max", "9.7.4.8"),
  "tanh.approx.f16": [
    row("tanh.approx.<type:f16|f16x2> d, a", "9.7.4.9", { ...pure, bound: "2^-10.987 absolute" }),
    row("tanh.approx.<type:bf16|bf16x2> d, a", "9.7.4.9", { ...pure, bound: "2^-8 absolute" }),
  ],
  "ex2.approx.f16": row("ex2.approx.<type:f16|f16x2> d, a", "9.7.4.10", { ...pure, bound: "2^-9.9 relative" }),
  "ex2.approx.ftz": row("ex2.approx.ftz.<type:bf16|bf16x2> d, a", "9.7.4.10", { ...pure, bound: "2^-7 relative" }),
}));

function extremesOfHalves(name: string, section: string): InstructionRow[] {
  return [
    row(`${name}.ftz?.NaN?.<type:f16|f16x2> d, a, b`, section, pure),
    row(`${name}.ftz?.NaN?.xorsign.abs.<type:f16|f16x2> d, a, b`, section, pure),
    row(`${name}.NaN?.<type:bf16|bf16x2> d, a, b`, section, pure),
    row(`${name}.NaN?.xorsign.abs.<type:bf16|bf16x2> d, a, b`, section, pure),
  ];
}

const integerComparison = "<compare:eq|ne|lt|le|gt|ge|lo|ls|hi|hs>";
const floatComparison = "<compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>";
const combined = "<combine:and|or|xor>?";
const integerTest: InstructionTraits = { ...pure, arithmetic: "comparison" };

/** Returns the instruction table's rows for comparisons and selections. */
export const comparisonRows: () => Rows<ComparisonName> = onFirstUse((): Rows<ComparisonName> => ({
  // Comparisons and selections.
  set: [
    row(
      `set.${integerComparison}.${combined}.<result:u32|s32|f32>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
      "9.7.6.1",
      pure,
    ),
    row(`set.${floatComparison}.${combined}.ftz?.<result:u32|s32|f32>.<type:f32> d, a, b [, c]`, "9.7.6.1", pure),
    row(`set.${floatComparison}.${combined}.<result:u32|s32|f32>.<type:f64> d, a, b [, c]`, "9.7.6.1", pure),
  ],
  setp: [
    row(`setp.<compare:eq|ne>.${combined}.${bits} p, a, b [, c]`, "9.7.6.2", integerTest),
    row(`setp.<compare:eq|ne|lt|le|gt|ge>.${combined}.${signed} p, a, b [, c]`, "9.7.6.2", integerTest),
    row(`setp.${integerComparison}.${combined}.<type:u16|u32|u64> p, a, b [, c]`, "9.7.6.2", integerTest),
    row(`setp.${floatComparison}.${combined}.ftz?.<type:f32> p, a, b [, c]`, "9.7.6.2", pure),
    row(`setp.${floatComparison}.${combined}.<type:f64> p, a, b [, c]`, "9.7.6.2", { ...pure, ignoresNaNBits: true }),
  ],
  selp: row(`selp.${selected} d, a, b, c`, "9.7.6.3", {
    ...pure,
    arithmetic: "selection",
    copies: 2,
    pointer: "derived",
  }),
  slct: [
    row(`slct.${selected}.<by:s32> d, a, b, c`, "9.7.6.4", { ...pure, copies: 2 }),
    row(`slct.ftz?.${selected}.<by:f32> d, a, b, c`, "9.7.6.4", { ...pure, copies: 2 }),
  ],
  // Comparisons of 16-bit floats, or with a 16-bit result.
  "set.f16": [
    row(
      `set.${floatComparison}.${combined}.ftz?.<result:f16|u16|s16|u32|s32>.<type:f16> d, a, b [, c]`,
      "9.7.7.1",
      pure,
    ),
    row(`set.${floatComparison}.${combined}.<result:bf16|u16|s16|u32|s32>.<type:bf16> d, a, b [, c]`, "9.7.7.1", pure),
    row(
      `set.${integerComparison}.${combined}.<result:f16|bf16>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
      "9.7.7.1",
      pure,
    ),
    row(`set.${floatComparison}.${combined}.ftz?.<result:f16|bf16>.<type:f16|f32> d, a, b [, c]`, "9.7.7.1", pure),
    row(`set.${floatComparison}.${combined}.<result:f16|bf16>.<type:f64> d, a, b [, c]`, "9.7.7.1", pure),
    row(`set.${floatComparison}.${combined}.ftz?.<result:f16x2|u32|s32>.<type:f16x2> d, a, b [, c]`, "9.7.7.1", pure),
    row(`set.${floatComparison}.${combined}.<result:bf16x2|u32|s32>.<type:bf16x2> d, a, b [, c]`, "9.7.7.1", pure),
  ],
  "setp.f16": [
    row(`setp.${floatComparison}.${combined}.ftz?.<type:f16|f16x2> p, a, b [, c]`, "9.7.7.2", pure),
    row(`setp.${floatComparison}.${combined}.<type:bf16|bf16x2> p, a, b [, c]`, "9.7.7.2", pure),
  ],
}));
