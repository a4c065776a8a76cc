import { assert, assertEquals } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { test } from "../support/test.ts";

const root = new URL("../../", import.meta.url);

/** A sentence of a page, and the tests that hold it. */
interface Claim {
  readonly page: string;
  readonly sentence: string;
  readonly tests: readonly (readonly [file: string, name: string])[];
  /** Why no test holds it. */
  readonly reason?: string;
}

/** The heading of the claims that no test holds. */
const untested = "Claims without a test";

test("each claim about safety stands in its page, and each test that holds it exists", () => {
  const claims = readClaims();
  assert(claims.length > 0);
  const problems: string[] = [];
  for (const { page, sentence, tests, reason } of claims) {
    if (!plain(read(page)).includes(plain(sentence))) problems.push(`${page} does not say: ${sentence}`);
    if (tests.length === 0 && reason === undefined) problems.push(`No test holds: ${sentence}`);
    for (const [file, name] of tests) {
      if (!existsSync(new URL(file, root))) problems.push(`There is no ${file}`);
      else if (!namesTest(read(file), name)) problems.push(`${file} has no test of this name: ${name}`);
    }
  }
  assertEquals(problems, []);
});

test("a sentence that no page has and a test that no file has are found", () => {
  assert(!plain(read("docs/isolation.md")).includes(plain("A peer cannot harm anybody")));
  assert(!namesTest(read("tests/sharing/claims_test.ts"), "a test that is " + "not there"));
  assert(namesTest(read("tests/sharing/claims_test.ts"), "each claim about safety stands"));
});

/**
 * Reads the list: a heading for each page, an item for each sentence, and below it an item for each test. Of claims
 * without a test, the item names the page, and an item below it says why.
 */
function readClaims(): Claim[] {
  const claims: (Claim & { tests: [string, string][]; reason?: string })[] = [];
  let page = "";
  // An item that is longer than a line continues on the next, indented.
  const text = read("tests/sharing/CLAIMS.md").replace(/\n +(?![- ])/g, " ");
  for (const line of text.split("\n")) {
    const heading = /^## (.*)$/.exec(line);
    const sentence = /^- (.*)$/.exec(line);
    const held = /^ +- `([^`]*)`: (.*)$/.exec(line);
    const untestedClaim = /^- `([^`]*)`: (.*)$/.exec(line);
    const reason = /^ +- (.*)$/.exec(line);
    if (heading !== null) page = heading[1]!;
    else if (page === untested) {
      if (untestedClaim !== null) claims.push({ page: untestedClaim[1]!, sentence: untestedClaim[2]!, tests: [] });
      else if (reason !== null) claims.at(-1)!.reason = reason[1]!;
    } else if (sentence !== null) claims.push({ page, sentence: sentence[1]!, tests: [] });
    else if (held !== null) claims.at(-1)!.tests.push([held[1]!, held[2]!]);
  }
  return claims;
}

/** Whether a file has the beginning of a string with the name, or the name within it. */
function namesTest(source: string, name: string): boolean {
  return source.split("\n").some((line) => /["`]|^ +def /.test(line) && line.includes(name));
}

function read(path: string): string {
  return readFileSync(new URL(path, root), "utf8");
}

/** Removes line breaks, and the marks that format a word. */
function plain(text: string): string {
  return text.replace(/[*\\]/g, "").replace(/\s+/g, " ");
}
