/**
 * Instructions with combinations of modifiers, as a syntax of `form_syntax.ts` allows them, with operands.
 *
 * @module
 */
import { readOpcode, readSlots } from "../../../../src/ptx/instructions/form_syntax.ts";

/** An instruction as text: `add.rn.f32 %r1, %r2, %r3;`. */
export interface Combination {
  /** The opcode and its modifiers. */
  readonly name: string;
  readonly text: string;
}

type Choices = Readonly<Record<string, string | undefined>>;

/**
 * The combinations of a syntax: all, or if there are more than `most`, a sample that has every modifier alone and many
 * pairs.
 */
export function combinationsOf(syntax: string, most: number): Combination[] {
  const opcode = readOpcode(syntax);
  const slots = readSlots(syntax).map(({ name, choices, optional }) => ({
    name,
    choices: optional ? [undefined, ...choices] : [...choices],
  }));
  const product = slots.reduce((count, { choices }) => count * choices.length, 1);
  const picks: number[][] = [];
  if (product <= most) {
    for (let index = 0; index < product; index++) {
      let rest = index;
      picks.push(slots.map(({ choices }) => {
        const pick = rest % choices.length;
        rest = Math.floor(rest / choices.length);
        return pick;
      }));
    }
  } else {
    // Every value of each slot, with the others' values going round, so that pairs are met.
    const longest = Math.max(...slots.map(({ choices }) => choices.length));
    for (let round = 0; round < Math.max(longest * 6, most); round++) {
      picks.push(slots.map(({ choices }, slot) => (round * (slot + 1) + Math.floor(round / longest)) % choices.length));
    }
    for (const [slot, { choices }] of slots.entries()) {
      for (let pick = 0; pick < choices.length; pick++) picks.push(slots.map((_, other) => other === slot ? pick : 0));
    }
  }
  const operands = syntax.split(" ").slice(1).join(" ").replace(/ ?\[(, \w+|x, y, z, w)\]/g, "");
  const combinations = picks.map((pick): Combination => {
    const chosen = slots.map(({ choices }, slot) => choices[pick[slot]!]);
    const choices: Choices = Object.fromEntries(slots.map(({ name }, slot) => [name, chosen[slot]]));
    const name = [opcode, ...chosen.filter((each) => each !== undefined)].join(".");
    // What a comparison is combined with is required where it is combined.
    const isCombined = choices.combine !== undefined && opcode !== "lop3" || choices.op2 !== undefined;
    const combined = isCombined ? `${operands.replace(", c", "")}, c` : operands;
    const list = combined === "" ? "" : ` ${operandsOf(opcode, { operands: combined, choices, name })}`;
    return { name, text: `${name}${list};` };
  });
  return [...new Map(combinations.map((each) => [each.text, each])).values()];
}

/** The bits of a type, or undefined. */
function bitsOf(type: string | undefined): number | undefined {
  if (type === undefined) return undefined;
  if (type === "pred") return 1;
  const [, bits, times] = /^(?:b|u|s|f|bf|tf|e\dm|e\d?)(\d+)(?:x(\d))?$/.exec(type) ?? [];
  if (/^e\dm\dx2$/.test(type)) return 16;
  return bits === undefined ? undefined : Math.max(8, Number(bits)) * Number(times ?? 1);
}

/** The operands of instructions that are not all of one type. Undefined for those that need no care. */
const operandOf: Readonly<
  Record<string, (context: { operand: string; name: string; bits: number; choices: Choices }) => string | undefined>
> = {
  elect: ({ operand }) => operand === "d" ? "%r1|%p1" : undefined,
  pmevent: () => "3",
  cp({ operand, name }) {
    const dimensions = Number(/\.([1-5])d\b/.exec(name)?.[1] ?? 0);
    const list = (prefix: string, count: number) =>
      `{${Array.from({ length: Math.max(1, count) }, (_, each) => `${prefix}${each + 1}`).join(", ")}}`;
    if (operand === "tensor") return `[%d9, ${list("%r", dimensions)}]`;
    if (operand === "offsets") return list("%h", dimensions - 2);
    return operand === "mask" ? "%h9" : undefined;
  },
  tensormap({ operand, name }) {
    if (operand === "index") return "0";
    if (operand !== "b") return undefined;
    if (/\.b64$/.test(name)) return "%d1";
    return /elemtype|interleave_layout|swizzle_mode|fill_mode/.test(name) ? "0" : "%r1";
  },
  createpolicy: ({ operand }) => ({ d: "%d1", total: "256", property: "%d2" })[operand],
  mapa: ({ operand }) => operand === "b" ? "%r3" : undefined,
  getctarank: ({ operand }) => operand === "d" ? "%r1" : undefined,
  mbarrier({ operand, name, choices }) {
    if (/pending_count/.test(name)) return operand === "d" ? "%r1" : "%d2";
    // ptxas returns no state of a barrier that may be in another block.
    if (operand === "d") return choices.space === "shared::cluster" ? "_" : "%d1";
    return operand === "b" && /_wait\b(?!.*\.parity)/.test(name) ? "%d2" : undefined;
  },
};

interface Context {
  readonly operands: string;
  readonly choices: Choices;
  readonly name: string;
}

function operandsOf(opcode: string, context: Context): string {
  return context.operands.split(", ").map((operand, index) => textOf(opcode, { ...context, operand, index })).join(
    ", ",
  );
}

function textOf(
  opcode: string,
  { operand, index, choices, name }: Context & { operand: string; index: number },
): string {
  const type = choices.type ?? choices.packed ?? choices.result ?? "b32";
  const bits = bitsOf(type) ?? 32;
  const vector = Number(/\.v([248])\b/.exec(name)?.[1] ?? 1);
  const register = (bits: number, number = index + 1) => `${prefixOf(bits)}${number}`;
  if (/^\[.*\]$/.test(operand)) {
    if (opcode === "st" && choices.space?.startsWith("param")) return "[passed]";
    return choices.space === "shared" || /\.shared/.test(name) && index === 0 ? "[%r9]" : "[%d9]";
  }
  const tuple = () => {
    const width = Math.max(16, bits);
    return vector === 1
      ? register(width)
      : `{${Array.from({ length: vector }, (_, each) => `${prefixOf(width)}${each + 1}`).join(", ")}}`;
  };
  const known = operandOf[opcode]?.({ operand, name, bits, choices });
  if (known !== undefined) return known;
  if (/\.b128\b/.test(name) && /^[dabc]$/.test(operand)) return `%q${index + 1}`;
  switch (operand) {
    case "policy":
      return "%d8";
    case "d.sel":
    case "a.sel":
    case "b.sel":
      return register(32);
    case "immLut":
      return "0x96";
    case "n":
      return "1";
    case "membermask":
      return "-1";
    case "size":
      return opcode === "cp" ? "16" : opcode === "alloca" ? register(bits) : "128";
    case "target":
      return "DONE";
    case "index":
    case "t":
      return "%r1";
    case "p":
      return "%p1";
    case "q":
      return "%p2";
  }
  if (opcode === "lop3" && choices.combine !== undefined && operand === "d") return "%r1|%p1";
  const widened = choices.result === undefined ? bits : bitsOf(choices.result)!;
  const from = bitsOf(choices.from ?? choices.format) ?? bits;
  const isDestination = operand === "d";
  switch (opcode) {
    case "mul":
    case "mad":
      if (/\.wide\b/.test(name) && (isDestination || operand === "c")) return register(2 * bits);
      return register(bits);
    case "set":
      return isDestination ? register(widened) : operand === "c" ? "%p3" : register(bitsOf(choices.type)!);
    case "setp":
      return operand === "c" ? "%p3" : register(bits);
    case "popc":
    case "clz":
    case "bfind":
      return register(isDestination ? 32 : bits);
    case "shl":
    case "shr":
      return register(operand === "b" ? 32 : bits);
    case "bfe":
      return register(operand === "b" || operand === "c" ? 32 : bits);
    case "bfi":
      return register(operand === "c" || operand === "e" ? 32 : bits);
    case "selp":
      return operand === "c" ? "%p1" : register(bits);
    case "slct":
      return register(operand === "c" ? 32 : bits);
    case "cvta":
    case "isspacep":
      return register(64);
    case "mov":
      return vector === 1 ? register(bits) : tuple();
    case "ld":
    case "ldu":
    case "st":
    case "atom":
    case "red":
      return tuple();
    case "ldmatrix":
    case "stmatrix":
      return `{${["%r1", "%r2", "%r3", "%r4"].slice(0, Number(choices.matrices!.slice(1))).join(", ")}}`;
    case "shfl":
      return register(32);
    case "vote":
      return operand === "a" ? "%p2" : /ballot/.test(name) ? register(32) : "%p1";
    case "match":
      return register(isDestination ? 32 : bits);
    case "bar":
    case "barrier":
      if (isDestination) return /\.pred/.test(name) ? "%p3" : register(32);
      return operand === "a" ? "1" : "64";
    case "cvt": {
      if (/\.pack\b/.test(name)) return register(32);
      if (isDestination) return register(choices.type === undefined ? bitsOf(choices.format) ?? 32 : bits);
      return register(from);
    }
    default:
      return register(bits);
  }
}

function prefixOf(bits: number): string {
  return ({ 1: "%p", 8: "%h", 16: "%h", 32: "%r", 64: "%d" } as Record<number, string>)[bits] ?? "%r";
}

/** A module in which each instruction is on a line of its own, in a kernel of its own. */
export function moduleOf(combinations: readonly Combination[]): { ptx: string; firstLine: number } {
  const kernels = combinations.map(({ text }, index) => `${kernelBegin(index)} ${text} DONE: ret; }\n`);
  return { ptx: `.version 9.0\n.target sm_90a\n.address_size 64\n${kernels.join("")}`, firstLine: 4 };
}

function kernelBegin(index: number): string {
  return `.entry k${index}() { .reg .pred %p<9>; .reg .b16 %h<18>; .reg .b32 %r<130>; .reg .b64 %d<18>; .reg .b128 %q<9>; .param .align 16 .b8 passed[32];`;
}
