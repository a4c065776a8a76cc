import type { Register } from "./names.ts";
import type { ResolvedOperand } from "./resolved_instruction.ts";

/** The registers that an operand consists of. The one in an address is none of them. */
export function registersOf(operand: ResolvedOperand | undefined): Register[] {
  switch (operand?.kind) {
    case "register":
      return [operand];
    case "not":
      return [operand.register];
    case "pair":
      return [operand.first, operand.second].flatMap(registersOf);
    case "vector":
    case "list":
      return operand.elements.flatMap(registersOf);
    default:
      return [];
  }
}
