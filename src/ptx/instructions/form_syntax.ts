/**
 * The syntax of instructions: the modifiers and operands that may follow an opcode.
 *
 * A syntax is an opcode, its modifiers in order, and its operands. `.lo` is a literal modifier, `.<mode:lo|hi>` a named
 * choice of modifiers. A question mark makes either optional, and operands in brackets may be omitted:
 * `"setp.<compare:eq|ne>.<combine:and|or>?.ftz?.<type:f32> p, a, b [, c]"`. The first operand is named `d` if the
 * instruction sets it, or `p` if it sets a predicate.
 *
 * Two slots are special. The choice in `type` becomes `ResolvedInstruction.type`, which is `b32` for a form without
 * that slot. The choice in `from` becomes `sourceType`, which otherwise equals `type`. The code that emits an
 * instruction reads all other choices from `ResolvedInstruction.choices`, by the names of their slots.
 *
 * @module
 */

/** The modifiers and operands of one form of an instruction. */
export interface FormSyntax {
  readonly opcode: string;
  readonly slots: readonly ModifierSlot[];
  /** The minimum and maximum number of operands. */
  readonly operands: readonly [minimum: number, maximum: number];
  /** Whether the instruction sets its first operand: the syntax names it `d`, or `p` for a predicate. */
  readonly hasResult: boolean;
  /**
   * Whether operands may be parts of registers, such as `%r1.h1`, or negated registers: the syntax writes them as
   * `a.sel`. Such selectors and signs are recorded as the choices `selector1` and `negated1`, where 1 is the index of
   * the operand.
   */
  readonly takesSelectors: boolean;
  /**
   * If defined, the form stands for all unsupported instructions with this modifier: it matches every instruction of
   * the opcode that has the modifier, regardless of other modifiers.
   */
  readonly refusedFor?: string;
}

/** A slot for a modifier. */
export interface ModifierSlot {
  /** The name of the slot, such as `type`. The name of a literal modifier is the modifier itself. */
  readonly name: string;
  readonly choices: ReadonlySet<string>;
  readonly optional: boolean;
}

/** Returns the opcode at the start of a syntax. */
export function readOpcode(syntax: string): string {
  return syntax.slice(0, syntax.search(/[^a-z0-9]|$/));
}

/** Returns the modifier slots of a syntax. */
export function readSlots(syntax: string): ModifierSlot[] {
  const modifiers = syntax.split(" ", 1)[0]!.slice(readOpcode(syntax).length);
  return [...modifiers.matchAll(/\.(?:<(\w+):([^>]+)>|([\w:]+))(\?)?/g)].map(
    ([, name, choices, literal, optional]) => ({
      name: name ?? literal!,
      choices: new Set((choices ?? literal!).split("|")),
      optional: optional !== undefined,
    }),
  );
}

/** Returns the minimum and maximum number of operands of a syntax. */
export function readOperands(syntax: string): [minimum: number, maximum: number] {
  const operands = syntax.split(" ").slice(1).join(" ");
  return [countOperands(operands.replace(/\[.*?\]/g, "")), countOperands(operands.replace(/[[\]]/g, ""))];
}

/** Whether the first operand of a syntax is a result. */
export function readHasResult(syntax: string): boolean {
  return /^\S+ [dp]\b/.test(syntax);
}

/** Whether a syntax has operands that may be parts of registers. */
export function readTakesSelectors(syntax: string): boolean {
  return /\b[dab]\.sel\b/.test(syntax);
}

function countOperands(text: string): number {
  return text.trim() === "" ? 0 : text.split(",").length;
}

/** Whether instructions of a form may have the given modifier. */
export function hasModifier({ refusedFor, slots }: FormSyntax, modifier: string): boolean {
  return modifier === refusedFor || slots.some(({ choices }) => choices.has(modifier));
}

/** The result of matching an instruction's modifiers against a form. */
export type FormMatch =
  | { readonly matched: true; readonly choices: ReadonlyMap<string, string> }
  /** `at` is the index of the first modifier that does not fit, or the number of modifiers if some are missing. */
  | { readonly matched: false; readonly at: number };

/** Modifiers of one kind stand in the order of the form's slots: types, and the layouts of matrices. */
const orderedModifiers: readonly RegExp[] = [
  /^(pred|[busf][0-9]+(x[24])?|bf16(x2)?|tf32|e[45]m[23]x2)$/,
  /^(row|col)$/,
];

/**
 * Matches an instruction's modifiers against a form. As in `ptxas`, modifiers may be in any order: each fills the first
 * free slot that accepts it. Only types, and layouts, must be in the order of the form's slots.
 */
export function matchForm(form: FormSyntax, modifiers: readonly string[]): FormMatch {
  const choices = new Map<string, string>();
  if (form.refusedFor !== undefined) {
    return modifiers.includes(form.refusedFor) ? { matched: true, choices } : { matched: false, at: 0 };
  }
  const last = orderedModifiers.map(() => -1);
  for (const [at, modifier] of modifiers.entries()) {
    const slot = form.slots.findIndex(({ name, choices: allowed }) => allowed.has(modifier) && !choices.has(name));
    if (slot < 0) return { matched: false, at };
    for (const [kind, names] of orderedModifiers.entries()) {
      if (!names.test(modifier)) continue;
      if (slot < last[kind]!) return { matched: false, at };
      last[kind] = slot;
    }
    choices.set(form.slots[slot]!.name, modifier);
  }
  const isComplete = form.slots.every(({ name, optional }) => optional || choices.has(name));
  return isComplete ? { matched: true, choices } : { matched: false, at: modifiers.length };
}
