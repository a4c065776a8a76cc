/**
 * Operands that only some instructions take: parts of registers, negated registers, and registers of 128 bits.
 *
 * @module
 */
import { type Instruction, type Operand, PtxError } from "../../../ptx/syntax.ts";
import type { ResolvedOperand } from "../../../ptx/instructions/resolved_instruction.ts";

/** Refuses registers of 128 bits, for an instruction that takes none. */
export function refuseWide(operands: readonly ResolvedOperand[], { line, text }: { line: number; text: string }): void {
  for (const operand of operands) {
    if (operand.kind === "list") refuseWide(operand.elements, { line, text });
    if (operand.kind !== "vector") continue;
    if (operand.isWide) throw new PtxError(line, `cannot compile "${text}": it takes no register of 128 bits`);
    refuseWide(operand.elements, { line, text });
  }
}

/** Moves the selectors and the signs of operands, such as `-%r1.h1`, to the choices. */
export function withSelectors(
  { operands }: Instruction,
  chosen: ReadonlyMap<string, string>,
): { choices: ReadonlyMap<string, string>; operands: readonly Operand[] } {
  const choices = new Map(chosen);
  const whole = operands.map((operand, index) => {
    if (operand.kind !== "name") return operand;
    const { kind, name, component, negated } = operand;
    const isSelector = component !== undefined && /^[bh][0-7]+$/.test(component);
    if (isSelector) choices.set(`selector${index}`, component);
    if (negated) choices.set(`negated${index}`, "-");
    return { kind, name, component: isSelector ? undefined : component };
  });
  return { choices, operands: whole };
}
