import type { FunctionEmitter } from "./function_emitter.ts";
import type { TypedInstruction } from "./typed_instruction.ts";

/** Writes the WebAssembly for one instruction. */
export type Emit = (emitter: FunctionEmitter, instruction: TypedInstruction) => void;

/** What an instruction does to the flow of control, where it does anything. */
export type Flow = "branch" | "switch" | "exit";

/** One form of an instruction: what may stand after its opcode, and what it means. */
export interface InstructionForm {
  readonly opcode: string;
  /** As the PTX manual writes it: `add{.rnd}{.ftz}{.sat}.f32`. */
  readonly syntax: string;
  readonly slots: readonly Slot[];
  /** How many operands, at least and at most. */
  readonly operands: readonly [minimum: number, maximum: number];
  /** Of the PTX ISA manual. */
  readonly section: string;
  /** Undefined where `flow` says it all. */
  readonly emit: Emit | undefined;
  readonly flow: Flow | undefined;
}

/** A place for a modifier. */
export interface Slot {
  /** What the choice is called, as `type`; for a modifier that stands alone, its own name. */
  readonly name: string;
  readonly choices: ReadonlySet<string>;
  readonly optional: boolean;
}

/**
 * Reads a form's syntax: an opcode, then its modifiers in order, then its operands.
 *
 * `.lo` is a modifier as it stands, `.<mode:lo|hi>` a choice with a name, a question mark makes either optional, and
 * operands in brackets may be left out: `"setp.<compare:eq|ne>.<combine:and|or>?.ftz?.<type:f32> p, a, b [, c]"`.
 */
export function instructionForm(
  syntax: string,
  section: string,
  meaning: Emit | { readonly flow: Flow },
): InstructionForm {
  const [head = "", ...rest] = syntax.split(" ");
  const tail = rest.join(" ");
  const opcode = /^[a-z0-9]+/.exec(head)![0];
  const slots: Slot[] = [];
  for (const match of head.slice(opcode.length).matchAll(/\.(?:<(\w+):([^>]+)>|([\w:]+))(\?)?/g)) {
    const [, name, choices, literal, optional] = match;
    slots.push({
      name: name ?? literal!,
      choices: new Set((choices ?? literal!).split("|")),
      optional: optional !== undefined,
    });
  }
  const required = countOperands(tail.replace(/\[.*?\]/g, ""));
  const isFlow = typeof meaning === "object";
  return {
    opcode,
    syntax,
    slots,
    operands: [required, countOperands(tail.replace(/[[\]]/g, ""))],
    section,
    emit: isFlow ? undefined : meaning,
    flow: isFlow ? meaning.flow : undefined,
  };
}

function countOperands(text: string): number {
  return text.trim() === "" ? 0 : text.split(",").length;
}

/** What came of holding an instruction's modifiers against a form. */
export type FormMatch =
  | { readonly matched: true; readonly choices: ReadonlyMap<string, string> }
  /** `at`: the index of the first modifier that does not fit; one past the last where some are missing. */
  | { readonly matched: false; readonly at: number };

/** Holds an instruction's modifiers against a form. */
export function matchForm(form: InstructionForm, modifiers: readonly string[]): FormMatch {
  const choices = new Map<string, string>();
  let at = 0;
  for (const { name, choices: allowed, optional } of form.slots) {
    const modifier = modifiers[at];
    if (modifier !== undefined && allowed.has(modifier)) {
      choices.set(name, modifier);
      at++;
    } else if (!optional) {
      return { matched: false, at };
    }
  }
  return at === modifiers.length ? { matched: true, choices } : { matched: false, at };
}
