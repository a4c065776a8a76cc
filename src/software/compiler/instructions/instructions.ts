import { awaitCopies, copyAsynchronously } from "./asynchronous_copies.ts";
import { atomic } from "./atomic_instructions.ts";
import {
  count,
  extendLowBits,
  extractBits,
  findHighestBit,
  findNthSet,
  insertBits,
  makeMask,
  reverseBits,
} from "./bit_instructions.ts";
import { cacheHint } from "./cache_hints.ts";
import { addWithCarry, multiplyAddWithCarry } from "./carry_chains.ts";
import { allocateOnStack, restoreStack, saveStack } from "./call_instructions.ts";
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
} from "./approximate_instructions.ts";
import { convert } from "./conversion_instructions.ts";
import { setPredicate, setValue } from "./comparison_instructions.ts";
import { faultKind } from "../addresses.ts";
import {
  copySign,
  extremeFloat,
  float,
  fusedMultiplyAdd,
  reciprocal,
  signChange,
  testProperty,
} from "./float_instructions.ts";
import {
  halfExponential,
  halfExtreme,
  halfMultiplyAdd,
  halfProduct,
  halfSignChange,
  halfSum,
  halfTangent,
} from "./half_instructions.ts";
import { type Emit, type InstructionForm, instructionForm as form } from "./instruction_form.ts";
import {
  absolute,
  absoluteDifference,
  divide,
  dotProduct,
  extreme,
  integer,
  multiply24,
  multiplyHigh,
  multiplyLow,
  multiplyWide,
  negate,
  saturating,
} from "./integer_instructions.ts";
import { funnelShift, logicalNot, logicOfThree, not, shift } from "./logic_instructions.ts";
import { convertAddress, fence, isInSpace, load, store } from "./memory_instructions.ts";
import {
  activeMask,
  barrierArrive,
  barrierReduction,
  barrierSync,
  match,
  reduction,
  shuffle,
  sleep,
  vote,
  warpBarrier,
} from "./synchronization_instructions.ts";
import { move, selectByPredicate, selectBySign } from "./move_instructions.ts";
import { absoluteDifferences, addPairs, extremeOfPairs, pack } from "./packed_integers.ts";
import { convertFromEightBits, convertToEightBits, convertToPair, convertToTensorFloat } from "./packed_conversions.ts";
import { permuteBytes } from "./permute_bytes.ts";
import { refusedForms, refusedOpcodes } from "./refused_instructions.ts";
import { isSpecialRegister } from "./special_registers.ts";
import type { InstructionSet } from "../typing/instruction_set.ts";

const trap: Emit = (e) => {
  e.code.i32(faultKind.trap).i64(0n).i32(e.line);
  e.callHelper("fault").ops("unreachable");
};

const integers = "<type:u16|u32|u64|s16|s32|s64>";
const carried = "<type:u32|s32|u64|s64>";
const pairs = "<packed:u16x2|s16x2>";
const signed = "<type:s16|s32|s64>";
const bits = "<type:b16|b32|b64>";
const bitsOrPredicate = "<type:pred|b16|b32|b64>";
const wideBits = "<type:b32|b64>";
const loaded = "<type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64>";
const moved = "<type:pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
const selected = "<type:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
const converted = "u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f32|f64";
const integerComparison = "<compare:eq|ne|lt|le|gt|ge|lo|ls|hi|hs>";
const floatComparison = "<compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>";
const combined = "<combine:and|or|xor>?";
const space = "<space:global|shared|shared::cta|local|param>?";
const loadSpace = "<space:global|shared|shared::cta|local|param|param::entry|param::func|const>?";
const storeSpace = "<space:global|shared|shared::cta|local|param|param::func>?";
const namedSpace = "<space:global|shared|shared::cta|local|const|param|param::entry>";
const evicted = "<eviction:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate>?";
const prefetched = "<prefetch:L2::64B|L2::128B|L2::256B>?";
const loadHints = `<cache:ca|cg|cs|lu|cv>?.${evicted}.${prefetched}`;
const storeHints = `<cache:wb|cg|cs|wt>?.${evicted}`;
const orderedScope = "<scope:cta|gpu|sys>";
const orderedSpace = "<space:global|shared|shared::cta>?";
const vector = "<vector:v2|v4>?";
const scope = "<scope:cta|gpu|sys>?";
const atomicSpace = "<space:global|shared|shared::cta>?";
const vectorSpace = "<space:global>?";
const ordering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${atomicSpace}`;
const releasing = `<semantics:relaxed|release>?.${scope}.${atomicSpace}`;
const vectorOrdering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${vectorSpace}`;
const vectorReleasing = `<semantics:relaxed|release>?.${scope}.${vectorSpace}`;
const rounding = "<rounding:rn|rz|rm|rp>";

/**
 * Every instruction that is known: what may stand after its opcode, the section of the PTX ISA manual (version 8.8) that
 * defines it, and what it is compiled to. What is not here is refused.
 */
export const instructions: readonly InstructionForm[] = [
  form(`add.${integers} d, a, b`, "9.7.1.1", integer("Add")),
  form("add.sat.<type:s32> d, a, b", "9.7.1.1", saturating("i64Add")),
  form(`add.${pairs} d, a, b`, "9.7.1.1", addPairs),
  form(`sub.${integers} d, a, b`, "9.7.1.2", integer("Sub")),
  form("sub.sat.<type:s32> d, a, b", "9.7.1.2", saturating("i64Sub")),
  form(`mul.lo.${integers} d, a, b`, "9.7.1.3", multiplyLow),
  form(`mul.hi.${integers} d, a, b`, "9.7.1.3", multiplyHigh),
  form("mul.wide.<type:u16|u32|s16|s32> d, a, b", "9.7.1.3", multiplyWide),
  form(`mad.lo.${integers} d, a, b, c`, "9.7.1.4", multiplyLow),
  form(`mad.hi.${integers} d, a, b, c`, "9.7.1.4", multiplyHigh),
  form("mad.hi.sat.<type:s32> d, a, b, c", "9.7.1.4", multiplyHigh),
  form("mad.wide.<type:u16|u32|s16|s32> d, a, b, c", "9.7.1.4", multiplyWide),
  form("mul24.lo.<type:u32|s32> d, a, b", "9.7.1.5", multiply24),
  form("mul24.hi.<type:u32|s32> d, a, b", "9.7.1.5", multiply24),
  form("mad24.lo.<type:u32|s32> d, a, b, c", "9.7.1.6", multiply24),
  form("mad24.hi.<type:u32|s32> d, a, b, c", "9.7.1.6", multiply24),
  form("mad24.hi.sat.<type:s32> d, a, b, c", "9.7.1.6", multiply24),
  form(`sad.${integers} d, a, b, c`, "9.7.1.7", absoluteDifference),
  form(`div.${integers} d, a, b`, "9.7.1.8", divide("quotient")),
  form(`rem.${integers} d, a, b`, "9.7.1.9", divide("remainder")),
  form(`abs.${signed} d, a`, "9.7.1.10", absolute),
  form(`neg.${signed} d, a`, "9.7.1.11", negate),
  form(`min.${integers} d, a, b`, "9.7.1.12", extreme("min")),
  form("min.relu.<type:s32> d, a, b", "9.7.1.12", extreme("min")),
  form(`min.${pairs} d, a, b`, "9.7.1.12", extremeOfPairs("min")),
  form("min.relu.<packed:s16x2> d, a, b", "9.7.1.12", extremeOfPairs("min")),
  form(`max.${integers} d, a, b`, "9.7.1.13", extreme("max")),
  form("max.relu.<type:s32> d, a, b", "9.7.1.13", extreme("max")),
  form(`max.${pairs} d, a, b`, "9.7.1.13", extremeOfPairs("max")),
  form("max.relu.<packed:s16x2> d, a, b", "9.7.1.13", extremeOfPairs("max")),
  form(`popc.${wideBits} d, a`, "9.7.1.14", count("Popcnt")),
  form(`clz.${wideBits} d, a`, "9.7.1.15", count("Clz")),
  form("bfind.shiftamt?.<type:u32|u64|s32|s64> d, a", "9.7.1.16", findHighestBit),
  form("fns.<type:b32> d, a, b, c", "9.7.1.17", findNthSet),
  form(`brev.${wideBits} d, a`, "9.7.1.18", reverseBits),
  form("bfe.<type:u32|u64|s32|s64> d, a, b, c", "9.7.1.19", extractBits),
  form(`bfi.${wideBits} f, a, b, c, d`, "9.7.1.20", insertBits),
  form("szext.<mode:clamp|wrap>.<type:u32|s32> d, a, b", "9.7.1.21", extendLowBits),
  form("bmsk.<mode:clamp|wrap>.<type:b32> d, a, b", "9.7.1.22", makeMask),
  form("dp4a.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.23", dotProduct(4)),
  form("dp2a.lo.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", dotProduct(2)),
  form("dp2a.hi.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", dotProduct(2)),

  form(`add.cc.${carried} d, a, b`, "9.7.2.1", addWithCarry("add", { takesCarry: false })),
  form(`addc.cc?.${carried} d, a, b`, "9.7.2.2", addWithCarry("add", { takesCarry: true })),
  form(`sub.cc.${carried} d, a, b`, "9.7.2.3", addWithCarry("sub", { takesCarry: false })),
  form(`subc.cc?.${carried} d, a, b`, "9.7.2.4", addWithCarry("sub", { takesCarry: true })),
  form(`mad.lo.cc.${carried} d, a, b, c`, "9.7.2.5", multiplyAddWithCarry({ takesCarry: false })),
  form(`mad.hi.cc.${carried} d, a, b, c`, "9.7.2.5", multiplyAddWithCarry({ takesCarry: false })),
  form(`madc.lo.cc?.${carried} d, a, b, c`, "9.7.2.6", multiplyAddWithCarry({ takesCarry: true })),
  form(`madc.hi.cc?.${carried} d, a, b, c`, "9.7.2.6", multiplyAddWithCarry({ takesCarry: true })),

  // Without a rounding modifier the manual lets a float add, sub or mul be fused with another. Here none ever is.
  form(
    "testp.<property:finite|infinite|number|notanumber|normal|subnormal>.<type:f32|f64> p, a",
    "9.7.3.1",
    testProperty,
  ),
  form("copysign.<type:f32|f64> d, a, b", "9.7.3.2", copySign),
  form(`add.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.3", float("Add")),
  form(`add.${rounding}?.<type:f64> d, a, b`, "9.7.3.3", float("Add")),
  form(`sub.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.4", float("Sub")),
  form(`sub.${rounding}?.<type:f64> d, a, b`, "9.7.3.4", float("Sub")),
  form(`mul.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.5", float("Mul")),
  form(`mul.${rounding}?.<type:f64> d, a, b`, "9.7.3.5", float("Mul")),
  form(`fma.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.6", fusedMultiplyAdd),
  form(`fma.${rounding}.<type:f64> d, a, b, c`, "9.7.3.6", fusedMultiplyAdd),
  form(`mad.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.7", fusedMultiplyAdd),
  form(`mad.${rounding}.<type:f64> d, a, b, c`, "9.7.3.7", fusedMultiplyAdd),
  form("div.approx.ftz?.<type:f32> d, a, b", "9.7.3.8", divideApproximately),
  form("div.full.ftz?.<type:f32> d, a, b", "9.7.3.8", float("Div")),
  form(`div.${rounding}.ftz?.<type:f32> d, a, b`, "9.7.3.8", float("Div")),
  form(`div.${rounding}.<type:f64> d, a, b`, "9.7.3.8", float("Div")),
  form("abs.ftz?.<type:f32> d, a", "9.7.3.9", signChange("Abs")),
  form("abs.<type:f64> d, a", "9.7.3.9", signChange("Abs")),
  form("neg.ftz?.<type:f32> d, a", "9.7.3.10", signChange("Neg")),
  form("neg.<type:f64> d, a", "9.7.3.10", signChange("Neg")),
  form("min.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.11", extremeFloat("Min")),
  form("min.ftz?.NaN?.xorsign.abs.<type:f32> d, a, b", "9.7.3.11", extremeFloat("Min")),
  form("min.<type:f64> d, a, b", "9.7.3.11", extremeFloat("Min")),
  form("max.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.12", extremeFloat("Max")),
  form("max.ftz?.NaN?.xorsign.abs.<type:f32> d, a, b", "9.7.3.12", extremeFloat("Max")),
  form("max.<type:f64> d, a, b", "9.7.3.12", extremeFloat("Max")),
  form("rcp.approx.ftz?.<type:f32> d, a", "9.7.3.13", reciprocal),
  form(`rcp.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.13", reciprocal),
  form(`rcp.${rounding}.<type:f64> d, a`, "9.7.3.13", reciprocal),
  form("rcp.approx.ftz.<type:f64> d, a", "9.7.3.14", upperHalf("reciprocal")),
  form("sqrt.approx.ftz?.<type:f32> d, a", "9.7.3.15", float("Sqrt")),
  form(`sqrt.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.15", float("Sqrt")),
  form(`sqrt.${rounding}.<type:f64> d, a`, "9.7.3.15", float("Sqrt")),
  form("rsqrt.approx.ftz?.<type:f32> d, a", "9.7.3.16", reciprocalRoot),
  form("rsqrt.approx.<type:f64> d, a", "9.7.3.16", reciprocalRoot64),
  form("rsqrt.approx.ftz.<type:f64> d, a", "9.7.3.17", upperHalf("reciprocalRoot")),
  form("sin.approx.ftz?.<type:f32> d, a", "9.7.3.18", sine),
  form("cos.approx.ftz?.<type:f32> d, a", "9.7.3.19", cosine),
  form("lg2.approx.ftz?.<type:f32> d, a", "9.7.3.20", logarithm),
  form("ex2.approx.ftz?.<type:f32> d, a", "9.7.3.21", exponential),
  form("tanh.approx.<type:f32> d, a", "9.7.3.22", hyperbolicTangent),

  form("add.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.1", halfSum("Add")),
  form("add.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.1", halfSum("Add")),
  form("sub.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.2", halfSum("Sub")),
  form("sub.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.2", halfSum("Sub")),
  form("mul.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.3", halfProduct),
  form("mul.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.3", halfProduct),
  form("fma.rn.ftz?.sat?.<type:f16|f16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd),
  form("fma.rn.ftz?.relu.<type:f16|f16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd),
  form("fma.rn.relu?.<type:bf16|bf16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd),
  form("neg.ftz?.<type:f16|f16x2> d, a", "9.7.4.5", halfSignChange("Neg")),
  form("neg.<type:bf16|bf16x2> d, a", "9.7.4.5", halfSignChange("Neg")),
  form("abs.ftz?.<type:f16|f16x2> d, a", "9.7.4.6", halfSignChange("Abs")),
  form("abs.<type:bf16|bf16x2> d, a", "9.7.4.6", halfSignChange("Abs")),
  ...[["min", "Min", "9.7.4.7"] as const, ["max", "Max", "9.7.4.8"] as const].flatMap(([name, operation, section]) => [
    form(`${name}.ftz?.NaN?.<type:f16|f16x2> d, a, b`, section, halfExtreme(operation)),
    form(`${name}.ftz?.NaN?.xorsign.abs.<type:f16|f16x2> d, a, b`, section, halfExtreme(operation)),
    form(`${name}.NaN?.<type:bf16|bf16x2> d, a, b`, section, halfExtreme(operation)),
    form(`${name}.NaN?.xorsign.abs.<type:bf16|bf16x2> d, a, b`, section, halfExtreme(operation)),
  ]),
  form("tanh.approx.<type:f16|f16x2|bf16|bf16x2> d, a", "9.7.4.9", halfTangent),
  form("ex2.approx.<type:f16|f16x2> d, a", "9.7.4.10", halfExponential),
  form("ex2.approx.ftz.<type:bf16|bf16x2> d, a", "9.7.4.10", halfExponential),

  form(
    `set.${integerComparison}.${combined}.<result:u32|s32|f32>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
    "9.7.6.1",
    setValue,
  ),
  form(`set.${floatComparison}.${combined}.ftz?.<result:u32|s32|f32>.<type:f32> d, a, b [, c]`, "9.7.6.1", setValue),
  form(`set.${floatComparison}.${combined}.<result:u32|s32|f32>.<type:f64> d, a, b [, c]`, "9.7.6.1", setValue),
  form(`setp.<compare:eq|ne>.${combined}.${bits} p, a, b [, c]`, "9.7.6.2", setPredicate),
  form(`setp.<compare:eq|ne|lt|le|gt|ge>.${combined}.${signed} p, a, b [, c]`, "9.7.6.2", setPredicate),
  form(`setp.${integerComparison}.${combined}.<type:u16|u32|u64> p, a, b [, c]`, "9.7.6.2", setPredicate),
  form(`setp.${floatComparison}.${combined}.ftz?.<type:f32> p, a, b [, c]`, "9.7.6.2", setPredicate),
  form(`setp.${floatComparison}.${combined}.<type:f64> p, a, b [, c]`, "9.7.6.2", setPredicate),
  form(`selp.${selected} d, a, b, c`, "9.7.6.3", selectByPredicate),
  form(`slct.${selected}.<by:s32> d, a, b, c`, "9.7.6.4", selectBySign),
  form(`slct.ftz?.${selected}.<by:f32> d, a, b, c`, "9.7.6.4", selectBySign),

  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16|u16|s16|u32|s32>.<type:f16> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
  ),
  form(
    `set.${floatComparison}.${combined}.<result:bf16|u16|s16|u32|s32>.<type:bf16> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
  ),
  form(
    `set.${integerComparison}.${combined}.<result:f16|bf16>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
  ),
  form(`set.${floatComparison}.${combined}.ftz?.<result:f16|bf16>.<type:f16|f32> d, a, b [, c]`, "9.7.7.1", setValue),
  form(`set.${floatComparison}.${combined}.<result:f16|bf16>.<type:f64> d, a, b [, c]`, "9.7.7.1", setValue),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16x2|u32|s32>.<type:f16x2> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
  ),
  form(`set.${floatComparison}.${combined}.<result:bf16x2|u32|s32>.<type:bf16x2> d, a, b [, c]`, "9.7.7.1", setValue),
  form(`setp.${floatComparison}.${combined}.ftz?.<type:f16|f16x2> p, a, b [, c]`, "9.7.7.2", setPredicate),
  form(`setp.${floatComparison}.${combined}.<type:bf16|bf16x2> p, a, b [, c]`, "9.7.7.2", setPredicate),

  form(`and.${bitsOrPredicate} d, a, b`, "9.7.8.1", integer("And")),
  form(`or.${bitsOrPredicate} d, a, b`, "9.7.8.2", integer("Or")),
  form(`xor.${bitsOrPredicate} d, a, b`, "9.7.8.3", integer("Xor")),
  form(`not.${bitsOrPredicate} d, a`, "9.7.8.4", not),
  form(`cnot.${bits} d, a`, "9.7.8.5", logicalNot),
  form("lop3.<type:b32> d, a, b, c, immLut", "9.7.8.6", logicOfThree),
  form("lop3.<combine:or|and>.<type:b32> d, a, b, c, immLut, q", "9.7.8.6", logicOfThree),
  form("shf.<direction:l|r>.<mode:clamp|wrap>.b32 d, a, b, c", "9.7.8.7", funnelShift),
  form(`shl.${bits} d, a, b`, "9.7.8.8", shift("left")),
  form("shr.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b", "9.7.8.9", shift("right")),

  form(`mov.${moved} d, a`, "9.7.9.3", move),
  form("prmt.<type:b32>.<mode:f4e|b4e|rc8|ecl|ecr|rc16>? d, a, b, c", "9.7.9.7", permuteBytes),
  form(`ld.weak?.${loadSpace}.${loadHints}.${vector}.${loaded} d, [a]`, "9.7.9.8", load),
  form(`ld.volatile.${space}.${prefetched}.${vector}.${loaded} d, [a]`, "9.7.9.8", load),
  form(
    `ld.<semantics:relaxed|acquire>.${orderedScope}.${orderedSpace}.${evicted}.${prefetched}.${vector}.${loaded} d, [a]`,
    "9.7.9.8",
    load,
  ),
  form(`ld.mmio.relaxed.sys.<space:global>?.${loaded} d, [a]`, "9.7.9.8", load),
  form(`ld.<space:global>.nc.${loadHints}.${vector}.${loaded} d, [a]`, "9.7.9.9", load),
  form(`ldu.<space:global>?.${vector}.${loaded} d, [a]`, "9.7.9.10", load),
  form(`st.weak?.${storeSpace}.${storeHints}.${vector}.${loaded} [a], b`, "9.7.9.11", store),
  form(`st.volatile.${storeSpace}.${vector}.${loaded} [a], b`, "9.7.9.11", store),
  form(
    `st.<semantics:relaxed|release>.${orderedScope}.${orderedSpace}.${evicted}.${vector}.${loaded} [a], b`,
    "9.7.9.11",
    store,
  ),
  form(`st.mmio.relaxed.sys.<space:global>?.${loaded} [a], b`, "9.7.9.11", store),
  form("prefetch.<space:global|local>?.<level:L1|L2> [a]", "9.7.9.15", cacheHint),
  form("prefetch.<space:global>.<eviction:L2::evict_last|L2::evict_normal> [a]", "9.7.9.15", cacheHint),
  form("prefetchu.L1 [a]", "9.7.9.15", cacheHint),
  form("applypriority.<space:global>?.L2::evict_normal [a], size", "9.7.9.16", cacheHint),
  form("discard.<space:global>?.L2 [a], size", "9.7.9.17", cacheHint),
  form(`isspacep.${namedSpace} p, a`, "9.7.9.19", isInSpace),
  form(`cvta.${namedSpace}.u64 d, a`, "9.7.9.20", convertAddress("i64Add")),
  form(`cvta.to.${namedSpace}.u64 d, a`, "9.7.9.20", convertAddress("i64Sub")),
  form(
    `cvt.<rounding:rn|rz|rm|rp|rni|rzi|rmi|rpi>?.ftz?.sat?.<type:${converted}>.<from:${converted}> d, a`,
    "9.7.9.21",
    convert,
  ),
  form("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16|bf16>.<from:f32> d, a", "9.7.9.21", convert),
  form("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16x2|bf16x2>.<from:f32> d, a, b", "9.7.9.21", convertToPair),
  form("cvt.<rounding:rna>.satfinite?.tf32.<from:f32> d, a", "9.7.9.21", convertToTensorFloat),
  form("cvt.<rounding:rn|rz>.satfinite?.relu?.tf32.<from:f32> d, a", "9.7.9.21", convertToTensorFloat),
  form("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f32> d, a, b", "9.7.9.21", convertToEightBits),
  form("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f16x2> d, a", "9.7.9.21", convertToEightBits),
  form("cvt.rn.relu?.<type:f16x2>.<format:e4m3x2|e5m2x2> d, a", "9.7.9.21", convertFromEightBits),
  form("cvt.pack.sat.<to:u16|s16>.s32 d, a, b", "9.7.9.22", pack),
  form("cvt.pack.sat.<to:u2|s2|u4|s4|u8|s8>.s32.b32 d, a, b, c", "9.7.9.22", pack),
  form(
    `cp.async.<cache:ca>.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
    "9.7.9.25",
    copyAsynchronously,
  ),
  form(
    `cp.async.<cache:cg>.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
    "9.7.9.25",
    copyAsynchronously,
  ),
  form("cp.async.commit_group", "9.7.9.25", awaitCopies),
  form("cp.async.wait_group n", "9.7.9.25", awaitCopies),
  form("cp.async.wait_all", "9.7.9.25", awaitCopies),

  form("bra.uni? target", "9.7.12.3", { flow: "branch" }),
  form("brx.idx.uni? index, targets", "9.7.12.4", { flow: "switch" }),
  form("call.uni? [x, y, z, w]", "9.7.12.5", { flow: "call" }),
  form("ret.uni?", "9.7.12.6", { flow: "return" }),
  form("exit", "9.7.12.7", { flow: "exit" }),

  form("barrier.cta?.sync.aligned? a [, b]", "9.7.13.1", barrierSync),
  form("barrier.cta?.arrive.aligned? a, b", "9.7.13.1", barrierArrive),
  form("barrier.cta?.red.<operation:popc>.aligned?.u32 d, a, p [, q]", "9.7.13.1", barrierReduction),
  form("barrier.cta?.red.<operation:and|or>.aligned?.pred d, a, p [, q]", "9.7.13.1", barrierReduction),
  form("bar.cta?.sync a [, b]", "9.7.13.1", barrierSync),
  form("bar.cta?.arrive a, b", "9.7.13.1", barrierArrive),
  form("bar.cta?.red.<operation:popc>.u32 d, a, p [, q]", "9.7.13.1", barrierReduction),
  form("bar.cta?.red.<operation:and|or>.pred d, a, p [, q]", "9.7.13.1", barrierReduction),
  form("bar.warp.sync membermask", "9.7.13.2", warpBarrier),
  form("shfl.sync.<mode:up|down|bfly|idx>.b32 d, a, b, c, membermask", "9.7.9.6", shuffle),
  form("vote.sync.<mode:all|any|uni>.pred d, a, membermask", "9.7.13.9", vote),
  form("vote.sync.<mode:ballot>.b32 d, a, membermask", "9.7.13.9", vote),
  form("match.<mode:any|all>.sync.<type:b32|b64> d, a, membermask", "9.7.13.10", match),
  form("activemask.b32 d", "9.7.13.11", activeMask),
  form("redux.sync.<operation:add|min|max>.<type:u32|s32> d, a, membermask", "9.7.13.12", reduction),
  form("redux.sync.<operation:and|or|xor>.<type:b32> d, a, membermask", "9.7.13.12", reduction),
  form("nanosleep.u32 t", "9.7.19.3", sleep),
  form("stacksave.<type:u32|u64> d", "9.7.16.1", saveStack),
  form("stackrestore.<type:u32|u64> a", "9.7.16.2", restoreStack),
  form("alloca.<type:u32|u64> d, size [, alignment]", "9.7.16.3", allocateOnStack),

  // Every atomic instruction is sequentially consistent here, which is more than any asks for.
  form("membar.<level:cta|gl|sys>", "9.7.13.4", fence),
  form("fence.<semantics:sc|acq_rel|acquire|release>?.<scope:cta|gpu|sys>", "9.7.13.4", fence),
  ...["atom", "red"].flatMap((opcode) => {
    const hasResult = opcode === "atom";
    const [section, operands] = hasResult ? ["9.7.13.5", "d, [a], b"] : ["9.7.13.7", "[a], b"];
    const head = `${opcode}.${hasResult ? ordering : releasing}`;
    const vectorHead = `${opcode}.${hasResult ? vectorOrdering : vectorReleasing}`;
    return [
      `${head}.<operation:and|or|xor>.${wideBits} ${operands}`,
      `${head}.<operation:add>.<type:u32|s32|u64|f32|f64> ${operands}`,
      `${head}.<operation:add>.noftz.<type:f16|f16x2|bf16|bf16x2> ${operands}`,
      `${head}.<operation:inc|dec>.<type:u32> ${operands}`,
      `${head}.<operation:min|max>.<type:u32|s32|u64|s64> ${operands}`,
      `${vectorHead}.<operation:add>.<vector:v2|v4>.<type:f32> ${operands}`,
      `${vectorHead}.<operation:add|min|max>.noftz.<vector:v2|v4|v8>.<type:f16|bf16> ${operands}`,
      `${vectorHead}.<operation:add|min|max>.noftz.<vector:v2|v4>.<type:f16x2|bf16x2> ${operands}`,
    ].map((syntax) => form(syntax, section!, atomic(hasResult)));
  }),
  form(`atom.${ordering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", atomic(true)),
  form(`atom.${ordering}.<operation:cas>.${bits} d, [a], b, c`, "9.7.13.5", atomic(true)),

  form(
    "vabsdiff2.<result:u32>.<first:u32>.<second:u32>.add? d, a, b, c",
    "9.7.18.2",
    absoluteDifferences(2),
  ),
  form(
    "vabsdiff4.<result:u32>.<first:u32>.<second:u32>.add? d, a, b, c",
    "9.7.18.2",
    absoluteDifferences(4),
  ),

  form("trap", "9.7.19.4", trap),

  ...refusedForms,
];

/** The instructions that have some forms, among what else PTX has. */
export function instructionSetOf(forms: readonly InstructionForm[]): InstructionSet {
  return { forms: Map.groupBy(forms, ({ opcode }) => opcode), refusals: refusedOpcodes, isSpecialRegister };
}

/** The instructions of the software device. */
export const instructionSet: InstructionSet = instructionSetOf(instructions);
