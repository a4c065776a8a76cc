/** Compares what the table of instructions takes with what ptxas takes, modifier by modifier. */
import { assertEquals } from "@std/assert";
import { PtxError } from "../../../../src/ptx/syntax.ts";
import { compilePtx } from "../../../../src/software/compiler/compile.ts";
import { allInstructions } from "../../../../src/software/compiler/instructions/instructions.ts";
import { test } from "../../../support/test.ts";
import { refusedByPtxas, withoutPtxas } from "./ask_ptxas.ts";
import { type Combination, combinationsOf, moduleOf } from "./combinations.ts";
import { generousSyntax } from "./generous_syntax.ts";

/** What ptxas takes and the software device refuses, each with the reason why that is right. */
const lacking: readonly (readonly [names: RegExp, because: string])[] = [
  [/^(addc|subc|madc\.\w+)\.[us]16 /, "the manual has 32 and 64 bits only"],
  [/^fma\.r[zmp]\.(oob\.)?(relu\.)?bf16(x2)? /, "the manual has .rn only"],
  [/^(txq|suq)\./, "CUDA refuses to load modules with these queries"],
  [/^rcp\.r[nzmp]\.ftz\.f64 /, "the manual has no .ftz for this one"],
];

/** Their operands are labels, functions, lists, fragments of matrices, and textures. */
const notGenerated: readonly string[] = [
  ...["brx", "call", "setmaxnreg", "mma", "wmma", "wgmma"],
  ...["tex", "tld4", "istypep", "suld", "sust", "sured"],
];

/** Whether the software device runs an instruction, refuses the kernel, or refuses the module. */
function outcomeOf(combination: Combination): "runs" | "unsupported" | "invalid" {
  try {
    return compilePtx(moduleOf([combination]).ptx, { gangs: false }).refusals.size === 0 ? "runs" : "unsupported";
  } catch (error) {
    if (error instanceof PtxError) return "invalid";
    throw error;
  }
}

function assertLikePtxas(syntaxes: readonly string[], most: number): void {
  const bySyntax = syntaxes.map((syntax) => ({ syntax, combinations: combinationsOf(syntax, most) }));
  const combinations = distinct(bySyntax.flatMap(({ combinations }) => combinations));
  const refused = refusedByPtxas(combinations);
  // Of each syntax, ptxas takes something: its operands are right.
  const useless = bySyntax.filter(({ combinations }) => combinations.every(({ text }) => refused.has(text)));
  assertEquals(useless.map(({ syntax }) => syntax), []);
  const wrong: string[] = [];
  for (const combination of combinations) {
    const { text } = combination;
    const outcome = outcomeOf(combination);
    const why = refused.get(text);
    if (why !== undefined && outcome === "runs") wrong.push(`${text} runs, but ptxas says: ${why}`);
    if (why !== undefined || outcome === "runs") continue;
    const isKnown = outcome === "unsupported" && lacking.some(([names]) => names.test(text));
    if (!isKnown) wrong.push(`${text} is ${outcome}, but ptxas takes it`);
  }
  assertEquals(wrong, []);
}

function distinct(combinations: readonly Combination[]): Combination[] {
  return [...new Map(combinations.map((each) => [each.text, each])).values()];
}

test("ptxas takes every form that the table says to run", { long: true, skip: withoutPtxas }, () => {
  // The modules of `combinations.ts` are of the newest PTX. The grammar's modules have the forms of early PTX.
  const forms = allInstructions().filter(({ opcode, refusal, traits: { removedIn, ofActiveLanes } }) =>
    refusal === undefined && !notGenerated.includes(opcode) && removedIn === undefined && ofActiveLanes !== true
  );
  assertLikePtxas(forms.map(({ syntax }) => syntax), 200);
});

test(
  "what ptxas takes of each opcode's modifiers runs, or is known to be lacking",
  { long: true, skip: withoutPtxas },
  () => {
    assertLikePtxas(generousSyntax, 800);
  },
);
