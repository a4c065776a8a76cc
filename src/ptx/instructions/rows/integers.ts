/**
 * The rows of integer arithmetic, logic, shifts and video instructions.
 *
 * @module
 */
import { type InstructionRow, type InstructionTraits, pure } from "../instruction_traits.ts";
import { bits, onFirstUse, row, type Rows, signed, wideBits } from "./row.ts";

type Sums = "add" | "add.sat" | "add.pairs" | "sub" | "sub.sat" | "neg" | "abs" | "sad";
type Products = "mul.lo" | "mul.hi" | "mul.wide" | "mad.lo" | "mad.hi" | "mad.hi.sat" | "mad.wide";
type Products24 = "mul24.lo" | "mul24.hi" | "mad24.lo" | "mad24.hi" | "mad24.hi.sat";
type Minima = "min" | "min.relu.s32" | "min.pairs" | "min.relu.s16x2";
type Maxima = "max" | "max.relu.s32" | "max.pairs" | "max.relu.s16x2";
type OfBits = "popc" | "clz" | "bfind" | "fns" | "brev" | "bfe" | "bfi" | "szext" | "bmsk";
type Carrying = "add.cc" | "addc" | "sub.cc" | "subc" | "mad.lo.cc" | "mad.hi.cc" | "madc.lo" | "madc.hi";
type DotProducts = "dp4a" | "dp2a.lo" | "dp2a.hi";

/** The names of the instruction table's rows for integer arithmetic. */
export type IntegerName =
  | Sums
  | Products
  | Products24
  | "div"
  | "rem"
  | Minima
  | Maxima
  | OfBits
  | DotProducts
  | Carrying;

/** The names of the instruction table's rows for logic and shift instructions. */
export type LogicName = "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "lop3.combined" | "shf" | "shl" | "shr";

/** The names of the instruction table's rows for scalar video instructions. */
export type VideoName = "vadd" | "vsub" | "vabsdiff" | "vmin" | "vmax" | "vshl" | "vshr" | "vmad" | "vset";

/** The names of the instruction table's rows for packed video instructions. */
export type PackedVideoName = `v${"add" | "sub" | "avrg" | "absdiff" | "min" | "max" | "set"}${2 | 4}`;

const integers = "<type:u16|u32|u64|s16|s32|s64>";
const carried = "<type:u32|s32|u64|s64>";
const pairs = "<packed:u16x2|s16x2>";
const bitsOrPredicate = "<type:pred|b16|b32|b64>";

/** The traits of instructions that use the carry flag. Each thread has its own flag. */
const carrying: InstructionTraits = { effects: [], usesCarry: true };
const division: InstructionTraits = { ...pure, dividesBlock: ({ type }) => type.name !== "u32" };
const bitSearch: InstructionTraits = { ...pure, dividesBlock: ({ type }) => type.bits === 64 };

/** Returns the instruction table's rows for integer arithmetic. */
export const integerRows: () => Rows<IntegerName> = onFirstUse((): Rows<IntegerName> => ({
  // Integer arithmetic.
  add: row(`add.${integers} d, a, b`, "9.7.1.1", { ...pure, arithmetic: "sum", pointer: "derived" }),
  "add.sat": row("add.sat.<type:s32> d, a, b", "9.7.1.1", pure),
  "add.pairs": row(`add.${pairs} d, a, b`, "9.7.1.1", pure),
  sub: row(`sub.${integers} d, a, b`, "9.7.1.2", { ...pure, arithmetic: "difference", pointer: "derived" }),
  "sub.sat": row("sub.sat.<type:s32> d, a, b", "9.7.1.2", pure),
  "mul.lo": row(`mul.lo.${integers} d, a, b`, "9.7.1.3", { ...pure, arithmetic: "product" }),
  "mul.hi": row(`mul.hi.${integers} d, a, b`, "9.7.1.3", pure),
  "mul.wide": row("mul.wide.<type:u16|u32|s16|s32> d, a, b", "9.7.1.3", { ...pure, arithmetic: "product" }),
  "mad.lo": row(`mad.lo.${integers} d, a, b, c`, "9.7.1.4", { ...pure, arithmetic: "product sum", pointer: "derived" }),
  "mad.hi": row(`mad.hi.${integers} d, a, b, c`, "9.7.1.4", pure),
  "mad.hi.sat": row("mad.hi.sat.<type:s32> d, a, b, c", "9.7.1.4", pure),
  "mad.wide": row("mad.wide.<type:u16|u32|s16|s32> d, a, b, c", "9.7.1.4", {
    ...pure,
    arithmetic: "product sum",
    pointer: "derived",
  }),
  "mul24.lo": row("mul24.lo.<type:u32|s32> d, a, b", "9.7.1.5", pure),
  "mul24.hi": row("mul24.hi.<type:u32|s32> d, a, b", "9.7.1.5", pure),
  "mad24.lo": row("mad24.lo.<type:u32|s32> d, a, b, c", "9.7.1.6", pure),
  "mad24.hi": row("mad24.hi.<type:u32|s32> d, a, b, c", "9.7.1.6", pure),
  "mad24.hi.sat": row("mad24.hi.sat.<type:s32> d, a, b, c", "9.7.1.6", pure),
  sad: row(`sad.${integers} d, a, b, c`, "9.7.1.7", pure),
  div: row(`div.${integers} d, a, b`, "9.7.1.8", { ...division, arithmetic: "quotient" }),
  rem: row(`rem.${integers} d, a, b`, "9.7.1.9", { ...division, arithmetic: "remainder" }),
  abs: row(`abs.${signed} d, a`, "9.7.1.10", pure),
  neg: row(`neg.${signed} d, a`, "9.7.1.11", { ...pure, arithmetic: "negation" }),
  min: row(`min.${integers} d, a, b`, "9.7.1.12", { ...pure, arithmetic: "minimum" }),
  "min.relu.s32": row("min.relu.<type:s32> d, a, b", "9.7.1.12", pure),
  "min.pairs": row(`min.${pairs} d, a, b`, "9.7.1.12", pure),
  "min.relu.s16x2": row("min.relu.<packed:s16x2> d, a, b", "9.7.1.12", pure),
  max: row(`max.${integers} d, a, b`, "9.7.1.13", { ...pure, arithmetic: "maximum" }),
  "max.relu.s32": row("max.relu.<type:s32> d, a, b", "9.7.1.13", pure),
  "max.pairs": row(`max.${pairs} d, a, b`, "9.7.1.13", pure),
  "max.relu.s16x2": row("max.relu.<packed:s16x2> d, a, b", "9.7.1.13", pure),
  popc: row(`popc.${wideBits} d, a`, "9.7.1.14", pure),
  clz: row(`clz.${wideBits} d, a`, "9.7.1.15", pure),
  bfind: row("bfind.shiftamt?.<type:u32|u64|s32|s64> d, a", "9.7.1.16", bitSearch),
  fns: row("fns.<type:b32> d, a, b, c", "9.7.1.17", pure),
  brev: row(`brev.${wideBits} d, a`, "9.7.1.18", pure),
  bfe: row("bfe.<type:u32|u64|s32|s64> d, a, b, c", "9.7.1.19", { ...pure, arithmetic: "bit field" }),
  bfi: row(`bfi.${wideBits} d, a, b, c, e`, "9.7.1.20", pure),
  szext: row("szext.<mode:clamp|wrap>.<type:u32|s32> d, a, b", "9.7.1.21", pure),
  bmsk: row("bmsk.<mode:clamp|wrap>.<type:b32> d, a, b", "9.7.1.22", pure),
  dp4a: row("dp4a.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.23", pure),
  "dp2a.lo": row("dp2a.lo.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", pure),
  "dp2a.hi": row("dp2a.hi.<type:u32|s32>.<second:u32|s32> d, a, b, c", "9.7.1.24", pure),
  // Integer arithmetic with carries.
  "add.cc": row(`add.cc.${carried} d, a, b`, "9.7.2.1", carrying),
  addc: row(`addc.cc?.${carried} d, a, b`, "9.7.2.2", carrying),
  "sub.cc": row(`sub.cc.${carried} d, a, b`, "9.7.2.3", carrying),
  subc: row(`subc.cc?.${carried} d, a, b`, "9.7.2.4", carrying),
  "mad.lo.cc": row(`mad.lo.cc.${carried} d, a, b, c`, "9.7.2.5", carrying),
  "mad.hi.cc": row(`mad.hi.cc.${carried} d, a, b, c`, "9.7.2.5", carrying),
  "madc.lo": row(`madc.lo.cc?.${carried} d, a, b, c`, "9.7.2.6", carrying),
  "madc.hi": row(`madc.hi.cc?.${carried} d, a, b, c`, "9.7.2.6", carrying),
}));

/** Returns the instruction table's rows for logic and shift instructions. */
export const logicRows: () => Rows<LogicName> = onFirstUse((): Rows<LogicName> => ({
  and: row(`and.${bitsOrPredicate} d, a, b`, "9.7.8.1", { ...pure, arithmetic: "and" }),
  or: row(`or.${bitsOrPredicate} d, a, b`, "9.7.8.2", { ...pure, arithmetic: "or" }),
  xor: row(`xor.${bitsOrPredicate} d, a, b`, "9.7.8.3", { ...pure, arithmetic: "xor" }),
  not: row(`not.${bitsOrPredicate} d, a`, "9.7.8.4", { ...pure, arithmetic: "not" }),
  cnot: row(`cnot.${bits} d, a`, "9.7.8.5", pure),
  lop3: row("lop3.<type:b32> d, a, b, c, immLut", "9.7.8.6", pure),
  "lop3.combined": row("lop3.<combine:or|and>.<type:b32> d, a, b, c, immLut, q", "9.7.8.6", pure),
  shf: row("shf.<direction:l|r>.<mode:clamp|wrap>.b32 d, a, b, c", "9.7.8.7", pure),
  shl: row(`shl.${bits} d, a, b`, "9.7.8.8", { ...pure, arithmetic: "shift" }),
  shr: row("shr.<type:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b", "9.7.8.9", { ...pure, arithmetic: "right shift" }),
}));

const pairOfTypes = "<type:u32|s32>.<first:u32|s32>.<second:u32|s32>";
const secondOperation = "<op2:add|min|max>?";
const partsOfRegisters = "d.sel, a.sel, b.sel [, c]";
const packed = "d.sel, a.sel, b.sel, c";

/** Returns the instruction table's rows for scalar video instructions. */
export const videoRows: () => Rows<VideoName> = onFirstUse((): Rows<VideoName> => ({
  vadd: row(`vadd.${pairOfTypes}.sat?.${secondOperation} ${partsOfRegisters}`, "9.7.18.1.1", pure),
  vsub: row(`vsub.${pairOfTypes}.sat?.${secondOperation} ${partsOfRegisters}`, "9.7.18.1.1", pure),
  vabsdiff: row(`vabsdiff.${pairOfTypes}.sat?.${secondOperation} ${partsOfRegisters}`, "9.7.18.1.1", pure),
  vmin: row(`vmin.${pairOfTypes}.sat?.${secondOperation} ${partsOfRegisters}`, "9.7.18.1.1", pure),
  vmax: row(`vmax.${pairOfTypes}.sat?.${secondOperation} ${partsOfRegisters}`, "9.7.18.1.1", pure),
  vshl: row(
    `vshl.<type:u32|s32>.<first:u32|s32>.u32.sat?.<mode:clamp|wrap>.${secondOperation} ${partsOfRegisters}`,
    "9.7.18.1.2",
    pure,
  ),
  vshr: row(
    `vshr.<type:u32|s32>.<first:u32|s32>.u32.sat?.<mode:clamp|wrap>.${secondOperation} ${partsOfRegisters}`,
    "9.7.18.1.2",
    pure,
  ),
  vmad: row(`vmad.${pairOfTypes}.po?.sat?.<scale:shr7|shr15>? d, a.sel, b.sel, c`, "9.7.18.1.3", pure),
  vset: row(
    `vset.<first:u32|s32>.<second:u32|s32>.<compare:eq|ne|lt|le|gt|ge>.${secondOperation} ${partsOfRegisters}`,
    "9.7.18.1.4",
    pure,
  ),
}));

/** Returns the instruction table's rows for video instructions on the two or four elements of packed registers. */
export const packedVideoRows: () => Rows<PackedVideoName> = onFirstUse((): Rows<PackedVideoName> => ({
  vadd2: onElements("vadd2", "9.7.18.2.1"),
  vsub2: onElements("vsub2", "9.7.18.2.1"),
  vavrg2: onElements("vavrg2", "9.7.18.2.1"),
  vabsdiff2: onElements("vabsdiff2", "9.7.18.2.1"),
  vmin2: onElements("vmin2", "9.7.18.2.1"),
  vmax2: onElements("vmax2", "9.7.18.2.1"),
  vset2: comparisonOfElements("vset2", "9.7.18.2.2"),
  vadd4: onElements("vadd4", "9.7.18.2.3"),
  vsub4: onElements("vsub4", "9.7.18.2.3"),
  vavrg4: onElements("vavrg4", "9.7.18.2.3"),
  vabsdiff4: onElements("vabsdiff4", "9.7.18.2.3"),
  vmin4: onElements("vmin4", "9.7.18.2.3"),
  vmax4: onElements("vmax4", "9.7.18.2.3"),
  vset4: comparisonOfElements("vset4", "9.7.18.2.4"),
}));

function onElements(opcode: string, section: string): InstructionRow[] {
  return [
    row(`${opcode}.${pairOfTypes}.sat? ${packed}`, section, pure),
    row(`${opcode}.${pairOfTypes}.add ${packed}`, section, pure),
  ];
}

function comparisonOfElements(opcode: string, section: string): InstructionRow {
  const compared = "<first:u32|s32>.<second:u32|s32>.<compare:eq|ne|lt|le|gt|ge>";
  return row(`${opcode}.${compared}.add? ${packed}`, section, pure);
}
