/**
 * Allocates the WebAssembly locals of a function: fixed locals, pools of temporaries, and locals that hold registers.
 *
 * PTX code sets a new register for almost every result, so a long kernel has about as many registers as lines. Engines
 * limit the number of locals, and the time and memory of their compilers grow with the product of the numbers of locals
 * and branches. Registers that are never live at the same time therefore share a local.
 *
 * @module
 */
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { LocalType } from "../webassembly/opcodes.ts";
import type { LaunchField } from "../../abi/launch_record.ts";
import type { FunctionType } from "../webassembly/module_encoder.ts";

/** Pools of reusable locals, one per type. All locals are released at once. */
export class LocalPools {
  readonly #newLocal: (type: LocalType) => number;
  readonly #locals: Readonly<Record<LocalType, number[]>> = { i32: [], i64: [], f32: [], f64: [], v128: [] };
  readonly #taken: Record<LocalType, number> = { i32: 0, i64: 0, f32: 0, f64: 0, v128: 0 };

  constructor(newLocal: (type: LocalType) => number) {
    this.#newLocal = newLocal;
  }

  /** Returns a local that is not in use. */
  take(type: LocalType): number {
    return this.#locals[type][this.#taken[type]++] ??= this.#newLocal(type);
  }

  releaseAll(): void {
    const taken = this.#taken;
    taken.i32 =
      taken.i64 =
      taken.f32 =
      taken.f64 =
      taken.v128 =
        0;
  }
}

/** The i32 locals that hold the state of the running thread. */
const threadFields = [
  "threadX",
  "threadY",
  "threadZ",
  /** The thread's index in the block, counted along x, y and z. */
  "thread",
  /** The offset of the thread's record in linear memory. */
  "record",
  /** The offset of the thread's local memory in linear memory. */
  "local",
  /** The offset of the current function's frame in linear memory. */
  "frame",
  /** The offset in linear memory of the free part of the stack, above the frame. */
  "stackPointer",
  /** The offset in linear memory of the current function's saved registers. */
  "saved",
  /** The index of the basic block where the thread resumes. */
  "resumeIndex",
  /** The number of loop iterations left before the kernel requests more fuel. */
  "fuel",
  /** The number of spin-loop iterations left before the thread yields. */
  "spins",
] as const;

/** The name of a fixed local, which is allocated only if the kernel's code uses it. */
export type FixedLocal = LaunchField | typeof threadFields[number];

/** The WebAssembly type of a compiled kernel, whose argument is the offset of the launch record. */
export const runType: FunctionType = { parameters: ["i32"], results: [] };
/**
 * The WebAssembly type of a part of a kernel. The arguments are the offset of the launch record, and the first thread
 * to run. The result is the number of the thread at which the part stopped: the end of the launch record's range of
 * threads, or a thread that is to continue in another part.
 */
export const partType: FunctionType = { parameters: ["i32", "i32"], results: ["i32"] };
/** The local that holds the offset of the launch record. */
export const launchRecordLocal = 0;

/**
 * The part of a function where a register may be live, as positions in a linear order of the function's instructions.
 * Both ends are inclusive.
 */
export interface LiveInterval {
  readonly register: Register;
  begin: number;
  end: number;
}

/**
 * Assigns registers to shared locals by a linear scan. Maps a register to the register whose local it shares; registers
 * that are not in the map have a local of their own. Only registers of the same class share a local.
 *
 * @param intervals the live intervals, sorted by `begin`
 */
export function shareLocals(
  intervals: readonly LiveInterval[],
  classOf: (register: Register) => string,
): ReadonlyMap<Register, Register> {
  const holders = new Map<Register, Register>();
  const free = new Map<string, Register[]>();
  const byEnd = intervals.toSorted((a, b) => a.end - b.end);
  let ended = 0;
  for (const { register, begin } of intervals) {
    for (; byEnd[ended]!.end < begin; ended++) {
      const other = byEnd[ended]!.register;
      const unused = free.get(classOf(other));
      const holder = holders.get(other) ?? other;
      if (unused === undefined) free.set(classOf(other), [holder]);
      else unused.push(holder);
    }
    const holder = free.get(classOf(register))?.pop();
    if (holder !== undefined) holders.set(register, holder);
  }
  return holders;
}
