import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { acceptedCalls, checkWithDeno, errorsOfCalls, formatRefusal, refusedCalls } from "./refusals.ts";
import { test } from "../support/test.ts";

const withoutDeno = "Deno" in globalThis ? false : "only Deno checks types";

/** What messages.md has for each call, by the call's name. */
const recorded = new Map(
  readFileSync(new URL("messages.md", import.meta.url), "utf8").split(/^### /m).slice(1).map((section) => {
    const [, name, refusal] = /^(.+)\n\n```text\n([^]+?)\n```\n$/.exec(section.trimEnd() + "\n")!;
    return [name!, refusal!];
  }),
);

test("messages.md has a message of each call that must not compile", () => {
  const calls = refusedCalls();
  assert(calls.length >= 40 && acceptedCalls().length >= 20, "Calls were found");
  assertEquals([...recorded.keys()], calls.map(({ name }) => name));
  for (const { name, code } of calls) assert(recorded.get(name)!.startsWith(code.split("\n")[0]!), name);
});

test("Deno says to each call what tsc says", { skip: withoutDeno, long: true }, () => {
  const calls = refusedCalls();
  const errors = errorsOfCalls(calls, checkWithDeno());
  // The first line of a message is the same; what explains it differs between versions of the compiler.
  // So do the order of a union's types, which depends on the order of modules, and the place where no overload matches.
  const comparable = (text: string) =>
    firstLines(text).replaceAll(/'[^']*'/g, (type) => type.slice(1, -1).split(" | ").sort().join(" | "))
      .replace(/\n *\^(?=\nTS2769: )/, "");
  const seen = calls.map((call, index) => comparable(formatRefusal(call, errors[index]!)));
  assertEquals(seen, [...recorded.values()].map(comparable));
});

test("a call that compiles is noticed, and so is an error outside the calls", () => {
  const call = { name: "a call", code: "launch(\n  1,\n);", line: 10 };
  const error = { file: "refused.ts", line: 11, column: 3, code: "TS2345", message: "No\n  because" };
  assertEquals(errorsOfCalls([call], [error]), [error]);
  assertEquals(formatRefusal(call, error), "launch(\n  1,\n  ^\n);\nTS2345: No\n  because");
  assertThrows(() => errorsOfCalls([call], []), Error, 'Cannot see one error in "a call", but 0');
  assertThrows(() => errorsOfCalls([call], [error, error]), Error, "but 2");
  assertThrows(() => errorsOfCalls([call], [error, { ...error, line: 13 }]), Error, "Cannot see the calls of");
});

/** A refusal without what explains the first line of its message. */
function firstLines(refusal: string): string {
  return refusal.replace(/^(TS\d+: .*)[^]*/m, "$1");
}
