import { assert, assertEquals, assertMatch } from "@std/assert";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { joinTraces } from "../../src/trace/joined_trace.ts";
import { encodePerfetto } from "../../src/trace/perfetto.ts";
import { readTrace } from "../../src/trace/read_trace.ts";
import { headerPlaces, recordByteLength, recordPlaces } from "../../src/trace/trace_format.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { type DecodedEvent, decodePerfetto } from "./decode_perfetto.ts";

const skip = shimRefusal();
const frames = 12;
const consumers = 2;

let recorded: Promise<ReadonlyMap<string, Uint8Array<ArrayBuffer>>> | undefined;

/** Returns the traces of a process and of two others to which it sends frames, by the names of their files. */
function recordedFrames(): Promise<ReadonlyMap<string, Uint8Array<ArrayBuffer>>> {
  return recorded ??= inFolder(async (folder) => {
    const env = {
      POOLPASS_DRIVER: "software",
      POOLPASS_TRACE: `${folder}/%p.trace`,
      POOLPASS_TRACE_EVENTS: "4096",
      NODE_NO_WARNINGS: "1",
    };
    const start = (name: string, args: readonly string[]) =>
      startScript(`../examples/${name}.ts`, [`${folder}/frames.sock`, ...args], {
        env,
        permissions: ["--allow-ffi", "--allow-env"],
      });
    await using producer = start("frame_producer", [`--consumers=${consumers}`, `--frames=${frames}`, "--bytes=4096"]);
    while (!existsSync(`${folder}/frames.sock`)) await new Promise((resolve) => setImmediate(resolve));
    await using readers = new AsyncDisposableStack();
    const ends = Array.from({ length: consumers }, () => {
      const reader = start("frame_consumer", []);
      readers.use(reader);
      return reader;
    });
    for (const child of [...ends, producer]) assertEquals(await child.ended, 0, await child.errors());
    const names = readdirSync(folder).filter((name) => name.endsWith(".trace"));
    return new Map(names.map((name) => [name, new Uint8Array(readFileSync(`${folder}/${name}`))]));
  });
}

/** Writes the traces to files in a folder. Returns their paths. */
async function writeTraces(folder: string): Promise<string[]> {
  return [...await recordedFrames()].map(([name, bytes]) => {
    writeFileSync(`${folder}/${name}`, bytes);
    return `${folder}/${name}`;
  });
}

/** Moves all events of a trace file to a later time. */
function delayRecords(bytes: Uint8Array<ArrayBuffer>, delay: number): void {
  const view = new DataView(bytes.buffer);
  for (let at = view.getUint32(headerPlaces.ringOffset, true); at < bytes.length; at += recordByteLength) {
    const begin = view.getFloat64(at + recordPlaces.begin, true);
    view.setFloat64(at + recordPlaces.begin, begin + delay, true);
  }
}

/** Whether slices of each track are one after another, or one within another. */
function areNested(events: readonly DecodedEvent[]): boolean {
  const open = new Map<string, number>();
  for (const { type, track } of events) {
    const key = track.join("\0");
    const depth = open.get(key) ?? 0;
    if (type === "begin") open.set(key, depth + 1);
    if (type === "end") open.set(key, depth - 1);
    if (type === "end" && depth === 0) return false;
  }
  return [...open.values()].every((depth) => depth === 0);
}

test("the traces of a producer and two consumers are one trace, where each frame passes from one to the others", {
  skip,
}, () =>
  inFolder(async (folder) => {
    const files = await writeTraces(folder);
    assertEquals(files.length, 1 + consumers);
    const output = `${folder}/frames.pftrace`;
    const { code, output: printed, errors } = await poolpass("trace", ...files, "-o", output);
    assertEquals([code, errors], [0, ""]);
    assertMatch(printed, /^[\d,]+ events of 3 files are in .*frames\.pftrace\n$/);
    const events = decodePerfetto(readFileSync(output));
    assert(areNested(events));
    assertEquals(events.map(({ time }) => time), events.map(({ time }) => time).toSorted((a, b) => Number(a - b)));
    const processes = new Set(events.map(({ track }) => track[0]!));
    assertEquals([...processes].map((name) => name.replace(/_[a-z]+\.ts.*| \d+$/, "")).sort(), [
      "frame",
      "frame",
      "frame",
    ]);
    // The work of a process that another one waits for is connected with that wait.
    const isOf = (role: string) => ({ track }: DecodedEvent) => track[0]!.startsWith(`frame_${role}.ts`);
    const records = events.filter(({ name }) => name === "eventRecord");
    const waits = events.filter(({ name }) => name === "eventQuery");
    for (const [from, to] of [["producer", "consumer"], ["consumer", "producer"]] as const) {
      const flows = new Set(records.filter(isOf(from)).flatMap(({ flows }) => flows));
      const waiting = new Set(
        waits.filter(isOf(to)).filter(({ flows: own }) => own.some((flow) => flows.has(flow))).map(({ track }) =>
          track[0]
        ),
      );
      assertEquals(waiting.size, to === "consumer" ? consumers : 1, `${from} to ${to}`);
    }
    // Each frame passes from the producer to each consumer, and never arrives before it was sent.
    const sent = events.filter(({ name }) => name === "send frame");
    assertEquals(sent.length, frames * consumers);
    for (let frame = 1; frame <= frames; frame++) {
      const held = events.filter(({ name }) => name === `frame ${frame}`);
      assertEquals(new Set(held.map(({ track }) => track[0])).size, consumers);
      for (const { flows, time, track } of held) {
        const [from] = sent.filter((event) => event.flows.some((flow) => flows.includes(flow)));
        assert(from !== undefined && from.time <= time && from.track[0] !== track[0], `frame ${frame}`);
      }
    }
    // The producer's kernel has written each of them, and its consumers have mapped what it offers.
    const kernels = events.filter(({ name, type, track }) => name === "fill" && type === "begin" && track.length === 2);
    assertEquals(kernels.filter(({ track }) => track[0]!.includes("producer")).length, frames);
    const leases = events.filter(({ name, track }) => name === "frames" && track[1]!.startsWith("leases of process"));
    assertEquals(leases.length, consumers);
    for (const { flows } of leases) {
      assert(
        events.some(({ name, flows: own }) => name === "receive offer" && own.some((flow) => flows.includes(flow))),
      );
    }
  }));

test("slices of the same time are one within another, also if their duration is 0", () => {
  const track = { name: "calls" };
  const items = [0, 0, 50, 100, 50].map((duration) => ({ track, begin: 100, duration, name: "slice" }));
  const before = [0, 20, 100].map((begin) => ({ track, begin, duration: 100 - begin, name: "slice" }));
  const [file] = encodePerfetto([...items, ...before]);
  const events = decodePerfetto(file!);
  assertEquals(events.length, 16);
  assert(areNested(events));
});

test(
  "clocks that differ are found by messages that arrive before they were sent",
  { skip },
  async () => {
    const recorded = [...await recordedFrames()];
    const traces = recorded.map(([name, bytes]) => readTrace(name, bytes));
    assertEquals(joinTraces(traces).mistakes, []);
    const [producer, ...others] = traces.toSorted((a, b) =>
      Number(b.process.program.includes("producer")) - Number(a.process.program.includes("producer"))
    );
    const late = new Map(recorded).get(producer!.file)!.slice();
    delayRecords(late, 60e9);
    const delayed = readTrace(producer!.file, late);
    const { mistakes } = joinTraces([delayed, ...others]);
    assertEquals(mistakes.length, consumers);
    // Of two threads of a process, nobody knows which of them another process means.
    assertEquals(joinTraces([producer!, delayed, ...others]).mistakes, []);
    for (const mistake of mistakes) {
      assertMatch(mistake, /^\d+ messages from \d+\.trace to \d+\.trace arrived before they were sent, by up to \d/);
    }
  },
);

test(
  "trace writes a picture with a row for each track, and nothing if a file is no trace",
  { skip },
  () =>
    inFolder(async (folder) => {
      const files = await writeTraces(folder);
      const output = `${folder}/frames.svg`;
      assertEquals((await poolpass("trace", ...files, "-o", output)).code, 0);
      const svg = readFileSync(output, "utf8");
      for (
        const row of ["frame_producer.ts", "frame_consumer.ts", "calls", "messages with process", "leases of process"]
      ) {
        assert(svg.includes(row), row);
      }
      assert((svg.match(/<rect /g) ?? []).length > 50 && svg.includes('<path class="f"') && svg.endsWith("</svg>\n"));
      writeFileSync(`${folder}/text`, "no trace\n");
      const { code, errors } = await poolpass("trace", ...files, `${folder}/text`, "-o", `${folder}/other.svg`);
      assertEquals([code, existsSync(`${folder}/other.svg`)], [1, false]);
      assertEquals(errors, `Cannot read "${folder}/text" as a trace: it has 9 bytes, and the header alone has 4096\n`);
      for (const [path, why] of [[folder, "it is a folder"], [`${folder}/none`, "there is no such file"]] as const) {
        assertEquals((await poolpass("trace", path, "-o", output)).errors, `Cannot read ${path}: ${why}\n`);
      }
      assertMatch((await poolpass("trace", ...files)).errors, /^Name the trace to write: -o OUT; /);
      assertMatch((await poolpass("trace", "-o", output)).errors, /^Name the files that processes have recorded; /);
    }),
);
