import type { Register } from "../typing/names.ts";
import { registersOf } from "../typing/operand_registers.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/** The registers that an instruction sets. Those that a call sets are not known. */
export function registersSet({ form, operands }: ResolvedInstruction): readonly Register[] {
  return form.hasResult ? registersOf(operands[0]) : [];
}

/** The registers that an instruction reads, apart from its predicate. A predicated one may leave its results as they are. */
export function registersRead({ form, operands, predicate }: ResolvedInstruction): Register[] {
  const results = form.hasResult && predicate === undefined ? 1 : 0;
  return operands.slice(results).flatMap(registersIn);
}

function registersIn(operand: ResolvedOperand): Register[] {
  if (operand.kind !== "address") return registersOf(operand);
  return operand.base?.kind === "register" ? [operand.base] : [];
}
