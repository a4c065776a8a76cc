/**
 * What the compiler may assume of an instruction, beside what the instruction compiles to.
 *
 * Each row of the table states the traits of its form. A trait that is left out takes the conservative value: the
 * instruction may do anything to memory, its results are varying, their NaNs have any bits, and kernels that contain it
 * do not run in gangs.
 *
 * @module
 */
import type { RegisterShadows } from "../checks/register_shadows.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { GangEmitter } from "../simd/gang_emitter.ts";
import type { ScalarType } from "../typing/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/**
 * A side effect of an instruction. No analysis asks for `orders` and `traps` yet; with them, the rows state all effects.
 */
export type Effect =
  /** Reads memory. */
  | "reads"
  /** Reads memory, and sees what other threads store in the meantime. */
  | "observes"
  | "writes"
  /** Orders the memory accesses around it. */
  | "orders"
  /** Takes memory from the thread's stack, frees it, or reads how much is taken. */
  | "allocates"
  /** Ends the kernel. */
  | "traps";

/**
 * The difference between a value in each thread of a gang and in the thread before, modulo 2^bits: 0 for a uniform
 * value, undefined for a varying one.
 */
export type Stride = bigint | undefined;

/** Finds the stride of an operand that is read with the given bits, by default those of the destination. */
export type OperandStride = (operand: ResolvedOperand | undefined, bits?: number) => Stride;

/** Finds the stride of an instruction's result, an integer of at least 32 bits, from those of its operands. */
export type StrideRule = (instruction: ResolvedInstruction, strideOf: OperandStride) => Stride;

/** The 32-bit operands that an instruction extends to 64 bits, and the type that says how. */
export interface Widening {
  readonly operands: readonly ResolvedOperand[];
  readonly type: ScalarType;
}

/** Emits an instruction on vectors, for all members of a gang at once. */
export type EmitVectors = () => void;

/** Finds how to emit an unpredicated instruction on vectors. Undefined if that is not possible. */
export type GangForm = (gang: GangEmitter, instruction: ResolvedInstruction) => EmitVectors | undefined;

/** Emits what an instruction does to the shadows of its operands, which say which of their bits are uninitialized. */
export type ValidityRule = (e: FunctionEmitter, shadows: RegisterShadows, instruction: ResolvedInstruction) => void;

/** The traits of a form. All are optional, and default to the conservative value. */
export interface InstructionTraits {
  /** All side effects. Default: any. */
  readonly effects?: readonly Effect[];
  /**
   * Whether the instruction does the same in all threads that have the same operands, so that executing it once is
   * enough. Default: every thread must execute it, and its results are varying.
   */
  readonly isUniform?: boolean;
  /** The stride of the result if an operand is strided. Default: the result is varying. */
  readonly stride?: StrideRule;
  /**
   * The operands that the instruction extends to 64 bits. They must not wrap around within a gang for `stride` to hold.
   * Required if `stride` is that of an extended operand.
   */
  readonly widening?: (instruction: ResolvedInstruction) => Widening | undefined;
  /** The number of leading sources that the result may be a copy of: 1 for a move, 2 for a selection. Default: none. */
  readonly copies?: 1 | 2;
  /**
   * Whether the result is never a 32-bit NaN other than the canonical one. Default: a NaN may have any bits, which are
   * significant.
   */
  readonly hasCanonicalNaN?: (instruction: ResolvedInstruction) => boolean;
  /**
   * Whether the result is a 64-bit NaN wherever a source is, and only its bits depend on which of them. Default: the
   * result may be a number, or depend on the bits of a NaN.
   */
  readonly propagatesNaN64?: boolean;
  /** Whether the instruction does the same for all 64-bit NaNs. Default: it depends on their bits. */
  readonly ignoresNaNBits?: boolean;
  /**
   * How a 64-bit result may be a pointer: loaded from memory, converted from a pointer, or derived from a pointer among
   * the sources. Default: it is not known to be a pointer. Only speed depends on it.
   */
  readonly pointer?: "loaded" | "converted" | "derived";
  /**
   * How far a result may be from the exact one, as the manual states it for GPUs. The software device's is within the
   * bound, too. Default: the manual defines every bit.
   */
  readonly bound?: string;
  /**
   * The part that the instruction has if a GPU contracts a product and a sum to one instruction, which rounds once. Those
   * with a rounding modifier have none. Default: none.
   */
  readonly contraction?: "product" | "sum" | "difference" | "negation";
  /** Whether `ptxas` ends a basic block at the instruction. Default: only if the instruction branches. */
  readonly dividesBlock?: (instruction: ResolvedInstruction) => boolean;
  /** Whether the instruction is a hint, which no program can observe and the software device ignores. Default: no. */
  readonly hasNoEffect?: boolean;
  /** Whether a vector of one element stands for the element. Default: it is a vector, which the instruction may refuse. */
  readonly takesVectorOfOne?: boolean;
  /** Whether the instruction only reads memory that nothing writes while the kernel runs. Default: it may be written. */
  readonly readsConstants?: boolean;
  /** Whether the instruction is a weak store: no thread sees it before a barrier for sure. Default: it may be any other. */
  readonly isPlainStore?: boolean;
  /**
   * Whether the instruction accesses as many bytes as its type has, for each element of its vector. Default: it may
   * access others.
   */
  readonly accessesType?: boolean;
  /**
   * How uninitialized bits of the sources reach the results; `emitted` if the instruction's own code says so, as that of
   * loads does. Default: every result is wholly uninitialized if any bit of any source is.
   */
  readonly validity?: ValidityRule | "emitted";
  /** Whether results may be undefined although all sources are initialized. Default: no. */
  readonly mayBeUndefined?: boolean;
  /** Whether the instruction gives or takes the carry, which is no operand. Default: no. */
  readonly usesCarry?: boolean;
  /** Whether kernels that contain the instruction may run in gangs. Default: no. */
  readonly runsInGangs?: boolean;
  /**
   * How a gang executes the instruction on vectors. Undefined for an instruction with a modifier that the vectors do
   * not implement. Default: member by member.
   */
  readonly gangForm?: GangForm;
}

/** Whether an instruction may have a side effect. Without stated effects, it may have any. */
export function mayHave({ form }: ResolvedInstruction, effect: Effect): boolean {
  const { effects } = form.traits;
  return effects === undefined || effects.includes(effect);
}

/** Whether an instruction's only modifiers are its type and those in the given slots of its form. */
export function hasOnlyModifiers({ choices }: ResolvedInstruction, slots: readonly string[]): boolean {
  return [...choices.keys()].every((slot) => slot === "type" || slots.includes(slot));
}

/** Whether a GPU may contract an instruction and another to one. */
export function mayBeContracted({ form, choices }: Pick<ResolvedInstruction, "form" | "choices">): boolean {
  const { contraction } = form.traits;
  return contraction !== undefined && contraction !== "negation" && !choices.has("rounding") && !choices.has("rn");
}

/** Whether nothing is known of an instruction's side effects. */
export function hasUnknownEffects({ form }: ResolvedInstruction): boolean {
  return form.traits.effects === undefined;
}

/** The traits of an instruction that only computes its results from its operands. */
export const pure: InstructionTraits = { effects: [], isUniform: true, runsInGangs: true };
