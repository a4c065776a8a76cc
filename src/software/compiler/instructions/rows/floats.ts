import {
  cosine,
  divideApproximately,
  exponential,
  hyperbolicTangent,
  logarithm,
  reciprocalRoot,
  reciprocalRoot64,
  sine,
  upperHalf,
} from "../floats/approximate_instructions.ts";
import {
  copySign,
  extremeFloat,
  float,
  fusedMultiplyAdd,
  reciprocal,
  signChange,
  testProperty,
} from "../floats/float_instructions.ts";
import { doubleGangForms, floatGangForms } from "../gangs/gang_lowering.ts";
import {
  halfExponential,
  halfExtreme,
  halfMultiplyAdd,
  halfProduct,
  halfSignChange,
  halfSum,
  halfTangent,
} from "../floats/half_instructions.ts";
import type { InstructionForm, LoweringTraits } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";
import { form } from "./row.ts";

const rounding = "<rounding:rn|rz|rm|rp>";
/** 32-bit floating-point arithmetic, which gives only the canonical NaN. */
const arithmetic32: LoweringTraits = { ...pure, hasCanonicalNaN: () => true };
const arithmetic64: LoweringTraits = { ...pure, propagatesNaN64: true };
const noBound = "the manual states none";
const boundOfAngles = "2^-20.5 absolute from -2pi to 2pi, 2^-14.7 absolute from -100pi to 100pi, none beyond";

const product: LoweringTraits = { contraction: "product" };
const sum: LoweringTraits = { contraction: "sum" };
const difference: LoweringTraits = { contraction: "difference" };
const negation: LoweringTraits = { contraction: "negation" };
/** Correctly rounded division and roots, for which `ptxas` branches to code for operands that are rare. */
const rounded: LoweringTraits = { dividesBlock: () => true };

/** Floating-point arithmetic. */
export const floatForms: readonly InstructionForm[] = [
  // Floating-point arithmetic in 32 and 64 bits.
  form(
    "testp.<property:finite|infinite|number|notanumber|normal|subnormal>.<type:f32|f64> p, a",
    "9.7.3.1",
    testProperty,
    pure,
  ),
  form("copysign.<type:f32|f64> d, a, b", "9.7.3.2", copySign, pure),
  form(`add.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.3", float("Add"), {
    ...arithmetic32,
    ...sum,
    gangForm: floatGangForms.add,
  }),
  form(`add.${rounding}?.<type:f64> d, a, b`, "9.7.3.3", float("Add"), {
    ...arithmetic64,
    ...sum,
    gangForm: doubleGangForms.add,
  }),
  form(`sub.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.4", float("Sub"), {
    ...arithmetic32,
    ...difference,
    gangForm: floatGangForms.subtract,
  }),
  form(`sub.${rounding}?.<type:f64> d, a, b`, "9.7.3.4", float("Sub"), {
    ...arithmetic64,
    ...difference,
    gangForm: doubleGangForms.subtract,
  }),
  form(`mul.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.5", float("Mul"), {
    ...arithmetic32,
    ...product,
    gangForm: floatGangForms.multiply,
  }),
  form(`mul.${rounding}?.<type:f64> d, a, b`, "9.7.3.5", float("Mul"), {
    ...arithmetic64,
    ...product,
    gangForm: doubleGangForms.multiply,
  }),
  form(`fma.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.6", fusedMultiplyAdd, {
    ...arithmetic32,
    gangForm: floatGangForms.multiplyAdd,
  }),
  form(`fma.${rounding}.<type:f64> d, a, b, c`, "9.7.3.6", fusedMultiplyAdd, {
    ...arithmetic64,
    gangForm: doubleGangForms.multiplyAdd,
  }),
  form(`mad.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.7", fusedMultiplyAdd, {
    ...arithmetic32,
    gangForm: floatGangForms.multiplyAdd,
  }),
  form(`mad.${rounding}.<type:f64> d, a, b, c`, "9.7.3.7", fusedMultiplyAdd, {
    ...arithmetic64,
    gangForm: doubleGangForms.multiplyAdd,
  }),
  form("div.approx.ftz?.<type:f32> d, a, b", "9.7.3.8", divideApproximately, {
    ...arithmetic32,
    bound: "2 ulp for a divisor from 2^-126 to 2^126",
  }),
  form("div.full.ftz?.<type:f32> d, a, b", "9.7.3.8", float("Div"), { ...arithmetic32, bound: "2 ulp" }),
  form(`div.${rounding}.ftz?.<type:f32> d, a, b`, "9.7.3.8", float("Div"), {
    ...arithmetic32,
    ...rounded,
    gangForm: floatGangForms.divide,
  }),
  form(`div.${rounding}.<type:f64> d, a, b`, "9.7.3.8", float("Div"), {
    ...arithmetic64,
    ...rounded,
    gangForm: doubleGangForms.divide,
  }),
  form("abs.ftz?.<type:f32> d, a", "9.7.3.9", signChange("Abs"), {
    ...arithmetic32,
    gangForm: floatGangForms.absolute,
  }),
  form("abs.<type:f64> d, a", "9.7.3.9", signChange("Abs"), { ...arithmetic64, gangForm: doubleGangForms.absolute }),
  form("neg.ftz?.<type:f32> d, a", "9.7.3.10", signChange("Neg"), {
    ...arithmetic32,
    ...negation,
    gangForm: floatGangForms.negate,
  }),
  form("neg.<type:f64> d, a", "9.7.3.10", signChange("Neg"), {
    ...arithmetic64,
    ...negation,
    gangForm: doubleGangForms.negate,
  }),
  form("min.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.11", extremeFloat("Min"), {
    ...arithmetic32,
    gangForm: floatGangForms.minimum,
  }),
  form("min.ftz?.NaN?.xorsign.abs.<type:f32> d, a, b", "9.7.3.11", extremeFloat("Min"), arithmetic32),
  form("min.<type:f64> d, a, b", "9.7.3.11", extremeFloat("Min"), pure),
  form("max.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.12", extremeFloat("Max"), {
    ...arithmetic32,
    gangForm: floatGangForms.maximum,
  }),
  form("max.ftz?.NaN?.xorsign.abs.<type:f32> d, a, b", "9.7.3.12", extremeFloat("Max"), arithmetic32),
  form("max.<type:f64> d, a, b", "9.7.3.12", extremeFloat("Max"), pure),
  form("rcp.approx.ftz?.<type:f32> d, a", "9.7.3.13", reciprocal, { ...arithmetic32, bound: "1 ulp" }),
  form(`rcp.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.13", reciprocal, { ...arithmetic32, ...rounded }),
  form(`rcp.${rounding}.<type:f64> d, a`, "9.7.3.13", reciprocal, { ...arithmetic64, ...rounded }),
  form("rcp.approx.ftz.<type:f64> d, a", "9.7.3.14", upperHalf("reciprocal"), { ...pure, bound: noBound }),
  form("sqrt.approx.ftz?.<type:f32> d, a", "9.7.3.15", float("Sqrt"), { ...arithmetic32, bound: "2^-23 relative" }),
  form(`sqrt.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.15", float("Sqrt"), {
    ...arithmetic32,
    ...rounded,
    gangForm: floatGangForms.squareRoot,
  }),
  form(`sqrt.${rounding}.<type:f64> d, a`, "9.7.3.15", float("Sqrt"), {
    ...arithmetic64,
    ...rounded,
    gangForm: doubleGangForms.squareRoot,
  }),
  form("rsqrt.approx.ftz?.<type:f32> d, a", "9.7.3.16", reciprocalRoot, { ...arithmetic32, bound: "2^-22.9 relative" }),
  form("rsqrt.approx.<type:f64> d, a", "9.7.3.16", reciprocalRoot64, { ...pure, ...rounded, bound: noBound }),
  form("rsqrt.approx.ftz.<type:f64> d, a", "9.7.3.17", upperHalf("reciprocalRoot"), { ...pure, bound: noBound }),
  form("sin.approx.ftz?.<type:f32> d, a", "9.7.3.18", sine, { ...arithmetic32, bound: boundOfAngles }),
  form("cos.approx.ftz?.<type:f32> d, a", "9.7.3.19", cosine, { ...arithmetic32, bound: boundOfAngles }),
  form("lg2.approx.ftz?.<type:f32> d, a", "9.7.3.20", logarithm, {
    ...arithmetic32,
    bound: "2^-22 absolute from 0.5 to 2, 2^-22 relative elsewhere",
  }),
  form("ex2.approx.ftz?.<type:f32> d, a", "9.7.3.21", exponential, { ...arithmetic32, bound: "2 ulp" }),
  form("tanh.approx.<type:f32> d, a", "9.7.3.22", hyperbolicTangent, { ...arithmetic32, bound: "2^-11 relative" }),

  // Floating-point arithmetic in 16 bits.
  form("add.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.1", halfSum("Add"), { ...pure, ...sum }),
  form("add.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.1", halfSum("Add"), { ...pure, ...sum }),
  form("sub.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.2", halfSum("Sub"), { ...pure, ...difference }),
  form("sub.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.2", halfSum("Sub"), { ...pure, ...difference }),
  form("mul.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.3", halfProduct, { ...pure, ...product }),
  form("mul.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.3", halfProduct, { ...pure, ...product }),
  form("fma.rn.ftz?.sat?.<type:f16|f16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd, pure),
  form("fma.rn.ftz?.relu.<type:f16|f16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd, pure),
  form("fma.rn.relu?.<type:bf16|bf16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd, pure),
  form("neg.ftz?.<type:f16|f16x2> d, a", "9.7.4.5", halfSignChange("Neg"), { ...pure, ...negation }),
  form("neg.<type:bf16|bf16x2> d, a", "9.7.4.5", halfSignChange("Neg"), { ...pure, ...negation }),
  form("abs.ftz?.<type:f16|f16x2> d, a", "9.7.4.6", halfSignChange("Abs"), pure),
  form("abs.<type:bf16|bf16x2> d, a", "9.7.4.6", halfSignChange("Abs"), pure),
  ...[["min", "Min", "9.7.4.7"] as const, ["max", "Max", "9.7.4.8"] as const].flatMap(([name, operation, section]) => [
    form(`${name}.ftz?.NaN?.<type:f16|f16x2> d, a, b`, section, halfExtreme(operation), pure),
    form(`${name}.ftz?.NaN?.xorsign.abs.<type:f16|f16x2> d, a, b`, section, halfExtreme(operation), pure),
    form(`${name}.NaN?.<type:bf16|bf16x2> d, a, b`, section, halfExtreme(operation), pure),
    form(`${name}.NaN?.xorsign.abs.<type:bf16|bf16x2> d, a, b`, section, halfExtreme(operation), pure),
  ]),
  form("tanh.approx.<type:f16|f16x2> d, a", "9.7.4.9", halfTangent, { ...pure, bound: "2^-10.987 absolute" }),
  form("tanh.approx.<type:bf16|bf16x2> d, a", "9.7.4.9", halfTangent, { ...pure, bound: "2^-8 absolute" }),
  form("ex2.approx.<type:f16|f16x2> d, a", "9.7.4.10", halfExponential, { ...pure, bound: "2^-9.9 relative" }),
  form("ex2.approx.ftz.<type:bf16|bf16x2> d, a", "9.7.4.10", halfExponential, { ...pure, bound: "2^-7 relative" }),
];
