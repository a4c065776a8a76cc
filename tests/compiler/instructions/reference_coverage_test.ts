import { assert, assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { test } from "node:test";
import {
  eightBitConversions,
  floatConversions,
  halfArithmetic,
  halfComparisons,
  roundedArithmetic,
  singleExtremes,
} from "./float_references.ts";
import { integerOperations } from "./integer_references.ts";
import { allOperations } from "./references.ts";
import { videoOperations } from "./video_references.ts";
import { formsOf } from "../../differential/coverage.ts";
import type { InstructionForm } from "../../../src/software/compiler/instructions/instruction_form.ts";
import { allInstructions } from "../../../src/software/compiler/instructions/instructions.ts";
import { refusedForms } from "../../../src/software/compiler/instructions/refused_instructions.ts";

/** The forms that have tests in place of a reference: some opcodes, or all forms with one of the modifiers. */
const testedElsewhere: readonly {
  readonly opcodes?: readonly string[];
  readonly modifiers?: readonly string[];
  readonly file: string;
}[] = [
  { modifiers: ["approx", "full"], file: "float_approximate_test.ts" },
  { opcodes: ["prefetch", "prefetchu", "applypriority", "discard"], file: "../refusals_test.ts" },
  { modifiers: ["bulk"], file: "../refusals_test.ts" },
  { opcodes: ["createpolicy", "pmevent", "setmaxnreg"], file: "../refusals_test.ts" },
  { modifiers: ["b128"], file: "wide_test.ts" },
  { modifiers: ["L2::cache_hint"], file: "../refusals_test.ts" },
  { modifiers: ["vector"], file: "../operands_test.ts" },
  { opcodes: ["isspacep", "cvta"], file: "../memory_test.ts" },
  { opcodes: ["mbarrier"], file: "../memory_barriers_test.ts" },
  { opcodes: ["mapa", "getctarank"], file: "../clusters_test.ts" },
  { opcodes: ["txq", "suq", "istypep"], file: "../../objects/textures/surface_test.ts" },
];

function isTestedElsewhere({ opcode, slots }: InstructionForm): boolean {
  return testedElsewhere.some(({ opcodes, modifiers }) =>
    opcodes?.includes(opcode) || modifiers?.some((modifier) => slots.some(({ name }) => name === modifier))
  );
}

/** The instructions of an operation's text, which may be a block with declarations. */
function instructionsIn(text: string): string[] {
  return text.replaceAll(/^\{|\}$/g, "").split(";").map((line) => line.trim()).filter((line) => /^[a-z]/.test(line));
}

test("every instruction that only computes has a reference or tests of its own", () => {
  const operations = [
    ...allOperations(),
    ...integerOperations(),
    ...roundedArithmetic(),
    ...halfArithmetic(),
    ...halfComparisons(),
    ...singleExtremes(),
    ...floatConversions(),
    ...eightBitConversions(),
    ...videoOperations(),
  ];
  const tried = new Set(
    operations.flatMap(({ text }) => instructionsIn(text)).flatMap(formsOf).map(({ form }) => form),
  );
  const untried = allInstructions().filter((form) => {
    const isPure = form.emit !== undefined && form.traits.effects?.length === 0 && !refusedForms().includes(form);
    // `early_ptx_test.ts` tests what later PTX no longer has.
    return isPure && !tried.has(form) && !isTestedElsewhere(form) && form.traits.removedIn === undefined;
  });
  assertEquals(
    untried.map(({ syntax }) => syntax),
    [],
    "Add a reference for each form to integer_references.ts or float_references.ts in tests/compiler/instructions/, " +
      "or name the file with its tests in reference_coverage_test.ts",
  );
  for (const { file } of testedElsewhere) assert(existsSync(new URL(file, import.meta.url)), file);
});
