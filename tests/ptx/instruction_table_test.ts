import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { findRow } from "../../src/ptx/instructions/find_row.ts";
import type { Lowerings } from "../../src/software/compiler/instructions/instruction_form.ts";

const sources = fileURLToPath(new URL("../../src/", import.meta.url));
/** Where opcodes are read from text and looked up, and those of WebAssembly. */
const ofTable = [
  "ptx/instructions/",
  "ptx/parsing/",
  "software/compiler/instructions/instructions.ts",
  "software/compiler/instructions/refused_instructions.ts",
  "software/compiler/webassembly/",
];
/** A comparison of an opcode with a name, a lookup in a list of names, and what hides either. */
const namesOpcode = new RegExp(
  [
    /\bopcode\b\)?\s*[=!]==?|[=!]==?\s*[\w.?]*\bopcode\b|switch \([^)]*opcode|\.(has|includes|test)\([^)]*opcode/,
    // In an alternative of a regular expression.
    /[(|](ld|st|atom|red|bra|call)\|/,
    // Under another name, by a method of strings, and in the text that begins with it.
    /\bopcode: (?!string\b)\w+|\bopcode\??\.\w+\(|\b(row|form)\??\.syntax\b|\.text\.(startsWith|includes|match|split)\(/,
  ].map(({ source }) => source).join("|"),
);

test("no code outside of the table of instructions asks for an opcode by its name", () => {
  const files = readdirSync(sources, { recursive: true, encoding: "utf8" }).map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(".ts") && !ofTable.some((path) => file.startsWith(path)));
  assert(files.length > 200, `${files.length} files`);
  const found = files.flatMap((file) =>
    readFileSync(`${sources}${file}`, "utf8").split("\n").filter((line) => namesOpcode.test(line))
      .map((line) => `${file}: ${line.trim()}`)
  );
  assertEquals(found, []);
});

test("an opcode that is named outside of the table is noticed", () => {
  for (
    const line of [
      'if (step.opcode === "ld") return;',
      'const isCall = "call" === instruction.opcode;',
      "switch (opcode) {",
      "if (harmless.has(step.opcode)) return;",
      "if (/^ld/.test(step.opcode)) return;",
      'if (step.opcode.startsWith("ld")) return;',
      "const { opcode: name } = instruction;",
      'if (step.row?.syntax.startsWith("ld")) return;',
      'if (i.text.startsWith("ld.")) return;',
      "const access = /(ld|st)\\./;",
    ]
  ) assert(namesOpcode.test(line), line);
  assert(!namesOpcode.test("const row = findRow(statement.opcode, statement.modifiers);"));
});

test("a row without a lowering and a lowering without a row do not compile", () => {
  // @ts-expect-error The lowering of "sub" is missing.
  const withoutLowering: Lowerings<"add" | "sub"> = { add: "control flow" };
  // @ts-expect-error There is no row "sub".
  const withoutRow: Lowerings<"add"> = { add: "control flow", sub: "control flow" };
  assertEquals([withoutLowering, withoutRow].map((each) => Object.keys(each).length), [1, 2]);
});

test("an instruction's row is that of its modifiers, in any order, or else the nearest one of its opcode", () => {
  const syntaxOf = (text: string) => {
    const [opcode = "", ...modifiers] = text.split(".");
    return findRow(opcode, modifiers)?.syntax;
  };
  assertEquals(syntaxOf("add.sat.s32"), "add.sat.<type:s32> d, a, b");
  assertEquals(syntaxOf("cvta.global.to.u64"), syntaxOf("cvta.to.global.u64"));
  assertEquals(findRow("ld", ["global", "nc", "v8", "f32"])?.traits.isNotCoherent, true);
  assertEquals(findRow("ld", ["global", "v8", "f32"])?.traits.access, "read");
  assertEquals(syntaxOf("tcgen05.wait::ld.sync.aligned"), undefined);
  assertEquals(syntaxOf("cp.async.bulk.prefetch.global.L2"), "cp.async.bulk.prefetch.L2.global [a], size");
  assertEquals(findRow("cp", ["async", "bulk", "global", "shared::cta", "bulk_group"])?.traits.effects, [
    "reads",
    "writes",
  ]);
  assertEquals(findRow("prefetch", ["tensormap"])?.traits.access, "none");
});
