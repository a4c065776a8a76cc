/**
 * Random instructions without branches, on registers `%r`, `%rd`, `%h`, `%f` and `%p`.
 *
 * @module
 */

/** Returns a whole number from 0 to below a limit. */
export type Draw = (limit: number) => number;

/** A generator of numbers that are the same for the same seed. */
export function drawsFrom(seed: number): Draw {
  let state = seed | 0;
  return (limit) => {
    state = state + 0x9e3779b9 | 0;
    let mixed = Math.imul(state ^ state >>> 16, 0x85ebca6b);
    mixed = Math.imul(mixed ^ mixed >>> 13, 0xc2b2ae35);
    return ((mixed ^ mixed >>> 16) >>> 0) % limit;
  };
}

/** How many registers of each kind there are. */
export const registersOfKind = 4;

/** An instruction that may have operands in capital letters: R, D, H, F, P for registers, and numbers. */
interface Template {
  readonly syntax: string;
  /** Whether the bits of its result are found exactly, and not only never too few. */
  readonly isExact: boolean;
}

const exact = [
  "mov.b32 R, R;",
  "mov.b64 D, {R, R};",
  "mov.b64 {R, R}, D;",
  "mov.b32 R, {H, H};",
  "mov.b32 {H, H}, R;",
  "mov.b32 R, F;",
  "mov.b32 F, R;",
  ...["and", "or", "xor"].flatMap((name) => [
    `${name}.b32 R, R, R;`,
    `${name}.b32 R, R, #;`,
    `${name}.b64 D, D, D;`,
    `${name}.b16 H, H, H;`,
    `${name}.pred P, P, P;`,
  ]),
  "not.b32 R, R;",
  "not.b64 D, D;",
  "not.pred P, P;",
  "lop3.b32 R, R, R, R, B;",
  ...["add", "sub"].flatMap((name) => [
    `${name}.s32 R, R, R;`,
    `${name}.u32 R, R, #;`,
    `${name}.s64 D, D, D;`,
    `${name}.s16 H, H, H;`,
  ]),
  "shl.b32 R, R, S;",
  "shr.u32 R, R, S;",
  "shr.s32 R, R, S;",
  "shl.b64 D, D, S;",
  "shr.s64 D, D, S;",
  "shr.u16 H, H, 3;",
  "shf.l.wrap.b32 R, R, R, S;",
  "shf.r.clamp.b32 R, R, R, S;",
  "prmt.b32 R, R, R, #;",
  "bfe.u32 R, R, S, S;",
  "bfe.s32 R, R, S, S;",
  "bfe.u64 D, D, S, S;",
  "bfi.b32 R, R, R, S, S;",
  "bfi.b64 D, D, D, S, S;",
  "brev.b32 R, R;",
  "brev.b64 D, D;",
  "szext.clamp.s32 R, R, S;",
  ...["eq", "ne"].flatMap((
    name,
  ) => [`setp.${name}.s32 P, R, R;`, `setp.${name}.b64 P, D, D;`, `setp.${name}.u16 P, H, H;`]),
  ...["lt", "le", "gt", "ge"].flatMap((name) => [
    `setp.${name}.s32 P, R, R;`,
    `setp.${name}.u32 P, R, #;`,
    `setp.${name}.u64 P, D, D;`,
    `setp.${name}.s16 P, H, H;`,
  ]),
  "selp.b32 R, R, R, P;",
  "selp.b64 D, D, D, P;",
  "cvt.u64.u32 D, R;",
  "cvt.s64.s32 D, R;",
  "cvt.u32.u64 R, D;",
  "cvt.s32.s8 R, R;",
  "cvt.u32.u16 R, H;",
  "cvt.s32.s16 R, H;",
  "cvt.u16.u32 H, R;",
];

const careful = [
  "mul.lo.s32 R, R, R;",
  "mul.lo.u64 D, D, D;",
  "mul.hi.u32 R, R, R;",
  "mul.wide.s32 D, R, R;",
  "mad.lo.s32 R, R, R, R;",
  "mad.wide.u32 D, R, R, D;",
  "mul24.lo.u32 R, R, R;",
  "neg.s32 R, R;",
  "abs.s32 R, R;",
  "cnot.b32 R, R;",
  "min.s32 R, R, R;",
  "max.u32 R, R, R;",
  "min.u64 D, D, D;",
  "max.s16 H, H, H;",
  "popc.b32 R, R;",
  "clz.b32 R, R;",
  "clz.b64 R, D;",
  "bfind.s32 R, R;",
  "bmsk.clamp.b32 R, R, R;",
  "fns.b32 R, R, R, R;",
  "sad.u32 R, R, R, R;",
  "dp4a.u32.u32 R, R, R, R;",
  "div.u32 R, R, R;",
  "rem.u32 R, R, R;",
  "shl.b32 R, R, R;",
  "shr.s32 R, R, R;",
  "shf.l.wrap.b32 R, R, R, R;",
  "prmt.b32 R, R, R, R;",
  "prmt.b32.f4e R, R, R, R;",
  "bfe.u32 R, R, R, R;",
  "bfi.b32 R, R, R, R, R;",
  "lop3.or.b32 R|P, R, R, R, B, P;",
  "slct.b32.s32 R, R, R, R;",
  "set.lt.u32.s32 R, R, R;",
  "setp.lt.and.s32 P, R, R, P;",
  "setp.ge.or.u32 P, R, R, P;",
  "setp.eq.xor.s32 P|P, R, R, P;",
  "setp.ne.and.s32 P|P, R, R, P;",
  "setp.lt.or.s32 P|P, R, R, P;",
  "setp.lt.f32 P, F, F;",
  "setp.gtu.and.f32 P, F, F, P;",
  "add.sat.s32 R, R, R;",
  "cvt.sat.u8.s32 R, R;",
  "add.f32 F, F, F;",
  "mul.rn.f32 F, F, F;",
  "fma.rn.f32 F, F, F, F;",
  "min.f32 F, F, F;",
  "abs.f32 F, F;",
  "neg.f32 F, F;",
  "copysign.f32 F, F, F;",
  "selp.f32 F, F, F, P;",
  "cvt.rn.f32.s32 F, R;",
  "cvt.rzi.s32.f32 R, F;",
  "cvt.rn.f16x2.f32 R, F, F;",
  "cvt.f32.f16 F, H;",
  "cvt.rn.f16.f32 H, F;",
  "add.f16x2 R, R, R;",
  "fma.rn.f16x2 R, R, R, R;",
  "add.f16 H, H, H;",
  "vadd4.u32.u32.u32 R, R, R, R;",
  "add.cc.u32 R, R, R;\n  addc.u32 R, R, R;",
  "sub.cc.u32 R, R, R;\n  subc.cc.u32 R, R, R;\n  addc.u32 R, R, R;",
  "mad.lo.cc.u32 R, R, R, R;\n  madc.hi.u32 R, R, R, R;",
  "@P mov.b32 R, R;",
  "@!P add.s32 R, R, R;",
  "@P setp.lt.s32 P, R, R;",
  "@P mov.b64 D, {R, R};",
];

const templates: readonly Template[] = [
  ...exact.map((syntax) => ({ syntax, isExact: true })),
  ...careful.map((syntax) => ({ syntax, isExact: false })),
];

/** An instruction, and how well the bits of its result are known. */
export interface RandomInstruction {
  readonly text: string;
  readonly isExact: boolean;
}

/** The number of different instructions. */
export const instructionCount: number = templates.length;

/** An instruction with random operands. The registers of its results are other ones than those of its sources. */
export function randomInstruction(draw: Draw, index: number = draw(templates.length)): RandomInstruction {
  const { syntax, isExact } = templates[index]!;
  const used = new Map<string, number[]>();
  const names: Readonly<Record<string, string>> = { R: "r", D: "rd", H: "h", F: "f", P: "p" };
  const text = syntax.replace(/(?<![a-z0-9.])[RDHFPBS#](?![a-z0-9])/g, (kind) => {
    if (kind === "B") return String(draw(256));
    if (kind === "S") return String(draw(34));
    if (kind === "#") return String(draw(2) === 0 ? draw(256) : draw(2 ** 31));
    const taken = used.get(kind) ?? [];
    used.set(kind, taken);
    // Results that share a register with each other are no PTX, and correlated sources are never exact.
    let number = draw(registersOfKind);
    while (taken.includes(number) && taken.length < registersOfKind) number = draw(registersOfKind);
    taken.push(number);
    return `%${names[kind]}${number}`;
  });
  return { text: `  ${text}`, isExact };
}
