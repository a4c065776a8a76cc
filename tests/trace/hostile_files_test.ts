import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, lstatSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import process from "node:process";
import { joinTraces } from "../../src/trace/joined_trace.ts";
import { readTrace } from "../../src/trace/read_trace.ts";
import { drawTrace } from "../../src/trace/trace_picture.ts";
import { traceByteLength, TraceRecorder } from "../../src/trace/trace_recorder.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";

/** Returns a trace whose ring has `length` records. Its clock counts. */
function traceOf(length: number, program: string, record: (recorder: TraceRecorder) => void): Uint8Array<ArrayBuffer> {
  const described = { pid: 7, thread: 0, runtime: "deno", driver: "software", began: 1, beganMonotonic: 2 };
  const bytes = new Uint8Array(traceByteLength(length));
  let time = 0;
  record(new TraceRecorder(bytes, length, { program, ...described }, () => ++time));
  return bytes;
}

const few = (recorder: TraceRecorder) => {
  const kind = recorder.kind({ name: "call", values: ["a"] });
  for (let index = 0; index < 5; index++) recorder.instant(kind, index);
};
const skip = process.platform === "win32" ? "there are no pipes with names" : false;

test(
  "a pipe, a device or a folder is neither read as a trace nor replaced by one",
  { skip },
  () =>
    inFolder(async (folder) => {
      const good = `${folder}/good.trace`;
      writeFileSync(good, traceOf(16, "p", few));
      const pipe = `${folder}/pipe`;
      assertEquals(spawnSync("mkfifo", [pipe]).status, 0);
      for (
        const [path, why] of [[pipe, "not a regular file"], ["/dev/zero", "not a regular file"], [folder, "a folder"]]
      ) {
        const { code, errors } = await poolpass("trace", good, path!, "-o", `${folder}/out.svg`);
        assertEquals(code, 1);
        assertMatch(errors, new RegExp(`^Cannot read .*: it is ${why}\n$`));
      }
      for (const path of [pipe, folder]) {
        const { code, errors } = await poolpass("trace", good, "-o", path);
        assertEquals([code, errors], [1, `Cannot write to "${path}": it is not a regular file\n`]);
      }
      assert(lstatSync(pipe).isFIFO());
      for (
        const [path, why] of [
          [`${folder}/none/out.svg`, /^Cannot write .*\/none\/out\.svg: there is no such folder\n$/],
          [
            `${folder}/../${folder.split("/").at(-1)}/good.trace`,
            /^Cannot replace .*good\.trace, which is to be joined; /,
          ],
        ] as const
      ) {
        const { code, errors } = await poolpass("trace", good, "-o", path);
        assert(code !== 0);
        assertMatch(errors, why);
      }
      assertEquals(readTrace("t", new Uint8Array(readFileSync(good))).events.length, 5);
      assertEquals(readdirSync(folder).sort(), ["good.trace", "pipe"]);
    }),
);

test("of a file of 4 GiB only the trace is read, and a file that only says so is refused", () =>
  inFolder(async (folder) => {
    const [long, forged, output] = [`${folder}/long`, `${folder}/forged`, `${folder}/out.svg`];
    // The ring has room for 64 MiB of records, and the first part is used.
    const bytes = traceOf(2 ** 20, "p", few);
    writeFileSync(long, bytes.subarray(0, 2 ** 21));
    truncateSync(long, 2 ** 32);
    const { code, output: printed } = await poolpass("trace", long, "-o", output);
    assertEquals([code, printed], [0, `5 events of 1 file are in ${output}\n`]);
    new DataView(bytes.buffer).setUint32(28, 2 ** 26 - 1, true);
    writeFileSync(forged, bytes.subarray(0, 2 ** 21));
    truncateSync(forged, 2 ** 33);
    const { errors } = await poolpass("trace", forged, "-o", `${folder}/other.svg`);
    assertEquals(errors, `Cannot read "${forged}" as a trace: it is larger than any trace\n`);
    assert(!existsSync(`${folder}/other.svg`));
  }));

test("names with any characters make an SVG that is well-formed", () => {
  const names = "\0\x1b[31m\ufffe\uffff\ud800<script>&\"'\u202e";
  const bytes = traceOf(16, `${names}.ts`, (recorder) => {
    recorder.instant(recorder.kind({ name: names, values: [names, "__proto__"] }), 1);
    recorder.instant(recorder.kind({ name: "connection lost", values: ["peer", "why"] }), 1, recorder.text(names));
  });
  const svg = drawTrace(joinTraces([readTrace("t", bytes)]).items);
  assertEquals(svg.isWellFormed() && /[^\t\n\x20-\x7e\u00a0-\ud7ff\ue000-\ufffd]|<script|\u202e/.exec(svg), null);
  assert(svg.includes("&#60;script"));
});

test("events that all belong together, or all overlap, are joined in time", () => {
  const waitCount = 2 ** 14;
  const waits = traceOf(waitCount, "p", (recorder) => {
    const kind = recorder.kind({ name: "wait for stream", values: ["stream"] });
    // Each one begins and ends after the one before it.
    for (let index = 0; index < waitCount; index++) {
      recorder.beginTimed(kind, 0, index, index + waitCount);
      recorder.end();
    }
  });
  const { items } = joinTraces([readTrace("t", waits)]);
  assert(items.length === waitCount + 1 && new Set(items.map(({ track }) => track.name)).size < 100);
  // More than a call can have arguments.
  const length = 2 ** 17;
  const queries = traceOf(length, "p", (recorder) => {
    recorder.instant(recorder.kind({ name: "eventRecord", values: ["event"] }), 1);
    const kind = recorder.kind({ name: "eventQuery", values: ["event"] });
    for (let index = 1; index < length; index++) recorder.instant(kind, 1);
  });
  const flows = joinTraces([readTrace("t", queries)]).items.map(({ flows }) => flows?.length ?? 0);
  assertEquals(flows.filter((count) => count === 1).length, length);
});

test("a picture has a limited number of rows, and says how many it lacks", () => {
  const length = 2000;
  const bytes = traceOf(length, "p", (recorder) => {
    const kind = recorder.kind({ name: "send frame", values: ["peer", "message"] });
    for (let index = 1; index <= length; index++) recorder.instant(kind, index, index);
  });
  const svg = drawTrace(joinTraces([readTrace("t", bytes)]).items);
  assert(svg.includes("1501 more rows are not drawn") && svg.length < 200_000, `${svg.length}`);
});
