/**
 * How gangs execute instructions on 64-bit floats, in vectors of two.
 *
 * The bits of a NaN that vector arithmetic returns are unspecified, while an H200's are not. Where a result is a NaN,
 * `simd/gang_runs.ts` has the threads execute the instructions one by one.
 *
 * @module
 */
import type { GangForm } from "../instruction_form.ts";
import { hasOnlyModifiers } from "../../../../ptx/instructions/instruction_traits.ts";
import type { Register, ResolvedInstruction } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { GangEmitter } from "../../simd/gang_emitter.ts";
import type { SimdOpName } from "../../webassembly/opcodes.ts";

/** Returns the destination register if it is a 64-bit float that is stored in vector locals. Otherwise undefined. */
function destinationIn(gang: GangEmitter, { operands: [destination] }: ResolvedInstruction): Register | undefined {
  if (destination?.kind !== "register" || !gang.hasDoubles(destination)) return undefined;
  return gang.storageOf(destination).kind === "vectors" ? destination : undefined;
}

/**
 * Returns the gang form of an instruction that is a single vector instruction on its operands, in the same order. The
 * form applies only if the instruction rounds to nearest even.
 */
export function onDoubles(operation: SimdOpName): GangForm {
  return (gang, i) => {
    const destination = destinationIn(gang, i);
    const operands = i.operands.slice(1);
    if (destination === undefined || !operands.every((operand) => gang.hasDoubles(operand))) return undefined;
    if (!hasOnlyModifiers(i, ["rounding"]) || (i.choices.get("rounding") ?? "rn") !== "rn") return undefined;
    return () => {
      const pushes = operands.map((operand) => gang.doubles(operand));
      gang.assignVectors(destination, (part) => {
        for (const push of pushes) push(part);
        return gang.code.simd(operation);
      });
    };
  };
}

/** The gang form of `mov` of 64-bit floats. */
export const moveDoubles: GangForm = (gang, i) => {
  const destination = destinationIn(gang, i);
  if (destination === undefined || !gang.hasDoubles(i.operands[1]) || !hasOnlyModifiers(i, [])) return undefined;
  return () => gang.assignVectors(destination, gang.doubles(i.operands[1]));
};

/** The gang form of `selp` of 64-bit floats. */
export const selectDoubles: GangForm = (gang, i) => {
  const destination = destinationIn(gang, i);
  const [, a, b, predicate] = i.operands;
  if (destination === undefined || !gang.hasDoubles(a) || !gang.hasDoubles(b)) return undefined;
  if (predicate?.kind !== "register" || !hasOnlyModifiers(i, [])) return undefined;
  return () => {
    const pushA = gang.doubles(a), pushB = gang.doubles(b);
    const mask = gang.lanesOf(destination, gang.maskVectors(predicate));
    gang.assignVectors(destination, (part) => {
      pushA(part);
      pushB(part);
      return mask(part).simd("v128Bitselect");
    });
  };
};

/** The gang form of `cvt` from 32-bit integers to 64-bit floats, which is exact. */
export const convertToDoubles: GangForm = (gang, i) => {
  const destination = destinationIn(gang, i);
  const { sourceType: from, operands: [, source] } = i;
  if (destination === undefined || from.bits !== 32 || (from.kind !== "signed" && from.kind !== "unsigned")) {
    return undefined;
  }
  if (!gang.hasVectors(source) || !hasOnlyModifiers(i, ["from", "rounding"])) return undefined;
  return () => {
    const push = gang.vector(i, { operand: source, type: from });
    gang.assignVectors(destination, (part) => {
      push(part >> 1);
      // Move the upper two values of the vector to the lower half.
      if (part % 2 === 1) push(part >> 1).i8x16Shuffle([8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
      return gang.code.simd(from.kind === "signed" ? "f64x2ConvertLowI32x4S" : "f64x2ConvertLowI32x4U");
    });
  };
};

/** Maps each comparison of PTX to a vector comparison, and whether its result is negated. */
export const comparisonsOfDoubles: Readonly<Record<string, readonly [operation: SimdOpName, isNegated: boolean]>> = {
  eq: ["f64x2Eq", false],
  lt: ["f64x2Lt", false],
  le: ["f64x2Le", false],
  gt: ["f64x2Gt", false],
  ge: ["f64x2Ge", false],
  neu: ["f64x2Ne", false],
  ltu: ["f64x2Ge", true],
  leu: ["f64x2Gt", true],
  gtu: ["f64x2Le", true],
  geu: ["f64x2Lt", true],
};
