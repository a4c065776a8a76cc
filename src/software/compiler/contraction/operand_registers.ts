import type { Register } from "../typing/names.ts";
import type { ResolvedInstruction, ResolvedOperand } from "../typing/resolved_instruction.ts";

/** The registers that an instruction sets. Those that a call sets are not known. */
export function registersSet({ form, operands }: ResolvedInstruction): readonly Register[] {
  return form.hasResult ? registersIn(operands[0]) : [];
}

/** The registers that an instruction reads, apart from its predicate. A predicated one may leave its results as they are. */
export function registersRead({ form, operands, predicate }: ResolvedInstruction): Register[] {
  const results = form.hasResult && predicate === undefined ? 1 : 0;
  return operands.slice(results).flatMap(registersIn);
}

function registersIn(operand: ResolvedOperand | undefined): Register[] {
  switch (operand?.kind) {
    case "register":
      return [operand];
    case "not":
      return [operand.register];
    case "pair":
      return [operand.first, operand.second].flatMap(registersIn);
    case "vector":
    case "list":
      return operand.elements.flatMap(registersIn);
    case "address":
      return operand.base?.kind === "register" ? [operand.base] : [];
    default:
      return [];
  }
}
