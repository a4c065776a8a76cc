import type { FormSyntax } from "../../../ptx/instructions/form_syntax.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";
import { type Rows, WrittenRow } from "../../../ptx/instructions/rows/row.ts";
import type { RegisterShadows } from "../checks/register_shadows.ts";
import type { GangEmitter } from "../simd/gang_emitter.ts";
import type { InsertedInstructions } from "../../../ptx/analysis/inserted_instructions.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { InstructionRow, InstructionTraits } from "../../../ptx/instructions/instruction_traits.ts";
import type { SuspensionRequest } from "../../abi/launch_record.ts";
import type { Register, ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";

/** A resolved instruction whose row in the table has a lowering. */
export type CompiledInstruction = ResolvedInstruction<InstructionForm>;

/** Emits the WebAssembly for one instruction. */
export type Emit = (emitter: FunctionEmitter, instruction: CompiledInstruction) => void;

/** Emits vector code for an instruction, which executes it for all threads of a gang at once. */
export type EmitVectors = () => void;

/**
 * Returns a function that emits vector code for an unpredicated instruction, or undefined if there is no vector code
 * for it.
 */
export type GangForm = (gang: GangEmitter, instruction: CompiledInstruction) => EmitVectors | undefined;

/**
 * Emits code that sets the shadows of an instruction's results. A shadow has a 1 for each uninitialized bit of its
 * register.
 */
export type ValidityRule = (e: FunctionEmitter, shadows: RegisterShadows, instruction: CompiledInstruction) => void;

/** The traits of a form, including those that only the compiler uses. */
export interface LoweringTraits extends InstructionTraits {
  /**
   * How uninitialized bits of the sources propagate to the results. `"emitted"` if the lowering itself sets the
   * shadows, as it does for loads. Default: if any bit of any source is uninitialized, all bits of the results become
   * uninitialized.
   */
  readonly validity?: ValidityRule | "emitted";
  /**
   * Returns the vector code with which a gang executes the instruction, or undefined for an instruction with a modifier
   * that the vector code does not implement. Default: the instruction is executed for one thread of the gang at a time.
   */
  readonly gangForm?: GangForm;
}

/** An instruction that suspends the thread, for example until other threads have arrived at the same barrier. */
export interface SuspendingInstruction {
  /** Returns the request that the thread makes to the scheduler, such as to wait at a barrier. */
  describe(instruction: ResolvedInstruction): SuspensionRequest;
  /** Emits code that stores the operands of the request in the thread's record. */
  readonly request: Emit;
  /** Emits code that a resumed thread executes before it restores its registers. Default: none. */
  readonly answer?: Emit;
  /** Emits code that loads the results from the thread's record. */
  readonly resume: Emit;
  /**
   * Returns the number of the barrier if all threads of the block wait at it, so that whole gangs can wait there. If
   * the method is absent or returns undefined, the threads of a gang diverge and wait one by one.
   */
  barrierOfAll?(instruction: ResolvedInstruction): number | undefined;
  /** Returns the size of the memory for fragments of matrices that the instruction needs in each thread, in bytes. */
  fragmentBytes?(instruction: ResolvedInstruction): number;
  /**
   * The registers that the instruction reads and sets in the memory for fragments, where threads also save them: the
   * offset of each there, in bytes. Default: none.
   */
  readonly residents?: ReadonlyMap<Register, number>;
  /** Whether no lane of the warp resumes before all lanes have arrived. Default: false. */
  gathersWarp?(instruction: ResolvedInstruction): boolean;
}

/** An instruction that stands for several others. */
export interface ExpandedInstruction {
  /** Adds the instructions that compute the same. */
  expand(instruction: CompiledInstruction, inserted: InsertedInstructions<InstructionForm>): void;
}

/** A row of the instruction table: one form of an instruction, with its syntax, traits and lowering. */
export interface InstructionForm extends InstructionRow {
  /**
   * The function that emits the instruction's code. Undefined if the instruction is control flow, suspends the thread,
   * stands for other instructions, or is not supported.
   */
  readonly emit: Emit | undefined;
  /** How the instruction suspends the thread. Undefined if the instruction does not suspend. */
  readonly suspending: SuspendingInstruction | undefined;
  /** The instructions that the instruction stands for. Undefined if it is compiled itself. */
  readonly expansion: ExpandedInstruction | undefined;
  /** The reason why the device does not support the instruction. Undefined if the instruction is supported. */
  readonly refusal: string | undefined;
  /** Whether the form is not valid PTX. If so, a module that uses it is rejected as a whole, as on a GPU. */
  readonly isInvalid: boolean;
  readonly traits: LoweringTraits;
}

/**
 * How an instruction is compiled: a function that emits its code, a description of how it suspends the thread, other
 * instructions, or "control flow".
 */
export type Lowering = Emit | SuspendingInstruction | ExpandedInstruction | "control flow";

/** The lowering of one or more rows, with the traits that only the compiler uses. */
export interface LoweredRow extends Pick<LoweringTraits, "validity" | "gangForm"> {
  readonly lowering: Lowering;
}

/** Maps the name of each row in a family of table rows to the row's lowering. */
export type Lowerings<Name extends string> = Readonly<Record<Name, Lowering | LoweredRow>>;

/** Combines the table rows of a family with their lowerings, in the order of the rows. */
export function lowered<Name extends string>(rows: Rows<Name>, lowerings: Lowerings<Name>): InstructionForm[] {
  return (Object.keys(rows) as Name[]).flatMap((name) => {
    const found: Lowering | LoweredRow = lowerings[name];
    const { lowering, ...traits } = typeof found === "object" && "lowering" in found ? found : { lowering: found };
    return [rows[name]].flat().map((row: InstructionRow) => {
      if (row.traits.takesPolicy !== true) return new Form(row, { lowering, traits });
      const { gangForm: _, ...others } = traits;
      return new Form(row, { lowering: ignoringPolicy(lowering), traits: others });
    });
  });
}

/**
 * Returns the lowering of an instruction whose last operand is a cache policy. The policy is ignored, because it has no
 * effect. A gang executes the instruction for one thread at a time.
 */
function ignoringPolicy(lowering: Lowering): Emit {
  if (typeof lowering !== "function") throw new TypeError("Cannot ignore the policy of an instruction that waits");
  return (e, i) => {
    e.push(i.operands.at(-1), u64);
    e.code.ops("drop");
    lowering(e, { ...i, operands: i.operands.slice(0, -1) });
  };
}

const u64 = typeNamed("u64");

/** Creates a form that is not based on a row. If a trait is omitted, its conservative value is assumed. */
export function instructionForm(
  syntax: string,
  section: string,
  { lowering, traits = {}, refusal, refusedFor, isInvalid }: {
    /** How the instruction is compiled. Undefined if the instruction is not supported. */
    readonly lowering?: Lowering;
    readonly traits?: LoweringTraits;
    /** The reason why the device does not support the instruction. */
    readonly refusal?: string;
    /** If defined, the form matches every instruction of the opcode that has this modifier. */
    readonly refusedFor?: string;
    /** Whether the form is not valid PTX: no GPU supports it. */
    readonly isInvalid?: boolean;
  },
): InstructionForm {
  return new Form({ syntax, section, flow: undefined, traits: {} }, {
    lowering,
    traits,
    refusal,
    refusedFor,
    isInvalid,
  });
}

/** A form that consists of a row and its lowering. */
class Form extends WrittenRow<LoweringTraits> implements InstructionForm {
  readonly emit: Emit | undefined;
  readonly suspending: SuspendingInstruction | undefined;
  readonly expansion: ExpandedInstruction | undefined;
  readonly refusal: string | undefined;
  readonly isInvalid: boolean;
  readonly refusedFor?: string;

  constructor(
    { syntax, section, flow, traits: known }: Omit<InstructionRow, keyof FormSyntax>,
    { lowering, traits, refusal, refusedFor, isInvalid = false }: {
      lowering: Lowering | undefined;
      traits: LoweringTraits;
      refusal?: string | undefined;
      refusedFor?: string | undefined;
      isInvalid?: boolean | undefined;
    },
  ) {
    const suspending = typeof lowering === "object" && "request" in lowering ? lowering : undefined;
    super(syntax, section, { traits: { ...known, ...traits }, flow: suspending === undefined ? flow : "suspend" });
    this.emit = typeof lowering === "function" ? lowering : undefined;
    this.suspending = suspending;
    this.expansion = typeof lowering === "object" && "expand" in lowering ? lowering : undefined;
    this.refusal = refusal;
    this.isInvalid = isInvalid;
    if (refusedFor !== undefined) this.refusedFor = refusedFor;
  }

  override get operands(): readonly [minimum: number, maximum: number] {
    return this.refusedFor === undefined ? super.operands : [0, Infinity];
  }
}
