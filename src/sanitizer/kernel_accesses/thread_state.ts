/**
 * The state of the threads of a launch, the prepared code of a kernel, and the memory accesses of instructions.
 *
 * @module
 */
import { loopsOf } from "../../ptx/analysis/control_flow_graph.ts";
import { liveRegisters, type RegisterUse } from "../../ptx/analysis/definitions_and_uses.ts";
import type { AffineForm, Condition, Domain } from "./domain.ts";
import {
  bitsOf,
  type CodeBlock,
  type CodeInstruction,
  type CodeOperand,
  type KernelCode,
  readRegisters,
  writesFirstOperand,
  writtenRegisters,
} from "./kernel_code.ts";
import type { WritesBefore } from "./shared_phases.ts";
import type { AbstractValue } from "./values.ts";

/** An access that each thread of a domain certainly makes, possibly several times. */
export interface CertainAccess {
  readonly instruction: CodeInstruction;
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
  /** The index of the block to execute. */
  block: number;
  /** The index, in that block, of the next instruction. */
  index: number;
  readonly values: AbstractValue[];
  domain: Domain;
  /** The number of the current phase, which is the part of the run since the last barrier. */
  phase: number;
  /** For each enclosing loop, the last arrivals at its header, keyed by the header's block index. */
  arrivals: ReadonlyMap<number, readonly LoopArrival[]>;
  /** The last element in the linked list of conditions under which the threads have stayed in loops. */
  loopConditions: LoopCondition | undefined;
}

/** The state of threads when they have arrived at a loop's header. */
export interface LoopArrival {
  readonly values: readonly AbstractValue[];
  readonly domain: Domain;
  readonly loopConditions: LoopCondition | undefined;
}

/** A condition whose value made threads stay in a loop; an element of a linked list. */
export interface LoopCondition {
  /** The block index of the loop's header. */
  readonly loop: number;
  readonly condition: Condition;
  readonly truth: boolean;
  readonly previous: LoopCondition | undefined;
}

/** Returns whether execution must stop before a block. */
export type StopPredicate = (block: number) => boolean;

/** A kernel's code, and analyses of it that do not depend on a launch. */
export class PreparedCode {
  readonly code: KernelCode;
  /** The blocks of each loop, keyed by the block index of the loop's header. */
  readonly loops: ReadonlyMap<number, ReadonlySet<number>>;
  /** Returns the registers that are live at the beginning of a block. */
  readonly live: (block: number) => readonly number[];
  /** The kinds of barriers in the code: see `barriersOf`. */
  readonly barriers: "none" | "block" | "other";

  constructor(code: KernelCode) {
    this.code = code;
    const { blocks, end } = code;
    const next = (block: number) => blocks[block]?.next ?? [];
    this.loops = new Map(loopsOf(0, next).map(({ header, body }) => [header, new Set(body)]));
    const use = (block: number) => block === end ? noUse : useOf(blocks[block]!);
    this.live = liveRegisters<number, number>({ entry: 0, next, use, at: code.postDominators });
    this.barriers = barriersOf(code);
  }

  /** Returns the block index of the header of the innermost loop that contains a block. Undefined if no loop does. */
  loopAround(block: number): number | undefined {
    let best: number | undefined;
    for (const [loop, body] of this.loops) {
      if (body.has(block) && (best === undefined || body.size < this.loops.get(best)!.size)) best = loop;
    }
    return best;
  }
}

const noUse: RegisterUse<number> = { uses: new Set(), definitions: new Set() };

/**
 * Returns the registers that a block reads before writing them (`uses`), and those that it certainly writes
 * (`definitions`).
 */
function useOf({ instructions, guard }: CodeBlock): RegisterUse<number> {
  const uses = new Set<number>(), definitions = new Set<number>();
  const read = (register: number) => {
    if (!definitions.has(register)) uses.add(register);
  };
  for (const instruction of instructions) {
    readRegisters(instruction).forEach(read);
    // Ignore a guarded instruction, which may leave its result register unchanged.
    if (instruction.guard === undefined && writesFirstOperand(instruction)) {
      for (const register of writtenRegisters(instruction)) definitions.add(register);
    }
  }
  if (guard !== undefined) read(guard.register);
  return { uses, definitions };
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
  readonly address: CodeOperand & { kind: "address" };
  readonly byteLength: number;
}

/**
 * The state spaces other than global memory. Other kernels do not access them, or cannot write them while a kernel
 * runs.
 */
const ownSpaces = [
  "shared",
  "shared::cta",
  "shared::cluster",
  "local",
  "param",
  "param::entry",
  "param::func",
  "const",
];
/**
 * The modifiers of strong operations in PTX's memory model. Concurrent strong accesses are not a race, so they are
 * treated as atomic.
 */
const strong: ReadonlySet<string> = new Set(["volatile", "relaxed", "acquire", "release", "mmio"]);

/**
 * Returns the access of a load or store to the shared memory of the thread's own block, or "unknown" if its address or
 * size is unknown. Undefined for other instructions.
 */
export function sharedAccessOf(instruction: CodeInstruction): InstructionAccess | "unknown" | undefined {
  const { row, modifiers } = instruction;
  const access = row?.traits.access;
  if (access !== "read" && access !== "write") return undefined;
  return modifiers.includes("shared") || modifiers.includes("shared::cta") ? accessBy(instruction, access) : undefined;
}

/**
 * Returns "block" for a barrier of all threads of a block, and "other" for another barrier. Undefined for an
 * instruction that is not a barrier, or that synchronizes only a warp.
 */
export function barrierOf({ row, operands }: CodeInstruction): "block" | "other" | undefined {
  const synchronization = row?.traits.synchronization;
  if (synchronization === undefined || synchronization === "lanes") return undefined;
  return synchronization === "block" && operands.length === 1 && operands[0]!.kind === "number" ? "block" : "other";
}

/**
 * Returns "none" if a kernel has no barriers, "block" if all barriers are of whole blocks, and "other" if there are
 * other barriers or instructions that synchronize the lanes of a warp.
 */
function barriersOf({ blocks }: KernelCode): "none" | "block" | "other" {
  let found: "none" | "block" = "none";
  for (const { instructions } of blocks) {
    for (const instruction of instructions) {
      const barrier = barrierOf(instruction);
      if (instruction.row?.traits.synchronization === "lanes" || barrier === "other") return "other";
      if (barrier === "block") found = "block";
    }
  }
  return found;
}

/**
 * Returns an instruction's access to global memory or by a generic address, or "unknown" if the instruction may access
 * memory in an unknown way. Undefined if there is no such access.
 */
export function accessOf(instruction: CodeInstruction): InstructionAccess | "unknown" | undefined {
  const { row, modifiers, operands } = instruction;
  const access = row?.traits.access;
  if (access === "shared" || access === "none") return undefined;
  if (access === undefined) {
    return operands.some(({ kind }) => kind === "address") || row?.flow === "call" ? "unknown" : undefined;
  }
  if (modifiers.some((modifier) => ownSpaces.includes(modifier))) return undefined;
  return accessBy(instruction, access);
}

function accessBy(
  { modifiers, operands }: CodeInstruction,
  known: InstructionAccess["access"],
): InstructionAccess | "unknown" {
  const address = operands.find((operand) => operand.kind === "address");
  const bytes = bitsOf(modifiers.findLast((modifier) => /^[busf]\d+(x2)?$|^bf16(x2)?$/.test(modifier)) ?? "") / 8;
  if (address === undefined || bytes === 0) return "unknown";
  const count = Number(/^v([248])$/.exec(modifiers.find((modifier) => /^v[248]$/.test(modifier)) ?? "")?.[1] ?? 1);
  const access = modifiers.some((modifier) => strong.has(modifier)) ? "atomic" : known;
  return { access, address, byteLength: bytes * count };
}

/** The state spaces whose memory is always initialized when a kernel begins. */
const initializedSpaces = ["param", "param::entry", "const"];

/** Returns whether a kernel calls no functions, and reads only global and shared memory, parameters and constants. */
export function readsOnlyKnownMemory({ blocks }: KernelCode): boolean {
  return blocks.every(({ instructions }) => instructions.every(readsKnownMemory));
}

/** Returns whether a kernel reads shared memory explicitly, not by generic addresses. */
export function readsSharedMemory({ blocks }: KernelCode): boolean {
  return blocks.some(({ instructions }) =>
    instructions.some((instruction) =>
      instruction.row?.traits.access === "read" && sharedAccessOf(instruction) !== undefined
    )
  );
}

/**
 * Returns whether an instruction may access memory: it has an address operand, or an operand that could not be
 * resolved.
 */
export function mayAccess({ row, operands }: CodeInstruction): boolean {
  return row?.traits.access !== "none" && operands.some(({ kind }) => kind === "address" || kind === "unknown");
}

function readsKnownMemory(instruction: CodeInstruction): boolean {
  const { row, modifiers } = instruction;
  if (row?.flow === "call") return false;
  if (!mayAccess(instruction)) return true;
  const access = row?.traits.access;
  if (access === undefined || access === "shared" || modifiers.includes("async")) return false;
  if (access === "read" && modifiers.some((modifier) => initializedSpaces.includes(modifier))) return true;
  const found = sharedAccessOf(instruction) ?? accessOf(instruction);
  return found !== undefined && found !== "unknown";
}
