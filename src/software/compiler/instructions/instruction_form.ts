import type { RegisterShadows } from "../checks/register_shadows.ts";
import type { GangEmitter } from "../simd/gang_emitter.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Flow, InstructionRow, InstructionTraits } from "../../../ptx/instructions/instruction_traits.ts";
import type { SuspensionRequest } from "../../abi/launch_record.ts";
import {
  type ModifierSlot,
  readHasResult,
  readOpcode,
  readOperands,
  readSlots,
  readTakesSelectors,
} from "../../../ptx/instructions/form_syntax.ts";
import type { ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";

/** An instruction whose row says what it compiles to. */
export type CompiledInstruction = ResolvedInstruction<InstructionForm>;

/** Emits the WebAssembly for one instruction. */
export type Emit = (emitter: FunctionEmitter, instruction: CompiledInstruction) => void;

/** Emits an instruction on vectors, for all members of a gang at once. */
export type EmitVectors = () => void;

/** Finds how to emit an unpredicated instruction on vectors. Undefined if that is not possible. */
export type GangForm = (gang: GangEmitter, instruction: CompiledInstruction) => EmitVectors | undefined;

/** Emits what an instruction does to the shadows of its operands, which say which of their bits are uninitialized. */
export type ValidityRule = (e: FunctionEmitter, shadows: RegisterShadows, instruction: CompiledInstruction) => void;

/** The traits of a form, with those that only the compiler asks for. */
export interface LoweringTraits extends InstructionTraits {
  /**
   * How uninitialized bits of the sources reach the results; `emitted` if the instruction's own code says so, as that of
   * loads does. Default: every result is wholly uninitialized if any bit of any source is.
   */
  readonly validity?: ValidityRule | "emitted";
  /**
   * How a gang executes the instruction on vectors. Undefined for an instruction with a modifier that the vectors do
   * not implement. Default: member by member.
   */
  readonly gangForm?: GangForm;
}

/** An instruction that suspends a thread until others have come as far. */
export interface SuspendingInstruction {
  /** What the thread requests. */
  describe(instruction: ResolvedInstruction): SuspensionRequest;
  /** Stores the operands of the request in the thread's record. */
  readonly request: Emit;
  /** Loads the results from the record. */
  readonly resume: Emit;
  /**
   * The number of the barrier if all threads of the block wait at it, so that whole gangs can wait there. Default: the
   * members of a gang diverge and wait one by one.
   */
  barrierOfAll?(instruction: ResolvedInstruction): number | undefined;
  /** Whether no lane of the warp goes on before all lanes have come. Default: some may. */
  gathersWarp?(instruction: ResolvedInstruction): boolean;
}

/** A row of the table: one form of an instruction, its syntax and its meaning. */
export interface InstructionForm extends InstructionRow {
  /** Undefined if the instruction is only part of the control flow, or is refused. */
  readonly emit: Emit | undefined;
  /** Set if the instruction suspends the thread. */
  readonly suspending: SuspendingInstruction | undefined;
  /** Set if the device does not have the instruction: why. */
  readonly refusal: string | undefined;
  readonly traits: LoweringTraits;
}

/** What an instruction compiles to: code, a suspension, or control flow. Otherwise, why it is refused. */
export type Lowering = Emit | SuspendingInstruction | { readonly flow: Flow } | { readonly refusal: string };

/** Creates a form. Without traits, nothing is assumed of the instruction. */
export function instructionForm(
  syntax: string,
  section: string,
  { lowering, traits = {}, refusedFor }: {
    readonly lowering: Lowering;
    readonly traits?: LoweringTraits;
    /** If set, every instruction with this modifier is refused, whatever else it has. */
    readonly refusedFor?: string;
  },
): InstructionForm {
  return new WrittenForm(syntax, section, { lowering, traits, refusedFor });
}

/** Parses its syntax on first use: there are hundreds of forms, and a program has few of them. */
class WrittenForm implements InstructionForm {
  readonly opcode: string;
  readonly syntax: string;
  readonly section: string;
  readonly emit: Emit | undefined;
  readonly flow: Flow | undefined;
  readonly suspending: SuspendingInstruction | undefined;
  readonly refusal: string | undefined;
  readonly traits: LoweringTraits;
  readonly refusedFor?: string;
  #slots: readonly ModifierSlot[] | undefined;
  #hasResult: boolean | undefined;
  #takesSelectors: boolean | undefined;
  #operands: readonly [minimum: number, maximum: number] | undefined;

  constructor(
    syntax: string,
    section: string,
    { lowering, traits, refusedFor }: { lowering: Lowering; traits: LoweringTraits; refusedFor: string | undefined },
  ) {
    this.opcode = readOpcode(syntax);
    this.syntax = syntax;
    this.section = section;
    this.emit = typeof lowering === "function" ? lowering : undefined;
    this.suspending = typeof lowering === "object" && "request" in lowering ? lowering : undefined;
    this.refusal = typeof lowering === "object" && "refusal" in lowering ? lowering.refusal : undefined;
    const flow = typeof lowering === "object" && "flow" in lowering ? lowering.flow : undefined;
    this.flow = this.suspending === undefined ? flow : "suspend";
    this.traits = traits;
    if (refusedFor !== undefined) this.refusedFor = refusedFor;
  }

  get slots(): readonly ModifierSlot[] {
    return this.#slots ??= readSlots(this.syntax);
  }

  get hasResult(): boolean {
    return this.#hasResult ??= readHasResult(this.syntax);
  }

  get takesSelectors(): boolean {
    return this.#takesSelectors ??= readTakesSelectors(this.syntax);
  }

  get operands(): readonly [minimum: number, maximum: number] {
    return this.#operands ??= this.refusedFor === undefined ? readOperands(this.syntax) : [0, Infinity];
  }
}
