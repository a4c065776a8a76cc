import type { Register, ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";

/**
 * Finds the pointer that a pointer was computed from. Two pointers with the same root most likely point into the same
 * allocation.
 */
export type UnderlyingPointers = (register: Register) => Register;

/** How many computations are followed to find how certain it is that a register is a pointer. */
const deepest = 8;

/** How certain it is that a register is a pointer, by a trait of the instruction that sets it. */
const ranks = { converted: 2, loaded: 1, derived: 0 } as const;

/**
 * Finds the underlying pointer of each pointer in a function: the root of the computation. The root of a sum is that of the
 * operand that is more likely to be a pointer.
 * Only speed depends on it.
 */
export function underlyingPointers(instructions: Iterable<ResolvedInstruction>): UnderlyingPointers {
  const sources = new Map<Register, { pointer: keyof typeof ranks; operands: readonly ResolvedOperand[] }>();
  for (const { form, operands } of instructions) {
    const [destination, ...rest] = operands;
    const { pointer } = form.traits;
    if (pointer === undefined || destination?.kind !== "register" || destination.type.bits !== 64) continue;
    const known = sources.get(destination);
    // A pointer that a loop advances has its root before the loop, where it is set first.
    if (known === undefined) sources.set(destination, { pointer, operands: rest });
  }
  const roots = new Map<Register, Register>();
  /** For each register, by how much deeper it may still be looked. */
  const known = new Map<Register, (number | undefined)[]>();
  const rankOf = (register: Register, deeper: number): number => {
    const source = sources.get(register);
    if (source === undefined || deeper < 0) return 0;
    if (source.pointer !== "derived") return ranks[source.pointer];
    let found = known.get(register);
    if (found === undefined) known.set(register, found = []);
    return found[deeper] ??= registersOf(source.operands).reduce((most, operand) => {
      return Math.max(most, rankOf(operand, deeper - 1));
    }, 0);
  };
  const underlyingPointerOf = (register: Register): Register => {
    const path = new Set<Register>();
    let root = register;
    while (!roots.has(root) && !path.has(root)) {
      path.add(root);
      const source = sources.get(root);
      if (source === undefined || source.pointer === "loaded") break;
      const next = registersOf(source.operands).reduce<Register | undefined>((best, operand) => {
        return best === undefined || rankOf(operand, deepest) > rankOf(best, deepest) ? operand : best;
      }, undefined);
      if (next === undefined) break;
      root = next;
    }
    root = roots.get(root) ?? root;
    for (const passed of path) roots.set(passed, root);
    return root;
  };
  return underlyingPointerOf;
}

function registersOf(operands: readonly ResolvedOperand[]): Register[] {
  return operands.filter((operand): operand is Register => operand.kind === "register" && operand.type.bits === 64);
}
