import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { open } from "../../mod.ts";
import type { Driver } from "../../src/driver.ts";
import { type DriverMethod, intercept } from "../../src/driver_layers.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import { joinTraces } from "../../src/trace/joined_trace.ts";
import { readTrace, type TraceEvent } from "../../src/trace/read_trace.ts";
import { WorkTimes } from "../../src/trace/work_times.ts";
import { driversUnderTest, tooFewDevices } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { countHandles } from "../support/handle_balance.ts";
import { test } from "../support/test.ts";
import { makeRecorder, recordWork, stampPtx } from "./recorded_work.ts";

/** How long a kernel runs. */
const nanoseconds = 200_000;
/** The resolution of `%globaltimer` on a GPU, and of events. */
const resolution = 2_000;

for (const driver of driversUnderTest) {
  const options = { skip: driver.skip };

  test(`the recorded time of a kernel contains the time at which it ran [${driver.name}]`, options, async () => {
    const stamps: bigint[] = [];
    const { trace, work, exact } = await recordWork(driver.open(), async (cuda: Cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using module = gpu.loadModule(stampPtx);
      using out = pool.allocate(16, stream);
      for (let round = 0; round < 3; round++) {
        module.kernel("stamp").launch({ grid: 1, block: 1, stream }, out, BigInt(nanoseconds));
        stamps.push(...await out.read(BigUint64Array, { stream }));
      }
    });
    const kernels = work.filter(({ name }) => name === "kernel");
    assertEquals(kernels.map(({ values }) => trace.texts.get(values.name!)), ["stamp", "stamp", "stamp"]);
    const launches = trace.events.filter(({ name }) => name === "launchKernel");
    for (const [index, { begin, duration, values }] of kernels.entries()) {
      const [first, last] = [stamps[2 * index]!, stamps[2 * index + 1]!];
      assert(last - first >= BigInt(nanoseconds));
      assert(duration >= Number(last - first) - resolution, `${duration} of ${last - first} ns`);
      const launch = launches[index]!;
      assertEquals([launch.values.stream, values.error! > 0], [values.stream, true]);
      const early = launch.begin - (begin + duration);
      assert(early <= values.error!, `${early} ns before the launch`);
      // The distance of two kernels is known by the same clock.
      const { begin: origin, values: { error } } = kernels[0]!;
      const distance = Number(first - stamps[0]!);
      const most = values.error! + error! + resolution + duration - nanoseconds;
      assert(Math.abs(begin - origin - distance) <= most + kernels[0]!.duration - nanoseconds);
      const span = exact[index];
      if (span === undefined) continue;
      assert(begin - values.error! <= span.begin && begin + duration + values.error! >= span.begin + span.duration);
    }
  });
}

for (const driver of driversUnderTest) {
  const options = { skip: driver.skip };

  test(`copies, fills and graphs have times, in the order of their stream [${driver.name}]`, options, async () => {
    const { trace, work } = await recordWork(driver.open(), async (cuda: Cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using other = gpu.createStream();
      using pool = gpu.createPool();
      using module = gpu.loadModule(stampPtx);
      using out = pool.allocate(2 ** 20, stream);
      await stream.finished();
      for (const each of [stream, other]) {
        out.fill(1, { stream: each });
        out.copyFrom(new Uint8Array(1000), { stream: each });
        await each.finished();
      }
      using graph = stream.capture(() => {
        out.fill(2, { stream });
        module.kernel("stamp").launch({ grid: 1, block: 1, stream }, out, 1000n);
      });
      using exec = graph.instantiate();
      exec.launch(stream);
      exec.launch(stream);
      await stream.finished();
    });
    const names = work.map(({ name, values }) => `${name}: ${trace.texts.get(values.name!)}`);
    const both = ["fill: memsetAsync", "copy: memcpyHtoDAsync"];
    const graph = "graph: graphLaunch";
    assertEquals(names, [...both, ...both, graph, graph]);
    const streams = Map.groupBy(work, ({ values }) => values.stream!);
    assertEquals([...streams.values()].map(({ length }) => length), [4, 2]);
    assert([...streams.values()].every(areApart));
    const rows = joinTraces([trace]).items.filter(({ track }) => track.name.startsWith("device 0, stream "));
    assertEquals(rows.map(({ name, category }) => `${category}: ${name}`), names);
    assertEquals(new Set(rows.map(({ track }) => track)).size, 2);
  });

  test(`a capture contains no event, and is not invalidated [${driver.name}]`, options, async () => {
    const { work } = await recordWork(driver.open(), async (cuda: Cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using other = gpu.createStream();
      using pool = gpu.createPool();
      using out = pool.allocate(64, stream);
      using graph = stream.capture(() => {
        out.fill(1, { stream });
        // Collects the times of the other stream meanwhile.
        for (let round = 0; round < 200; round++) out.fill(2, { stream: other });
      }, { mode: "global" });
      assertEquals(graph.nodes.length, 1);
      await other.finished();
    });
    assertEquals(work.length, 200);
  });

  const two = { skip: driver.skip || tooFewDevices(driver, 2) };
  test(`the devices of a program have clocks and events of their own [${driver.name}]`, two, async () => {
    const { work } = await recordWork(driver.open(), async (cuda) => {
      using stack = new DisposableStack();
      const used = cuda.devices.slice(0, 2).map((gpu) => {
        const stream = stack.use(gpu.createStream());
        return { stream, buffer: stack.use(stack.use(gpu.createPool()).allocate(64, stream)) };
      });
      for (const { stream, buffer } of used) {
        buffer.fill(1, { stream });
        await stream.finished();
      }
      const [first, second] = used;
      second!.buffer.copyFrom(first!.buffer, { stream: second!.stream });
      await second!.stream.finished();
    });
    assertEquals(work.map(({ name, device }) => `${name} ${device}`), ["fill 0", "fill 1", "copy 1"]);
    const errors = work.map(({ values }) => values.error!);
    // They ran one after the other, by the clock of the host.
    for (const [index, { begin }] of work.entries()) {
      const before = work[index - 1];
      if (before === undefined) continue;
      const overlap = before.begin + before.duration - begin;
      assert(overlap <= errors[index]! + errors[index - 1]!, `${overlap} ns`);
    }
  });

  test(`a trace without times has none [${driver.name}]`, options, () =>
    inFolder(async (folder) => {
      const file = `${folder}/file.trace`;
      const kind = driver.name === "software" ? "software" : "cuda";
      for (const traceKernels of [false, true]) {
        {
          using cuda = open({ driver: kind, trace: `${file}.${traceKernels}`, traceKernels });
          using stream = cuda.device(0).createStream();
          using pool = cuda.device(0).createPool();
          using buffer = pool.allocate(64, stream);
          buffer.fill(1, { stream });
          await stream.finished();
        }
        const { events } = readTrace(file, new Uint8Array(readFileSync(`${file}.${traceKernels}`)));
        assertEquals(events.filter(({ name }) => name === "fill").length, traceKernels ? 1 : 0);
      }
    }));
}

/** Whether each event begins when the one before it has ended, or later. */
function areApart(events: readonly TraceEvent[]): boolean {
  return events.every(({ begin }, index) => {
    const { begin: last, duration } = events[index - 1] ?? { begin: 0, duration: 0 };
    return last + duration <= begin;
  });
}

/** Fills a buffer many times without waiting. */
function fillOften(count: number): (cuda: Cuda) => Promise<void> {
  return async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(64, stream);
    for (let round = 0; round < count; round++) buffer.fill(round % 256, { stream });
    assertEquals((await buffer.read(Uint8Array, { stream }))[0], (count - 1) % 256);
  };
}

const software = driversUnderTest[0]!;

test("what exceeds the events is counted and not timed, and all events are destroyed", async () => {
  const counting = countHandles(software.open());
  const { trace, work } = await recordWork(counting.driver, fillOften(4100));
  // The copy to the host comes last.
  assertEquals(work.map(({ name }) => name), Array.from({ length: 4096 }, () => "fill"));
  assertEquals(trace.events.filter(({ name }) => name === "untimed work").map(({ values }) => values.count), [5]);
  assertEquals(counting.open, {});
});

test("a program runs whatever call of its events fails, and all that exists is destroyed", async () => {
  const failingCalls = [
    "eventCreateWithFlags",
    "eventRecord",
    "eventQuery",
    "eventElapsedTime",
    "streamIsCapturing",
    "threadExchangeStreamCaptureMode",
    "deviceGetStreamPriorityRange",
    "streamCreateWithPriority",
    "eventDestroy",
  ] as const;
  for (const name of failingCalls) {
    for (const last of [0, 1, 4]) {
      const driver = software.open();
      const counting = countHandles(driver);
      let count = 0;
      // Only the calls for the times fail.
      const failing = intercept(counting.driver, {
        [name]: (...args: unknown[]) => {
          if (count++ === last) throw new Error("It fails");
          return (counting.driver[name] as DriverMethod)(...args);
        },
      });
      await recordWork(counting.driver, fillOften(10), failing);
      if (name !== "eventDestroy") assertEquals(counting.open, {}, `${name} ${last}`);
    }
  }
});

test("an operation begins after the call that enqueues it, although the event before it is older", async () => {
  const driver = software.open();
  const measuring = intercept(driver, {
    eventElapsedTime: (begin, end) => driver.eventElapsedTime(begin, end) - 60_000,
  });
  const { trace, work } = await recordWork(driver, fillOften(1), measuring);
  for (const { begin, values } of work) assert(begin >= trace.process.beganMonotonic - values.error!);
});

test("operations of a stream do not overlap, however inexact their times are", async () => {
  const driver = software.open();
  // The times of a GPU have a resolution, too.
  const measuring = intercept(driver, {
    eventElapsedTime: (begin, end) => Math.ceil(driver.eventElapsedTime(begin, end) / 0.1) * 0.1,
  });
  const { work } = await recordWork(driver, fillOften(300), measuring);
  assert(work.length === 301 && areApart(work));
});

test("a call that fails has no time, and its events are used again", async () => {
  const base = software.open();
  const counting = countHandles(base);
  let isFailing = true;
  const driver = intercept(counting.driver, {
    memsetAsync: (...args) => {
      isFailing = !isFailing;
      if (isFailing) throw new Error("It fails");
      base.memsetAsync(...args);
    },
  });
  const { work } = await recordWork(driver, async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using buffer = pool.allocate(64, stream);
    for (let round = 0; round < 10; round++) {
      buffer.fill(1, { stream });
      assertThrows(() => buffer.fill(1, { stream }), Error, "It fails");
      await stream.finished();
    }
  });
  assertEquals(work.length, 10);
  // Two events of the only pair, four of the clock, and those of the library.
  const created = counting.calls.filter((name) => name === "eventCreateWithFlags").length;
  assert(created < 10, `${created} events`);
});

test("a stream with the handle of a destroyed one has times of its own", () => {
  const complete = new Set<bigint>();
  const recorded: bigint[] = [];
  let handles = 100n;
  const calls: Partial<Driver> = {
    runsOnHost: true,
    deviceGetStreamPriorityRange: () => ({ least: 0, greatest: 0 }),
    streamCreateWithPriority: () => handles++,
    streamDestroy: () => {},
    streamIsCapturing: () => false,
    threadExchangeStreamCaptureMode: () => 0,
    eventCreateWithFlags: () => handles++,
    eventDestroy: () => {},
    eventRecord(_, event, stream) {
      if (stream === 5n) recorded.push(event);
      else complete.add(event);
    },
    eventQuery: (event) => complete.has(event),
    eventElapsedTime(...events) {
      assert(events.every((event) => complete.has(event)), "An event is not complete");
      return 1;
    },
  };
  const { recorder, bytes } = makeRecorder();
  const times = new WorkTimes(calls as Driver, recorder);
  const [fill, destroy] = [times.wrap("memsetAsync", () => {}), times.wrap("streamDestroy", () => {})];
  const count = (): number => readTrace("t", bytes).events.length;
  fill(0, 1n, 0, 64, 5n);
  fill(0, 1n, 0, 64, 5n);
  destroy(0, 5n);
  fill(0, 1n, 0, 64, 5n);
  // The newer stream ends first.
  for (const event of recorded.slice(4)) complete.add(event);
  times.collect();
  assertEquals(count(), 1);
  for (const event of recorded) complete.add(event);
  times.close();
  assertEquals(count(), 3);
});
