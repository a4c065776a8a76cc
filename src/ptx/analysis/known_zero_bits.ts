import type { Definitions } from "./definitions_and_uses.ts";
import type { Register, ResolvedInstruction, ResolvedOperand } from "../instructions/resolved_instruction.ts";

/** Returns the number of low bits of an integer that are known to be 0. */
export type KnownZeroBits = (operand: ResolvedOperand) => number;

/** The maximum number of definitions followed from a register. Address computations are rarely longer. */
const mostSteps = 8;

/** The width of the widest integer, in bits. */
const allBits = 64;

/**
 * Analyzes which low bits of a function's registers are 0 whenever the registers are read.
 *
 * @param definitions the instructions that set each register
 * @param hasFrames whether `.local` variables are in stack frames, whose addresses are not known at compile time
 */
export function knownZeroBits(
  definitions: Definitions,
  { hasFrames }: { readonly hasFrames: boolean },
): KnownZeroBits {
  const found = new Map<Register, number>();
  const ofOperand = (operand: ResolvedOperand | undefined, steps: number): number => {
    switch (operand?.kind) {
      case "integer":
        return trailingZeros(operand.value);
      case "variable":
        if (operand.space !== "shared" && (operand.space !== "local" || hasFrames)) return 0;
        return trailingZeros(BigInt(operand.offset));
      case "sum":
        return Math.min(ofOperand(operand.variable, steps), trailingZeros(operand.offset));
      case "register":
        return ofRegister(operand, steps);
      default:
        return 0;
    }
  };
  const ofRegister = (register: Register, steps: number): number => {
    const known = found.get(register);
    if (known !== undefined) return known;
    const setting = definitions.get(register);
    if (setting === undefined || steps === mostSteps) return 0;
    // Until the result is known, assumes no zero bits, in case a definition of the register depends on the register
    // itself.
    found.set(register, 0);
    const bits = Math.min(...setting.map((instruction) => ofResult(instruction, steps + 1)));
    found.set(register, bits);
    return bits;
  };
  const ofResult = ({ form, operands, type, sourceType, choices }: ResolvedInstruction, steps: number): number => {
    const { arithmetic, pointer } = form.traits;
    const [destination, a, b, c] = operands;
    if (destination?.kind !== "register" || type.kind === "float" || sourceType.kind === "float") return 0;
    const of = (operand: ResolvedOperand | undefined) => ofOperand(operand, steps);
    // The generic addresses of state spaces begin at multiples of 2^32.
    if (pointer === "converted") return Math.min(of(a), 32);
    switch (arithmetic) {
      case "move":
      case "negation":
        return of(a);
      case "conversion":
        return choices.has("sat") ? 0 : of(a);
      case "sum":
      case "difference":
        return Math.min(of(a), of(b));
      case "shift":
        return b?.kind === "integer" && b.value >= 0n ? atMostAll(of(a) + Number(b.value)) : 0;
      case "product":
        return atMostAll(of(a) + of(b));
      case "product sum":
        return Math.min(atMostAll(of(a) + of(b)), of(c));
      default:
        return 0;
    }
  };
  return (operand) => ofOperand(operand, 0);
}

function atMostAll(bits: number): number {
  return Math.min(bits, allBits);
}

function trailingZeros(value: bigint): number {
  if (value === 0n) return allBits;
  let bits = 0;
  while ((value >> BigInt(bits) & 1n) === 0n) bits++;
  return Math.min(bits, allBits);
}
