/**
 * What analyses may assume of an instruction, whatever it compiles to.
 *
 * Each row of the table (`rows/`) states the traits of its form. A trait that is left out takes the conservative value:
 * the instruction may do anything to memory, its results are varying, their NaNs have any bits, and kernels that contain
 * it do not run in gangs. The compiler asks for some more, which stand beside the lowering.
 *
 * @module
 */
import type { FormSyntax } from "./form_syntax.ts";
import type { ResolvedInstruction } from "./resolved_instruction.ts";

/** A side effect of an instruction. No analysis asks for `orders` yet; with it, the rows state all effects. */
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
 * What an instruction computes of integers, where analyses follow it. A product may be of extended factors, and `product
 * sum` adds a third source to one.
 */
export type Arithmetic =
  | "move"
  | "conversion"
  | "negation"
  | "sum"
  | "difference"
  | "product"
  | "product sum"
  | "quotient"
  | "remainder"
  | "minimum"
  | "maximum"
  /** A shift to the left. */
  | "shift"
  | "right shift"
  | "bit field"
  | "and"
  | "or"
  | "xor"
  | "not"
  | "comparison"
  | "selection";

/**
 * What an instruction does with the memory at the address among its operands: accesses as many bytes as its type has,
 * for each element of its vector; accesses shared memory only; or accesses none.
 */
export type AccessKind = "read" | "write" | "atomic" | "shared" | "none";

/**
 * The threads with which an instruction synchronizes or exchanges values: all threads of the block, if it names no
 * number of them; other groups of threads; or other lanes, and what they do.
 */
export type Synchronization = "block" | "threads" | "lanes";

/** An instruction's part in the control flow. */
export type Flow = "branch" | "switch" | "return" | "exit" | "call" | "suspend";

/** A row of a table of instructions: one form of an instruction, and what may be assumed of it. */
export interface InstructionRow extends FormSyntax {
  /** The syntax, as `form_syntax.ts` reads it. */
  readonly syntax: string;
  /** The section of the PTX ISA manual. */
  readonly section: string;
  readonly flow: Flow | undefined;
  readonly traits: InstructionTraits;
}

/** The traits of a form. All are optional, and default to the conservative value. */
export interface InstructionTraits {
  /** All side effects. Default: any. */
  readonly effects?: readonly Effect[];
  /**
   * Whether the instruction does the same in all threads that have the same operands, so that executing it once is
   * enough. Default: every thread must execute it, and its results are varying.
   */
  readonly isUniform?: boolean;
  /** What the instruction computes of integers. Default: something else, which is not followed. */
  readonly arithmetic?: Arithmetic;
  /** What the instruction does with the memory at its address. Default: anything, if it has an address. */
  readonly access?: AccessKind;
  /** The threads with which the instruction synchronizes. Default: none. */
  readonly synchronization?: Synchronization;
  /** Whether the last operand is a cache policy. Default: no. */
  readonly takesPolicy?: boolean;
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
  /** Whether what the instruction reads must not be written while the kernel runs, by any thread. Default: it may be. */
  readonly isNotCoherent?: boolean;
  /** Whether the instruction is a weak store: no thread sees it before a barrier for sure. Default: it may be any other. */
  readonly isPlainStore?: boolean;
  /**
   * Whether the instruction accesses as many bytes as its type has, for each element of its vector. Default: it may
   * access others.
   */
  readonly accessesType?: boolean;
  /** Whether results may be undefined although all sources are initialized. Default: no. */
  readonly mayBeUndefined?: boolean;
  /** Whether the instruction gives or takes the carry, which is not an operand. Default: no. */
  readonly usesCarry?: boolean;
  /** Whether kernels that contain the instruction may run in gangs. Default: no. */
  readonly runsInGangs?: boolean;
}

/** Whether an instruction may have a side effect. Without stated effects, it may have any. */
export function mayHave({ form }: Pick<ResolvedInstruction, "form">, effect: Effect): boolean {
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
