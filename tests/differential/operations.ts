/**
 * The table of operations. Each one is tried alone, and random programs consist of them.
 *
 * The bits of each result must be the same on the software device and on a GPU. Where PTX leaves bits undefined, the
 * operation avoids them and says how, except for these cases, in which the software device gives the bits of an H200:
 *
 * - `div` and `rem` by zero return all ones.
 * - `cvt` of a NaN to an integer, and the bits of NaNs that arithmetic returns.
 * - Positions and lengths beyond the register in `bfe` and `bfi`.
 *
 * The table determines the program of each seed. After a change, record again.
 *
 * @module
 */
import { expandPattern, operandType, type Operation } from "./operation.ts";

const integers = "<T:u16|u32|u64|s16|s32|s64>";
const words = "<T:u32|s32|u64|s64>";
const signed = "<T:s16|s32|s64>";
const directed = "<rn|rz|rm|rp>";

/** The member mask of operations of a whole warp, as their text has it. */
export const allLanes = "0xffffffff";

/** How the names of the families of video instructions begin. */
export const videoFamilies = "video";

const table: Operation[] = [];
const names = new Set<string>();

function define(pattern: string, signature: string, options: { family?: string; isUniform?: boolean } = {}): void {
  const { family, isUniform = false } = options;
  for (const { text, types: [result, ...operands] } of expandPattern(pattern, signature)) {
    const kind = /f\d/.test(result!.name) || operands.some(({ name }) => /f\d/.test(name)) ? "float" : "integer";
    const opcode = /^\w+/.exec(text)![0];
    const wide = [result!, ...operands].filter((type) => operandType(type.name).bits !== type.bits);
    const name = wide.length === 0
      ? text
      : `${text}, ${wide.map((type) => `${type.name} in ${type.bits} bits`).join(", ")}`;
    if (names.has(name)) continue;
    names.add(name);
    table.push({ name, text, result: result!, operands, isUniform, family: family ?? `${opcode} ${kind}` });
  }
}

// Integers.
define(`add.${integers} d, a, b`, "T T T");
define("add.sat.s32 d, a, b", "s32 s32 s32");
define(`sub.${integers} d, a, b`, "T T T");
define("sub.sat.s32 d, a, b", "s32 s32 s32");
define(`mul.<lo|hi>.${integers} d, a, b`, "T T T");
define("mul.wide.<T:u16|s16> d, a, b", "b32 T T");
define("mul.wide.<T:u32|s32> d, a, b", "b64 T T");
define(`mad.<lo|hi>.${integers} d, a, b, c`, "T T T T");
define("mad.hi.sat.s32 d, a, b, c", "s32 s32 s32 s32");
define("mad.wide.<T:u16|s16> d, a, b, c", "b32 T T b32");
define("mad.wide.<T:u32|s32> d, a, b, c", "b64 T T b64");
// 24-bit operands: PTX does not say that higher bits are ignored.
define("and.b32 t32_0, a, 0xffffff; and.b32 t32_1, b, 0xffffff; mul24.<lo|hi>.u32 d, t32_0, t32_1", "u32 u32 u32", {
  family: "mul24",
});
define("bfe.s32 t32_0, a, 0, 24; bfe.s32 t32_1, b, 0, 24; mul24.<lo|hi>.s32 d, t32_0, t32_1", "s32 s32 s32", {
  family: "mul24",
});
define(
  "and.b32 t32_0, a, 0xffffff; and.b32 t32_1, b, 0xffffff; mad24.<lo|hi>.u32 d, t32_0, t32_1, c",
  "u32 u32 u32 u32",
  { family: "mad24" },
);
define(
  "bfe.s32 t32_0, a, 0, 24; bfe.s32 t32_1, b, 0, 24; mad24.<lo|hi|hi.sat>.s32 d, t32_0, t32_1, c",
  "s32 s32 s32 s32",
  { family: "mad24" },
);
define(`sad.${integers} d, a, b, c`, "T T T T");
define(`div.${integers} d, a, b`, "T T T");
define(`rem.${integers} d, a, b`, "T T T");
define(`abs.${signed} d, a`, "T T");
define(`neg.${signed} d, a`, "T T");
define(`<min|max>.${integers} d, a, b`, "T T T");
define("popc.<T:b32|b64> d, a", "b32 T");
define("clz.<T:b32|b64> d, a", "b32 T");
define(`bfind<.shiftamt|>.${words} d, a`, "b32 T");
define("brev.<T:b32|b64> d, a", "T T");
define(`bfe.${words} d, a, b, c`, "T T place place");
define("bfi.<T:b32|b64> d, a, b, c, e", "T T T place place");
define("szext.<clamp|wrap>.<T:u32|s32> d, a, b", "T T amount");
define("bmsk.<clamp|wrap>.b32 d, a, b", "b32 amount amount");
define("dp4a.<A:u32|s32>.<B:u32|s32> d, a, b, c", "b32 A B b32");
define("dp2a.<lo|hi>.<A:u32|s32>.<B:u32|s32> d, a, b, c", "b32 A B b32");
define("add.<T:u16x2|s16x2> d, a, b", "T T T");
define("<min|max>.<T:u16x2|s16x2> d, a, b", "T T T");
define("<min|max>.relu.<T:s16x2|s32> d, a, b", "T T T");
define("vabsdiff<2|4>.u32.u32.u32<.add|> d, a, b, c", "u32 u32 u32 u32");
// The position must be that of a bit.
define("and.b32 t32_0, b, 31; fns.b32 d, a, t32_0, c", "b32 b32 amount few", { family: "fns" });

// Carry chains. The carry of a subtraction is also read by an addition, as in nvcc's 128-bit division.
const carry = { family: "carry" };
define(`add.cc.${words} d, a, b`, "T T T", carry);
define(`add.cc.${words} t$T_0, a, b; addc.T d, b, c`, "T T T T", carry);
define(`add.cc.${words} t$T_0, a, b; addc.cc.T t$T_1, b, c; addc.T d, a, c`, "T T T T", carry);
define(`sub.cc.${words} d, a, b`, "T T T", carry);
define(`sub.cc.${words} t$T_0, a, b; subc.T d, b, c`, "T T T T", carry);
define(`sub.cc.${words} t$T_0, a, b; addc.T d, b, c`, "T T T T", carry);
define(`add.cc.${words} t$T_0, a, b; subc.T d, b, c`, "T T T T", carry);
define(`sub.cc.${words} t$T_0, a, b; subc.cc.T t$T_1, b, c; subc.T d, a, c`, "T T T T", carry);
define(`mad.<lo|hi>.cc.${words} d, a, b, c`, "T T T T", carry);
define(`mad.<lo|hi>.cc.${words} t$T_0, a, b, c; addc.T d, a, 0`, "T T T T", carry);
define(`add.cc.${words} t$T_0, a, b; madc.<lo|hi>.T d, a, b, c`, "T T T T", carry);
define(`add.cc.${words} t$T_0, a, b; madc.<lo|hi>.cc.T t$T_1, a, b, c; addc.T d, b, 0`, "T T T T", carry);

// 32-bit and 64-bit floats, always with a rounding modifier if the instruction has one. Without it, the driver may fuse
// instructions.
define("testp.<finite|infinite|number|notanumber|normal|subnormal>.<T:f32|f64> d, a", "pred T");
define("copysign.<T:f32|f64> d, a, b", "T T T");
define(`<add|sub|mul>.${directed}<.ftz|><.sat|>.f32 d, a, b`, "f32 f32 f32");
define(`<add|sub|mul>.${directed}.f64 d, a, b`, "f64 f64 f64");
define(`fma.${directed}<.ftz|><.sat|>.f32 d, a, b, c`, "f32 f32 f32 f32");
define(`fma.${directed}.f64 d, a, b, c`, "f64 f64 f64 f64");
define(`mad.${directed}<.ftz|><.sat|>.f32 d, a, b, c`, "f32 f32 f32 f32");
define(`mad.${directed}.f64 d, a, b, c`, "f64 f64 f64 f64");
define(`div.${directed}<.ftz|>.f32 d, a, b`, "f32 f32 f32");
define(`div.${directed}.f64 d, a, b`, "f64 f64 f64");
define("<abs|neg><.ftz|>.f32 d, a", "f32 f32");
define("<abs|neg>.f64 d, a", "f64 f64");
define("<min|max><.ftz|><.NaN|><.xorsign.abs|>.f32 d, a, b", "f32 f32 f32");
define("<min|max>.f64 d, a, b", "f64 f64 f64");
define(`<rcp|sqrt>.${directed}<.ftz|>.f32 d, a`, "f32 f32");
define(`<rcp|sqrt>.${directed}.f64 d, a`, "f64 f64");

// Halves.
define("<add|sub|mul>.rn<.ftz|><.sat|>.<T:f16|f16x2> d, a, b", "T T T");
define("<add|sub|mul>.rn.<T:bf16|bf16x2> d, a, b", "T T T");
define("fma.rn<.ftz|><.sat|.relu|>.<T:f16|f16x2> d, a, b, c", "T T T T");
define("fma.rn<.relu|>.<T:bf16|bf16x2> d, a, b, c", "T T T T");
define("<abs|neg><.ftz|>.<T:f16|f16x2> d, a", "T T");
define("<abs|neg>.<T:bf16|bf16x2> d, a", "T T");
define("<min|max><.ftz|><.NaN|><.xorsign.abs|>.<T:f16|f16x2> d, a, b", "T T T");
define("<min|max><.NaN|><.xorsign.abs|>.<T:bf16|bf16x2> d, a, b", "T T T");

// Comparisons.
const integerComparison = "<eq|ne|lt|le|gt|ge>";
const unsignedComparison = "<lo|ls|hi|hs>";
const floatComparison = "<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>";
define(`setp.${integerComparison}.${integers} d, a, b`, "pred T T");
define(`setp.${unsignedComparison}.<T:u16|u32|u64> d, a, b`, "pred T T");
define("setp.<eq|ne>.<T:b16|b32|b64> d, a, b", "pred T T");
define(`setp.${floatComparison}<.ftz|>.<T:f32|f16> d, a, b`, "pred T T");
define(`setp.${floatComparison}.<T:f64|bf16> d, a, b`, "pred T T");
define("setp.<lt|ge>.<and|or|xor>.<T:s16|u32|s64|f32|f64|f16|bf16> d, a, b, <c|!c>", "pred T T pred");
define("setp.<eq|ne>.<and|or|xor>.<T:b16|b32|b64> d, a, b, <c|!c>", "pred T T pred");
define("setp.<lt|ge>.<and|or|xor>.<T:u32|f32> tp0|d, a, b, <c|!c>", "pred T T pred");
define("setp.<ne|lt>.<T:u16|s32|u64|f32|f64> tp0|d, a, b", "pred T T");
define(`setp.${floatComparison}<.ftz|>.<T:f16x2> d|tp0, a, b`, "pred T T");
define(`setp.${floatComparison}.<T:bf16x2> tp0|d, a, b`, "pred T T");
define("setp.<lt|neu>.<and|or|xor>.<T:f16x2|bf16x2> d|tp0, a, b, <c|!c>", "pred T T pred");
define("setp.<lt|neu>.<and|or|xor>.<T:f16x2|bf16x2> tp0|d, a, b, <c|!c>", "pred T T pred");
define(`set.${integerComparison}.<R:u32|s32|f32>.<T:u16|s16|u32|s32|u64|s64> d, a, b`, "R T T");
define(`set.${unsignedComparison}.<R:u32|s32|f32>.<T:u16|u32|u64> d, a, b`, "R T T");
define("set.<eq|ne>.<R:u32|s32|f32>.<T:b16|b32|b64> d, a, b", "R T T");
define(`set.${floatComparison}<.ftz|>.<R:u32|s32|f32>.<T:f32> d, a, b`, "R T T");
define(`set.${floatComparison}.<R:u32|s32|f32>.<T:f64> d, a, b`, "R T T");
define("set.<lt|ne>.<and|or|xor>.<R:u32|s32|f32>.<T:s16|u64|f32|f64> d, a, b, <c|!c>", "R T T pred");
define(`set.${floatComparison}<.ftz|>.<R:f16|u32|s32>.f16 d, a, b`, "R f16 f16");
define(`set.${floatComparison}<.ftz|>.<R:f16x2|u32|s32>.f16x2 d, a, b`, "R f16x2 f16x2");
define(`set.${floatComparison}.<R:bf16|u32|s32>.bf16 d, a, b`, "R bf16 bf16");
define(`set.${floatComparison}.<R:bf16x2|u32|s32>.bf16x2 d, a, b`, "R bf16x2 bf16x2");
define("set.<lt|nan>.<and|or|xor>.<R:f16|u32>.f16 d, a, b, <c|!c>", "R f16 f16 pred");
define("set.<lt|nan>.<and|or|xor>.<R:bf16|s32>.bf16 d, a, b, <c|!c>", "R bf16 bf16 pred");
define("set.<lt|nan>.<and|or|xor>.<R:f16x2|u32>.f16x2 d, a, b, <c|!c>", "R f16x2 f16x2 pred");
define("set.<lt|nan>.<and|or|xor>.<R:bf16x2|s32>.bf16x2 d, a, b, <c|!c>", "R bf16x2 bf16x2 pred");
define("set.<lt|neu>.<R:u16|s16>.<T:f16|bf16> d, a, b", "R T T");
define("set.<eq|ne>.<R:f16|bf16>.<T:b16|b32|b64> d, a, b", "R T T");
define("set.<lt|ge>.<R:f16|bf16>.<T:s16|s32|s64> d, a, b", "R T T");
define(`set.${unsignedComparison}.<R:f16|bf16>.<T:u16|u32|u64> d, a, b`, "R T T");
define(`set.${floatComparison}.<R:f16|bf16>.<T:f32|f64> d, a, b`, "R T T");
define("set.<lt|nan>.bf16.f16 d, a, b", "bf16 f16 f16");
define("set.<le|ne>.<and|or|xor>.<R:f16|bf16>.<T:u32|f32|f64> d, a, b, <c|!c>", "R T T pred");
define("selp.<T:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64> d, a, b, c", "T T T pred");
define("slct.<T:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>.s32 d, a, b, c", "T T T s32");
define("slct<.ftz|>.<T:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>.f32 d, a, b, c", "T T T f32");

// Logic and shifts.
define("<and|or|xor>.<T:pred|b16|b32|b64> d, a, b", "T T T");
define("not.<T:pred|b16|b32|b64> d, a", "T T");
define("cnot.<T:b16|b32|b64> d, a", "T T");
define(
  "lop3.b32 d, a, b, c, <0|1|2|4|8|0x10|0x20|0x40|0x80|0x96|0xca|0xe8|0xb8|0x1e|0x6a|0xfe|0x7f|0xf0|0xcc|0xaa|0xff>",
  "b32 b32 b32 b32",
);
define("lop3.<or|and>.b32 d|tp0, a, b, c, <0x96|0xca>, <e|!e>", "b32 b32 b32 b32 pred");
define("lop3.<or|and>.b32 t32_0|d, a, b, c, <0|0x80|0x96>, <e|!e>", "pred b32 b32 b32 pred");
define("shf.<l|r>.<clamp|wrap>.b32 d, a, b, c", "b32 b32 b32 amount");
define("shl.<T:b16|b32|b64> d, a, b", "T T amount");
define("shr.<T:b16|b32|b64|u16|u32|u64|s16|s32|s64> d, a, b", "T T amount");

// Data movement.
define("mov.<T:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64> d, a", "T T");
define("mov.pred d, a", "pred pred");
define("mov.b32 d, {a, b}", "b32 b16 b16", { family: "mov vector" });
define("mov.b64 d, {a, b}", "b64 b32 b32", { family: "mov vector" });
define("mov.b64 d, {a, b, c, e}", "b64 b16 b16 b16 b16", { family: "mov vector" });
define("mov.b32 <{d, t16_0}|{t16_0, d}>, a", "b16 b32", { family: "mov vector" });
define("mov.b64 <{d, t32_0}|{t32_0, d}>, a", "b32 b64", { family: "mov vector" });
define("mov.b64 <{d, t16_0, t16_1, t16_2}|{t16_0, t16_1, d, t16_2}>, a", "b16 b64", { family: "mov vector" });
define(
  "mov.u32 d, <%tid.x|%ntid.x|%ctaid.x|%laneid|%lanemask_eq|%lanemask_le|%lanemask_lt|%lanemask_ge|%lanemask_gt>",
  "b32",
  {
    family: "special registers",
  },
);
define("prmt.b32 d, a, b, c", "b32 b32 b32 selector");
define("prmt.b32.<f4e|b4e|rc8|ecl|ecr|rc16> d, a, b, c", "b32 b32 b32 selector");

// A thread's own memory, in each space and width. Values narrower than the register are extended.
for (const [space, place] of [["shared", "own"], ["global", "cell"], ["local", "frame"]] as const) {
  const family = { family: `${space} memory` };
  define(`st.${space}.b32 [${place}], a; ld.${space}.<u8|s8|b8|u16|s16|b16> d, [${place}+2]`, "b32 b32", family);
  define(`st.${space}.b64 [${place}+8], a; ld.${space}.<s8|u16|s16|u32|s32|b32> d, [${place}+12]`, "b64 b64", family);
  define(`st.${space}.<b8|u8|s8> [${place}+3], a; ld.${space}.u8 d, [${place}+3]`, "b32 b32", family);
  define(`st.${space}.v2.<b32|f32> [${place}], {a, b}; ld.${space}.b64 d, [${place}]`, "b64 b32 b32", family);
  define(
    `st.${space}.v4.b16 [${place}], {a, b, c, e}; ld.${space}.v2.u32 {t32_0, d}, [${place}]`,
    "b32 b16 b16 b16 b16",
    family,
  );
  define(
    `st.${space}.v2.b64 [${place}], {a, b}; ld.${space}.v4.<b32|f32> {t32_0, t32_1, d, t32_2}, [${place}]`,
    "b32 b64 b64",
    family,
  );
}

// Atomic operations on a thread's own memory, so that their results do not depend on the order of threads. The result
// is the old value in one operation and the new value in another.
for (const [space, place] of [["shared", "own"], ["global", "cell"]] as const) {
  const family = { family: `atom ${space}` };
  const atomic = (operations: string, types: string) => {
    define(
      `st.${space}.b$T [${place}], a; atom.${space}.<${operations}>.<T:${types}> t$T_0, [${place}], b; ` +
        `ld.${space}.b$T d, [${place}]`,
      "T T T",
      family,
    );
    define(
      `st.${space}.b$T [${place}], a; atom.${space}.<${operations}>.<T:${types}> d, [${place}], b`,
      "T T T",
      family,
    );
  };
  const reduction = (operations: string, types: string) =>
    define(
      `st.${space}.b$T [${place}], a; red.${space}.<${operations}>.<T:${types}> [${place}], b; ` +
        `ld.${space}.b$T d, [${place}]`,
      "T T T",
      family,
    );
  atomic("exch", "b32|b64");
  for (const each of [atomic, reduction]) {
    each("and|or|xor", "b32|b64");
    each("add", "u32|s32|u64|f32|f64");
    each("inc|dec", "u32");
    each("min|max", "u32|s32|u64|s64");
  }
  const halves = (text: string, types: string) => define(text, types, family);
  for (const type of ["f16", "f16x2", "bf16", "bf16x2"]) {
    const bits = type.endsWith("x2") ? 32 : 16;
    const before = `st.${space}.b${bits} [${place}], a; `;
    const after = `; ld.${space}.b${bits} d, [${place}]`;
    halves(`${before}atom.${space}.add.noftz.${type} t${bits}_0, [${place}], b${after}`, `${type} ${type} ${type}`);
    halves(`${before}red.${space}.add.noftz.${type} [${place}], b${after}`, `${type} ${type} ${type}`);
  }
  define(
    `st.${space}.b$T [${place}], a; atom.${space}.cas.<T:b16|b32|b64> t$T_0, [${place}], b, c; ld.${space}.b$T d, [${place}]`,
    "T T T T",
    family,
  );
  define(
    `st.${space}.b$T [${place}], a; atom.${space}.cas.<T:b16|b32|b64> t$T_0, [${place}], a, c; ld.${space}.b$T d, [${place}]`,
    "T T T T",
    family,
  );
}

// Vectors: each element is a separate atomic operation.
const vectorFamily = { family: "atom vector" };
define(
  "st.global.v2.b32 [cell], {a, b}; <atom.global.add.v2.f32 {t32_0, t32_1},|red.global.add.v2.f32> [cell], {c, e}; " +
    "ld.global.b32 d, [cell+4]",
  "f32 f32 f32 f32 f32",
  vectorFamily,
);
define(
  "st.global.v4.b32 [cell], {a, b, c, e}; " +
    "<atom.global.add.v4.f32 {t32_0, t32_1, t32_2, t32_3},|red.global.add.v4.f32> [cell], {e, c, b, a}; " +
    "ld.global.b32 d, [cell+8]",
  "f32 f32 f32 f32 f32",
  vectorFamily,
);
for (const [opcode, before] of [["atom", "t16_0, t16_1"], ["red", ""]] as const) {
  const old = (count: number) => before === "" ? "" : ` {${Array(count).fill(before).join(", ")}},`;
  define(
    `st.global.v2.b16 [cell], {a, b}; ${opcode}.global.<add|min|max>.noftz.v2.<T:f16|bf16>${old(1)} [cell], {c, e}; ` +
      "ld.global.b16 d, [cell+2]",
    "T T T T T",
    vectorFamily,
  );
  define(
    `st.global.v4.b16 [cell], {a, b, c, e}; ${opcode}.global.<add|min|max>.noftz.v4.<T:f16|bf16>${old(2)} ` +
      "[cell], {e, c, b, a}; ld.global.b16 d, [cell+4]",
    "T T T T T",
    vectorFamily,
  );
  define(
    "st.global.v4.b16 [cell], {a, b, c, e}; st.global.v4.b16 [cell+8], {a, b, c, e}; " +
      `${opcode}.global.<add|min|max>.noftz.v8.<T:f16|bf16>${old(4)} [cell], {e, c, b, a, c, e, a, b}; ` +
      "ld.global.b16 d, [cell+12]",
    "T T T T T",
    vectorFamily,
  );
}
for (
  const [opcode, old] of [["atom", [" {t32_0, t32_1},", " {t32_0, t32_1, t32_2, t32_3},"]], ["red", ["", ""]]] as const
) {
  define(
    `st.global.v2.b32 [cell], {a, b}; ${opcode}.global.<add|min|max>.noftz.v2.<T:f16x2|bf16x2>${
      old[0]
    } [cell], {c, e}; ` +
      "ld.global.b32 d, [cell+4]",
    "T T T T T",
    vectorFamily,
  );
  define(
    `st.global.v4.b32 [cell], {a, b, c, e}; ${opcode}.global.<add|min|max>.noftz.v4.<T:f16x2|bf16x2>${old[1]} ` +
      "[cell], {e, c, b, a}; ld.global.b32 d, [cell+12]",
    "T T T T T",
    vectorFamily,
  );
}

defineConversions();

// Operations of a whole warp or block.
const uniform = (family: string) => ({ family, isUniform: true });
define(
  `shfl.sync.<up|down|bfly|idx>.b32 d, a, b, <0x1f|0|0x7|0x181f|0x1c03|0x1000|c>, ${allLanes}`,
  "b32 b32 lane clamp",
  {
    ...uniform("shfl"),
  },
);
define(
  `shfl.sync.<up|down|bfly|idx>.b32 t32_0|tp0, a, b, <0x1f|0|0x181f|0x1807|c>, ${allLanes}; selp.b32 d, 1, 0, tp0`,
  "b32 b32 lane clamp",
  uniform("shfl"),
);
define(`vote.sync.<all|any|uni>.pred d, <a|!a>, ${allLanes}`, "pred pred", uniform("vote"));
define(`vote.sync.ballot.b32 d, <a|!a>, ${allLanes}`, "b32 pred", uniform("vote"));
define(`match.any.sync.b32 d, a, ${allLanes}`, "b32 few", uniform("match"));
define(`cvt.s64.s32 t64_0, a; match.any.sync.b64 d, t64_0, ${allLanes}`, "b32 few", uniform("match"));
define(`match.all.sync.b32 d|tp0, a, ${allLanes}`, "b32 few", uniform("match"));
define(`and.b32 t32_0, a, 0; match.all.sync.b32 d|tp0, t32_0, ${allLanes}`, "b32 few", uniform("match"));
define(`cvt.s64.s32 t64_0, a; match.all.sync.b64 t32_0|d, t64_0, ${allLanes}`, "pred few", uniform("match"));
define(`redux.sync.<add|min|max>.<T:u32|s32> d, a, ${allLanes}`, "T T", uniform("redux"));
define(`redux.sync.<and|or|xor>.b32 d, a, ${allLanes}`, "b32 b32", uniform("redux"));
define("bar.red.popc.u32 d, <0|3>, <a|!a>", "b32 pred", uniform("bar.red"));
define("bar.red.<and|or>.pred d, <0|1>, <a|!a>", "pred pred", uniform("bar.red"));
define("bar.red.popc.u32 d, 2, THREADS, a", "b32 pred", uniform("bar.red"));
define("barrier.red.<and|or>.pred d, 4, THREADS, a", "pred pred", uniform("bar.red"));
define("barrier.red.popc.u32 d, 5, a", "b32 pred", uniform("bar.red"));

// Video instructions. Every source is a word, of which a part may be selected. The random programs of the first seeds
// were recorded without them.
const video = (family: string) => ({ family: `${videoFamilies} ${family}` });
const three = "b32 b32 b32", four = "b32 b32 b32 b32";
const sources = "<u32|s32>.<u32|s32>";
const scalarVideo = "<vadd|vsub|vabsdiff|vmin|vmax>.<u32|s32>";
define(`${scalarVideo}.${sources}<.sat|> d, a, b`, three, video("scalar"));
define(`${scalarVideo}.${sources}<|.sat>.add d, a, b, c`, four, video("scalar"));
define(`${scalarVideo}.${sources}.<min|max> d, a, b, c`, four, video("scalar"));
define(`${scalarVideo}.${sources} d, <a.b1, b.h0|a.h1, b.b3>`, three, video("scalar"));
define(`${scalarVideo}.${sources}<.sat|> <d.b3, a, b|d.h1, a.b2, b>, c`, four, video("scalar"));
const videoShift = "<vshl|vshr>.<u32|s32>.<u32|s32>.u32<.sat|>.<clamp|wrap>";
define(`${videoShift} d, a, b`, "b32 b32 amount", video("shift"));
define(`${videoShift}.<add|min> d, a, b, c`, "b32 b32 amount b32", video("shift"));
define(`${videoShift} <d.b2, a.b1, b.h0|d.h1, a.h0, b.b1>, c`, four, video("shift"));
define(`vset.${sources}.<eq|ne|lt|le|gt|ge> d, a, b`, three, video("vset"));
define(`vset.${sources}.<eq|lt|ge>.<add|min|max> d, a.b2, b, c`, four, video("vset"));
define(`vset.${sources}.<ne|le|gt> <d.b1, a, b.h1|d.h1, a, b.b0>, c`, four, video("vset"));
define(`vmad.<u32|s32>.${sources}<.sat|><.shr7|.shr15|> d, a, b, c`, four, video("vmad"));
define(`vmad.<u32|s32>.${sources}.po<.sat|><.shr7|> d, <a.b1, b.h0|a.h1, b>, c`, four, video("vmad"));
define(`vmad.s32.${sources}<.sat|><.shr7|> d, <-a, b, c|a, -b, c|a, b, -c|-a, -b, c>`, four, video("vmad"));
const packedVideo = "<vadd|vsub|vavrg|vabsdiff|vmin|vmax>";
for (const [count, parts] of [[2, "d.h1, a.h30, b.h12, c"], [4, "d.b210, a.b7520, b.b3614, c"]] as const) {
  define(`${packedVideo}${count}.<u32|s32>.${sources}<.sat|.add|> d, a, b, c`, four, video("packed"));
  define(`${packedVideo}${count}.<u32|s32>.${sources} ${parts}`, four, video("packed"));
  define(`vset${count}.${sources}.<eq|ne|lt|le|gt|ge><.add|> d, a, b, c`, four, video("packed"));
  define(`vset${count}.${sources}.<lt|ge> ${parts}`, four, video("packed"));
}

function defineConversions(): void {
  const types = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
  const width = (type: string) => Number(type.slice(1));
  const ends = (type: string) =>
    type[0] === "s" ? [-(2 ** (width(type) - 1)), 2 ** (width(type) - 1) - 1] : [0, 2 ** width(type) - 1];
  const integerFamily = { family: "cvt integer" };
  for (const from of types) {
    for (const to of types) {
      define(`cvt.${to}.${from} d, a`, `${to} ${from}`, integerFamily);
      const [lowest, highest] = ends(to);
      const hasAll = ends(from)[0]! >= lowest! && ends(from)[1]! <= highest!;
      if (!hasAll) define(`cvt.sat.${to}.${from} d, a`, `${to} ${from}`, integerFamily);
    }
  }
  // Registers that are wider than the type, or not of the usual width.
  define("cvt.<T:u8|s8>.<S:u32|s32|u8|s8> d, a", "T@16 S", integerFamily);
  define("cvt.<T:u16|s16>.<S:u8|s8> d, a", "T@32 S@16", integerFamily);
  define("cvt.<T:u16|s16|u8|s8>.<S:u16|s16|u32> d, a", "T@32 S@32", integerFamily);
  define("cvt.<T:u8|s8|u16|s16|u32|s32>.<S:u64|s64> d, a", "T@64 S", integerFamily);
  define("cvt.<T:u64|s64>.<S:u32|s32|u16|s16|u8|s8> d, a", "T S@64", integerFamily);

  const toFloat = { family: "cvt to float" };
  const from = "<S:u8|s8|u16|s16|u32|s32|u64|s64>";
  define(`cvt.${directed}<.sat|>.<T:f16|f32|f64>.${from} d, a`, "T S", toFloat);
  define(`cvt.${directed}.bf16.<S:u16|s16|u32|s32|u64|s64> d, a`, "bf16 S", toFloat);

  const toInteger = { family: "cvt to integer" };
  const to = "<T:u8|s8|u16|s16|u32|s32|u64|s64>";
  const whole = "<rni|rzi|rmi|rpi>";
  define(`cvt.${whole}<.ftz|><.sat|>.${to}.f32 d, a`, "T f32", toInteger);
  define(`cvt.${whole}<.sat|>.${to}.<S:f16|f64> d, a`, "T S", toInteger);
  define(`cvt.${whole}.<T:u16|s16|u32|s32|u64|s64>.bf16 d, a`, "T bf16", toInteger);

  const floats = { family: "cvt float" };
  define(`cvt.${directed}<.ftz|><.sat|>.f16.f32 d, a`, "f16 f32", floats);
  define(`cvt.${directed}<.ftz|><.sat|>.f32.f64 d, a`, "f32 f64", floats);
  define(`cvt.${directed}<.sat|>.f16.f64 d, a`, "f16 f64", floats);
  define("cvt<.ftz|><.sat|>.f32.f16 d, a", "f32 f16", floats);
  define("cvt<.ftz|><.sat|>.f64.f32 d, a", "f64 f32", floats);
  define("cvt<.sat|>.f64.f16 d, a", "f64 f16", floats);
  define(`cvt.${whole}<.ftz|><.sat|>.f32.f32 d, a`, "f32 f32", floats);
  define(`cvt.${whole}<.sat|>.<T:f16|f64>.T d, a`, "T T", floats);
  define("cvt<.ftz|><.sat|>.f32.f32 d, a", "f32 f32", floats);
  define("cvt<.sat|>.<T:f16|f64>.T d, a", "T T", floats);
  define("cvt.<rn|rz><.relu|>.<T:f16|bf16>.f32 d, a", "T f32", floats);
  define(`cvt.${directed}.bf16.<S:f16|f32|f64> d, a`, "bf16 S", floats);
  define("cvt.<T:f32|f64>.bf16 d, a", "T bf16", floats);
  define("cvt.<rn|rz><.relu|>.<T:f16x2|bf16x2>.f32 d, a, b", "T f32 f32", floats);
  define("cvt.<rn|rz><.relu|>.satfinite.<T:f16|bf16>.f32 d, a", "T f32", floats);
  define("cvt.<rn|rz><.relu|>.satfinite.<T:f16x2|bf16x2>.f32 d, a, b", "T f32 f32", floats);
  // PTX does not say that the low bits of a tf32 are zero.
  define(
    "cvt.<rna|rna.satfinite|rn|rz|rn.relu|rz.relu>.tf32.f32 t32_0, a; and.b32 d, t32_0, 0xffffe000",
    "tf32 f32",
    floats,
  );

  define("cvt.rn.satfinite<.relu|>.<T:e4m3x2|e5m2x2>.f32 d, a, b", "T f32 f32", floats);
  define("cvt.rn.satfinite<.relu|>.<T:e4m3x2|e5m2x2>.f16x2 d, a", "T f16x2", floats);
  define("cvt.rn<.relu|>.f16x2.<T:e4m3x2|e5m2x2> d, a", "f16x2 T", floats);

  const packed = { family: "cvt packed" };
  define("cvt.pack.sat.<u16|s16>.s32 d, a, b", "b32 s32 s32", packed);
  define("cvt.pack.sat.<u8|s8|u4|s4|u2|s2>.s32.b32 d, a, b, c", "b32 s32 s32 b32", packed);
}

/** Every operation. */
export const operations: readonly Operation[] = table;
