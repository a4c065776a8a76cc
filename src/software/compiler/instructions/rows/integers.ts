import {
  count,
  extendLowBits,
  extractBits,
  findHighestBit,
  findNthSet,
  insertBits,
  makeMask,
  reverseBits,
} from "../integers/bit_instructions.ts";
import { choosesExtreme } from "../../checks/shadow_comparisons.ts";
import { fromLowest, movesBits, sums, whollyWithCarry } from "../../checks/shadow_rules.ts";
import { addWithCarry, multiplyAddWithCarry } from "../integers/carry_chains.ts";
import { integerGangForms } from "../gangs/gang_lowering.ts";
import type { InstructionForm, LoweringTraits } from "../instruction_form.ts";
import { pure } from "../../../../ptx/instructions/instruction_traits.ts";
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
} from "../integers/integer_instructions.ts";
import { addPairs, extremeOfPairs } from "../integers/packed_integers.ts";
import { form, signed, wideBits } from "./row.ts";

const integers = "<type:u16|u32|u64|s16|s32|s64>";
const carried = "<type:u32|s32|u64|s64>";
const pairs = "<packed:u16x2|s16x2>";

/** Instructions with the carry, which each thread has beside its registers. */
const carrying: LoweringTraits = {
  effects: [],
  usesCarry: true,
  validity: whollyWithCarry({ takesCarry: false }),
};
const takingCarry: LoweringTraits = { ...carrying, validity: whollyWithCarry({ takesCarry: true }) };

const division: LoweringTraits = { ...pure, dividesBlock: ({ type }) => type.name !== "u32" };
const bitSearch: LoweringTraits = { ...pure, dividesBlock: ({ type }) => type.bits === 64 };

/** Integer arithmetic. */
export const integerForms: readonly InstructionForm[] = [
  // Integer arithmetic.
  form(`add.${integers} d, a, b`, "9.7.1.1", integer("Add"), {
    ...pure,
    validity: sums("Add"),
    arithmetic: "sum",
    pointer: "derived",
    gangForm: integerGangForms.add,
  }),
  form("add.sat.<type:s32> d, a, b", "9.7.1.1", saturating("i64Add"), pure),
  form(`add.${pairs} d, a, b`, "9.7.1.1", addPairs, pure),
  form(`sub.${integers} d, a, b`, "9.7.1.2", integer("Sub"), {
    ...pure,
    validity: sums("Sub"),
    arithmetic: "difference",
    pointer: "derived",
    gangForm: integerGangForms.subtract,
  }),
  form("sub.sat.<type:s32> d, a, b", "9.7.1.2", saturating("i64Sub"), pure),
  form(`mul.lo.${integers} d, a, b`, "9.7.1.3", multiplyLow, {
    ...pure,
    validity: fromLowest,
    arithmetic: "product",
    gangForm: integerGangForms.multiply,
  }),
  form(`mul.hi.${integers} d, a, b`, "9.7.1.3", multiplyHigh, pure),
  form("mul.wide.<type:u16|u32|s16|s32> d, a, b", "9.7.1.3", multiplyWide, {
    ...pure,
    validity: fromLowest,
    arithmetic: "product",
  }),
  form(`mad.lo.${integers} d, a, b, c`, "9.7.1.4", multiplyLow, {
    ...pure,
    validity: fromLowest,
    arithmetic: "product sum",
    pointer: "derived",
    gangForm: integerGangForms.multiply,
  }),
  form(`mad.hi.${integers} d, a, b, c`, "9.7.1.4", multiplyHigh, pure),
  form("mad.hi.sat.<type:s32> d, a, b, c", "9.7.1.4", multiplyHigh, pure),
  form("mad.wide.<type:u16|u32|s16|s32> d, a, b, c", "9.7.1.4", multiplyWide, {
    ...pure,
    validity: fromLowest,
    arithmetic: "product sum",
    pointer: "derived",
  }),
  form("mul24.lo.<type:u32|s32> d, a, b", "9.7.1.5", multiply24, pure),
  form("mul24.hi.<type:u32|s32> d, a, b", "9.7.1.5", multiply24, pure),
  form("mad24.lo.<type:u32|s32> d, a, b, c", "9.7.1.6", multiply24, pure),
  form("mad24.hi.<type:u32|s32> d, a, b, c", "9.7.1.6", multiply24, pure),
  form("mad24.hi.sat.<type:s32> d, a, b, c", "9.7.1.6", multiply24, pure),
  form(`sad.${integers} d, a, b, c`, "9.7.1.7", absoluteDifference, pure),
  form(`div.${integers} d, a, b`, "9.7.1.8", divide("quotient"), division),
  form(`rem.${integers} d, a, b`, "9.7.1.9", divide("remainder"), division),
  form(`abs.${signed} d, a`, "9.7.1.10", absolute, { ...pure, gangForm: integerGangForms.absolute }),
  form(`neg.${signed} d, a`, "9.7.1.11", negate, {
    ...pure,
    validity: fromLowest,
    arithmetic: "negation",
    gangForm: integerGangForms.negate,
  }),
  form(`min.${integers} d, a, b`, "9.7.1.12", extreme("min"), {
    ...pure,
    validity: choosesExtreme("min"),
    gangForm: integerGangForms.minimum,
  }),
  form("min.relu.<type:s32> d, a, b", "9.7.1.12", extreme("min"), pure),
  form(`min.${pairs} d, a, b`, "9.7.1.12", extremeOfPairs("min"), pure),
  form("min.relu.<packed:s16x2> d, a, b", "9.7.1.12", extremeOfPairs("min"), pure),
  form(`max.${integers} d, a, b`, "9.7.1.13", extreme("max"), {
    ...pure,
    validity: choosesExtreme("max"),
    gangForm: integerGangForms.maximum,
  }),
  form("max.relu.<type:s32> d, a, b", "9.7.1.13", extreme("max"), pure),
  form(`max.${pairs} d, a, b`, "9.7.1.13", extremeOfPairs("max"), pure),
  form("max.relu.<packed:s16x2> d, a, b", "9.7.1.13", extremeOfPairs("max"), pure),
  form(`popc.${wideBits} d, a`, "9.7.1.14", count("Popcnt"), pure),
  form(`clz.${wideBits} d, a`, "9.7.1.15", count("Clz"), pure),
  form("bfind.shiftamt?.<type:u32|u64|s32|s64> d, a", "9.7.1.16", findHighestBit, bitSearch),
  form("fns.<type:b32> d, a, b, c", "9.7.1.17", findNthSet, pure),
  form(`brev.${wideBits} d, a`, "9.7.1.18", reverseBits, { ...pure, validity: movesBits(1) }),
  form("bfe.<type:u32|u64|s32|s64> d, a, b, c", "9.7.1.19", extractBits, { ...pure, validity: movesBits(1) }),
  form(`bfi.${wideBits} d, a, b, c, e`, "9.7.1.20", insertBits, { ...pure, validity: movesBits(1, 2) }),
  form("szext.<mode:clamp|wrap>.<type:u32|s32> d, a, b", "9.7.1.21", extendLowBits, {
    ...pure,
    validity: movesBits(1),
  }),
  form("bmsk.<mode:clamp|wrap>.<type:b32> d, a, b", "9.7.1.22", makeMask, pure),
  form("dp4a.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.23", dotProduct(4), pure),
  form("dp2a.lo.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", dotProduct(2), pure),
  form("dp2a.hi.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", dotProduct(2), pure),

  // Integer arithmetic with carries.
  form(`add.cc.${carried} d, a, b`, "9.7.2.1", addWithCarry("add", { takesCarry: false }), carrying),
  form(`addc.cc?.${carried} d, a, b`, "9.7.2.2", addWithCarry("add", { takesCarry: true }), takingCarry),
  form(`sub.cc.${carried} d, a, b`, "9.7.2.3", addWithCarry("sub", { takesCarry: false }), carrying),
  form(`subc.cc?.${carried} d, a, b`, "9.7.2.4", addWithCarry("sub", { takesCarry: true }), takingCarry),
  form(`mad.lo.cc.${carried} d, a, b, c`, "9.7.2.5", multiplyAddWithCarry({ takesCarry: false }), carrying),
  form(`mad.hi.cc.${carried} d, a, b, c`, "9.7.2.5", multiplyAddWithCarry({ takesCarry: false }), carrying),
  form(`madc.lo.cc?.${carried} d, a, b, c`, "9.7.2.6", multiplyAddWithCarry({ takesCarry: true }), takingCarry),
  form(`madc.hi.cc?.${carried} d, a, b, c`, "9.7.2.6", multiplyAddWithCarry({ takesCarry: true }), takingCarry),
];
