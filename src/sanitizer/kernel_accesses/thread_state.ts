/**
 * The state of the threads of a launch, the prepared code of a kernel, and the memory accesses of instructions.
 *
 * @module
 */
import { mayHave } from "../../ptx/instructions/instruction_traits.ts";
import {
  type ResolvedAddress,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../ptx/instructions/resolved_instruction.ts";
import type { AffineForm, Condition, Domain } from "./domain.ts";
import type { CodeBlock, KernelCode } from "./kernel_code.ts";
import type { WritesBefore } from "./shared_phases.ts";
import type { AbstractValue } from "./values.ts";

/** An access that each thread of a domain certainly makes, possibly several times. */
export interface CertainAccess {
  readonly instruction: ResolvedInstruction;
  readonly access: InstructionAccess["access"];
  readonly byteLength: number;
  readonly form: AffineForm;
  readonly domain: Domain;
}

/** The properties of a launch that a kernel's instructions can read: special registers and parameters. */
export interface LaunchNumbers {
  /** The indices of the dimensions that make up a thread's index in its block. */
  readonly threadDimensions: readonly number[];
  /** Returns the value of a special register. Undefined if the value is not affine in the block and thread index. */
  special(name: string): AffineForm | undefined;
  /** Returns the value of an integer parameter. Undefined if the value exceeds the range of exact integers. */
  parameter(offset: number, bits: number, isSigned: boolean): number | undefined;
  /** Returns whether a dimension may be split into two. */
  mayBeSplit(dimension: number): boolean;
}

/**
 * The symbolic state of all threads of a domain: their common position in the code, and the values of their registers.
 */
export interface ThreadState extends WritesBefore {
  /** The basic block to execute. */
  block: CodeBlock;
  /** The index, in that block, of the next instruction. */
  index: number;
  readonly values: AbstractValue[];
  domain: Domain;
  /** The number of the current phase, which is the part of the run since the last barrier. */
  phase: number;
  /** For each enclosing loop, the last arrivals at its header, keyed by the header. */
  arrivals: ReadonlyMap<CodeBlock, readonly LoopArrival[]>;
  /** The last element in the linked list of conditions under which the threads have stayed in loops. */
  loopConditions: LoopCondition | undefined;
}

/** The state of threads on their arrival at a loop's header. */
export interface LoopArrival {
  readonly values: readonly AbstractValue[];
  readonly domain: Domain;
  readonly loopConditions: LoopCondition | undefined;
}

/** A condition whose value made threads stay in a loop; an element of a linked list. */
export interface LoopCondition {
  /** The loop's header. */
  readonly loop: CodeBlock;
  readonly condition: Condition;
  readonly truth: boolean;
  readonly previous: LoopCondition | undefined;
}

/** Returns whether execution must stop before a basic block. */
export type StopPredicate = (block: CodeBlock) => boolean;

/** A kernel's code, with analyses of it that do not depend on a launch. */
export class PreparedCode {
  readonly code: KernelCode;
  /** The basic blocks of each loop, keyed by the loop's header. */
  readonly loops: ReadonlyMap<CodeBlock, ReadonlySet<CodeBlock>>;
  /** The kinds of barriers in the code: see `barriersOf`. */
  readonly barriers: "none" | "block" | "other";

  constructor(code: KernelCode) {
    this.code = code;
    this.loops = new Map(code.analysis.loops.map(({ header, body }) => [header, new Set(body)]));
    this.barriers = barriersOf(code);
  }

  /** Returns the header of the innermost loop that contains a basic block. Undefined if no loop does. */
  loopAround(block: CodeBlock): CodeBlock | undefined {
    return this.code.analysis.innermostLoops.get(block)?.header;
  }

  /** Returns the reconvergence point of threads that diverge in a basic block or at the block's end. */
  reconvergenceOf(block: CodeBlock): CodeBlock {
    const { analysis, end } = this.code;
    return analysis.postDominators.get(block) ?? end;
  }
}

/** Returns whether it is known that two values are equal. */
export function areEqual(a: AbstractValue, b: AbstractValue): boolean {
  if (a === b) return true;
  if (a?.kind !== "affine" || b?.kind !== "affine") return false;
  return a.base === b.base && a.constant === b.constant && a.terms.length === b.terms.length &&
    a.terms.every((term, index) => term === b.terms[index]);
}

/** The memory access of an instruction. */
export interface InstructionAccess {
  readonly access: "read" | "write" | "atomic";
  readonly address: ResolvedAddress;
  readonly byteLength: number;
}

/**
 * Returns the access of a load or store to the shared memory of the thread's own block, or "unknown" if its address or
 * size is unknown. Undefined for other instructions.
 */
export function sharedAccessOf(instruction: ResolvedInstruction): InstructionAccess | "unknown" | undefined {
  const { form, choices } = instruction;
  const { access } = form.traits;
  if (access !== "read" && access !== "write") return undefined;
  const space = choices.get("space");
  return space === "shared" || space === "shared::cta" ? accessBy(instruction, access) : undefined;
}

/**
 * Returns "block" for a barrier of all threads of a block, and "other" for another barrier. Undefined for an
 * instruction that is not a barrier, or that synchronizes only a warp.
 */
export function barrierOf({ form, operands }: ResolvedInstruction): "block" | "other" | undefined {
  const { synchronization } = form.traits;
  if (synchronization === undefined || synchronization === "lanes") return undefined;
  return synchronization === "block" && operands.length === 1 && operands[0]!.kind === "integer" ? "block" : "other";
}

/**
 * Returns "none" if a kernel has no barriers, "block" if all barriers are of whole blocks, and "other" if there are
 * other barriers or instructions that synchronize the lanes of a warp.
 */
function barriersOf({ analysis }: KernelCode): "none" | "block" | "other" {
  let found: "none" | "block" = "none";
  for (const instruction of analysis.instructions) {
    const barrier = barrierOf(instruction);
    if (instruction.form.traits.synchronization === "lanes" || barrier === "other") return "other";
    if (barrier === "block") found = "block";
  }
  return found;
}

/**
 * Returns an instruction's access to global memory or through a generic address, or "unknown" if the instruction may
 * access memory in an unknown way. Undefined if there is no such access.
 */
export function accessOf(instruction: ResolvedInstruction): InstructionAccess | "unknown" | undefined {
  const { form, operands } = instruction;
  const { access } = form.traits;
  if (access === "shared" || access === "none") return undefined;
  if (access === undefined) return operands.some(isAddress) || form.flow === "call" ? "unknown" : undefined;
  const space = spaceOf(instruction);
  // Memory in the other state spaces cannot be accessed by other kernels, or cannot be written while a kernel runs.
  return space === "generic" || space === "global" ? accessBy(instruction, access) : undefined;
}

function isAddress(operand: ResolvedOperand): boolean {
  return operand.kind === "address" || ("isElement" in operand && operand.isElement === true);
}

/** Vector lengths, keyed by modifier. */
const vectorLengths: ReadonlyMap<string, number> = new Map([["v2", 2], ["v4", 4], ["v8", 8]]);

function accessBy(
  instruction: ResolvedInstruction,
  access: InstructionAccess["access"],
): InstructionAccess | "unknown" {
  const { choices, operands } = instruction;
  const address = operands.find((operand) => operand.kind === "address");
  const bytes = bytesOfType(instruction);
  if (address === undefined || bytes === undefined) return "unknown";
  let count = 1;
  for (const choice of choices.values()) count = vectorLengths.get(choice) ?? count;
  return { access: isStrong(instruction) ? "atomic" : access, address, byteLength: bytes * count };
}

/** Returns the size of an instruction's type in bytes. Undefined if the type is unknown. */
function bytesOfType({ choices, type }: ResolvedInstruction): number | undefined {
  if (choices.has("type")) return type.bits / 8;
  return choices.has("b128") ? 16 : undefined;
}

/**
 * Returns whether an access is a strong operation in PTX's memory model. Concurrent strong accesses are not a race, so
 * they are treated as atomic.
 */
function isStrong({ form }: ResolvedInstruction): boolean {
  const { access, isPlainStore } = form.traits;
  return access === "read" ? mayHave({ form }, "observes") : isPlainStore !== true;
}

/** Returns whether a kernel calls no functions, and reads only global and shared memory, parameters and constants. */
export function readsOnlyKnownMemory({ analysis }: KernelCode): boolean {
  return analysis.instructions.every(readsKnownMemory);
}

/** Returns whether a kernel reads shared memory explicitly, not through generic addresses. */
export function readsSharedMemory({ analysis }: KernelCode): boolean {
  return analysis.instructions.some((instruction) =>
    instruction.form.traits.access === "read" && sharedAccessOf(instruction) !== undefined
  );
}

/**
 * Returns whether an instruction may access memory: it has an address operand, or an operand that could not be
 * resolved.
 */
export function mayAccess({ form, operands }: ResolvedInstruction): boolean {
  return form.traits.access !== "none" && operands.some((operand) => isAddress(operand) || !isTracked(operand));
}

/** Returns whether the value of an operand may be tracked. A constant can be tracked only if it is an exact integer. */
function isTracked(operand: ResolvedOperand): boolean {
  if (operand.kind === "integer") return Number.isSafeInteger(Number(BigInt.asIntN(64, operand.value)));
  return operand.kind !== "unknown" && operand.kind !== "float";
}

/** Returns whether an instruction is an asynchronous load or store, such as `st.async`. */
export function isAsynchronous({ choices }: ResolvedInstruction): boolean {
  return choices.has("async");
}

function readsKnownMemory(instruction: ResolvedInstruction): boolean {
  const { access } = instruction.form.traits;
  if (instruction.form.flow === "call") return false;
  if (!mayAccess(instruction)) return true;
  if (access === undefined || access === "shared" || isAsynchronous(instruction)) return false;
  const space = spaceOf(instruction);
  // The memory of these state spaces is always initialized when a kernel begins.
  if (access === "read" && (space === "param" || space === "const")) return true;
  const found = sharedAccessOf(instruction) ?? accessOf(instruction);
  return found !== undefined && found !== "unknown";
}
