import { allocate, loadKernel } from "../compiler_device.ts";
import { operandsFor, type Operation, operationKernel } from "./references.ts";

const header = ".version 9.0\n.target sm_90\n.address_size 64\n";

/** Applies an operation to its operands, and reports results that differ from the reference. */
export function outcomes(operation: Operation): { wrong: string[]; compared: number } {
  const cases = operandsFor(operation);
  const source = allocate(cases.length * 24);
  const out = allocate(cases.length * 8);
  cases.forEach((operands, index) => {
    operands.forEach((operand, place) => source.view.setBigUint64(index * 24 + place * 8, operand, true));
  });
  loadKernel(header + operationKernel(operation, "apply"), "apply")({
    grid: [Math.ceil(cases.length / 64), 1, 1],
    block: [64, 1, 1],
    parameters: [
      { type: "u64", value: out.address },
      { type: "u64", value: source.address },
      { type: "u32", value: cases.length },
    ],
  });
  const bits = operation.types[0] === "pred" ? 1 : Number(operation.types[0]!.slice(1));
  const wrong: string[] = [];
  let compared = 0;
  cases.forEach((operands, index) => {
    const reference = operation.reference(...operands);
    if (reference === undefined) return;
    compared++;
    const expected = BigInt.asUintN(bits, reference);
    const actual = out.view.getBigUint64(index * 8, true);
    if (actual !== expected) {
      const given = operands.map((operand) => `0x${operand.toString(16)}`).join(", ");
      wrong.push(`${operation.text} of ${given}: 0x${actual.toString(16)}, not 0x${expected.toString(16)}`);
    }
  });
  return { wrong, compared };
}
