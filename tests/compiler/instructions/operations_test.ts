import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { outcomes } from "./operation_outcomes.ts";
import { allOperations } from "./references.ts";

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
