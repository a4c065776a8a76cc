import { assert, assertEquals, assertMatch } from "@std/assert";
import { actionsOf } from "../../cli/top/keys.ts";
import { jsonOf, linesOf } from "../../cli/top/lines.ts";
import type { Rates } from "../../cli/top/sampler.ts";
import { initialState, viewOf, type ViewState } from "../../cli/top/view.ts";
import type { ListenerStatus } from "../../mod.ts";
import { poolpass, startPoolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { patience, sharedFramesTest, until } from "./shared_frames.ts";
import { exporterStatus, now, sampleWith, storeStatus } from "./statuses.ts";

sharedFramesTest("top prints samples, goes on when the exporter dies, and ends when interrupted", async (frames) => {
  const { path, exporter, start } = frames;
  const consumer = await start("consume");
  const top = startPoolpass("top", path, "--interval", "0.1");
  const line =
    /^\S+Z {2}channel {2}"frames" {2}4\.0 MiB {2}([\d.]+) frames\/s {2}\S+ MiB\/s {2}0\.0 dropped\/s {2}lag \d+ {2}held by (\d+) \(held\)$/m;
  await until(() => line.test(top.output) && Number(line.exec(top.output)![1]) > 0, () => top.output + top.errors);
  assertEquals(line.exec(top.output)![2], String(consumer.pid));
  exporter.kill("SIGKILL");
  await until(() => /peer-gone|has ended|nothing listens/.test(top.errors), () => top.errors);
  assertMatch(top.errors, /^Cannot .*; trying again$/m);
  const before = top.output.length;
  await start("export");
  await until(() => top.output.length > before, () => top.errors);
  top.interrupt();
  const { code, errors } = await top.ended;
  assertEquals(code, 0);
  assert(errors.split("\n").length < 6, errors);
});

sharedFramesTest("top --json prints an object a line, --count of them", async ({ path, start }) => {
  await start("consume");
  const since = performance.now();
  const { code, output, errors } = await poolpass("top", path, "--json", "--interval", "0.2", "--count", "3");
  assertEquals([code, errors], [0, ""]);
  assert(performance.now() - since < patience);
  const samples = output.trimEnd().split("\n").map((text) =>
    JSON.parse(text) as { time: number; status: ListenerStatus; rates: Record<string, Rates> }
  );
  assertEquals(samples.map(({ status: { kind } }) => kind), ["exporter", "exporter", "exporter"]);
  assertEquals(samples.map(({ rates }) => Object.keys(rates)), [[], ["frames", "camera"], ["frames", "camera"]]);
  assert(samples[0]!.time < samples[1]!.time && samples[1]!.time < samples[2]!.time);
  const { framesPerSecond, bytesPerSecond } = samples[2]!.rates.frames!;
  assert(framesPerSecond > 0 && bytesPerSecond === framesPerSecond * 2 ** 20);
}, { long: true });

test("top names what is wrong with its arguments, and a path at which nobody listens", async () => {
  const lists = "poolpass top --help lists the options";
  for (const interval of ["0", "-1", "fast", "1e3", "0.01"]) {
    const { errors } = await poolpass("top", "a", `--interval=${interval}`);
    assertEquals(errors, `The option --interval is "${interval}", and must be a number of at least 0.1; ${lists}\n`);
  }
  const { code, errors } = await poolpass("top", "/tmp/there is none");
  assertEquals([code, errors], [
    1,
    "Cannot connect to /tmp/there is none: there is no such file; start the process that listens there, or correct " +
    "the path\n",
  ]);
});

const rates: Rates = { framesPerSecond: 59.94, bytesPerSecond: 59.94 * 2 ** 20, droppedPerSecond: 0.5 };

const sampleOf = (status: ListenerStatus) => sampleWith(rates, status);

function screenOf(
  state: Partial<ViewState> = {},
  { rows = 24, columns = 200, problem = undefined as string | undefined } = {},
) {
  const parts = { path: "/run/frames.sock", sample: sampleOf(exporterStatus()), problem, columns, rows };
  const view = viewOf({ ...parts, state: { ...initialState, ...state } });
  return { ...view, texts: view.lines.map(({ text }) => text) };
}

/** The names of the rows, in order. */
function namesIn(texts: readonly string[]): string[] {
  return texts.flatMap((text) => /^(weights|frames|\\x1b\[31mold)\b/.exec(text)?.[1] ?? []);
}

test("the screen has totals, rates, and as many lines as the terminal", () => {
  const { lines, texts } = screenOf();
  assertEquals(lines.length, 24);
  assertEquals(texts.slice(0, 3), [
    "Exporter at /run/frames.sock: a process elsewhere, poolpass 0.1.0, since 2 h",
    "2 offers, 4.0 MiB, 1 withdrawn and held; 2 importers, 1 lingering, 1 operator; held 4.0 MiB, quarantined 1.0 KiB",
    "59.9 frames/s, 59.9 MiB/s; 0.5 dropped/s; largest lag 3",
  ]);
  assertEquals(lines.map(({ isHeading }) => isHeading ?? false).indexOf(true), 4);
  assertMatch(texts[5]!, /^frames +channel +4\.0 MiB +60 min ago +59\.9 +59\.9 MiB +0\.5 +3$/);
  assertMatch(texts[6]!, /^ +59\.9 +0\.5 +3 +102 +1000 +held, 2 frames +90 s ago$/);
  assertEquals(screenOf({}, { problem: "Gone" }).texts[3], "Trying again: Gone");
  for (const rows of [1, 5, 9]) assertEquals(screenOf({}, { rows }).lines.length, rows);
  assert(screenOf({}, { columns: 20 }).texts.every((text) => text.length <= 20));
});

test("keys sort, reverse, hide holders and scroll", () => {
  const after = (keys: string) =>
    actionsOf(keys).reduce(
      (state, action) => (action as never as (state: ViewState, page: number) => ViewState)(state, 3),
      initialState,
    );
  assertEquals(namesIn(screenOf(after("b")).texts), ["frames", "weights", "\\x1b[31mold"]);
  assertEquals(namesIn(screenOf(after("br")).texts), ["\\x1b[31mold", "weights", "frames"]);
  assertEquals(namesIn(screenOf(after("n")).texts), ["\\x1b[31mold", "frames", "weights"]);
  for (const key of "fdl") assertEquals(namesIn(screenOf(after(key)).texts)[0], "frames");
  assertMatch(screenOf(after("h")).texts[6]!, /^weights +buffer +1\.0 KiB +60 min ago +2 holders$/);
  // Seven lines of the table, of which three fit.
  const small = { rows: 9 };
  assertMatch(screenOf(after(""), small).texts.at(-1)!, /^lines 1 to 3 of 6 {2}q quit/);
  assertMatch(screenOf(after("\x1b[B\x1b[B\x1b[A"), small).texts.at(-1)!, /^lines 2 to 4 of 6/);
  assertMatch(screenOf(after("\x1b[6~\x1bOF"), small).texts.at(-1)!, /^lines 4 to 6 of 6/);
  assertEquals(screenOf(after("\x1b[F"), small).state.scroll, 3, "scrolling back begins at once");
  assertMatch(screenOf(after("G\x1b[5~"), small).texts.at(-1)!, /^lines 4 to 6 of 6/);
  assertMatch(screenOf(after("Gg"), small).texts.at(-1)!, /^lines 1 to 3 of 6/);
  assertEquals(["q", "\x03", "\x1a", "x\x1b[99~é"].map(actionsOf), [["quit"], ["quit"], ["suspend"], []]);
});

test("without a terminal, each line says of what and when it is", () => {
  assertEquals(linesOf(sampleOf(exporterStatus())), [
    '2026-11-24T12:00:00.000Z  pool  "\\\\x1b[31mold\\\\x0a"  withdrawn  held by nobody',
    '2026-11-24T12:00:00.000Z  channel  "frames"  4.0 MiB  59.9 frames/s  59.9 MiB/s  0.5 dropped/s  lag 3  held by 102 (held)',
    '2026-11-24T12:00:00.000Z  buffer  "weights"  1.0 KiB  held by 101 (held 2 times) 0 (quarantined)',
  ]);
  assertEquals(
    linesOf(sampleOf(storeStatus))[1],
    '2026-11-24T12:00:00.000Z  entry  "llama/漢字"  generation 1  1.0 GiB  replaced  held by 202 (reads) 203 (reads)',
  );
  assertEquals(JSON.parse(jsonOf(sampleOf(exporterStatus()))), {
    time: now,
    status: exporterStatus(),
    rates: { frames: rates },
  });
});
