import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { readTrace, type Trace } from "../../src/trace/read_trace.ts";
import { recordsWithWaits } from "../../src/trace/recorded_events.ts";
import { nameType } from "../../src/trace/trace_format.ts";
import { traceByteLength, TraceRecorder } from "../../src/trace/trace_recorder.ts";

/** What a call does to an event: its name, the event, and of a sharing also the number that all processes have. */
type Step = [call: string, event: number, shared?: number];

let time = 0;

/** A process that makes some calls. All processes of a test have one clock. */
class Process {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #recorder: TraceRecorder;

  constructor(pid: number, length = 100) {
    const described = { thread: 0, runtime: "deno", program: "p", driver: "software", began: 1, beganMonotonic: 2 };
    this.#bytes = new Uint8Array(traceByteLength(length));
    this.#recorder = new TraceRecorder(this.#bytes, length, { pid, ...described }, () => ++time);
  }

  do(...steps: readonly Step[]): void {
    for (const [call, event, shared = 0] of steps) {
      const name = call === "get" || call === "open" ? `ipc${call === "get" ? "Get" : "Open"}EventHandle` : call;
      if (name !== call) this.#recorder.name(nameType.event, event, String(shared));
      this.#recorder.instant(this.#recorder.kind({ name, values: ["event", "handle"] }), event, shared);
    }
  }

  get trace(): Trace {
    return readTrace("t", this.#bytes);
  }
}

/** Returns the found records and waits, as the times of their events. */
function timesOf(...processes: readonly Process[]): number[][] {
  const found = recordsWithWaits(processes.map(({ trace }) => trace));
  return found.map((events) => events.map(({ begin }) => begin)).sort(([a], [b]) => a! - b!);
}

test("a record is followed by the waits until the next record, in its process and in others", () => {
  const [one, other] = [new Process(1), new Process(2)];
  time = 0;
  one.do(["eventCreateWithFlags", 7], ["eventRecord", 7], ["get", 7, 99]);
  other.do(["open", 7, 99], ["eventQuery", 7], ["streamWaitEvent", 7]);
  one.do(["eventSynchronize", 7], ["eventRecord", 7], ["eventRecord", 7], ["wait for event", 7]);
  other.do(["eventRecord", 8], ["eventSynchronize", 8], ["eventQuery", 7]);
  assertEquals(timesOf(one, other), [[2, 5, 6, 7], [9, 10, 13], [11, 12]]);
});

test("an event whose handle another one has had before is not that one", () => {
  const [one, other] = [new Process(1), new Process(2)];
  time = 0;
  one.do(["eventCreateWithFlags", 7], ["get", 7, 99], ["eventRecord", 7]);
  one.do(["eventCreateWithFlags", 7], ["eventRecord", 7], ["eventQuery", 7]);
  other.do(["open", 3, 99], ["eventQuery", 3], ["open", 3, 98], ["eventQuery", 3]);
  assertEquals(timesOf(one, other), [[3, 8], [5, 6]]);
});

test("events are connected although newer ones have replaced those that have shared them", () => {
  const [one, other] = [new Process(1, 2), new Process(2, 2)];
  time = 0;
  one.do(["eventCreateWithFlags", 7], ["get", 7, 99], ["eventRecord", 7]);
  other.do(["open", 3, 99], ["eventRecord", 4], ["eventQuery", 3]);
  assertEquals(timesOf(one, other), [[3, 6]]);
});
