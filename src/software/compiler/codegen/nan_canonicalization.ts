/**
 * Finds the registers whose NaNs are canonicalized only when they are observed.
 *
 * In PTX, 32-bit arithmetic returns only the canonical NaN; in WebAssembly, it may return any NaN. If a register is set
 * only by such arithmetic, any NaN in it represents the canonical NaN. Further arithmetic does not distinguish NaNs, so
 * canonicalization is deferred until the value is stored, copied to another register, or read as an integer.
 *
 * @module
 */
import { readersOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";

/** Whether an instruction copies one of its 32-bit operands to its result, unchanged. */
export function copiesNumbers({ form, type }: ResolvedInstruction): boolean {
  return form.traits.copies !== undefined && type.bits === 32;
}

/**
 * Finds the registers in which NaNs need not be canonicalized when they are set: the registers that are held in
 * floating-point locals, and set only by 32-bit arithmetic and by copies of its results.
 */
export function findDeferredNaNs(
  instructions: Iterable<ResolvedInstruction>,
  isHeldAsFloat: (register: Register) => boolean,
): ReadonlySet<Register> {
  const deferred = new Set<Register>();
  const others = new Set<Register>();
  const copied: Copy[] = [];
  for (const instruction of instructions) {
    const [destination, ...sources] = instruction.operands;
    if (destination?.kind !== "register") {
      for (const register of registersIn(destination)) others.add(register);
    } else if (instruction.form.traits.hasCanonicalNaN?.(instruction) && isHeldAsFloat(destination)) {
      deferred.add(destination);
    } else if (copiesNumbers(instruction) && isHeldAsFloat(destination)) {
      deferred.add(destination);
      copied.push({ to: destination, from: sources.slice(0, instruction.form.traits.copies) });
    } else {
      others.add(destination);
    }
  }
  const remains = (register: Register) => deferred.has(register) && !others.has(register);
  const copiesOf = readersOf(copied, ({ from }) => from.filter((operand) => operand.kind === "register"));
  // A copy instruction is examined again when one of its source registers is excluded, which happens at most once per
  // source register.
  const rest = [...copied];
  for (let copy = rest.pop(); copy !== undefined; copy = rest.pop()) {
    const { to, from } = copy;
    if (!remains(to) || from.every((operand) => isNoNaN(operand) || isRegister(operand, remains))) continue;
    others.add(to);
    for (const next of copiesOf.get(to) ?? []) rest.push(next);
  }
  return deferred.difference(others);
}

/** An instruction that copies a number from one of several operands. */
interface Copy {
  readonly to: Register;
  readonly from: readonly ResolvedOperand[];
}

function isRegister(operand: ResolvedOperand, holds: (register: Register) => boolean): boolean {
  return operand.kind === "register" && holds(operand);
}

/** Whether an operand is a single-precision literal other than a NaN. A NaN literal must keep its bits. */
function isNoNaN(operand: ResolvedOperand): boolean {
  if (operand.kind !== "float" || operand.precision !== "single") return false;
  return (operand.bits & 0x7fff_ffffn) <= 0x7f80_0000n;
}

/** Returns the registers in an operand, including those in nested vectors and pairs. */
function registersIn(operand: ResolvedOperand | undefined): Register[] {
  if (operand === undefined) return [];
  if ("elements" in operand) return operand.elements.flatMap(registersIn);
  if (operand.kind === "pair") return [operand.first, operand.second].flatMap(registersIn);
  return operand.kind === "register" ? [operand] : [];
}
