import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { InstructionTraits } from "./instruction_traits.ts";
import type { SuspensionRequest } from "../launch_context.ts";
import {
  type FormSyntax,
  type ModifierSlot,
  readHasResult,
  readOpcode,
  readOperands,
  readSlots,
} from "../typing/form_syntax.ts";
import type { ResolvedInstruction } from "../typing/resolved_instruction.ts";

/** Writes the WebAssembly for one instruction. */
export type Emit = (emitter: FunctionEmitter, instruction: ResolvedInstruction) => void;

/** What an instruction does to the flow of control, where it does anything. */
export type Flow = "branch" | "switch" | "return" | "exit" | "call" | "suspend";

/** What an instruction means at which a thread is suspended until others have come as far. */
export interface SuspendingInstruction {
  /** What the thread asks for. */
  describe(instruction: ResolvedInstruction): SuspensionRequest;
  /** Leaves in the thread's record what it asks with. */
  readonly request: Emit;
  /** Takes the answer from the record. */
  readonly resume: Emit;
}

/** A row of the table: one form of an instruction, what may stand after its opcode, and what it means. */
export interface InstructionForm extends FormSyntax {
  /** As the PTX manual writes it: `add{.rnd}{.ftz}{.sat}.f32`. */
  readonly syntax: string;
  /** Of the PTX ISA manual. */
  readonly section: string;
  /** Undefined where `flow` says it all. */
  readonly emit: Emit | undefined;
  readonly flow: Flow | undefined;
  /** Of those whose flow is to suspend the thread. */
  readonly suspending: SuspendingInstruction | undefined;
  readonly traits: InstructionTraits;
}

/** What an instruction is compiled to: code, a suspension, or a part of the flow of control. */
export type Meaning = Emit | SuspendingInstruction | { readonly flow: Flow };

/**
 * A form by its syntax, as `typing/form_syntax.ts` reads it, with what the compiler may assume of it: nothing where no
 * traits are given.
 */
export function instructionForm(
  syntax: string,
  section: string,
  { meaning, traits = {}, refusedFor }: {
    readonly meaning: Meaning;
    readonly traits?: InstructionTraits;
    /** The modifier for which an instruction is refused, whatever else it has. */
    readonly refusedFor?: string;
  },
): InstructionForm {
  return new WrittenForm(syntax, section, { meaning, traits, refusedFor });
}

/** Its syntax is read when it is first needed: there are hundreds of forms, and few of them are in one program. */
class WrittenForm implements InstructionForm {
  readonly opcode: string;
  readonly syntax: string;
  readonly section: string;
  readonly emit: Emit | undefined;
  readonly flow: Flow | undefined;
  readonly suspending: SuspendingInstruction | undefined;
  readonly traits: InstructionTraits;
  readonly refusedFor?: string;
  #slots: readonly ModifierSlot[] | undefined;
  #hasResult: boolean | undefined;
  #operands: readonly [minimum: number, maximum: number] | undefined;

  constructor(
    syntax: string,
    section: string,
    { meaning, traits, refusedFor }: { meaning: Meaning; traits: InstructionTraits; refusedFor: string | undefined },
  ) {
    this.opcode = readOpcode(syntax);
    this.syntax = syntax;
    this.section = section;
    this.emit = typeof meaning === "function" ? meaning : undefined;
    this.flow = typeof meaning === "function" ? undefined : "flow" in meaning ? meaning.flow : "suspend";
    this.suspending = typeof meaning === "object" && "request" in meaning ? meaning : undefined;
    this.traits = traits;
    if (refusedFor !== undefined) this.refusedFor = refusedFor;
  }

  get slots(): readonly ModifierSlot[] {
    return this.#slots ??= readSlots(this.syntax);
  }

  get hasResult(): boolean {
    return this.#hasResult ??= readHasResult(this.syntax);
  }

  get operands(): readonly [minimum: number, maximum: number] {
    return this.#operands ??= this.refusedFor === undefined ? readOperands(this.syntax) : [0, Infinity];
  }
}
