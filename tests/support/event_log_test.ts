import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { EventLog } from "../../src/support/event_log.ts";

/** A log whose lines are kept. `accepts` says whether the next line is written. */
function logTo(lines: string[], accepts: () => boolean = () => true): EventLog {
  return new EventLog({
    processId: 7,
    write(line) {
      if (!accepts()) return false;
      lines.push(line);
      return true;
    },
  });
}

test("a flood of one event is cut short, what was left out is counted, and other events are logged", async () => {
  const lines: string[] = [];
  const log = logTo(lines);
  const floods = 2000;
  const start = performance.now();
  for (let count = 0; count < floods; count++) log.add("refuse", { peer: count });
  const seconds = (performance.now() - start) / 1000;
  assert(lines.length >= 100 && lines.length <= 101 + 10 * seconds, `${lines.length} lines in ${seconds} s`);
  const written = lines.length;
  log.add("connect", { peer: 1 });
  assert(lines.at(-1)!.endsWith("poolpass[7] connect peer=1\n"), lines.at(-1));
  // The report comes by a timer that does not keep the process alive.
  const deadline = performance.now() + 20_000;
  while (!lines.at(-1)!.includes("suppressed") && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert(lines.at(-1)!.endsWith(`poolpass[7] refuse suppressed=${floods - written}\n`), lines.at(-1));
  // A second later there is room for ten again.
  log.add("refuse", { peer: 2 });
  assert(lines.at(-1)!.endsWith("refuse peer=2\n"), lines.at(-1));
});

test("lines that the output drops are counted in the next one that it takes", () => {
  const lines: string[] = [];
  let accepts = false;
  const log = logTo(lines, () => accepts);
  for (let count = 0; count < 3; count++) log.add("offer", { name: "weights" });
  accepts = true;
  for (let count = 0; count < 2; count++) log.add("offer", { name: "weights" });
  assertEquals(lines.map((line) => line.split("] ")[1]), [
    "offer name=weights lost=3\n",
    "offer name=weights\n",
  ]);
});

test("a line is one line, and short enough for one write to a pipe", () => {
  const lines: string[] = [];
  const log = logTo(lines);
  for (const character of ["\n", "\x1b", "\u202e", '"', "\\", "…", "\u{1f600}", "\ud800", " ", "x"]) {
    const value = character.repeat(5000);
    log.add("refuse", { path: value, name: value, error: value, code: value, peer: 2 ** 32, uid: 2 ** 32 });
  }
  for (const line of lines) {
    assert(new TextEncoder().encode(line).length <= 4096, `${line.length} characters`);
    // deno-lint-ignore no-control-regex
    assert(/^[^\x00-\x1f\x7f-\x9f\u2028-\u202e]*\n$/.test(line), line);
  }
  log.add("refuse", { a: "plain-1.0/x:y@z", b: "", c: "a b", d: 'say "\\"', e: undefined, f: -1.5 });
  assert(lines.at(-1)!.endsWith(String.raw`a=plain-1.0/x:y@z b="" c="a b" d="say \"\\\"" f=-1.5` + "\n"), lines.at(-1));
});
