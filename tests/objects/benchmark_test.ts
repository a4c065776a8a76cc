/** GPU times of work, and the profiler. */
import { assert, assertEquals, assertInstanceOf, assertRejects, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import type { BenchmarkResult, CudaStream } from "../../mod.ts";
import type { Driver } from "../../src/driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { adaptedDriver } from "../support/adapted_driver.ts";
import { isSanitized, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** A driver on which the runs of a benchmark take the times that `durations` gives, in milliseconds. */
class ClockedDriver {
  readonly driver: Driver;
  readonly events = new Set<bigint>();
  durations: (run: number) => number = () => 1;
  readonly #times = new Map<bigint, number>();
  #now = 0;
  #records = 0;

  constructor() {
    const driver = new SoftwareDriver({ devices: 1, peers: false });
    this.driver = adaptedDriver(driver, {
      eventCreateWithFlags: (device, flags) => {
        const event = driver.eventCreateWithFlags(device, flags);
        this.events.add(event);
        return event;
      },
      eventDestroy: (device, event) => {
        driver.eventDestroy(device, event);
        this.events.delete(event);
      },
      eventRecord: (device, event, stream) => {
        driver.eventRecord(device, event, stream);
        // Every second record is at the end of a run.
        if (this.#records++ % 2 === 1) this.#now += this.durations((this.#records >> 1) - 1);
        this.#times.set(event, this.#now);
      },
      eventElapsedTime: (start, end) => {
        driver.eventElapsedTime(start, end);
        return this.#times.get(end)! - this.#times.get(start)!;
      },
    });
  }
}

function ordered({ minimum, lowerQuartile, median, upperQuartile, maximum }: BenchmarkResult): boolean {
  const values = [minimum, lowerQuartile, median, upperQuartile, maximum];
  return values.every((value, index) => value >= 0 && (index === 0 || value >= values[index - 1]!));
}

testOnEachDriver("a benchmark measures what takes longer as longer, and nothing as almost nothing", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  const fill = module.kernel("fill");
  // So large that the time until a worker thread begins a launch counts little, on a busy machine, too.
  const byteLength = 2 ** 23;
  using buffer = pool.allocate(byteLength, stream);
  let runs = 0;
  const run = (length: number) => (given: CudaStream) => {
    assert(given === stream);
    runs++;
    fill.launch({ grid: 1, block: 32, stream }, buffer, length, runs);
  };
  const options = { repetitions: 9, warmUps: 2 };
  const long = await stream.benchmark(run(byteLength), options);
  assertEquals([runs, long.samples.length], [11, 9]);
  const short = await stream.benchmark(run(byteLength / 256), { ...options, flushCache: false });
  const nothing = await stream.benchmark(() => {}, options);
  assert([long, short, nothing].every(ordered));
  // The sanitizer finds out what a launch accesses before it returns: that takes its time between two events, too.
  if (!isSanitized) assert(long.median > 2 * short.median, `${long.median} and ${short.median}`);
  assert(nothing.median < short.median && nothing.median < 1, String(nothing.median));
  // On the default stream, with as many runs as take the time that it has by default.
  const start = performance.now();
  const usual = await gpu.defaultStream.benchmark((stream) => buffer.fill(1, stream));
  assert(usual.samples.length >= 5 && usual.samples.length <= 10_000);
  assert(performance.now() - start < 20_000);
});

test("a benchmark's statistics are those of its samples", async () => {
  const clocked = new ClockedDriver();
  using cuda = new Cuda(new Session(clocked.driver));
  using stream = cuda.device(0).createStream();
  const times = [4, 1, 3, 10, 2];
  clocked.durations = (run) => times[run]!;
  const result = await stream.benchmark(() => {}, { repetitions: 5, warmUps: 0 });
  assertEquals(result, {
    median: 3,
    lowerQuartile: 2,
    upperQuartile: 4,
    minimum: 1,
    maximum: 10,
    mean: 4,
    samples: Float64Array.from(times),
  });
});

test("a benchmark repeats work for about 25 and 100 milliseconds", async () => {
  for (const [milliseconds, runs] of [[1000, 1 + 5], [10, 3 + 10], [0.5, 50 + 200], [0, 20_000]] as const) {
    const clocked = new ClockedDriver();
    using cuda = new Cuda(new Session(clocked.driver));
    using stream = cuda.device(0).createStream();
    clocked.durations = () => milliseconds;
    let count = 0;
    const { samples } = await stream.benchmark(() => void count++);
    assertEquals(count, runs, `runs of ${milliseconds} ms`);
    assertEquals(samples.length, Math.max(5, Math.min(100 / milliseconds, 10_000)));
  }
});

test("a benchmark that fails leaves no event behind", async () => {
  const clocked = new ClockedDriver();
  using cuda = new Cuda(new Session(clocked.driver));
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  /** The number of events, once those are gone that the session keeps for the pools. */
  const countEvents = () => {
    pool.trimTo(0);
    return clocked.events.size;
  };
  const before = countEvents();
  const failing = (after: number, fail: () => unknown) => {
    let runs = 0;
    return () => runs++ === after ? fail() as void : undefined;
  };
  const mine = new Error("mine");
  const controller = new AbortController();
  const options = { repetitions: 50, warmUps: 0 };
  const thrown: unknown[] = [];
  for (const after of [0, 1, 6, 49]) {
    const error = await assertRejects(() =>
      stream.benchmark(
        failing(after, () => {
          throw mine;
        }),
        options,
      )
    );
    thrown.push(error);
    await assertRejects(
      () =>
        stream.benchmark(
          failing(after, async () => {
            await undefined;
            throw mine;
          }),
          options,
        ),
      TypeError,
      "Cannot benchmark a body that returns a promise",
    );
    assertEquals(countEvents(), before);
  }
  assert(thrown.every((error) => error === mine));
  const aborted = stream.benchmark(failing(5, () => controller.abort()), { ...options, signal: controller.signal });
  const error = await assertRejects(() => aborted);
  assertEquals((error as Error).name, "AbortError");
  assert((error as Error).message.includes("a benchmark on a stream of device 0"), String(error));
  assertEquals(countEvents(), before);
  const other = gpu.createStream();
  await assertRejects(() => other.benchmark(() => other[Symbol.dispose](), options), ReferenceError, "it was disposed");
  const late = gpu.createStream();
  const pending = late.benchmark(() => {}, options);
  late[Symbol.dispose]();
  await assertRejects(() => pending, ReferenceError, "it was disposed");
  await assertRejects(() => late.benchmark(() => {}), ReferenceError, "it was disposed");
  await waitUntil(() => countEvents() === before);
});

testOnEachDriver("a benchmark ends with its Cuda object", async (_cuda, { open }) => {
  const cuda = new Cuda(new Session(open()));
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const pending = stream.benchmark(() => {}, { flushCache: false, repetitions: 1000 });
  cuda[Symbol.dispose]();
  assertInstanceOf(await assertRejects(() => pending), ReferenceError);
});

testOnEachDriver("benchmarks with wrong arguments are refused", async (cuda) => {
  using stream = cuda.device(0).createStream();
  const body = () => {};
  // deno-lint-ignore no-explicit-any
  const refused = (type: any, ...args: any[]) => assertRejects(() => stream.benchmark(...args as [() => void]), type);
  for (const wrong of [undefined, null, 5, stream, {}]) await refused(TypeError, wrong);
  for (const repetitions of [0, -1, 1.5, NaN, Infinity]) await refused(RangeError, body, { repetitions });
  for (const warmUps of [-1, 1.5]) await refused(RangeError, body, { warmUps });
  for (const options of [{ repetitions: "5" }, { flushCache: 1 }, { signal: 5 }, { warmup: 5 }, 5]) {
    await refused(TypeError, body, options);
  }
});

testOnEachDriver("the profiler can be started and stopped, by calls or for a block", (cuda) => {
  cuda.startProfiler();
  cuda.stopProfiler();
  {
    using profile = cuda.profile();
    profile[Symbol.dispose]();
  }
});

testOnEachDriver("the profiler of a Cuda object that was disposed", (_cuda, { open }) => {
  const cuda = new Cuda(new Session(open()));
  const profile = cuda.profile();
  cuda[Symbol.dispose]();
  assertThrows(() => cuda.startProfiler(), ReferenceError);
  profile[Symbol.dispose]();
});
