/**
 * Records in messages.md what tsc says to each call of refused.ts: deno run -A tests/types/record.ts
 *
 * With `--check`, it only compares, and exits with 1 if a message differs.
 *
 * @module
 */
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { checkWithTsc, errorsOfCalls, formatRefusal, refusedCalls } from "./refusals.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["check"]);
const output = new URL("messages.md", import.meta.url);
const calls = refusedCalls();
const errors = errorsOfCalls(calls, checkWithTsc());
const cases = calls.map((call, index) =>
  `### ${call.name}\n\n\`\`\`text\n${formatRefusal(call, errors[index]!)}\n\`\`\`\n`
);
const text = `# ${calls.length} calls that do not compile

Written by \`deno run -A tests/types/record.ts\` from \`refused.ts\`, with the words of tsc 7.0.2. \`fixture.ts\` declares what
the calls use.

${cases.join("\n")}`;
if (!process.argv.includes("--check")) {
  writeFileSync(output, text);
} else if (readFileSync(output, "utf8") !== text) {
  console.error("tests/types/messages.md differs from what tsc says: run `deno run -A tests/types/record.ts`");
  process.exitCode = 1;
} else {
  console.log(`tsc refuses ${calls.length} calls, each with its message`);
}
