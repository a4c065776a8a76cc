/**
 * The WebAssembly locals of a function: fixed ones, pools of temporary ones, and those of registers.
 *
 * PTX has a register for almost every result, so that a long kernel has as many registers as lines. Engines limit the
 * number of locals, and the time and memory of their compilers grow with the number of locals times that of branches.
 * Registers that are never live at the same time therefore share a local.
 *
 * @module
 */
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { LocalType } from "../webassembly/opcodes.ts";
import type { LaunchField } from "../../abi/launch_record.ts";
import type { FunctionType } from "../webassembly/module_encoder.ts";

/** Pools of reusable locals. All locals that were taken are released at once. */
export class LocalPools {
  readonly #newLocal: (type: LocalType) => number;
  readonly #locals: Readonly<Record<LocalType, number[]>> = { i32: [], i64: [], f32: [], f64: [], v128: [] };
  readonly #taken: Record<LocalType, number> = { i32: 0, i64: 0, f32: 0, f64: 0, v128: 0 };

  constructor(newLocal: (type: LocalType) => number) {
    this.#newLocal = newLocal;
  }

  /** A local that is not in use. */
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

/** The locals of the running thread. Each is an i32. */
const threadFields = [
  "threadX",
  "threadY",
  "threadZ",
  /** The thread's index in the block, counted along x, y and z. */
  "thread",
  /** The offset of its record. */
  "record",
  /** The offsets of its local memory, of the current function's frame in it, and of the free stack above the frame. */
  "local",
  "frame",
  "stackPointer",
  /** The offset of the current function's saved registers. */
  "saved",
  /** Where the thread resumes. */
  "resumeIndex",
  /** Loop iterations left before the kernel asks for more fuel, and before a spinning thread yields. */
  "fuel",
  "spins",
] as const;

/** The name of a local that a kernel has only if its code uses it. */
export type FixedLocal = LaunchField | typeof threadFields[number];

/** The type of a compiled kernel: its argument is the offset of the launch record. */
export const runType: FunctionType = { parameters: ["i32"], results: [] };
/** The local that holds the offset of the launch record. */
export const launchRecordLocal = 0;

/**
 * The part of a function where a register may be live, by positions in an order of all its instructions. Both ends are
 * inclusive.
 */
export interface LiveInterval {
  readonly register: Register;
  begin: number;
  end: number;
}

/**
 * Finds which registers share a local. Returns for each register the one in whose local it is held, if that is another.
 * Only registers of the same class share.
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
