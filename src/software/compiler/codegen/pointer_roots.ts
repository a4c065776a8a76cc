import type { Register } from "../typing/names.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/** Finds what a pointer was computed from: two with the same root most likely point into the same allocation. */
export type PointerRoots = (register: Register) => Register;

/** How sure it is that a register is a pointer, by the trait of the instruction that sets it: the higher, the surer. */
const ranks = { converted: 2, loaded: 1, derived: 0 } as const;

/**
 * The roots of a function's pointers, by the instructions that set them: an addition's is that of the summand which is
 * more likely a pointer. Only speed depends on it.
 */
export function pointerRoots(instructions: Iterable<ResolvedInstruction>): PointerRoots {
  const sources = new Map<Register, { pointer: keyof typeof ranks; operands: readonly ResolvedOperand[] }>();
  for (const { form, operands } of instructions) {
    const [destination, ...rest] = operands;
    const { pointer } = form.traits;
    if (pointer === undefined || destination?.kind !== "register" || destination.type.bits !== 64) continue;
    const known = sources.get(destination);
    // A pointer that a loop moves on has its root outside: what sets it first stands first.
    if (known === undefined) sources.set(destination, { pointer, operands: rest });
  }
  const roots = new Map<Register, Register>();
  const rankOf = (register: Register, depth: number): number => {
    const source = sources.get(register);
    if (source === undefined || depth > 8) return 0;
    if (source.pointer !== "derived") return ranks[source.pointer];
    return Math.max(0, ...registersOf(source.operands).map((operand) => rankOf(operand, depth + 1)));
  };
  const rootOf = (register: Register): Register => {
    const path: Register[] = [];
    let root = register;
    while (!roots.has(root) && !path.includes(root)) {
      path.push(root);
      const source = sources.get(root);
      if (source === undefined || source.pointer === "loaded") break;
      const next = registersOf(source.operands).reduce<Register | undefined>((best, operand) => {
        return best === undefined || rankOf(operand, 0) > rankOf(best, 0) ? operand : best;
      }, undefined);
      if (next === undefined) break;
      root = next;
    }
    root = roots.get(root) ?? root;
    for (const passed of path) roots.set(passed, root);
    return root;
  };
  return rootOf;
}

function registersOf(operands: readonly ResolvedOperand[]): Register[] {
  return operands.filter((operand): operand is Register => operand.kind === "register" && operand.type.bits === 64);
}
