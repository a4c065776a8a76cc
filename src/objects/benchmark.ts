/**
 * Measurement of the GPU time of work on a stream, by events, as Triton's `do_bench` and nvbench measure it.
 *
 * @module
 */
import type { DeviceBuffer } from "../memory/device_buffer.ts";
import { CudaError } from "../support/errors.ts";
import {
  checkBoolean,
  checkNumber,
  checkOptions,
  type KnownOptions,
  maximumInt,
  whatIs,
} from "../support/validation.ts";
import { throwIfAborted, type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";
import type { CudaEvent } from "./streams/cuda_event.ts";
import type { CudaStream } from "./streams/cuda_stream.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** Options of a benchmark. */
export interface BenchmarkOptions extends WaitOptions {
  /** Number of measured runs of the body. Defaults to as many as take about 100 ms, at least 5 and at most 10,000. */
  repetitions?: number;
  /** Number of runs before the measured ones. Defaults to as many as take about 25 ms, at least 1. */
  warmUps?: number;
  /**
   * Whether the device's L2 cache is overwritten before each run. Each run then reads its data from device memory, and
   * the device is busy while the host enqueues the run. Defaults to true. If false, and if a run takes the device less
   * time than the host needs to enqueue it, the measured time includes the time that the device waits for the host.
   */
  flushCache?: boolean;
}

/** The GPU times of a benchmark, in milliseconds. */
export interface BenchmarkResult {
  /** The median: half of the runs took less time. */
  readonly median: number;
  /** The lower quartile: a quarter of the runs took less time. */
  readonly lowerQuartile: number;
  /** The upper quartile: a quarter of the runs took more time. */
  readonly upperQuartile: number;
  /** The shortest time. */
  readonly minimum: number;
  /** The longest time. */
  readonly maximum: number;
  /** The arithmetic mean, which is more sensitive to a few slow runs than the median. */
  readonly mean: number;
  /** The time of each run, in order. */
  readonly samples: Float64Array<ArrayBuffer>;
}

const benchmarkOptions: KnownOptions<BenchmarkOptions> = {
  action: "benchmark work on a stream",
  names: { repetitions: true, warmUps: true, flushCache: true, signal: true },
  instead: {
    iterations: "give repetitions",
    n_repeat: "give repetitions",
    warmup: "give warmUps, which counts runs",
    timeout: "give { signal: AbortSignal.timeout(milliseconds) }",
  },
  meantBy: (value) => typeof value === "number" ? `{ repetitions: ${value} }` : undefined,
};

/** The default duration of the warm-up runs in milliseconds, the same as Triton's. */
const warmUpMilliseconds = 25;
/** The default duration of the measured runs in milliseconds, the same as Triton's. */
const measuredMilliseconds = 100;
/** The minimum number of measured runs by default. */
const minimumRepetitions = 5;
/** The maximum number of measured runs by default. */
const maximumRepetitions = 10_000;
/**
 * Maximum number of runs in a batch. All runs of a batch are enqueued before the host waits for them. CUDA blocks the
 * host when about a thousand operations are enqueued, and each run has at least three in addition to those of the body.
 */
const maximumBatch = 64;

/** The number of runs of a body: fixed, or as many as fit into `milliseconds`. */
type Limit = { readonly count: number } | {
  readonly milliseconds: number;
  readonly minimum: number;
  readonly maximum: number;
};

/** Measures the GPU time of the work that `body` enqueues on a stream, over many calls of `body`. */
export async function benchmark(
  stream: CudaStream,
  body: (stream: CudaStream) => void,
  options: BenchmarkOptions,
): Promise<BenchmarkResult> {
  checkBody(body);
  checkOptions(options, benchmarkOptions);
  const { repetitions, warmUps, flushCache = true, signal } = options;
  if (repetitions !== undefined) checkCount(repetitions, "a benchmark's repetitions", 1);
  if (warmUps !== undefined) checkCount(warmUps, "a benchmark's warmUps", 0);
  checkBoolean(flushCache, "a benchmark's flushCache");
  throwIfAborted(signal, describe(stream));
  void stream.unsafeHandle;
  using runs = new Runs(stream, body, { flushCache, signal });
  await runs.measure(
    warmUps === undefined
      ? { milliseconds: warmUpMilliseconds, minimum: 1, maximum: maximumRepetitions }
      : { count: warmUps },
  );
  return resultOf(
    await runs.measure(
      repetitions === undefined
        ? { milliseconds: measuredMilliseconds, minimum: minimumRepetitions, maximum: maximumRepetitions }
        : { count: repetitions },
    ),
  );
}

function checkBody(body: unknown): void {
  if (typeof body === "function") return;
  throw new TypeError(
    `Cannot benchmark ${whatIs(body)}: give a function that enqueues work, such as (stream) => kernel.launch({ grid, ` +
      "block, stream }, ...args)",
  );
}

function checkCount(count: number, what: string, minimum: number): void {
  checkNumber(count, what);
  if (Number.isInteger(count) && count >= minimum && count <= maximumInt) return;
  throw new RangeError(`Cannot use ${count} as ${what}: it must be a whole number, from ${minimum} to ${maximumInt}`);
}

function describe({ device }: CudaStream): string {
  return `a benchmark on a stream of device ${device.ordinal}`;
}

/** Executes runs of a body, and records an event before and after each run. */
class Runs implements Disposable {
  readonly #stream: CudaStream;
  readonly #body: (stream: CudaStream) => void;
  readonly #waitOptions: WaitOptions;
  readonly #resources = new DisposableStack();
  /** The events of the runs, reused for each batch. */
  readonly #events: { readonly start: CudaEvent; readonly end: CudaEvent }[] = [];
  /** A buffer as large as the L2 cache. Filling it evicts all other data from the cache. */
  readonly #cacheFiller: DeviceBuffer | undefined;

  constructor(
    stream: CudaStream,
    body: (stream: CudaStream) => void,
    { flushCache, signal }: { flushCache: boolean; signal: AbortSignal | undefined },
  ) {
    this.#stream = stream;
    this.#body = body;
    this.#waitOptions = signal === undefined ? {} : { signal };
    // `l2CacheSize` is 0 for a device without an L2 cache, such as the software device.
    const byteLength = flushCache ? stream.device.attribute("l2CacheSize") : 0;
    if (byteLength > 0) this.#cacheFiller = this.#resources.use(allocate(byteLength, stream));
  }

  /** Releases the events and the buffer. Runs that are already enqueued continue. */
  [Symbol.dispose](): void {
    this.#resources[Symbol.dispose]();
  }

  /** Runs the body and returns the milliseconds that each run took. */
  async measure(limit: Limit): Promise<Float64Array<ArrayBuffer>> {
    const samples: number[] = [];
    let spent = 0;
    for (let batch = 1;; batch = Math.min(2 * batch, maximumBatch)) {
      const remaining = remainingOf(limit, { count: samples.length, spent });
      if (remaining === 0) return new Float64Array(samples);
      const count = Math.min(batch, remaining);
      for (let index = 0; index < count; index++) this.#enqueue(index);
      const last = this.#events[count - 1]!.end;
      await waitUntil(() => last.query(), this.#waitOptions, () => describe(this.#stream));
      for (const { start, end } of this.#events.slice(0, count)) samples.push(end.elapsedTime(start));
      // `spent` includes the time between the runs, so that the measurement of a body that enqueues nothing ends soon.
      spent += last.elapsedTime(this.#events[0]!.start);
    }
  }

  #enqueue(index: number): void {
    const { start, end } = this.#events[index] ??= this.#createEvents();
    const stream = this.#stream;
    this.#cacheFiller?.fill(0, stream);
    stream.record(start);
    const result: unknown = this.#body(stream);
    if (result !== undefined) refusePromise(result);
    stream.record(end);
  }

  #createEvents(): { start: CudaEvent; end: CudaEvent } {
    const { device } = this.#stream;
    const start = this.#resources.use(device.createEvent({ timing: true }));
    return { start, end: this.#resources.use(device.createEvent({ timing: true })) };
  }
}

/** Allocates from the default pool, or without a pool if the driver is older than CUDA 11.2 and has none. */
function allocate(byteLength: number, stream: CudaStream): DeviceBuffer {
  const { device } = stream;
  try {
    return device.defaultPool.allocate(byteLength, stream);
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
    return device.allocate(byteLength);
  }
}

/** Returns the maximum number of further runs, after `count` runs that took `spent` milliseconds. */
function remainingOf(limit: Limit, { count, spent }: { count: number; spent: number }): number {
  if ("count" in limit) return limit.count - count;
  const { milliseconds, minimum, maximum } = limit;
  if (count >= maximum || count >= minimum && spent >= milliseconds) return 0;
  if (spent === 0) return maximum - count;
  const fitting = Math.ceil((milliseconds - spent) / (spent / count));
  return Math.min(Math.max(fitting, minimum - count), maximum - count);
}

/** Throws if a body has returned a promise: work that it enqueues later would not be measured. */
function refusePromise(result: unknown): void {
  if (typeof result !== "object" || result === null || !("then" in result) || typeof result.then !== "function") return;
  // Adds a handler, because an unhandled rejection of the promise would terminate the process.
  Promise.resolve(result).catch(() => {});
  throw new TypeError(
    "Cannot benchmark a body that returns a promise: it must enqueue all work before it returns, without await",
  );
}

function resultOf(samples: Float64Array<ArrayBuffer>): BenchmarkResult {
  const sorted = samples.toSorted();
  let sum = 0;
  for (const sample of sorted) sum += sample;
  return {
    median: quantileOf(sorted, 0.5),
    lowerQuartile: quantileOf(sorted, 0.25),
    upperQuartile: quantileOf(sorted, 0.75),
    minimum: sorted[0]!,
    maximum: sorted.at(-1)!,
    mean: sum / sorted.length,
    samples,
  };
}

/** Returns a quantile of sorted values, linearly interpolated between the two nearest values, like `numpy.quantile`. */
function quantileOf(sorted: Float64Array, quantile: number): number {
  const position = quantile * (sorted.length - 1);
  const below = sorted[Math.floor(position)]!;
  return below + (sorted[Math.ceil(position)]! - below) * (position % 1);
}
