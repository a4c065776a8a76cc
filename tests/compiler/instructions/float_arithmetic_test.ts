import { assert, assertEquals } from "@std/assert";
import {
  eightBitConversions,
  floatConversions,
  halfArithmetic,
  halfComparisons,
  roundedArithmetic,
  singleExtremes,
} from "./float_references.ts";
import { outcomes } from "./operation_outcomes.ts";
import { floatOf, operandsFor, type Operation } from "./references.ts";
import {
  helperFunctions,
  helperIndex,
  importedFunctions,
} from "../../../src/software/compiler/helpers/helper_functions.ts";
import { type Rounding, roundingCodes } from "../../../src/software/compiler/helpers/rounding_helpers.ts";
import { encodeModule } from "../../../src/software/compiler/webassembly/module_encoder.ts";
import { test } from "../../support/test.ts";

function check(operations: readonly Operation[]): void {
  for (const operation of operations) {
    const { wrong, compared } = outcomes(operation);
    assert(compared > 40, `${operation.text}: only ${compared} cases are defined`);
    assertEquals(wrong.slice(0, 5), [], operation.text);
  }
}

const opcodeOf = ({ text }: Operation) => text.slice(0, text.indexOf("."));

for (const [opcode, operations] of Map.groupBy(roundedArithmetic(), opcodeOf)) {
  test(`${opcode} rounds once, in every direction (${operations.length} forms)`, () => check(operations));
}

for (const [opcode, operations] of Map.groupBy(halfArithmetic(), opcodeOf)) {
  test(`16-bit ${opcode} rounds once (${operations.length} forms)`, () => check(operations));
}

test("32-bit min and max follow every rule", () => check(singleExtremes()));

test("setp and set compare 16-bit floats", { long: true }, () => check(halfComparisons()));

test("cvt rounds to floats in every direction", () => check(floatConversions()));

test("cvt converts 8-bit floats", () => check(eightBitConversions()));

/** The helper for engines without a fused instruction, on its own, because kernels may not need it here. */
function multiplyAddHelper(): (a: number, b: number, c: number, rounding: number) => number {
  const imports = importedFunctions();
  const index = helperIndex("fusedMultiplyAdd64") - imports.length;
  const wasm = encodeModule({
    memory: { module: "device", name: "memory", pages: 1 },
    globals: [{ module: "device", name: "imageAddress", valueType: "i64" }],
    imports,
    functions: helperFunctions().map((helper, at) => at === index ? { ...helper, exportName: "fma" } : helper),
  });
  const unused = Object.fromEntries(imports.map(({ name }) => [name, () => 0]));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(wasm), {
    device: {
      memory: new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
      imageAddress: new WebAssembly.Global({ value: "i64" }, 0n),
      ...unused,
    },
  });
  return exports.fma as ReturnType<typeof multiplyAddHelper>;
}

test("64-bit fma rounds once without the engine's instruction", { long: true }, () => {
  const multiplyAdd = multiplyAddHelper();
  for (const operation of roundedArithmetic().filter(({ text }) => text.startsWith("fma.") && text.includes("f64"))) {
    const rounding = roundingCodes[operation.text.split(".")[1] as Rounding];
    const wrong: string[] = [];
    for (const operands of operandsFor(operation)) {
      const [a = 0, b = 0, c = 0] = operands.map((bits) => floatOf(bits, "f64"));
      const result = multiplyAdd(a, b, c, rounding);
      const expected = floatOf(operation.reference(...operands)!, "f64");
      if (!Object.is(result, expected)) wrong.push(`${a} * ${b} + ${c}: ${result}, not ${expected}`);
    }
    assertEquals(wrong.slice(0, 5), [], operation.text);
  }
});
