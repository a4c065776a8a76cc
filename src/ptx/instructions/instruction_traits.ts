/**
 * The traits of instructions: properties that analyses may rely on, independent of the generated code.
 *
 * Each row of the table (`rows/`) states the traits of its form. An omitted trait has the conservative value: the
 * instruction may do anything to memory, its results are varying, NaN results have any bits, and kernels that contain
 * it do not run in gangs. Traits that only the compiler needs are stated beside the lowering.
 *
 * @module
 */
import type { FormSyntax } from "./form_syntax.ts";
import type { ResolvedInstruction } from "./resolved_instruction.ts";

/**
 * A side effect of an instruction. No analysis uses `orders` yet; the instruction table includes `orders` for
 * completeness.
 */
export type Effect =
  /** Reads memory. */
  | "reads"
  /** Reads memory, including values that other threads store while the kernel runs. */
  | "observes"
  | "writes"
  /** Orders the memory accesses before and after the instruction. */
  | "orders"
  /** Allocates memory on the thread's stack, frees it, or reads the stack pointer. */
  | "allocates"
  /** Ends the kernel. */
  | "traps";

/**
 * An integer operation that analyses track. A product may extend its factors first; `product sum` adds the third source
 * to the product of the first two.
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
  /** A left shift. */
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
 * How an instruction accesses the memory at its address operand. `read`, `write` and `atomic` access the bytes of its
 * type, for each element of its vector; `shared` accesses shared memory only; `none` accesses no memory.
 */
export type AccessKind = "read" | "write" | "atomic" | "shared" | "none";

/**
 * The threads with which an instruction synchronizes or exchanges values: `block` for all threads of the block, unless
 * an operand states their number; `threads` for other groups of threads; `lanes` for lanes of the warp, or for memory
 * accesses by these lanes.
 */
export type Synchronization = "block" | "threads" | "lanes";

/** The effect of an instruction on control flow. */
export type Flow = "branch" | "switch" | "return" | "exit" | "call" | "suspend";

/** A row of the instruction table: one form of an instruction, and its traits. */
export interface InstructionRow extends FormSyntax {
  /** The syntax of the form, in the notation of `form_syntax.ts`. */
  readonly syntax: string;
  /** The section of the PTX ISA manual. */
  readonly section: string;
  readonly flow: Flow | undefined;
  readonly traits: InstructionTraits;
}

/** The traits of a form. All are optional, and default to the conservative value. */
export interface InstructionTraits {
  /** All side effects of the instruction. Default: it may have any. */
  readonly effects?: readonly Effect[];
  /**
   * Whether the instruction has the same results and effects in all threads that have the same operands, so that
   * executing it once for all of them suffices. Default: every thread must execute it, and its results are varying.
   */
  readonly isUniform?: boolean;
  /** The integer operation that the instruction computes. Default: an operation that analyses do not track. */
  readonly arithmetic?: Arithmetic;
  /**
   * How the instruction accesses the memory at its address operand. Default: an instruction with an address operand may
   * access memory in any way.
   */
  readonly access?: AccessKind;
  /** Whether the instruction also reads the registers that it sets. Default: it only sets them. */
  readonly readsResult?: boolean;
  /**
   * What the instruction does to asynchronous products of matrices: starts one, commits those that have been started to
   * a group, or waits for groups. Until then, no other instruction may use the registers. A fence orders products after
   * earlier writes of their registers. Default: nothing.
   */
  readonly products?: "starts" | "commits" | "awaits" | "fences";
  /** The threads with which the instruction synchronizes or exchanges values. Default: none. */
  readonly synchronization?: Synchronization;
  /** Whether the last operand is a cache policy. Default: no. */
  readonly takesPolicy?: boolean;
  /**
   * If the result is always a copy of a source, the number of leading sources that it may copy: 1 for a move, 2 for a
   * selection. Default: the result is not known to be a copy.
   */
  readonly copies?: 1 | 2;
  /**
   * Whether a 32-bit NaN result is always the canonical NaN. Default: a NaN result may have any bit pattern, and
   * programs may depend on it.
   */
  readonly hasCanonicalNaN?: (instruction: ResolvedInstruction) => boolean;
  /**
   * Whether the 64-bit result is a NaN whenever a source is a NaN, and the bits of NaN sources affect only the bits of
   * the NaN. Default: the result may be a number, or depend on the bits of a NaN source.
   */
  readonly propagatesNaN64?: boolean;
  /** Whether the results do not depend on the bits of 64-bit NaN sources. Default: they may. */
  readonly ignoresNaNBits?: boolean;
  /**
   * How a 64-bit result may be a pointer: loaded from memory, converted from a pointer, or derived from a pointer among
   * the sources. Default: not known to be a pointer. A wrong value costs only speed.
   */
  readonly pointer?: "loaded" | "converted" | "derived";
  /**
   * The maximum error of a result that the manual states for GPUs. Results of the software device are within the same
   * bound. Default: the manual defines every bit.
   */
  readonly bound?: string;
  /**
   * The role of the instruction when a GPU contracts a product and a sum into one instruction, which rounds once.
   * Instructions with a rounding modifier are never contracted. Default: no role.
   */
  readonly contraction?: "product" | "sum" | "difference" | "negation";
  /** Whether `ptxas` ends a basic block at the instruction. Default: only if the instruction branches. */
  readonly dividesBlock?: (instruction: ResolvedInstruction) => boolean;
  /** Whether the instruction is a hint without observable effect, which the software device ignores. Default: no. */
  readonly hasNoEffect?: boolean;
  /** Whether an operand in brackets is a texture, surface or tensor with coordinates. Default: no operand has any. */
  readonly takesCoordinates?: boolean;
  /**
   * Whether a one-element vector operand is treated as a scalar. Default: it remains a vector, which many instructions
   * do not accept.
   */
  readonly takesVectorOfOne?: boolean;
  /**
   * Whether the memory that the instruction reads is constant while the kernel runs. Default: the memory may be
   * written.
   */
  readonly readsConstants?: boolean;
  /**
   * Whether the instruction is a non-coherent load: no thread may write the memory while the kernel runs. Default:
   * threads may write it.
   */
  readonly isNotCoherent?: boolean;
  /** Whether the instruction is a weak store, which other threads need not observe before a barrier. Default: no. */
  readonly isPlainStore?: boolean;
  /** Whether the instruction is a volatile load or store. Default: no. */
  readonly isVolatile?: boolean;
  /** Whether the instruction is a fence between the generic and the asynchronous proxy. */
  readonly isBetweenProxies?: boolean;
  /**
   * Whether the instruction accesses exactly the bytes of its type, for each element of its vector. Default: it may
   * access other bytes.
   */
  readonly accessesType?: boolean;
  /** Whether results may be undefined although all sources are initialized. Default: no. */
  readonly mayBeUndefined?: boolean;
  /** Whether the instruction reads or sets the carry flag, which is not an operand. Default: no. */
  readonly usesCarry?: boolean;
  /**
   * The first version of PTX without this form of the instruction for targets from sm_20 on. Default: all versions have
   * it.
   */
  readonly removedIn?: number;
  /** Whether the instruction needs the target sm_90a: devices of sm_90 have it, and later ones need not. Default: no. */
  readonly isOfSm90a?: boolean;
  /**
   * Whether the instruction applies to the lanes that execute it together, instead of to the lanes in a mask that is
   * its last operand. Only devices before sm_70 have such instructions, because the lanes of their warps run in
   * lockstep.
   */
  readonly ofActiveLanes?: boolean;
  /** Whether the instruction computes with addresses in the shared memory of other blocks of a cluster. Default: no. */
  readonly mapsClusterMemory?: boolean;
  /** Whether kernels that contain the instruction may run in gangs. Default: no. */
  readonly runsInGangs?: boolean;
}

/**
 * Whether an instruction may have a side effect. An instruction whose row does not state its effects may have any
 * effect.
 */
export function mayHave({ form }: Pick<ResolvedInstruction, "form">, effect: Effect): boolean {
  const { effects } = form.traits;
  return effects === undefined || effects.includes(effect);
}

/** Whether an instruction's only modifiers are its type and those in the given slots of its form. */
export function hasOnlyModifiers({ choices }: ResolvedInstruction, slots: readonly string[]): boolean {
  return [...choices.keys()].every((slot) => slot === "type" || slots.includes(slot));
}

/** Whether a GPU may contract an instruction with another one. */
export function mayBeContracted({ form, choices }: Pick<ResolvedInstruction, "form" | "choices">): boolean {
  const { contraction } = form.traits;
  return contraction !== undefined && contraction !== "negation" && !choices.has("rounding") && !choices.has("rn");
}

/** Whether an instruction refers to the shared memory of a cluster, or computes addresses in it. */
export function usesClusterMemory({ form, choices }: Pick<ResolvedInstruction, "form" | "choices">): boolean {
  if (form.traits.mapsClusterMemory === true) return true;
  for (const choice of choices.values()) if (choice === "shared::cluster") return true;
  return false;
}

/** Whether an instruction's side effects are unknown, because its row does not state them. */
export function hasUnknownEffects({ form }: ResolvedInstruction): boolean {
  return form.traits.effects === undefined;
}

/** The traits of an instruction whose results depend only on its operands, and which has no side effects. */
export const pure: InstructionTraits = { effects: [], isUniform: true, runsInGangs: true };
