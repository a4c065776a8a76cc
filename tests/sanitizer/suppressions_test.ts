/**
 * Suppressions: which mistakes they suppress, and which lines are refused.
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { readFileSync, writeFileSync } from "node:fs";
import { type Suppressible, Suppressions, unusedOf } from "../../src/sanitizer/reporting/suppressions.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

const report: Suppressible = {
  check: "stream-order",
  kind: "unordered-write-read",
  accesses: [
    {
      operation: "kernel saxpy",
      access: "read",
      stream: "stream 2 of device 0",
      source: "saxpy.cu:6",
      stack: "at step (file:///home/me/src/pipeline.ts:14:24)\nat main (file:///home/me/main.ts:3:1)",
    },
    {
      operation: "copyFrom",
      access: "write",
      stream: "stream 1 of device 0",
      stack: "at upload (file:///home/me/src/copies/upload.ts:9:5)",
    },
  ],
};

function isSuppressed(line: string): boolean {
  return new Suppressions("known.txt", line).find(report) !== undefined;
}

test("a suppression names kinds and places, with * and ?", () => {
  const matching = [
    "unordered-write-read:*",
    "unordered-*:pipeline.ts",
    "*:pipeline.ts:14",
    "stream-order:src/pipeline.ts:14:24",
    "*:/home/me/src/pipeline.ts",
    "*:src/*/upload.ts",
    "*:me/src/*",
    "*:main.ts:?",
    "*:step",
    "*:up*",
    "*:saxpy",
    "*:kernel saxpy",
    "*:saxpy.cu",
    "*:saxpy.cu:6",
    "*:copyFrom",
    "  unordered-write-read  :  pipeline.ts  ",
    "# a comment\r\n\r\n*:pipeline.ts\r\n",
  ];
  const others = [
    "unordered-read-write:*",
    "use-*:*",
    "leak:*",
    "unordered-write-rea?:line.ts",
    "*:ipeline.ts",
    "*:pipeline.ts:1",
    "*:pipelinexts",
    "*:pipeline",
    "*:saxpy.cu:7",
    "# unordered-write-read:*",
    "",
  ];
  for (const line of matching) assert(isSuppressed(line), line);
  for (const line of others) assert(!isSuppressed(line), line);
});

test("the first suppression counts, and those that were not needed are known", () => {
  const suppressions = new Suppressions("known.txt", "# why\n*:nowhere.ts\n*:main.ts\n*:pipeline.ts\n");
  assertEquals(suppressions.find(report)?.line, 3);
  assertEquals(
    unusedOf(suppressions),
    "2 suppressions of known.txt were not needed: *:nowhere.ts (line 2), *:pipeline.ts (line 4)",
  );
});

test("a line that says nothing is refused with its number", () => {
  const refused = [
    ["pipeline.ts", "it must be kind:place"],
    [":pipeline.ts", "it must be kind:place"],
    ["unordered-write-read:", "or kind:* for all places"],
    [
      "unorderd-write-read:a.ts",
      'there is no kind or check "unorderd-write-read"; did you mean "unordered-write-read"?',
    ],
    ["unordered:a.ts", 'there is no kind or check "unordered"'],
  ] as const;
  for (const [line, why] of refused) {
    const error = assertThrows(() => new Suppressions("known.txt", `# first\n${line}`), RangeError, why);
    assertStringIncludes(error.message, `Cannot use the suppression "${line}" in line 2 of "known.txt": `);
  }
});

test("POOLPASS_SANITIZE_SUPPRESS names a file", { long: true }, async () => {
  const run = async (text: string, path?: string) => {
    let result: { errors: string; ended: number | string; log: string } | undefined;
    await inFolder(async (folder) => {
      writeFileSync(`${folder}/known.txt`, text);
      const env = {
        POOLPASS_SANITIZE: "1",
        POOLPASS_SANITIZE_SUPPRESS: path ?? `${folder}/known.txt`,
        POOLPASS_SANITIZE_REPORT: `${folder}/log`,
        GITHUB_ACTIONS: "true",
      };
      await using child = startScript("children/sanitizer/report_in_ways.ts", ["dispose"], { env });
      const errors = (await child.errors()).replaceAll(folder, "FOLDER");
      result = { errors, ended: await child.ended, log: path === undefined ? readLog(folder) : "" };
    });
    return result!;
  };
  const known = await run("unordered-write-write:fillOnBoth\nleak:elsewhere.ts\n");
  assertEquals(known.ended, 0);
  const told = known.errors.split("\n").filter((line) => /poolpass|::/.test(line));
  assertEquals(told, [
    "poolpass sanitizer: suppressed: unordered-write-write:fillOnBoth (seen 3 times)",
    "poolpass sanitizer: 1 suppression of FOLDER/known.txt was not needed: leak:elsewhere.ts (line 2)",
  ]);
  assertEquals(JSON.parse(known.log).suppressed, [
    { suppression: "unordered-write-write:fillOnBoth", line: 1, count: 3 },
  ]);
  const wrong = await run("*:x.ts\nnonsense");
  assertEquals(wrong.ended, 1);
  assertStringIncludes(wrong.errors, 'Cannot use the suppression "nonsense" in line 2 of "FOLDER/known.txt"');
  const missing = await run("", "/nowhere/known.txt");
  assertEquals(missing.ended, 1);
  assertStringIncludes(
    missing.errors,
    'Cannot use POOLPASS_SANITIZE_SUPPRESS="/nowhere/known.txt": the file cannot be read: there is no such file',
  );
});

function readLog(folder: string): string {
  try {
    return readFileSync(`${folder}/log`, "utf8");
  } catch {
    return "{}";
  }
}
