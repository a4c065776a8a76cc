import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { instructionPage, unmatched } from "./page.ts";

/** Without what `deno fmt` changes. */
function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

test("docs/ptx_instructions.md is what the table gives: deno task docs:instructions writes it", () => {
  const page = readFileSync(new URL("../../../docs/ptx_instructions.md", import.meta.url), "utf8");
  assertEquals(words(page), words(instructionPage()));
});

test("every row and every refused opcode has its section of the manual, and every section says something", () => {
  assertEquals(unmatched(), { rows: [], opcodes: [], sections: [] });
});
