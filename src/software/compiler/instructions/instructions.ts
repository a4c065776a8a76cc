/**
 * The table of instructions: everything that the compiler knows of a PTX instruction stands in its row.
 *
 * To add an instruction, write the function that emits it in a file of this folder, and add a row with its syntax, its
 * section in the manual, that function and its traits (`instruction_traits.ts`). A trait that is left out takes the
 * conservative value, so state only what is certain. CONTRIBUTING.md lists the other steps; tests fail until they are
 * done. Section numbers are those of PTX ISA 9.0.
 *
 * @module
 */
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
import { cacheHint, policyForms, withPolicy } from "./cache_hints.ts";
import { clusterForms } from "./cluster_instructions.ts";
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
import { type InstructionForm, instructionForm, type Lowering } from "./instruction_form.ts";
import { type InstructionTraits, pure } from "./instruction_traits.ts";
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
import { memoryBarrierForms } from "./memory_barriers.ts";
import { convertAddress, fence, isInSpace, load, store } from "./memory_instructions.ts";
import {
  activeMask,
  barrierArrive,
  barrierReduction,
  barrierSync,
  elect,
  match,
  reduction,
  shuffle,
  sleep,
  vote,
  warpBarrier,
} from "./synchronization_instructions.ts";
import { loadMatrices, storeMatrices, transposeMatrix } from "./matrix_instructions.ts";
import { move, moveVector, selectByPredicate, selectBySign } from "./move_instructions.ts";
import { performanceEvent, redistributeRegisters, trap } from "./miscellaneous_instructions.ts";
import { packedVideoForms } from "./packed_video_instructions.ts";
import { addPairs, extremeOfPairs, pack } from "./packed_integers.ts";
import { convertFromEightBits, convertToEightBits, convertToPair, convertToTensorFloat } from "./packed_conversions.ts";
import { permuteBytes } from "./permute_bytes.ts";
import { refusedForms, refusedOpcodes } from "./refused_instructions.ts";
import { isSpecialRegister } from "./special_registers.ts";
import {
  strideOfConversion,
  strideOfDifference,
  strideOfMove,
  strideOfNegation,
  strideOfProduct,
  strideOfProductSum,
  strideOfShift,
  strideOfSum,
  wideningOfConversion,
  wideningOfProduct,
} from "./strides.ts";
import { videoForms } from "./video_instructions.ts";
import { atomicWide, loadWide, moveWide, storeWide } from "./wide_instructions.ts";
import { gangLoad, gangStore } from "./gang_memory.ts";
import {
  floatGangForms,
  gangComparison,
  gangConversion,
  gangMove,
  gangSelection,
  integerGangForms,
} from "./gang_lowering.ts";
import type { ResolvedInstruction } from "../typing/resolved_instruction.ts";
import type { InstructionSet } from "../typing/instruction_set.ts";

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
const loadSpace = "<space:global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const>?";
const storeSpace = "<space:global|shared|shared::cta|shared::cluster|local|param|param::func>?";
const namedSpace = "<space:global|shared|shared::cta|shared::cluster|local|const|param|param::entry>";
const volatileSpace = "<space:global|shared|shared::cta|shared::cluster>?";
// ptxas takes the hints of this kind for global memory only, and no evictions together with a cache operator.
const evicted =
  "<space:global>?.<eviction:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate>";
const prefetchSizes = "<prefetch:L2::64B|L2::128B|L2::256B>";
const prefetched = `${prefetchSizes}?`;
const loadCache = "<cache:ca|cg|cs|lu|cv>?";
const storeCache = "<cache:wb|cg|cs|wt>?";
const evictedNotCoherent = evicted.replace("?", ".nc");
const orderedScope = "<scope:cta|cluster|gpu|sys>";
const orderedSpace = "<space:global|shared|shared::cta|shared::cluster>?";
const vector = "<vector:v2|v4>?";
const matrices = "<matrices:x1|x2|x4>.trans?.<space:shared|shared::cta>?";
const scope = "<scope:cta|cluster|gpu|sys>?";
const atomicSpace = "<space:global|shared|shared::cta|shared::cluster>?";
const vectorSpace = "<space:global>?";
const ordering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${atomicSpace}`;
const releasing = `<semantics:relaxed|release>?.${scope}.${atomicSpace}`;
const vectorOrdering = `<semantics:relaxed|acquire|release|acq_rel>?.${scope}.${vectorSpace}`;
const vectorReleasing = `<semantics:relaxed|release>?.${scope}.${vectorSpace}`;
const rounding = "<rounding:rn|rz|rm|rp>";

/** 32-bit floating-point arithmetic, which gives only the canonical NaN. */
const arithmetic32: InstructionTraits = { ...pure, hasCanonicalNaN: () => true };
const arithmetic64: InstructionTraits = { ...pure, propagatesNaN64: true };
/** Instructions with the carry, which each thread has beside its registers. */
const carrying: InstructionTraits = { effects: [] };
/** Control flow, which the compiler handles by the row's `flow`. */
const control: InstructionTraits = { effects: [], runsInGangs: true };
/**
 * Suspends the thread until others have come as far, so no loop has to spin for it. A gang diverges here, and
 * reconverges only if uniform registers are still uniform.
 */
const exchange: InstructionTraits = { effects: [], isUniform: true, runsInGangs: true };
/** Exchanges of matrices, whose results differ between threads with the same operands. */
const matrixExchange: InstructionTraits = { effects: [], runsInGangs: true };
const matrixLoad: InstructionTraits = { effects: ["reads", "observes"], runsInGangs: true };
const matrixStore: InstructionTraits = { effects: ["writes"], runsInGangs: true };
const weakLoad: InstructionTraits = {
  ...pure,
  effects: ["reads"],
  pointer: "loaded",
  takesVectorOfOne: true,
  gangForm: gangLoad,
};
/** A load that sees what other threads store in the meantime. */
const observingLoad: InstructionTraits = { ...weakLoad, effects: ["reads", "observes"] };
const plainStore: InstructionTraits = { ...pure, effects: ["writes"], takesVectorOfOne: true, gangForm: gangStore };
/** Accesses to 128 bits, which gangs make member by member. */
const wideLoad: InstructionTraits = { ...pure, effects: ["reads"] };
const observingWideLoad: InstructionTraits = { ...pure, effects: ["reads", "observes"] };
const wideStore: InstructionTraits = { ...pure, effects: ["writes"] };
const orderingFence: InstructionTraits = { ...pure, effects: ["orders"] };
/** Every thread must execute it, even if all do the same. */
const reducingAtomic: InstructionTraits = { effects: ["reads", "writes"], runsInGangs: true };
const returningAtomic: InstructionTraits = { effects: ["reads", "observes", "writes"], runsInGangs: true };

/** A hint to what the device does not have, such as caches. */
const hint: InstructionTraits = { ...pure, hasNoEffect: true };
const noBound = "the manual states none";
const boundOfAngles = "2^-20.5 absolute from -2pi to 2pi, 2^-14.7 absolute from -100pi to 100pi, none beyond";

/** A driver may fuse a multiplication and an addition that have no rounding modifiers. */
const mayBeFused = ({ choices }: Pick<ResolvedInstruction, "choices">): boolean =>
  !choices.has("rounding") && !choices.has("rn");

function isFromInteger({ type, sourceType }: ResolvedInstruction): boolean {
  return type.name === "f32" && sourceType.kind !== "float";
}

/** A row: syntax, section of the manual, meaning, and traits. */
function form(syntax: string, section: string, lowering: Lowering, traits: InstructionTraits): InstructionForm {
  return instructionForm(syntax, section, { lowering, traits });
}

/** The loads and stores of a type, with every order and hint, and those with a cache policy. */
function memoryForms(
  type: string,
  [load, store]: readonly [load: Lowering, store: Lowering],
  traits: Readonly<Record<"weakLoad" | "observingLoad" | "plainStore", InstructionTraits>>,
): InstructionForm[] {
  const { weakLoad, observingLoad, plainStore } = traits;
  const global = "<space:global>?";
  const loads = (modifiers: string, section: string, traits: InstructionTraits) =>
    form(`ld.${modifiers}${type} d, [a]`, section, load, traits);
  const stores = (modifiers: string, traits = plainStore) =>
    form(`st.${modifiers}${type} [a], b`, "9.7.9.11", store, traits);
  const constantLoad: InstructionTraits = { ...weakLoad, readsConstants: true };
  const weakStore: InstructionTraits = { ...plainStore, isPlainStore: true };
  const orderedLoad = `<semantics:relaxed|acquire>.${orderedScope}`;
  const orderedStore = `<semantics:relaxed|release>.${orderedScope}`;
  const evictions = `${evicted}.${prefetched}`;
  const notCoherent = [`<space:global>.nc.<cache:ca|cg|cs>?.${prefetched}`, `${evictedNotCoherent}.${prefetched}`];
  return [
    ...[`${loadSpace}.${loadCache}`, `${global}.${loadCache}.${prefetchSizes}`, evictions].map((hints) =>
      loads(`weak?.${hints}`, "9.7.9.8", weakLoad)
    ),
    ...[volatileSpace, `${global}.${prefetchSizes}`].map((hints) =>
      loads(`volatile.${hints}`, "9.7.9.8", observingLoad)
    ),
    ...[orderedSpace, `${global}.${prefetchSizes}`, evictions].map((hints) =>
      loads(`${orderedLoad}.${hints}`, "9.7.9.8", observingLoad)
    ),
    ...notCoherent.map((hints) => loads(hints, "9.7.9.9", constantLoad)),
    ...[`${storeSpace}.${storeCache}`, evicted].map((hints) => stores(`weak?.${hints}`, weakStore)),
    stores(`volatile.${volatileSpace}`),
    ...[orderedSpace, evicted].map((hints) => stores(`${orderedStore}.${hints}`)),
    ...[
      ...[`${global}.${loadCache}.${prefetched}`, evictions].map((hints) =>
        loads(`weak?.${hints}`, "9.7.9.8", weakLoad)
      ),
      ...[`${global}.${prefetched}`, evictions].map((hints) =>
        loads(`${orderedLoad}.${hints}`, "9.7.9.8", observingLoad)
      ),
      ...notCoherent.map((hints) => loads(hints, "9.7.9.9", constantLoad)),
      ...[`${global}.${storeCache}`, evicted].map((hints) => stores(`weak?.${hints}`, weakStore)),
      ...[global, evicted].map((hints) => stores(`${orderedStore}.${hints}`)),
    ].map(withPolicy),
  ];
}

/**
 * All supported instructions: their syntax, the section of the PTX ISA manual (version 9.0) that defines them, what
 * they compile to, and their traits. All others are refused.
 */
export const instructions: readonly InstructionForm[] = [
  // Integer arithmetic.
  form(`add.${integers} d, a, b`, "9.7.1.1", integer("Add"), {
    ...pure,
    stride: strideOfSum,
    pointer: "derived",
    gangForm: integerGangForms.add,
  }),
  form("add.sat.<type:s32> d, a, b", "9.7.1.1", saturating("i64Add"), pure),
  form(`add.${pairs} d, a, b`, "9.7.1.1", addPairs, pure),
  form(`sub.${integers} d, a, b`, "9.7.1.2", integer("Sub"), {
    ...pure,
    stride: strideOfDifference,
    pointer: "derived",
    gangForm: integerGangForms.subtract,
  }),
  form("sub.sat.<type:s32> d, a, b", "9.7.1.2", saturating("i64Sub"), pure),
  form(`mul.lo.${integers} d, a, b`, "9.7.1.3", multiplyLow, {
    ...pure,
    stride: strideOfProduct,
    gangForm: integerGangForms.multiply,
  }),
  form(`mul.hi.${integers} d, a, b`, "9.7.1.3", multiplyHigh, pure),
  form("mul.wide.<type:u16|u32|s16|s32> d, a, b", "9.7.1.3", multiplyWide, {
    ...pure,
    stride: strideOfProduct,
    widening: wideningOfProduct,
  }),
  form(`mad.lo.${integers} d, a, b, c`, "9.7.1.4", multiplyLow, {
    ...pure,
    stride: strideOfProductSum,
    pointer: "derived",
    gangForm: integerGangForms.multiply,
  }),
  form(`mad.hi.${integers} d, a, b, c`, "9.7.1.4", multiplyHigh, pure),
  form("mad.hi.sat.<type:s32> d, a, b, c", "9.7.1.4", multiplyHigh, pure),
  form("mad.wide.<type:u16|u32|s16|s32> d, a, b, c", "9.7.1.4", multiplyWide, {
    ...pure,
    stride: strideOfProductSum,
    widening: wideningOfProduct,
    pointer: "derived",
  }),
  form("mul24.lo.<type:u32|s32> d, a, b", "9.7.1.5", multiply24, pure),
  form("mul24.hi.<type:u32|s32> d, a, b", "9.7.1.5", multiply24, pure),
  form("mad24.lo.<type:u32|s32> d, a, b, c", "9.7.1.6", multiply24, pure),
  form("mad24.hi.<type:u32|s32> d, a, b, c", "9.7.1.6", multiply24, pure),
  form("mad24.hi.sat.<type:s32> d, a, b, c", "9.7.1.6", multiply24, pure),
  form(`sad.${integers} d, a, b, c`, "9.7.1.7", absoluteDifference, pure),
  form(`div.${integers} d, a, b`, "9.7.1.8", divide("quotient"), pure),
  form(`rem.${integers} d, a, b`, "9.7.1.9", divide("remainder"), pure),
  form(`abs.${signed} d, a`, "9.7.1.10", absolute, { ...pure, gangForm: integerGangForms.absolute }),
  form(`neg.${signed} d, a`, "9.7.1.11", negate, {
    ...pure,
    stride: strideOfNegation,
    gangForm: integerGangForms.negate,
  }),
  form(`min.${integers} d, a, b`, "9.7.1.12", extreme("min"), { ...pure, gangForm: integerGangForms.minimum }),
  form("min.relu.<type:s32> d, a, b", "9.7.1.12", extreme("min"), pure),
  form(`min.${pairs} d, a, b`, "9.7.1.12", extremeOfPairs("min"), pure),
  form("min.relu.<packed:s16x2> d, a, b", "9.7.1.12", extremeOfPairs("min"), pure),
  form(`max.${integers} d, a, b`, "9.7.1.13", extreme("max"), { ...pure, gangForm: integerGangForms.maximum }),
  form("max.relu.<type:s32> d, a, b", "9.7.1.13", extreme("max"), pure),
  form(`max.${pairs} d, a, b`, "9.7.1.13", extremeOfPairs("max"), pure),
  form("max.relu.<packed:s16x2> d, a, b", "9.7.1.13", extremeOfPairs("max"), pure),
  form(`popc.${wideBits} d, a`, "9.7.1.14", count("Popcnt"), pure),
  form(`clz.${wideBits} d, a`, "9.7.1.15", count("Clz"), pure),
  form("bfind.shiftamt?.<type:u32|u64|s32|s64> d, a", "9.7.1.16", findHighestBit, pure),
  form("fns.<type:b32> d, a, b, c", "9.7.1.17", findNthSet, pure),
  form(`brev.${wideBits} d, a`, "9.7.1.18", reverseBits, pure),
  form("bfe.<type:u32|u64|s32|s64> d, a, b, c", "9.7.1.19", extractBits, pure),
  form(`bfi.${wideBits} d, a, b, c, e`, "9.7.1.20", insertBits, pure),
  form("szext.<mode:clamp|wrap>.<type:u32|s32> d, a, b", "9.7.1.21", extendLowBits, pure),
  form("bmsk.<mode:clamp|wrap>.<type:b32> d, a, b", "9.7.1.22", makeMask, pure),
  form("dp4a.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.23", dotProduct(4), pure),
  form("dp2a.lo.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", dotProduct(2), pure),
  form("dp2a.hi.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", dotProduct(2), pure),

  // Integer arithmetic with carries.
  form(`add.cc.${carried} d, a, b`, "9.7.2.1", addWithCarry("add", { takesCarry: false }), carrying),
  form(`addc.cc?.${carried} d, a, b`, "9.7.2.2", addWithCarry("add", { takesCarry: true }), carrying),
  form(`sub.cc.${carried} d, a, b`, "9.7.2.3", addWithCarry("sub", { takesCarry: false }), carrying),
  form(`subc.cc?.${carried} d, a, b`, "9.7.2.4", addWithCarry("sub", { takesCarry: true }), carrying),
  form(`mad.lo.cc.${carried} d, a, b, c`, "9.7.2.5", multiplyAddWithCarry({ takesCarry: false }), carrying),
  form(`mad.hi.cc.${carried} d, a, b, c`, "9.7.2.5", multiplyAddWithCarry({ takesCarry: false }), carrying),
  form(`madc.lo.cc?.${carried} d, a, b, c`, "9.7.2.6", multiplyAddWithCarry({ takesCarry: true }), carrying),
  form(`madc.hi.cc?.${carried} d, a, b, c`, "9.7.2.6", multiplyAddWithCarry({ takesCarry: true }), carrying),

  // Floating-point arithmetic in 32 and 64 bits. Without a rounding modifier, the manual allows `add`, `sub` and `mul` to be fused. Here they never are.
  form(
    "testp.<property:finite|infinite|number|notanumber|normal|subnormal>.<type:f32|f64> p, a",
    "9.7.3.1",
    testProperty,
    pure,
  ),
  form("copysign.<type:f32|f64> d, a, b", "9.7.3.2", copySign, pure),
  form(`add.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.3", float("Add"), {
    ...arithmetic32,
    mayBeFused,
    gangForm: floatGangForms.add,
  }),
  form(`add.${rounding}?.<type:f64> d, a, b`, "9.7.3.3", float("Add"), { ...arithmetic64, mayBeFused }),
  form(`sub.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.4", float("Sub"), {
    ...arithmetic32,
    mayBeFused,
    gangForm: floatGangForms.subtract,
  }),
  form(`sub.${rounding}?.<type:f64> d, a, b`, "9.7.3.4", float("Sub"), { ...arithmetic64, mayBeFused }),
  form(`mul.${rounding}?.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.5", float("Mul"), {
    ...arithmetic32,
    mayBeFused,
    gangForm: floatGangForms.multiply,
  }),
  form(`mul.${rounding}?.<type:f64> d, a, b`, "9.7.3.5", float("Mul"), { ...arithmetic64, mayBeFused }),
  form(`fma.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.6", fusedMultiplyAdd, {
    ...arithmetic32,
    gangForm: floatGangForms.multiplyAdd,
  }),
  form(`fma.${rounding}.<type:f64> d, a, b, c`, "9.7.3.6", fusedMultiplyAdd, arithmetic64),
  form(`mad.${rounding}.ftz?.sat?.<type:f32> d, a, b, c`, "9.7.3.7", fusedMultiplyAdd, {
    ...arithmetic32,
    gangForm: floatGangForms.multiplyAdd,
  }),
  form(`mad.${rounding}.<type:f64> d, a, b, c`, "9.7.3.7", fusedMultiplyAdd, arithmetic64),
  form("div.approx.ftz?.<type:f32> d, a, b", "9.7.3.8", divideApproximately, {
    ...arithmetic32,
    bound: "2 ulp for a divisor from 2^-126 to 2^126",
  }),
  form("div.full.ftz?.<type:f32> d, a, b", "9.7.3.8", float("Div"), { ...arithmetic32, bound: "2 ulp" }),
  form(`div.${rounding}.ftz?.<type:f32> d, a, b`, "9.7.3.8", float("Div"), {
    ...arithmetic32,
    gangForm: floatGangForms.divide,
  }),
  form(`div.${rounding}.<type:f64> d, a, b`, "9.7.3.8", float("Div"), arithmetic64),
  form("abs.ftz?.<type:f32> d, a", "9.7.3.9", signChange("Abs"), {
    ...arithmetic32,
    gangForm: floatGangForms.absolute,
  }),
  form("abs.<type:f64> d, a", "9.7.3.9", signChange("Abs"), pure),
  form("neg.ftz?.<type:f32> d, a", "9.7.3.10", signChange("Neg"), { ...arithmetic32, gangForm: floatGangForms.negate }),
  form("neg.<type:f64> d, a", "9.7.3.10", signChange("Neg"), pure),
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
  form(`rcp.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.13", reciprocal, arithmetic32),
  form(`rcp.${rounding}.<type:f64> d, a`, "9.7.3.13", reciprocal, arithmetic64),
  form("rcp.approx.ftz.<type:f64> d, a", "9.7.3.14", upperHalf("reciprocal"), { ...pure, bound: noBound }),
  form("sqrt.approx.ftz?.<type:f32> d, a", "9.7.3.15", float("Sqrt"), { ...arithmetic32, bound: "2^-23 relative" }),
  form(`sqrt.${rounding}.ftz?.<type:f32> d, a`, "9.7.3.15", float("Sqrt"), {
    ...arithmetic32,
    gangForm: floatGangForms.squareRoot,
  }),
  form(`sqrt.${rounding}.<type:f64> d, a`, "9.7.3.15", float("Sqrt"), arithmetic64),
  form("rsqrt.approx.ftz?.<type:f32> d, a", "9.7.3.16", reciprocalRoot, { ...arithmetic32, bound: "2^-22.9 relative" }),
  form("rsqrt.approx.<type:f64> d, a", "9.7.3.16", reciprocalRoot64, { ...pure, bound: noBound }),
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
  form("add.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.1", halfSum("Add"), { ...pure, mayBeFused }),
  form("add.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.1", halfSum("Add"), { ...pure, mayBeFused }),
  form("sub.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.2", halfSum("Sub"), { ...pure, mayBeFused }),
  form("sub.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.2", halfSum("Sub"), { ...pure, mayBeFused }),
  form("mul.rn?.ftz?.sat?.<type:f16|f16x2> d, a, b", "9.7.4.3", halfProduct, { ...pure, mayBeFused }),
  form("mul.rn?.<type:bf16|bf16x2> d, a, b", "9.7.4.3", halfProduct, { ...pure, mayBeFused }),
  form("fma.rn.ftz?.sat?.<type:f16|f16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd, pure),
  form("fma.rn.ftz?.relu.<type:f16|f16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd, pure),
  form("fma.rn.relu?.<type:bf16|bf16x2> d, a, b, c", "9.7.4.4", halfMultiplyAdd, pure),
  form("neg.ftz?.<type:f16|f16x2> d, a", "9.7.4.5", halfSignChange("Neg"), pure),
  form("neg.<type:bf16|bf16x2> d, a", "9.7.4.5", halfSignChange("Neg"), pure),
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

  // Comparisons and selections.
  form(
    `set.${integerComparison}.${combined}.<result:u32|s32|f32>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
    "9.7.6.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:u32|s32|f32>.<type:f32> d, a, b [, c]`,
    "9.7.6.1",
    setValue,
    pure,
  ),
  form(`set.${floatComparison}.${combined}.<result:u32|s32|f32>.<type:f64> d, a, b [, c]`, "9.7.6.1", setValue, pure),
  form(`setp.<compare:eq|ne>.${combined}.${bits} p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    gangForm: gangComparison,
  }),
  form(`setp.<compare:eq|ne|lt|le|gt|ge>.${combined}.${signed} p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    gangForm: gangComparison,
  }),
  form(`setp.${integerComparison}.${combined}.<type:u16|u32|u64> p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    gangForm: gangComparison,
  }),
  form(`setp.${floatComparison}.${combined}.ftz?.<type:f32> p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    gangForm: gangComparison,
  }),
  form(`setp.${floatComparison}.${combined}.<type:f64> p, a, b [, c]`, "9.7.6.2", setPredicate, {
    ...pure,
    ignoresNaNBits: true,
  }),
  form(`selp.${selected} d, a, b, c`, "9.7.6.3", selectByPredicate, {
    ...pure,
    copies: 2,
    pointer: "derived",
    gangForm: gangSelection,
  }),
  form(`slct.${selected}.<by:s32> d, a, b, c`, "9.7.6.4", selectBySign, { ...pure, copies: 2 }),
  form(`slct.ftz?.${selected}.<by:f32> d, a, b, c`, "9.7.6.4", selectBySign, { ...pure, copies: 2 }),

  // Comparisons of 16-bit floats, or with a 16-bit result.
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16|u16|s16|u32|s32>.<type:f16> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.<result:bf16|u16|s16|u32|s32>.<type:bf16> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${integerComparison}.${combined}.<result:f16|bf16>.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16|bf16>.<type:f16|f32> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(`set.${floatComparison}.${combined}.<result:f16|bf16>.<type:f64> d, a, b [, c]`, "9.7.7.1", setValue, pure),
  form(
    `set.${floatComparison}.${combined}.ftz?.<result:f16x2|u32|s32>.<type:f16x2> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(
    `set.${floatComparison}.${combined}.<result:bf16x2|u32|s32>.<type:bf16x2> d, a, b [, c]`,
    "9.7.7.1",
    setValue,
    pure,
  ),
  form(`setp.${floatComparison}.${combined}.ftz?.<type:f16|f16x2> p, a, b [, c]`, "9.7.7.2", setPredicate, pure),
  form(`setp.${floatComparison}.${combined}.<type:bf16|bf16x2> p, a, b [, c]`, "9.7.7.2", setPredicate, pure),

  // Logic and shifts.
  form(`and.${bitsOrPredicate} d, a, b`, "9.7.8.1", integer("And"), { ...pure, gangForm: integerGangForms.and }),
  form(`or.${bitsOrPredicate} d, a, b`, "9.7.8.2", integer("Or"), { ...pure, gangForm: integerGangForms.or }),
  form(`xor.${bitsOrPredicate} d, a, b`, "9.7.8.3", integer("Xor"), { ...pure, gangForm: integerGangForms.xor }),
  form(`not.${bitsOrPredicate} d, a`, "9.7.8.4", not, { ...pure, gangForm: integerGangForms.not }),
  form(`cnot.${bits} d, a`, "9.7.8.5", logicalNot, pure),
  form("lop3.<type:b32> d, a, b, c, immLut", "9.7.8.6", logicOfThree, {
    ...pure,
    gangForm: integerGangForms.logicOfThree,
  }),
  form("lop3.<combine:or|and>.<type:b32> d, a, b, c, immLut, q", "9.7.8.6", logicOfThree, pure),
  form("shf.<direction:l|r>.<mode:clamp|wrap>.b32 d, a, b, c", "9.7.8.7", funnelShift, {
    ...pure,
    gangForm: integerGangForms.funnelShift,
  }),
  form(`shl.${bits} d, a, b`, "9.7.8.8", shift("left"), {
    ...pure,
    stride: strideOfShift,
    gangForm: integerGangForms.shiftLeft,
  }),
  form("shr.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b", "9.7.8.9", shift("right"), {
    ...pure,
    gangForm: integerGangForms.shiftRight,
  }),

  // Moves, memory accesses and conversions.
  form(`mov.<vector:v2|v4>.${selected} d, a`, "9.7.9.3", moveVector, pure),
  form(`mov.${moved} d, a`, "9.7.9.3", move, {
    ...pure,
    stride: strideOfMove,
    copies: 1,
    pointer: "derived",
    takesVectorOfOne: true,
    gangForm: gangMove,
  }),
  form("prmt.<type:b32>.<mode:f4e|b4e|rc8|ecl|ecr|rc16>? d, a, b, c", "9.7.9.7", permuteBytes, {
    ...pure,
    gangForm: integerGangForms.permuteBytes,
  }),
  ...memoryForms(`.${vector}.${loaded}`, [load, store], { weakLoad, observingLoad, plainStore }),
  form(`ld.mmio.relaxed.sys.<space:global>?.${loaded} d, [a]`, "9.7.9.8", load, observingLoad),
  form(`ldu.<space:global>?.${vector}.${loaded} d, [a]`, "9.7.9.10", load, {
    ...pure,
    effects: ["reads"],
    takesVectorOfOne: true,
  }),
  form(`st.mmio.relaxed.sys.<space:global>?.${loaded} [a], b`, "9.7.9.11", store, plainStore),
  form("prefetch.<space:global|local>?.<level:L1|L2> [a]", "9.7.9.15", cacheHint, hint),
  form("prefetch.<space:global>.<eviction:L2::evict_last|L2::evict_normal> [a]", "9.7.9.15", cacheHint, hint),
  form("prefetchu.L1 [a]", "9.7.9.15", cacheHint, hint),
  form("applypriority.<space:global>?.L2::evict_normal [a], size", "9.7.9.16", cacheHint, hint),
  form("discard.<space:global>?.L2 [a], size", "9.7.9.17", cacheHint, hint),
  ...policyForms,

  // 128 bits.
  form("mov.b128 d, a", "9.7.9.3", moveWide, pure),
  ...memoryForms(".b128", [loadWide, storeWide], {
    weakLoad: wideLoad,
    observingLoad: observingWideLoad,
    plainStore: wideStore,
  }),
  form("ldu.<space:global>?.b128 d, [a]", "9.7.9.10", loadWide, wideLoad),
  form(`atom.${ordering}.<operation:exch>.b128 d, [a], b`, "9.7.13.5", atomicWide, returningAtomic),
  form(`atom.${ordering}.<operation:cas>.b128 d, [a], b, c`, "9.7.13.5", atomicWide, returningAtomic),

  form(`isspacep.${namedSpace} p, a`, "9.7.9.19", isInSpace, pure),
  form(`cvta.${namedSpace}.u64 d, a`, "9.7.9.20", convertAddress("i64Add"), { ...pure, pointer: "converted" }),
  form(`cvta.to.${namedSpace}.u64 d, a`, "9.7.9.20", convertAddress("i64Sub"), { ...pure, pointer: "converted" }),
  form(
    `cvt.<rounding:rn|rz|rm|rp|rni|rzi|rmi|rpi>?.ftz?.sat?.<type:${converted}>.<from:${converted}> d, a`,
    "9.7.9.21",
    convert,
    {
      ...pure,
      stride: strideOfConversion,
      widening: wideningOfConversion,
      hasCanonicalNaN: isFromInteger,
      gangForm: gangConversion,
    },
  ),
  form("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16|bf16>.<from:f32> d, a", "9.7.9.21", convert, pure),
  form("cvt.<rounding:rn|rz>.relu?.satfinite?.<type:f16x2|bf16x2>.<from:f32> d, a, b", "9.7.9.21", convertToPair, pure),
  form("cvt.<rounding:rna>.satfinite?.tf32.<from:f32> d, a", "9.7.9.21", convertToTensorFloat, pure),
  form("cvt.<rounding:rn|rz>.relu?.tf32.<from:f32> d, a", "9.7.9.21", convertToTensorFloat, pure),
  form("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f32> d, a, b", "9.7.9.21", convertToEightBits, pure),
  form("cvt.rn.satfinite.relu?.<format:e4m3x2|e5m2x2>.<from:f16x2> d, a", "9.7.9.21", convertToEightBits, pure),
  form("cvt.rn.relu?.<type:f16x2>.<format:e4m3x2|e5m2x2> d, a", "9.7.9.21", convertFromEightBits, pure),
  form("cvt.pack.sat.<to:u16|s16>.s32 d, a, b", "9.7.9.22", pack, pure),
  form("cvt.pack.sat.<to:u2|s2|u4|s4|u8|s8>.s32.b32 d, a, b, c", "9.7.9.22", pack, pure),
  ...[form(
    `cp.async.<cache:ca>.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
    "9.7.9.25.3.1",
    copyAsynchronously,
    { effects: ["reads", "writes"] },
  )].flatMap((each) => [each, withPolicy(each)]),
  ...[form(
    `cp.async.<cache:cg>.<space:shared|shared::cta>.global.${prefetched} [d], [a], size [, given]`,
    "9.7.9.25.3.1",
    copyAsynchronously,
    { effects: ["reads", "writes"] },
  )].flatMap((each) => [each, withPolicy(each)]),
  form("cp.async.commit_group", "9.7.9.25.3.2", awaitCopies, { effects: ["orders"] }),
  form("cp.async.wait_group n", "9.7.9.25.3.3", awaitCopies, { effects: ["orders"] }),
  form("cp.async.wait_all", "9.7.9.25.3.3", awaitCopies, { effects: ["orders"] }),

  // Control flow.
  form("bra.uni? target", "9.7.12.3", { flow: "branch" }, control),
  form("brx.idx.uni? index, targets", "9.7.12.4", { flow: "switch" }, { effects: [] }),
  form("call.uni? [x, y, z, w]", "9.7.12.5", { flow: "call" }, { effects: ["reads", "observes", "writes"] }),
  form("ret.uni?", "9.7.12.6", { flow: "return" }, control),
  form("exit", "9.7.12.7", { flow: "exit" }, control),

  // Barriers and exchanges among threads.
  form("barrier.cta?.sync.aligned? a [, b]", "9.7.13.1", barrierSync, exchange),
  form("barrier.cta?.arrive.aligned? a, b", "9.7.13.1", barrierArrive, exchange),
  form("barrier.cta?.red.<operation:popc>.aligned?.u32 d, a, p [, q]", "9.7.13.1", barrierReduction, exchange),
  form("barrier.cta?.red.<operation:and|or>.aligned?.pred d, a, p [, q]", "9.7.13.1", barrierReduction, exchange),
  form("bar.cta?.sync a [, b]", "9.7.13.1", barrierSync, exchange),
  form("bar.cta?.arrive a, b", "9.7.13.1", barrierArrive, exchange),
  form("bar.cta?.red.<operation:popc>.u32 d, a, p [, q]", "9.7.13.1", barrierReduction, exchange),
  form("bar.cta?.red.<operation:and|or>.pred d, a, p [, q]", "9.7.13.1", barrierReduction, exchange),
  form("bar.warp.sync membermask", "9.7.13.2", warpBarrier, exchange),
  form("shfl.sync.<mode:up|down|bfly|idx>.b32 d, a, b, c, membermask", "9.7.9.6", shuffle, exchange),
  form(`ldmatrix.sync.aligned.m8n8.${matrices}.b16 d, [a]`, "9.7.14.5.15", loadMatrices, matrixLoad),
  form(`stmatrix.sync.aligned.m8n8.${matrices}.b16 [a], b`, "9.7.14.5.16", storeMatrices, matrixStore),
  form("movmatrix.sync.aligned.m8n8.trans.b16 d, a", "9.7.14.5.17", transposeMatrix, matrixExchange),
  form("vote.sync.<mode:all|any|uni>.pred d, a, membermask", "9.7.13.9", vote, exchange),
  form("vote.sync.<mode:ballot>.b32 d, a, membermask", "9.7.13.9", vote, exchange),
  form("match.<mode:any|all>.sync.<type:b32|b64> d, a, membermask", "9.7.13.10", match, exchange),
  form("activemask.b32 d", "9.7.13.11", activeMask, exchange),
  form("redux.sync.<operation:add|min|max>.<type:u32|s32> d, a, membermask", "9.7.13.12", reduction, exchange),
  form("redux.sync.<operation:and|or|xor>.<type:b32> d, a, membermask", "9.7.13.12", reduction, exchange),
  // A kernel starts when the work in front of it is done, which a program cannot tell from a GPU that is never early.
  form("griddepcontrol.<action:launch_dependents|wait>", "9.7.13.13", fence, orderingFence),
  form("elect.sync d, membermask", "9.7.13.14", elect, { effects: [], runsInGangs: true }),
  ...clusterForms,
  ...memoryBarrierForms,
  form("nanosleep.u32 t", "9.7.19.2", sleep, exchange),

  // The stack.
  form("stacksave.<type:u32|u64> d", "9.7.17.1", saveStack, { effects: ["allocates"] }),
  form("stackrestore.<type:u32|u64> a", "9.7.17.2", restoreStack, { effects: ["allocates"] }),
  form("alloca.<type:u32|u64> d, size [, alignment]", "9.7.17.3", allocateOnStack, { effects: ["allocates"] }),

  // Fences and atomics. Every atomic instruction is sequentially consistent, which is stronger than any of them requires.
  form("membar.<level:cta|gl|sys>", "9.7.13.4", fence, orderingFence),
  form("fence.<semantics:sc|acq_rel|acquire|release>?.<scope:cta|cluster|gpu|sys>", "9.7.13.4", fence, orderingFence),
  // Every access is made in the order of the program, by one proxy.
  form("membar.proxy.alias", "9.7.13.4", fence, orderingFence),
  form("fence.proxy.alias", "9.7.13.4", fence, orderingFence),
  form("fence.proxy.async.<space:global|shared::cta|shared::cluster>?", "9.7.13.4", fence, orderingFence),
  form("fence.proxy.tensormap::generic.release.<scope:cta|cluster|gpu|sys>", "9.7.13.4", fence, orderingFence),
  form(
    "fence.proxy.tensormap::generic.acquire.<scope:cta|cluster|gpu|sys> [a], size",
    "9.7.13.4",
    fence,
    orderingFence,
  ),
  ...["fence.proxy.async::generic", "fence"].flatMap((head) => [
    form(`${head}.acquire.sync_restrict::shared::cluster.cluster`, "9.7.13.4", fence, orderingFence),
    form(`${head}.release.sync_restrict::shared::cta.cluster`, "9.7.13.4", fence, orderingFence),
  ]),
  form("fence.mbarrier_init.release.cluster", "9.7.13.4", fence, orderingFence),
  ...["atom", "red"].flatMap((opcode) => {
    const hasResult = opcode === "atom";
    const [section, operands] = hasResult ? ["9.7.13.5", "d, [a], b"] : ["9.7.13.6", "[a], b"];
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
    ].flatMap((syntax) => {
      const traits = hasResult ? returningAtomic : reducingAtomic;
      const global = syntax.replace(head, vectorHead);
      return [
        form(syntax, section!, atomic(hasResult), traits),
        withPolicy(form(global, section!, atomic(hasResult), traits)),
      ];
    });
  }),
  form(`atom.${ordering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", atomic(true), returningAtomic),
  withPolicy(
    form(`atom.${vectorOrdering}.<operation:exch>.${wideBits} d, [a], b`, "9.7.13.5", atomic(true), returningAtomic),
  ),
  form(`atom.${ordering}.<operation:cas>.${bits} d, [a], b, c`, "9.7.13.5", atomic(true), returningAtomic),

  // Video instructions.
  ...videoForms,
  ...packedVideoForms,

  // Miscellaneous.
  form("pmevent a", "9.7.19.3", performanceEvent, hint),
  form("pmevent.mask a", "9.7.19.3", performanceEvent, hint),
  form("trap", "9.7.19.4", trap, { ...pure, effects: ["traps"] }),
  form("setmaxnreg.<action:inc|dec>.sync.aligned.u32 n", "9.7.19.5", redistributeRegisters, hint),

  ...refusedForms,
];

/** The instruction set that consists of the given forms. */
export function instructionSetOf(forms: readonly InstructionForm[]): InstructionSet {
  return { forms: Map.groupBy(forms, ({ opcode }) => opcode), refusals: refusedOpcodes, isSpecialRegister };
}

/** The instruction set of the software device. */
export const instructionSet: InstructionSet = instructionSetOf(instructions);
