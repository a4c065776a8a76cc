import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { SuspensionRequest } from "../launch_context.ts";
import type { TypedInstruction } from "./typed_instruction.ts";

/** Writes the WebAssembly for one instruction. */
export type Emit = (emitter: FunctionEmitter, instruction: TypedInstruction) => void;

/** What an instruction does to the flow of control, where it does anything. */
export type Flow = "branch" | "switch" | "return" | "exit" | "call" | "suspend";

/** What an instruction means at which a thread is suspended until others have come as far. */
export interface SuspendingInstruction {
  /** What the thread asks for. */
  describe(instruction: TypedInstruction): SuspensionRequest;
  /** Leaves in the thread's record what it asks with. */
  readonly request: Emit;
  /** Takes the answer from the record. */
  readonly resume: Emit;
}

/** One form of an instruction: what may stand after its opcode, and what it means. */
export interface InstructionForm {
  readonly opcode: string;
  /** As the PTX manual writes it: `add{.rnd}{.ftz}{.sat}.f32`. */
  readonly syntax: string;
  readonly slots: readonly Slot[];
  /** The modifier for which an instruction is refused, whatever else it has. */
  readonly refusedFor?: string;
  /** How many operands, at least and at most. */
  readonly operands: readonly [minimum: number, maximum: number];
  /** Of the PTX ISA manual. */
  readonly section: string;
  /** Undefined where `flow` says it all. */
  readonly emit: Emit | undefined;
  readonly flow: Flow | undefined;
  /** Of those whose flow is to suspend the thread. */
  readonly suspending: SuspendingInstruction | undefined;
}

/** A place for a modifier. */
export interface Slot {
  /** What the choice is called, as `type`; for a modifier that stands alone, its own name. */
  readonly name: string;
  readonly choices: ReadonlySet<string>;
  readonly optional: boolean;
}

/**
 * A form by its syntax: an opcode, then its modifiers in order, then its operands.
 *
 * `.lo` is a modifier as it stands, `.<mode:lo|hi>` a choice with a name, a question mark makes either optional, and
 * operands in brackets may be left out: `"setp.<compare:eq|ne>.<combine:and|or>?.ftz?.<type:f32> p, a, b [, c]"`.
 *
 * @param refusedFor the modifier for which an instruction is refused, whatever else it has
 */
export function instructionForm(
  syntax: string,
  section: string,
  meaning: Emit | SuspendingInstruction | { readonly flow: Flow },
  refusedFor?: string,
): InstructionForm {
  return new WrittenForm(syntax, section, meaning, refusedFor);
}

/** Its syntax is read when it is first needed: there are hundreds of forms, and few of them are in one program. */
class WrittenForm implements InstructionForm {
  readonly opcode: string;
  readonly syntax: string;
  readonly section: string;
  readonly emit: Emit | undefined;
  readonly flow: Flow | undefined;
  readonly suspending: SuspendingInstruction | undefined;
  readonly refusedFor?: string;
  #slots: readonly Slot[] | undefined;
  #operands: readonly [minimum: number, maximum: number] | undefined;

  constructor(
    syntax: string,
    section: string,
    meaning: Emit | SuspendingInstruction | { readonly flow: Flow },
    refusedFor: string | undefined,
  ) {
    this.opcode = syntax.slice(0, syntax.search(/[^a-z0-9]|$/));
    this.syntax = syntax;
    this.section = section;
    this.emit = typeof meaning === "function" ? meaning : undefined;
    this.flow = typeof meaning === "function" ? undefined : "flow" in meaning ? meaning.flow : "suspend";
    this.suspending = typeof meaning === "object" && "request" in meaning ? meaning : undefined;
    if (refusedFor !== undefined) this.refusedFor = refusedFor;
  }

  get slots(): readonly Slot[] {
    return this.#slots ??= readSlots(this.syntax.split(" ", 1)[0]!.slice(this.opcode.length));
  }

  get operands(): readonly [minimum: number, maximum: number] {
    return this.#operands ??= this.refusedFor === undefined ? readOperands(this.syntax) : [0, Infinity];
  }
}

function readSlots(modifiers: string): Slot[] {
  return [...modifiers.matchAll(/\.(?:<(\w+):([^>]+)>|([\w:]+))(\?)?/g)].map(
    ([, name, choices, literal, optional]) => ({
      name: name ?? literal!,
      choices: new Set((choices ?? literal!).split("|")),
      optional: optional !== undefined,
    }),
  );
}

function readOperands(syntax: string): [minimum: number, maximum: number] {
  const operands = syntax.split(" ").slice(1).join(" ");
  return [countOperands(operands.replace(/\[.*?\]/g, "")), countOperands(operands.replace(/[[\]]/g, ""))];
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
export function matchForm(form: InstructionForm, modifiers: readonly string[]): FormMatch {
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
