import { convert } from "./conversion_instructions.ts";
import { setPredicate, setValue } from "./comparison_instructions.ts";
import { faultKind } from "./addresses.ts";
import {
  copySign,
  extremeFloat,
  float,
  fusedMultiplyAdd,
  reciprocal,
  signChange,
  testProperty,
} from "./float_instructions.ts";
import { type Emit, type InstructionForm, instructionForm as form } from "./instruction_form.ts";
import {
  absolute,
  absoluteDifference,
  count,
  divide,
  extractBits,
  extreme,
  findHighestBit,
  funnelShift,
  insertBits,
  integer,
  logicalNot,
  logicOfThree,
  move,
  multiplyAddLow,
  multiplyHigh,
  multiplyWide,
  negate,
  not,
  permuteBytes,
  reverseBits,
  saturating,
  selectByPredicate,
  selectBySign,
  shift,
} from "./integer_instructions.ts";
import { atomic, convertAddress, fence, isInSpace, load, store } from "./memory_instructions.ts";

const trap: Emit = (e) => {
  e.code.i32(faultKind.trap).i64(0n).i32(e.line);
  e.callHelper("fault").ops("unreachable");
};

const integers = "<type:u16|u32|u64|s16|s32|s64>";
const signed = "<type:s16|s32|s64>";
const bits = "<type:b16|b32|b64>";
const bitsOrPredicate = "<type:pred|b16|b32|b64>";
const wideBits = "<type:b32|b64>";
const loaded = "<type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64>";
const moved = "<type:pred|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
const selected = "<type:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
const converted = "u8|u16|u32|u64|s8|s16|s32|s64|f16|f32|f64";
const integerComparison = "<compare:eq|ne|lt|le|gt|ge|lo|ls|hi|hs>";
const floatComparison = "<compare:eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>";
const combined = "<combine:and|or|xor>?";
const space = "<space:global|shared|shared::cta|local|param>?";
const loadSpace = "<space:global|shared|shared::cta|local|param|const>?";
const storeSpace = "<space:global|shared|shared::cta|local>?";
const loadHints = "<cache:ca|cg|cs|lu|cv>?.<eviction:L1::evict_normal|L1::evict_unchanged|L1::evict_first|" +
  "L1::evict_last|L1::no_allocate>?.<prefetch:L2::64B|L2::128B|L2::256B>?";
const storeHints = "<cache:wb|cg|cs|wt>?.<eviction:L1::evict_normal|L1::evict_unchanged|L1::evict_first|" +
  "L1::evict_last|L1::no_allocate>?";
const vector = "<vector:v2|v4>?";
const ordering = "<semantics:relaxed|acquire|release|acq_rel>?.<scope:cta|gpu|sys>?.<space:global|shared|shared::cta>?";
const rounding = "<rounding:rn>?";

/**
 * Every instruction that is known: what may stand after its opcode, the section of the PTX ISA manual (version 8.8) that
 * defines it, and what it is compiled to. What is not here is refused.
 */
export const instructions: readonly InstructionForm[] = [
  form(`add.${integers} d, a, b`, "9.7.1.1", integer("Add")),
  form("add.sat.<type:s32> d, a, b", "9.7.1.1", saturating("i64Add")),
  form(`sub.${integers} d, a, b`, "9.7.1.2", integer("Sub")),
  form("sub.sat.<type:s32> d, a, b", "9.7.1.2", saturating("i64Sub")),
  form(`mul.lo.${integers} d, a, b`, "9.7.1.3", integer("Mul")),
  form(`mul.hi.${integers} d, a, b`, "9.7.1.3", multiplyHigh),
  form("mul.wide.<type:u16|u32|s16|s32> d, a, b", "9.7.1.3", multiplyWide),
  form(`mad.lo.${integers} d, a, b, c`, "9.7.1.4", multiplyAddLow),
  form(`mad.hi.${integers} d, a, b, c`, "9.7.1.4", multiplyHigh),
  form("mad.wide.<type:u16|u32|s16|s32> d, a, b, c", "9.7.1.4", multiplyWide),
  form(`sad.${integers} d, a, b, c`, "9.7.1.7", absoluteDifference),
  form(`div.${integers} d, a, b`, "9.7.1.8", divide("quotient")),
  form(`rem.${integers} d, a, b`, "9.7.1.9", divide("remainder")),
  form(`abs.${signed} d, a`, "9.7.1.10", absolute),
  form(`neg.${signed} d, a`, "9.7.1.11", negate),
  form(`min.${integers} d, a, b`, "9.7.1.12", extreme("LtS", "LtU")),
  form(`max.${integers} d, a, b`, "9.7.1.13", extreme("GtS", "GtU")),
  form(`popc.${wideBits} d, a`, "9.7.1.14", count("Popcnt")),
  form(`clz.${wideBits} d, a`, "9.7.1.15", count("Clz")),
  form("bfind.shiftamt?.<type:u32|u64|s32|s64> d, a", "9.7.1.16", findHighestBit),
  form(`brev.${wideBits} d, a`, "9.7.1.18", reverseBits),
  form("bfe.<type:u32|u64|s32|s64> d, a, b, c", "9.7.1.19", extractBits),
  form(`bfi.${wideBits} f, a, b, c, d`, "9.7.1.20", insertBits),

  // Without a rounding modifier the manual lets a float add, sub or mul be fused with another. Here none ever is.
  form(
    "testp.<property:finite|infinite|number|notanumber|normal|subnormal>.<type:f32|f64> p, a",
    "9.7.3.1",
    testProperty,
  ),
  form("copysign.<type:f32|f64> d, a, b", "9.7.3.2", copySign),
  form(`add.${rounding}.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.3", float("Add")),
  form(`add.${rounding}.<type:f64> d, a, b`, "9.7.3.3", float("Add")),
  form(`sub.${rounding}.ftz?.sat?.<type:f32> d, a, b`, "9.7.3.4", float("Sub")),
  form(`sub.${rounding}.<type:f64> d, a, b`, "9.7.3.4", float("Sub")),
  form(`mul.${rounding}.sat?.<type:f32> d, a, b`, "9.7.3.5", float("Mul")),
  form(`mul.${rounding}.<type:f64> d, a, b`, "9.7.3.5", float("Mul")),
  form("fma.rn.sat?.<type:f32> d, a, b, c", "9.7.3.6", fusedMultiplyAdd),
  form("mad.rn.sat?.<type:f32> d, a, b, c", "9.7.3.7", fusedMultiplyAdd),
  form("div.rn.<type:f32|f64> d, a, b", "9.7.3.8", float("Div")),
  form("abs.ftz?.<type:f32> d, a", "9.7.3.9", signChange("Abs")),
  form("abs.<type:f64> d, a", "9.7.3.9", signChange("Abs")),
  form("neg.ftz?.<type:f32> d, a", "9.7.3.10", signChange("Neg")),
  form("neg.<type:f64> d, a", "9.7.3.10", signChange("Neg")),
  form("min.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.11", extremeFloat("Min")),
  form("min.<type:f64> d, a, b", "9.7.3.11", extremeFloat("Min")),
  form("max.ftz?.NaN?.<type:f32> d, a, b", "9.7.3.12", extremeFloat("Max")),
  form("max.<type:f64> d, a, b", "9.7.3.12", extremeFloat("Max")),
  form("rcp.rn.ftz?.<type:f32> d, a", "9.7.3.13", reciprocal),
  form("rcp.rn.<type:f64> d, a", "9.7.3.13", reciprocal),
  form("sqrt.rn.ftz?.<type:f32> d, a", "9.7.3.15", float("Sqrt")),
  form("sqrt.rn.<type:f64> d, a", "9.7.3.15", float("Sqrt")),

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
  form(`slct.${selected}.s32 d, a, b, c`, "9.7.6.4", selectBySign),

  form(`and.${bitsOrPredicate} d, a, b`, "9.7.8.1", integer("And")),
  form(`or.${bitsOrPredicate} d, a, b`, "9.7.8.2", integer("Or")),
  form(`xor.${bitsOrPredicate} d, a, b`, "9.7.8.3", integer("Xor")),
  form(`not.${bitsOrPredicate} d, a`, "9.7.8.4", not),
  form(`cnot.${bits} d, a`, "9.7.8.5", logicalNot),
  form("lop3.b32 d, a, b, c, immLut", "9.7.8.6", logicOfThree),
  form("shf.<direction:l|r>.<mode:clamp|wrap>.b32 d, a, b, c", "9.7.8.7", funnelShift),
  form(`shl.${bits} d, a, b`, "9.7.8.8", shift("left")),
  form("shr.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b", "9.7.8.9", shift("right")),

  form(`mov.${moved} d, a`, "9.7.9.3", move),
  form("prmt.b32 d, a, b, c", "9.7.9.7", permuteBytes),
  form(`ld.weak?.${loadSpace}.${loadHints}.${vector}.${loaded} d, [a]`, "9.7.9.8", load),
  form(`ld.volatile.${space}.${vector}.${loaded} d, [a]`, "9.7.9.8", load),
  form(`ld.<space:global>.${loadHints}.nc.${loadHints}.${vector}.${loaded} d, [a]`, "9.7.9.9", load),
  form(`ldu.<space:global>?.${vector}.${loaded} d, [a]`, "9.7.9.10", load),
  form(`st.weak?.${storeSpace}.${storeHints}.${vector}.${loaded} [a], b`, "9.7.9.11", store),
  form(`st.volatile.${storeSpace}.${vector}.${loaded} [a], b`, "9.7.9.11", store),
  form("isspacep.<space:global|shared|local|const> p, a", "9.7.9.19", isInSpace),
  form("cvta.<space:global|shared|local|const|param>.u64 d, a", "9.7.9.20", convertAddress("i64Add")),
  form("cvta.to.<space:global|shared|local|const|param>.u64 d, a", "9.7.9.20", convertAddress("i64Sub")),
  form(
    `cvt.<rounding:rn|rni|rzi|rmi|rpi>?.ftz?.sat?.<type:${converted}>.<from:${converted}> d, a`,
    "9.7.9.21",
    convert,
  ),

  form("bra.uni? target", "9.7.12.3", { flow: "branch" }),
  form("brx.idx.uni? index, targets", "9.7.12.4", { flow: "switch" }),
  form("ret.uni?", "9.7.12.6", { flow: "exit" }),
  form("exit", "9.7.12.7", { flow: "exit" }),

  // Every atomic instruction is sequentially consistent here, which is more than any asks for.
  form("membar.<level:cta|gl|sys>", "9.7.13.4", fence),
  form("fence.<semantics:sc|acq_rel|acquire|release>?.<scope:cta|gpu|sys>", "9.7.13.4", fence),
  form(`atom.${ordering}.<operation:and|or|xor|exch|cas>.${wideBits} d, [a], b [, c]`, "9.7.13.5", atomic(true)),
  form(`atom.${ordering}.<operation:add>.<type:u32|s32|u64> d, [a], b`, "9.7.13.5", atomic(true)),
  form(`atom.${ordering}.<operation:inc|dec>.<type:u32> d, [a], b`, "9.7.13.5", atomic(true)),
  form(`atom.${ordering}.<operation:min|max>.<type:u32|s32|u64|s64> d, [a], b`, "9.7.13.5", atomic(true)),
  form(`red.${ordering}.<operation:and|or|xor>.${wideBits} [a], b`, "9.7.13.7", atomic(false)),
  form(`red.${ordering}.<operation:add>.<type:u32|s32|u64> [a], b`, "9.7.13.7", atomic(false)),
  form(`red.${ordering}.<operation:inc|dec>.<type:u32> [a], b`, "9.7.13.7", atomic(false)),
  form(`red.${ordering}.<operation:min|max>.<type:u32|s32|u64|s64> [a], b`, "9.7.13.7", atomic(false)),

  form("trap", "9.7.19.4", trap),
];

const threadsRunAlone = "the threads of a block run one after another and cannot wait for or see each other yet";
const refusals: ReadonlyMap<string, string> = new Map([
  ...["bar", "barrier", "shfl", "vote", "match", "activemask", "redux", "elect", "mbarrier"].map((opcode) =>
    [opcode, threadsRunAlone] as const
  ),
  ...["wmma", "mma", "wgmma", "ldmatrix", "stmatrix", "tcgen05"].map((opcode) =>
    [opcode, "there are no tensor cores"] as const
  ),
  ...["tex", "tld4", "txq", "suld", "sust", "sured", "suq"].map((opcode) =>
    [opcode, "there are no textures and surfaces"] as const
  ),
  ...["call", "alloca", "stacksave", "stackrestore"].map((opcode) =>
    [opcode, "functions cannot be called yet: have the compiler inline them"] as const
  ),
  ...["sin", "cos", "lg2", "ex2", "tanh", "rsqrt"].map((opcode) =>
    [opcode, "its result is approximate, and is not computed yet"] as const
  ),
]);

/** The forms of an instruction, by its opcode. */
export const formsByOpcode: ReadonlyMap<string, readonly InstructionForm[]> = Map.groupBy(
  instructions,
  ({ opcode }) => opcode,
);

/** Why an instruction is refused, where more can be said than that it is not known. */
export function refusalOf(opcode: string): string | undefined {
  return refusals.get(opcode);
}
