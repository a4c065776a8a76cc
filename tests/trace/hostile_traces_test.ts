import { assert, assertEquals, assertThrows } from "@std/assert";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { headerPlaces, nameType, recordByteLength } from "../../src/trace/trace_format.ts";
import { endedTraces } from "../../src/trace/ended_traces.ts";
import { joinTraces } from "../../src/trace/joined_trace.ts";
import { encodePerfetto } from "../../src/trace/perfetto.ts";
import { drawTrace } from "../../src/trace/trace_picture.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { decodePerfetto } from "./decode_perfetto.ts";
import { NotATraceError, readTrace } from "../../src/trace/read_trace.ts";
import { traceByteLength, TraceRecorder } from "../../src/trace/trace_recorder.ts";

const length = 16;
const process = { pid: 7, thread: 0, runtime: "deno", program: "p", driver: "software", began: 1, beganMonotonic: 2 };

/** A recorder whose clock counts, and its bytes. */
function recorderOf(): { recorder: TraceRecorder; bytes: Uint8Array<ArrayBuffer> } {
  const bytes = new Uint8Array(traceByteLength(length));
  let time = 0;
  return { recorder: new TraceRecorder(bytes, length, process, () => time++), bytes };
}

/** A trace with some events. */
function someTrace(events: number): Uint8Array<ArrayBuffer> {
  const { recorder, bytes } = recorderOf();
  const kind = recorder.kind({ name: "call", values: ["a", "b"] });
  for (let index = 1; index <= events; index++) recorder.instant(kind, index, -index);
  return bytes;
}

test("an event that is being written is not an event, and those around it are", () => {
  const { recorder, bytes } = recorderOf();
  const kind = recorder.kind({ name: "call", values: ["a"] });
  for (let index = 1; index <= 20; index++) recorder.instant(kind, index);
  recorder.begin(kind, 0, 0);
  const { events, replaced } = readTrace("t", bytes);
  // Event 21 overwrites event 5.
  assertEquals(events.map(({ number }) => number), Array.from({ length: 15 }, (_, index) => index + 6));
  assertEquals(replaced, 4);
  // The newest three numbers, of which the last is being written.
  assertEquals(readTrace("t", bytes, { most: 3 }).events.map(({ number }) => number), [18, 19, 20]);
});

test("an empty name is none, and hides no name after it", () => {
  const { recorder, bytes } = recorderOf();
  recorder.range("", 0, false);
  recorder.range("next", 0, false);
  const { events, texts, namesLost } = readTrace("t", bytes);
  assertEquals(events.map(({ values }) => texts.get(values.name!)), [undefined, "next"]);
  assertEquals(namesLost, 0);
});

test("names for which there is no room are counted, and cost no event", async () => {
  const { recorder, bytes } = recorderOf();
  const kind = recorder.kind({ name: "call", values: ["text"] });
  let last = 0;
  for (let index = 0; index < 3000; index++) {
    const text = recorder.text(`${index} ${"é".repeat(400)}`);
    recorder.instant(kind, text);
    if (text !== 0) last = text;
  }
  assert(!recorder.name(nameType.kernel, 1, "x".repeat(1000)));
  // An event whose kind is new by then can be read.
  recorder.instant(recorder.kind({ name: "late", values: [] }));
  const { events, texts, namesLost } = readTrace("t", bytes);
  assertEquals([events.length, events.at(-1)!.name], [length, "late"]);
  assertEquals([texts.size, namesLost], [last, 3000 - last + 1]);
  await inFolder(async (folder) => {
    const file = `${folder}/full.trace`;
    writeFileSync(file, bytes);
    const { code, errors } = await poolpass("trace", file, "-o", `${folder}/out.svg`);
    assertEquals([code, errors], [0, `poolpass: Some names are missing: there was no more room in ${file}\n`]);
  });
});

test("what is not a trace is refused, with the reason", () => {
  const whole = someTrace(5);
  const cases: [reason: string, change: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>][] = [
    ["it has 0 bytes, and the header alone has 4096", () => new Uint8Array()],
    ['it does not begin with "pooltrac"', (bytes) => bytes.fill(0)],
    ["its ring is not within the file", (bytes) => bytes.slice(0, -1)],
    ["its table of names is not within the file", (bytes) => bytes.slice(0, headerPlaces.byteLength)],
    ["its version is 2, and this poolpass reads version 1", (bytes) => bytes.fill(2, headerPlaces.version, 9)],
    [
      "it is larger than any trace",
      (bytes) => bytes.fill(255, headerPlaces.ringLength, headerPlaces.ringLength + 4),
    ],
    ["it does not name its process", (bytes) => bytes.fill(0, headerPlaces.byteLength, headerPlaces.byteLength + 8)],
  ];
  for (const [reason, change] of cases) {
    const { message } = assertThrows(() => readTrace("a b", change(whole.slice())), NotATraceError);
    assertEquals(message, `Cannot read "a b" as a trace: ${reason}`);
  }
});

test("whatever bytes a trace has, reading ends with events that fit, or with a reason", () => {
  const whole = someTrace(40);
  let seed = 12345;
  const random = (limit: number): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * limit);
  };
  // The header, the names that are used, and the ring.
  const places = [[0, 64], [headerPlaces.byteLength, 300], [
    whole.length - length * recordByteLength,
    length * recordByteLength,
  ]];
  let refused = 0, read = 0;
  for (let round = 0; round < 300; round++) {
    const bytes = whole.slice();
    for (let change = random(8); change >= 0; change--) {
      const [offset, size] = places[random(places.length)]!;
      bytes[offset! + random(size!)] = random(4) === 0 ? 255 : random(256);
    }
    try {
      for (const { begin, duration, number } of readTrace("t", bytes).events) {
        assert(begin >= 0 && duration >= 0 && Number.isFinite(begin + duration) && number > 0);
      }
      read++;
    } catch (error) {
      assert(error instanceof NotATraceError, String(error));
      refused++;
    }
  }
  assert(read > 50 && refused > 50, `${read} read, ${refused} refused`);
});

test("whatever values events have, their traces are joined, encoded and drawn", () => {
  let seed = 99;
  const one = <Item>(items: readonly Item[]): Item => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return items[Math.floor(seed / 2 ** 32 * items.length)]!;
  };
  const names = [
    "kernel",
    "fill",
    "range",
    "wait for stream",
    "send offer",
    "receive offer",
    "send held",
    "send released",
    "receive frame",
    "send release-slot",
    "mallocFromPoolAsync",
    "freeAsync",
    "eventRecord",
    "streamWaitEvent",
    "launchKernel",
    "allReduce",
    "commRevoke",
    "connection lost",
    "close",
    "__proto__",
  ];
  const valueNames = [
    "name",
    "stream",
    "peer",
    "message",
    "subject",
    "address",
    "pool",
    "byteLength",
    "event",
    "kernel",
    "group",
    "collective",
    "lost",
    "why",
    "constructor",
  ];
  const numbers = [0, 1, 2, 7, -1, -0.5, 0.5, 2 ** 31, 2 ** 53 + 2, 2 ** 60, 1e300, -1e300, NaN, Infinity, -Infinity];
  for (let round = 0; round < 40; round++) {
    const { recorder, bytes } = recorderOf();
    for (let count = 0; count < length; count++) {
      const values = [one(valueNames), one(valueNames), one(valueNames), one(valueNames)];
      const handles = one([[], [0], [0, 1, 2, 3]]);
      const kind = recorder.kind({ name: `${one(names)}`, values, handles });
      const begin = one([0, 5, 1e15, 1e18, 1e300]);
      const at = recorder.beginTimed(
        kind,
        one([0, 3, 255]),
        begin,
        begin + one([0, 0.4, 100, 1e18]),
        one([true, false]),
      );
      for (let index = 0; index < 4; index++) recorder.values[at + index] = one(numbers);
      recorder.end();
      if (one([true, false, false])) {
        recorder.beginUnfinished(kind, 0, begin);
        recorder.end();
      }
    }
    recorder.text("text");
    const trace = readTrace("t", bytes);
    assert(trace.events.length > 0);
    const { items } = joinTraces([trace, trace]);
    const parts = [...encodePerfetto(items)];
    assert(decodePerfetto(parts[0]!).length >= items.length);
    assert(drawTrace(items).endsWith("</svg>\n"));
  }
});

test("an event that has not ended is read as such, and ends where it was written", () => {
  const { recorder, bytes } = recorderOf();
  const [waiting, kind] = ["wait", "call"].map((name) => recorder.kind({ name, values: ["a"] })) as [number, number];
  const begin = recorder.now();
  recorder.values[recorder.beginUnfinished(waiting, 0, begin)] = 5;
  recorder.end();
  const number = recorder.count;
  for (let index = 1; index < length; index++) recorder.instant(kind, index);
  const read = () => {
    const [first] = readTrace("t", bytes).events;
    return [first!.name, first!.values.a, first!.hasEnded, first!.duration > 0, first!.hasThrown];
  };
  assertEquals(read(), ["wait", 5, false, false, false]);
  assert(recorder.finish(number, begin, true));
  assertEquals(read(), ["wait", 5, true, true, true]);
  recorder.instant(kind, length);
  // The event that has replaced it stays as it is.
  assert(!recorder.finish(number, begin, false));
  const { events } = readTrace("t", bytes);
  assertEquals(events.map(({ name, duration }) => [name, duration]), Array(length).fill(["call", 0]));
});

test("a process that has closed a Cuda object and used another one has not closed CUDA", () => {
  const isClosed = (...names: string[]): boolean => {
    const { recorder, bytes } = recorderOf();
    for (const name of names) {
      recorder.instant(recorder.kind({ name, values: name.startsWith("send ") ? ["peer"] : ["address"] }));
    }
    return endedTraces([readTrace("t", bytes)])[0]!.isClosed;
  };
  assert(isClosed("freeAsync", "close", "send goodbye", "range"));
  assert(!isClosed("freeAsync", "close", "freeAsync"));
  assert(!isClosed("freeAsync"));
});
