/**
 * Registers that share locals, because they are never live at the same time.
 *
 * PTX has a register for almost every result, so that a long kernel has as many registers as lines. Engines limit the
 * number of locals, and the time and memory of their compilers grow with the number of locals times that of branches.
 *
 * @module
 */
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";

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
