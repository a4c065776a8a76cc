import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { allocate, loadKernel } from "./compiler_device.ts";
import { allOperations, operandsFor, type Operation, operationKernel } from "./compiler_operations.ts";

const header = ".version 7.0\n.target sm_60\n.address_size 64\n";

function outcomes(operation: Operation): { wrong: string[]; compared: number } {
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

const byOpcode = Map.groupBy(allOperations(), ({ text }) => /([a-z0-9]+)(\.\w+)* (_\|)?d,/.exec(text)![1]!);

for (const [opcode, operations] of byOpcode) {
  test(`${opcode} gives the reference's bits (${operations.length} forms)`, () => {
    for (const operation of operations) {
      const { wrong, compared } = outcomes(operation);
      assert(compared > 100, `${operation.text}: only ${compared} cases are defined`);
      assertEquals(wrong.slice(0, 5), [], operation.text);
    }
  });
}
