/**
 * What the compiler may assume of an instruction, beside what the instruction is compiled to.
 *
 * Each row of the table states the traits of its form. A trait that a row leaves out has the careful answer: the
 * instruction may do anything to memory, its results differ from thread to thread, their NaNs have any bits, and no
 * kernel that contains it runs in gangs.
 *
 * @module
 */
import type { GangEmitter } from "../simd/gang_emitter.ts";
import type { ScalarType } from "../typing/scalar_types.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/** Something that an instruction does beside setting its results. */
export type Effect =
  /** Reads memory. */
  | "reads"
  /** Reads memory so that it sees what other threads store in the meantime. */
  | "observes"
  | "writes"
  /** Orders the accesses before it and those behind it. */
  | "orders"
  /** Takes memory from the thread's stack, gives it back, or tells how much is taken. */
  | "allocates"
  /** Ends the kernel. */
  | "traps";

/**
 * By how much a value grows from each thread of a gang to the next, modulo 2 to the power of the value's bits: 0 for a
 * uniform value. Undefined for a varying one.
 */
export type Stride = bigint | undefined;

/** Finds the stride of an operand, read with so many bits: those of the destination where nothing is said. */
export type OperandStride = (operand: ResolvedOperand | undefined, bits?: number) => Stride;

/** Finds the stride of an instruction's result, an integer of 32 bits or more, from those of its operands. */
export type StrideRule = (instruction: ResolvedInstruction, strideOf: OperandStride) => Stride;

/** The operands of 32 bits that an instruction extends to 64, and the type by which it does. */
export interface Widening {
  readonly operands: readonly ResolvedOperand[];
  readonly type: ScalarType;
}

/** Writes an instruction on vectors, all members of a gang at once. */
export type WriteVectors = () => void;

/** Finds how an instruction under no predicate is written on vectors; undefined where it cannot be. */
export type VectorForm = (gang: GangEmitter, instruction: ResolvedInstruction) => WriteVectors | undefined;

/** The traits of a form. Each is optional, and what is left out is answered carefully. */
export interface InstructionTraits {
  /** All that it does beside setting its results. Left out: anything. */
  readonly effects?: readonly Effect[];
  /**
   * Whether it does the same in all threads whose operands are the same, so that executing it once is enough. Left out:
   * every thread must execute it, and its results are varying.
   */
  readonly isUniform?: boolean;
  /** The stride of its result where an operand is strided. Left out: the result is varying. */
  readonly stride?: StrideRule;
  /**
   * What it extends to 64 bits: a strided operand must not wrap around within a gang for the stride to hold. It belongs to
   * every form whose `stride` is that of an extended operand.
   */
  readonly widening?: (instruction: ResolvedInstruction) => Widening | undefined;
  /** How many of its first sources the result may be, unchanged: 1 of a move, 2 of a selection. Left out: none. */
  readonly copies?: 1 | 2;
  /**
   * Whether the only NaN of 32 bits that it gives is the one that PTX's arithmetic gives, whatever its operands. Left out:
   * a NaN may have any bits, and they count.
   */
  readonly hasCanonicalNaN?: (instruction: ResolvedInstruction) => boolean;
  /**
   * How a result of 64 bits may be a pointer: one that was loaded, one whose source is a pointer for certain, or one that
   * may be derived from a pointer among its sources. Left out: it points nowhere that is known. Only speed depends on it.
   */
  readonly pointer?: "loaded" | "converted" | "derived";
  /** Whether kernels that contain it may run in gangs. Left out: they may not. */
  readonly runsInGangs?: boolean;
  /** How a gang executes it on vectors. Left out: member by member. */
  readonly vectorForm?: VectorForm;
}

/** Whether an instruction may have an effect. One whose effects nobody has stated may have all. */
export function mayHave({ form }: ResolvedInstruction, effect: Effect): boolean {
  const { effects } = form.traits;
  return effects === undefined || effects.includes(effect);
}

/** Whether nothing is known of what an instruction does beside setting its results. */
export function hasUnknownEffects({ form }: ResolvedInstruction): boolean {
  return form.traits.effects === undefined;
}

/** The traits of an instruction that computes its results from its operands, and does nothing else. */
export const pure: InstructionTraits = { effects: [], isUniform: true, runsInGangs: true };
