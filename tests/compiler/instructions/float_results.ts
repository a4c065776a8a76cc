import { allocate, loadKernel } from "../compiler_device.ts";
import { type Operation, operationKernel } from "./references.ts";

const header = ".version 9.0\n.target sm_90\n.address_size 64\n";

/** The bits of an operation's results for some operands. */
export function results(operation: Operation, cases: readonly (readonly bigint[])[]): bigint[] {
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
  return cases.map((_, index) => out.view.getBigUint64(index * 8, true));
}
