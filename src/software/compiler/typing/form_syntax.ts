/**
 * The syntax of instructions: which modifiers and operands may follow an opcode.
 *
 * A syntax is written as an opcode, its modifiers in order, and its operands: `.lo` is a modifier as it stands,
 * `.<mode:lo|hi>` a choice with a name, a question mark makes either optional, and operands in brackets may be left out:
 * `"setp.<compare:eq|ne>.<combine:and|or>?.ftz?.<type:f32> p, a, b [, c]"`. The first operand is called `d` where the
 * instruction sets it, and `p` where that is a predicate.
 *
 * @module
 */

/** What may follow the opcode in one form of an instruction. */
export interface FormSyntax {
  readonly opcode: string;
  readonly slots: readonly ModifierSlot[];
  /** How many operands, at least and at most. */
  readonly operands: readonly [minimum: number, maximum: number];
  /** Whether the first operand is what the instruction sets: its syntax calls it `d`, or `p` where it is a predicate. */
  readonly hasResult: boolean;
  /** The modifier for which an instruction is refused, whatever else it has. */
  readonly refusedFor?: string;
}

/** A place for a modifier. */
export interface ModifierSlot {
  /** What the choice is called, as `type`; for a modifier that stands alone, its own name. */
  readonly name: string;
  readonly choices: ReadonlySet<string>;
  readonly optional: boolean;
}

/** The opcode that a syntax begins with. */
export function readOpcode(syntax: string): string {
  return syntax.slice(0, syntax.search(/[^a-z0-9]|$/));
}

/** The modifiers of a syntax. */
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

/** How many operands a syntax has, at least and at most. */
export function readOperands(syntax: string): [minimum: number, maximum: number] {
  const operands = syntax.split(" ").slice(1).join(" ");
  return [countOperands(operands.replace(/\[.*?\]/g, "")), countOperands(operands.replace(/[[\]]/g, ""))];
}

/** Whether the first operand of a syntax is a result. */
export function readHasResult(syntax: string): boolean {
  return /^\S+ [dp]\b/.test(syntax);
}

function countOperands(text: string): number {
  return text.trim() === "" ? 0 : text.split(",").length;
}

/** What came of holding an instruction's modifiers against a form. */
export type FormMatch =
  | { readonly matched: true; readonly choices: ReadonlyMap<string, string> }
  /** `at`: the index of the first modifier that does not fit; one past the last where some are missing. */
  | { readonly matched: false; readonly at: number };

function isType(modifier: string): boolean {
  return /^(pred|[busf][0-9]+(x[24])?|bf16(x2)?|tf32|e[45]m[23]x2)$/.test(modifier);
}

/**
 * Holds an instruction's modifiers against a form. As in `ptxas`, they need not come in the manual's order: each takes the
 * first place that is free and that it fits, so that only those that fit the same places are told apart by their order.
 * Types alone always stand in order.
 */
export function matchForm(form: FormSyntax, modifiers: readonly string[]): FormMatch {
  const choices = new Map<string, string>();
  if (form.refusedFor !== undefined) {
    return modifiers.includes(form.refusedFor) ? { matched: true, choices } : { matched: false, at: 0 };
  }
  let lastType = -1;
  for (const [at, modifier] of modifiers.entries()) {
    const place = form.slots.findIndex(({ name, choices: allowed }) => allowed.has(modifier) && !choices.has(name));
    if (place < 0) return { matched: false, at };
    if (isType(modifier)) {
      if (place < lastType) return { matched: false, at };
      lastType = place;
    }
    choices.set(form.slots[place]!.name, modifier);
  }
  const isComplete = form.slots.every(({ name, optional }) => optional || choices.has(name));
  return isComplete ? { matched: true, choices } : { matched: false, at: modifiers.length };
}
