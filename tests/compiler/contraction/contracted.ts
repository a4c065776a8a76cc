/**
 * What the software device computes, after it has contracted products and sums.
 *
 * @module
 */
import { parsePtx } from "../../../src/ptx/parsing/parser.ts";
import { contractKernel } from "../../../src/software/compiler/contraction/contract.ts";
import { instructionSet } from "../../../src/software/compiler/instructions/instructions.ts";
import { moduleScope } from "../../../src/software/compiler/typing/module_scope.ts";
import type {
  Register,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../../../src/ptx/instructions/resolved_instruction.ts";
import { instructionsOf, resolveKernel } from "../../../src/software/compiler/typing/resolver.ts";
import { type Expression, fused, negated, product, sum, textOf, variable } from "./expressions.ts";

/** The instructions of a module's kernel, contracted. */
export function contractedInstructions(ptx: string): ResolvedInstruction[] {
  const parsed = parsePtx(ptx);
  const module = moduleScope(parsed, instructionSet);
  const [kernel] = parsed.functions;
  const parameters = kernel!.parameters.map(({ name }, index): Variable => {
    return { kind: "variable", name, space: "param", offset: 8 * index, byteLength: 8 };
  });
  return instructionsOf(contractKernel(resolveKernel(kernel!, { parameters, module }), instructionSet).kernel);
}

/** What a kernel stores, by the offset in its output. */
export function storedByDevice(ptx: string): Record<number, string> {
  const values = new Map<Register, Expression>();
  const stored: Record<number, string> = {};
  for (const { text, operands, predicate } of contractedInstructions(ptx)) {
    const [opcode] = text.split(".");
    const [destination, ...sources] = operands;
    if (
      predicate !== undefined || /\.[usp]\w+$/.test(text) ||
      !["ld", "st", "mul", "add", "sub", "neg", "xor", "mov", "fma"].includes(opcode!)
    ) continue;
    const offset = (operand: ResolvedOperand | undefined) => operand?.kind === "address" ? Number(operand.offset) : NaN;
    const [a, b, c] = (opcode === "st" ? sources : opcode === "ld" ? [] : sources).map((operand) =>
      (operand.kind === "register" ? values.get(operand) : undefined) ?? variable("?")
    ) as [Expression, Expression, Expression];
    if (opcode === "st") stored[offset(destination)] = textOf(a);
    else if (destination?.kind === "register") {
      const results: Record<string, () => Expression> = {
        ld: () => variable(`v${offset(sources[0])}`),
        mul: () => product(a, b),
        add: () => sum(a, b),
        sub: () => sum(a, negated(b)),
        neg: () => negated(a),
        xor: () => negated(a),
        mov: () => a,
        fma: () => fused(a, b, c),
      };
      values.set(destination, results[opcode!]!());
    }
  }
  return stored;
}
