import { printAs, stateOf } from "../../support/printing.ts";
import { benchmark, type BenchmarkOptions, type BenchmarkResult } from "../benchmark.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { checkEvent, type CudaEvent, handleOf, isInterprocess, keepEvent, noteRecord, noteWait } from "./cuda_event.ts";
import { areOrderedByDefaultStream, defaultStream, externalEvent, type StreamKind } from "../../driver.ts";
import type { CudaGraph } from "../graphs/cuda_graph.ts";
import type { GraphArguments } from "../graphs/graph_argument.ts";
import type { CaptureOptions, GraphCapture } from "../graphs/graph_capture.ts";
import type { BatchCopy, CopyAttributes } from "../../memory/copy_batch.ts";
import type { OpenedObject } from "../opened_objects.ts";
import { type Marker, Markers, PendingWork, StreamProgress } from "./stream_progress.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { reportDestroyedStream } from "../../support/leaks.ts";
import type { StreamLaunches } from "../kernels/recent_launches.ts";
import {
  checkBoolean,
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  refuseConstruction,
  refuseNewProperties,
  refuseToReplace,
  whatIs,
} from "../../support/validation.ts";
import type { Session } from "../../session.ts";
import { errorOfWait, type WaitOptions, waitOptions } from "../../support/waiting/waiting.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of a new stream. */
export interface StreamOptions {
  /**
   * The priority of the stream's work: lower numbers are greater priorities. Defaults to 0.
   * `CudaDevice.streamPriorityRange` returns the valid range. Devices that do not support priorities ignore it.
   */
  priority?: number;
  /**
   * Whether the stream is independent of the device's default stream. Otherwise each waits for the other's work.
   * Defaults to false.
   */
  nonBlocking?: boolean;
}

/** Options of `CudaStream.record` and `CudaStream.wait`. */
export interface ExternalOption {
  /**
   * In a capture: whether each launch of the graph records the event, or waits for it. Otherwise a record or a wait in a
   * capture only orders the streams of the capture. Only for streams that are captured. Defaults to false.
   */
  external?: boolean;
}

const externalOptions: KnownOptions<ExternalOption> = {
  action: "record or wait for an event",
  names: { external: true },
};

const onlyInCaptures =
  "the stream is not captured: only nodes of a graph record and wait externally; leave external out";

/** Describes the options of a new stream, for validation by `checkOptions`. */
export const streamOptions: KnownOptions<StreamOptions> = {
  action: "create a stream",
  names: { priority: true, nonBlocking: true },
  instead: { flags: "set nonBlocking for cudaStreamNonBlocking" },
  meantBy: (value) => typeof value === "number" ? `{ priority: ${value} }` : undefined,
};

/** Marks a query as made by the library itself: the program does not learn the result. */
const forLibrary = { forLibrary: true };

/** Returns advice to append to the error for a value that is not a stream. */
function streamAdvice(value: unknown, usage: string | undefined): string {
  const isHandle = typeof value === "number" || typeof value === "bigint";
  const defaultAdvice = isHandle ? ", or CudaDevice.defaultStream" : "";
  if (usage !== undefined) return `${defaultAdvice}, as in ${usage}`;
  if (isHandle) return defaultAdvice;
  return typeof value === "object" && value !== null && "stream" in value ? ", not an object that has one" : "";
}

/**
 * Calls `callback` when the stream is disposed, before the stream is destroyed. Returns a function that cancels the
 * callback.
 */
export let whenStreamDisposed: (stream: CudaStream, callback: () => void) => () => void;

/** Returns the `StreamProgress` of a stream. */
export let progressOf: (stream: CudaStream) => StreamProgress;

/** Implements `CudaStream.finished`. If `throwsErrors` is false, does not throw errors of collectives. */
export let finishStream: (stream: CudaStream, options: WaitOptions, throwsErrors: boolean) => Promise<void>;

/** Returns the recorded launches on a stream. */
export let launchesOf: (stream: CudaStream) => StreamLaunches;

/**
 * Records an event after a stream's work so far, on behalf of a wait that includes this work. Returns a function that
 * the caller must call once: with true when the work is known to be complete, or with false if the wait was canceled.
 */
export let markEnd: (stream: CudaStream) => (isComplete: boolean) => void;
/** The `kind` by which a session's list of opened objects identifies streams. */
export const streamKind = "stream";

/**
 * Returns the work that was enqueued on a stream so far, or until the stream was disposed. Undefined if the work is
 * complete.
 */
export let pendingWorkOf: (stream: CudaStream) => PendingWork | undefined;

/**
 * Returns the work that was enqueued on a stream until it was disposed. Undefined if nothing needs to be ordered after
 * this work: the work is complete and, if there is a sanitizer, the sanitizer knows that the program is ordered after
 * it.
 */
export let lastWorkOf: (stream: CudaStream) => PendingWork | undefined;

/** Makes a stream one of the library's own, which the session disposes of without reporting a leak. */
export let disownStream: (stream: CudaStream) => void;

/**
 * Throws unless `stream` is a stream of the `Cuda` object that `session` belongs to.
 *
 * @param usage the forms of the call, such as "free(stream) or free({ stream })": quoted in the error if the program
 *   passes something else in place of the stream
 */
export let checkStream: (stream: CudaStream, session: Session, usage?: string) => void;

/**
 * Returns whether CUDA orders the work of two streams implicitly, because one of them is a device's default stream and
 * the other is a blocking stream of the same device.
 */
export let isOrderedByDefaultStream: (a: CudaStream, b: CudaStream) => boolean;

const refusalToClone = cloneRefusal("a CudaStream", openInWorker);

/**
 * A queue of work for a device, which executes it in order. Comes from `CudaDevice.createStream` or
 * `CudaDevice.wrapStream`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
 */
export class CudaStream implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that executes the work. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #onDispose: ((handle: bigint) => void) | undefined;
  readonly #kind: StreamKind;
  readonly #priority: number;
  /** Whether other code owns and destroys the stream. */
  readonly #isForeign: boolean;
  readonly #progress = new StreamProgress();
  /** The events that `finished` records. */
  readonly #markers: Markers;
  readonly #opened: OpenedObject | undefined;
  #handle: bigint | undefined;
  /**
   * The work that was pending when the stream was disposed; undefined if no other work needs to be ordered after it.
   */
  #lastWork: PendingWork | undefined;
  /** Whether a call has shown that the stream's owner has destroyed the stream. */
  #isGone = false;
  /** The recorded launches on the stream; undefined until the first launch. */
  #launches: StreamLaunches | undefined;
  #disposeCallbacks: Set<{ readonly callback: () => void }> | undefined;

  static {
    whenStreamDisposed = (stream, callback) => {
      const entry = { callback };
      const entries = stream.#disposeCallbacks ??= new Set();
      entries.add(entry);
      return () => void entries.delete(entry);
    };
    pendingWorkOf = (stream) => {
      if (stream.#handle !== undefined) return stream.#workOf(stream.#handle, PendingWork.of);
      const work = stream.#lastWork;
      // `isComplete` is read only once, because software devices make progress at each query.
      if (work === undefined || !work.isComplete) return work;
      return void lastWorkOf(stream);
    };
    lastWorkOf = (stream) => {
      if (stream.#lastWork?.isPast) stream.#lastWork = undefined;
      return stream.#lastWork;
    };
    disownStream = (stream) => stream.#session.opened.markDisposed(stream.#opened!);
    checkStream = (stream, session, usage) => {
      if (!(stream instanceof CudaStream)) {
        const advice = streamAdvice(stream, usage);
        throw new TypeError(
          `Cannot use ${
            whatIs(stream, "CudaStream")
          } as a stream: give a CudaStream from CudaDevice.createStream${advice}`,
        );
      }
      if (stream.#session !== session) throw errorOfAnotherCuda("use a stream");
    };
    progressOf = (stream) => stream.#progress;
    finishStream = (stream, options, throwsErrors) => stream.#finish(options, throwsErrors);
    launchesOf = (stream) => stream.#launches ??= stream.#addLaunches();
    markEnd = (stream) => {
      const { marker, position } = stream.#mark();
      return (isComplete) => {
        if (!isComplete) return stream.#markers.abandon(marker);
        stream.#markers.complete(marker);
        stream.#progress.complete(position);
      };
    };
    isOrderedByDefaultStream = (a, b) => areOrderedByDefaultStream(a.#kind, b.#kind) && !a.disposed && !b.disposed;
    refuseNewProperties(this, { name: "CudaStream", fields: ["cloneRefusal", "device"] });
    refuseToReplace(this, "nonBlocking", "give it to createStream");
    refuseToReplace(this, "priority", "a stream keeps the priority that it was created with; give it to createStream");
    printAs(this, "CudaStream", (stream) => {
      const kind = stream.#handle === defaultStream ? "default, " : stream.#isForeign ? "wrapped, " : "";
      return `CudaStream { device ${stream.device.ordinal}, ${kind}${stream.#state} }`;
    }, [
      "device",
      ["isDefault", (stream) => stream === stream.device.defaultStream],
      ["state", (stream) => stream.#state],
    ]);
  }

  /**
   * Streams come from `CudaDevice.createStream`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    {
      device,
      handle = refuseConstruction("CudaStream", "CudaDevice.createStream"),
      isNonBlocking = false,
      priority = 0,
      isForeign = false,
      onDispose,
    }: {
      device: CudaDevice;
      handle: bigint;
      isNonBlocking?: boolean;
      priority?: number;
      /** Whether other code owns the stream: disposing of this object does not destroy it. */
      isForeign?: boolean;
      onDispose?: (handle: bigint) => void;
    } = {} as never,
  ) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
    this.#kind = { device: device.ordinal, isDefault: handle === defaultStream, isBlocking: !isNonBlocking };
    this.#priority = priority;
    this.#isForeign = isForeign;
    this.#onDispose = onDispose;
    this.#markers = new Markers(session, device.ordinal);
    session.streams.add(this);
    if (handle === defaultStream || isForeign) return;
    this.#opened = {
      kind: streamKind,
      release: (driver) => driver.streamDestroy(device.ordinal, handle),
    };
    session.opened.add(this.#opened);
  }

  /** The `cudaStream_t`, for CUDA calls that this library does not make; 0 for the default stream. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) {
      throw new ReferenceError(
        `Cannot use the stream of device ${this.device.ordinal}: it was disposed; pass another stream, or, if a ` +
          "buffer still has it, set the buffer's stream property to another",
      );
    }
    return this.#handle;
  }

  /**
   * The priority that CUDA gave the stream, within `CudaDevice.streamPriorityRange()`. Lower numbers are greater
   * priorities. Other libraries may ask for any priority: CUDA clamps it to the range. The software device prefers, of
   * the streams that could run, those of greater priorities.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {ReferenceError} If the stream was disposed
   */
  get priority(): number {
    void this.unsafeHandle;
    return this.#priority;
  }

  /** Whether the stream is independent of the device's default stream. False for a default stream. */
  get nonBlocking(): boolean {
    return !this.#kind.isBlocking;
  }

  /**
   * Whether the stream is being captured into a graph, by this library or another. For the default stream, whether a
   * stream is captured that would have to wait for it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {ReferenceError} If the stream was disposed
   */
  get isCapturing(): boolean {
    try {
      return this.#session.driver.streamIsCapturing(this.device.ordinal, this.unsafeHandle);
    } catch (error) {
      throw cannot(`ask whether a stream of device ${this.device.ordinal} is being captured`, error);
    }
  }

  /** Whether the stream was disposed. */
  get disposed(): boolean {
    return this.#handle === undefined;
  }

  /**
   * Records an event after the work enqueued so far. In a capture, the record only orders the streams of the capture,
   * unless it is external.
   *
   * @param event An event of the stream's own device.
   * @param options Whether each launch of the graph records the event.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} If `event` is not an event of the same `Cuda` object, or other processes can open the event of an
   * external record
   * @throws {ReferenceError} If the stream or the event was disposed
   * @throws {CudaError} `cudaErrorInvalidResourceHandle` if the event belongs to another device,
   * `cudaErrorStreamCaptureUnsupported` if the stream is captured and other processes can wait for the event,
   * `cudaErrorIllegalState` for an external record on a stream that is not captured
   */
  record(event: CudaEvent, options?: ExternalOption): void {
    checkEvent(event, this.#session);
    const { captures, completed } = this.#session;
    try {
      if (options !== undefined && isExternal(options, event, "record")) {
        // Launches record the event, and the library does not know when.
        const handle = event.unsafeHandle;
        captures.keepEvent(this, event, { keep: () => keepEvent(event), call: "cudaEventRecord" });
        this.#session.driver.eventRecordWithFlags(this.device.ordinal, handle, this.unsafeHandle, externalEvent);
        return;
      }
      if (captures.isActive && isInterprocess(event)) captures.refuseSharedRecord(this);
      this.#session.driver.eventRecord(this.device.ordinal, handleOf(event), this.unsafeHandle);
      noteRecord(event, this.#progress);
      if (captures.isActive && captures.hasRecorded(handleOf(event))) completed.delete(event);
    } catch (error) {
      const own = this.device.ordinal;
      const hint = isIllegalState(error)
        ? onlyInCaptures
        : event.device === this.device || isCaptureError(error)
        ? undefined
        : `record an event of device ${own}, for which streams of any device can wait`;
      throw cannot(`record an event of device ${event.device.ordinal} on a stream of device ${own}`, error, hint);
    }
  }

  /**
   * Makes work that is enqueued from now on wait for the event's latest record. The event may belong to any device. In a
   * capture, a stream becomes a part of the capture when it waits for an event of it.
   *
   * @param options Whether the event is from outside the capture: each launch of the graph waits for its latest record
   * at that time.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} If `event` is not an event of the same `Cuda` object, or other processes can open the event of an
   * external wait: they may never record it
   * @throws {ReferenceError} If the stream or the event was disposed
   * @throws {CudaError} `cudaErrorStreamCaptureIsolation` if the stream is captured and the event was not recorded in
   * the capture, `cudaErrorStreamCaptureMerge` if it was recorded in another one, `cudaErrorIllegalState` for an
   * external wait of a stream that is not captured
   */
  wait(event: CudaEvent, options?: ExternalOption): void;

  /**
   * Makes work that is enqueued from now on wait for the work so far of another stream, of any device. In a capture, a
   * stream becomes a part of the capture when it waits for a stream of it.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} If `stream` is not a stream of the same `Cuda` object
   * @throws {ReferenceError} If one of the streams was disposed
   */
  wait(stream: CudaStream): void;

  wait(event: CudaEvent | CudaStream, options?: ExternalOption): void {
    if (event instanceof CudaStream) return this.#waitForStream(event, options);
    checkEvent(event, this.#session);
    try {
      if (options !== undefined && isExternal(options, event, "wait")) {
        const { captures } = this.#session;
        captures.keepEvent(this, event, { keep: () => keepEvent(event), call: "cudaStreamWaitEvent" });
        const { ordinal } = this.device;
        this.#session.driver.streamWaitEvent(ordinal, this.unsafeHandle, handleOf(event), externalEvent);
        return;
      }
      this.#session.driver.streamWaitEvent(this.device.ordinal, this.unsafeHandle, handleOf(event));
      noteWait(event, this.#progress);
    } catch (error) {
      const hint = isIllegalState(error) ? onlyInCaptures : undefined;
      throw cannot(`make a stream of device ${this.device.ordinal} wait for an event`, error, hint);
    }
  }

  #waitForStream(other: CudaStream, options: ExternalOption | undefined): void {
    checkStream(other, this.#session);
    if (options !== undefined) {
      checkOptions(options, externalOptions);
      if (options.external) {
        throw new TypeError("Cannot wait for a stream externally: record an event on it, and wait for that externally");
      }
    }
    if (other === this) return;
    const { driver, captures } = this.#session;
    const { ordinal } = other.device;
    try {
      const event = captures.orderingEvent(ordinal);
      driver.eventRecord(ordinal, event, other.unsafeHandle);
      driver.streamWaitEvent(this.device.ordinal, this.unsafeHandle, event);
      this.#progress.waitFor(other.#progress, other.#progress.record());
    } catch (error) {
      throw cannot(`make a stream of device ${this.device.ordinal} wait for another one of device ${ordinal}`, error);
    }
  }

  /**
   * Enqueues copies that may run in any order, or at once. None may read or write what another one writes.
   *
   * This is one call of CUDA for all copies of whole ranges, if the driver is of CUDA 12.8 or later. Copies of rows, and
   * copies between devices, are one call each. So are all copies on a default stream and in a capture, where the graph
   * has no order among them; attributes then have no effect, and `"during-call"` is refused.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
   * @param copies What to copy. Each may have attributes of its own.
   * @param options The attributes of all copies.
   * @throws {RangeError} If a source and its target have different sizes, or a copy writes what another one reads or
   * writes
   * @throws {TypeError} If an argument has the wrong type
   * @throws {ReferenceError} If a buffer was freed or the stream was disposed
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * using stream = cuda.device(0).createStream();
   * using pool = cuda.device(0).createPool();
   * using all = pool.allocate(4 * 4096, stream);
   * all.fill(1);
   * const parts = Array.from({ length: 4 }, () => pool.allocate(4096, stream));
   * stream.copyBatch(
   *   parts.map((target, index) => ({ source: all.subarray(4096 * index, 4096 * (index + 1)), target })),
   *   { preferOverlapWithCompute: true },
   * );
   * for (const part of parts) part.free();
   * ```
   */
  copyBatch(copies: readonly BatchCopy[], options: CopyAttributes = {}): void {
    this.#session.copyBatch(this, copies, options);
  }

  /**
   * Calls a function, and returns the work that it enqueues on the stream as a graph, without executing it. Other
   * streams join the capture when they wait for an event, or for a stream, of it; the stream must wait for them before
   * the function ends. Memory that is allocated from a pool meanwhile belongs to the graph.
   *
   * What `body` throws is thrown. The stream is usable again then, and nothing was enqueued.
   *
   * @param body Enqueues the work, and returns without awaiting anything.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} If `body` returns a promise, the stream is a default stream, or an option is unknown
   * @throws {CudaError} From a call in `body`, with the capture unharmed: `cudaErrorStreamCaptureUnsupported` for what a
   * capture cannot have, such as to synchronize; `cudaErrorStreamCaptureImplicit` for work on the default stream while a
   * stream that is not `nonBlocking` is captured; `cudaErrorStreamCaptureIsolation` for a wait for an event from before.
   * At the end: `cudaErrorStreamCaptureUnjoined` if a stream was not joined, `cudaErrorStreamCaptureInvalidated` if
   * another library or Worker has made a call that ends captures
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * const gpu = cuda.device(0);
   * using stream = gpu.createStream();
   * using pool = gpu.createPool();
   * using numbers = pool.allocateArray(Float32Array, 1024, stream);
   * using graph = stream.capture(() => {
   *   numbers.fill(1, stream);
   *   numbers.subarray(0, 8).fill(2, stream);
   * });
   * using exec = graph.instantiate();
   * for (let launch = 0; launch < 3; launch++) exec.launch(stream);
   * console.log((await numbers.toTypedArray())[0]); // 2
   * ```
   */
  capture<Arguments extends GraphArguments = Record<never, never>>(
    body: (capture: GraphCapture<Arguments>) => void,
    options: CaptureOptions<Arguments> = {},
  ): CudaGraph<Arguments> {
    using capture = this.#session.beginCapture(this, options);
    if (typeof body !== "function") {
      throw new TypeError(`Cannot capture a stream: give a function that enqueues the work, not ${whatIs(body)}`);
    }
    const result: unknown = body(capture);
    if (typeof (result as PromiseLike<unknown> | undefined)?.then === "function") {
      // The error of this call tells enough.
      Promise.resolve(result).catch(() => {});
      throw new TypeError(
        "Cannot capture a stream: the function returned a promise; it must enqueue the work without awaiting anything",
      );
    }
    return capture.end();
  }

  /**
   * Begins a capture, which `GraphCapture.end` ends. Between the two, do not await anything that uses the stream. Also
   * throws what `capture` throws.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {CudaError} `cudaErrorStreamCaptureUnsupported` if the stream is being captured already
   */
  beginCapture<Arguments extends GraphArguments = Record<never, never>>(
    options: CaptureOptions<Arguments> = {},
  ): GraphCapture<Arguments> {
    return this.#session.beginCapture(this, options);
  }

  /**
   * Whether all work enqueued so far is done.
   *
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on. Each such error is thrown only
   * once.
   */
  query(): boolean {
    try {
      const isComplete = this.#session.driver.streamQuery(this.device.ordinal, this.unsafeHandle);
      this.#session.waitErrors?.throwErrorOfStream(this.device.ordinal, this.unsafeHandle, isComplete);
      if (isComplete) {
        this.#session.completed.add(this);
        this.#progress.completeAll();
      }
      return isComplete;
    } catch (error) {
      throw cannot(`query a stream of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Blocks until all work enqueued so far is done.
   *
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on. Each such error is thrown only
   * once.
   */
  synchronize(): void {
    try {
      this.#session.driver.streamSynchronize(this.device.ordinal, this.unsafeHandle);
      this.#session.waitErrors?.throwErrorOfStream(this.device.ordinal, this.unsafeHandle, true);
      this.#progress.completeAll();
    } catch (error) {
      throw cannot(`wait for a stream of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Resolves when all work enqueued so far is done. Unlike `synchronize`, it does not make pools release memory to the
   * system; but a later `trimTo` or `usage` of a pool counts the work as done.
   *
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on. Each such error is thrown only
   * once.
   */
  async finished(options: WaitOptions = {}): Promise<void> {
    checkOptions(options, waitOptions);
    const { recorder } = this.#session;
    if (recorder === undefined) await this.#finish(options, true);
    else await recorder.wait("stream", this.unsafeHandle, this.device.ordinal, () => this.#finish(options, true));
  }

  async #finish(options: WaitOptions, throwsErrors: boolean): Promise<void> {
    void this.unsafeHandle;
    try {
      const { marker, position } = this.#mark();
      await this.#markers.wait(marker, options, throwsErrors);
      this.#progress.complete(position);
    } catch (error) {
      const awaited = `a stream of device ${this.device.ordinal}`;
      throw cannot(`wait for ${awaited}`, errorOfWait(error, awaited, options, () => this.#describeKernel()));
    }
  }

  #describeKernel(): string | undefined {
    const { ordinal } = this.device;
    return this.#handle === undefined ? undefined : this.#session.driver.streamDescribeKernel(ordinal, this.#handle);
  }

  /**
   * Measures the GPU time, in milliseconds, of the work that a function enqueues on the stream. Calls the function
   * repeatedly, with an event before and after each call. Enqueue no other work on the stream until the returned
   * promise resolves.
   *
   * @param body Enqueues the work, on the stream that it gets as its argument, and returns without awaiting anything.
   * It may be called thousands of times.
   * @param options How often to call `body`, whether to flush the L2 cache, and a signal that stops the benchmark
   * early.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} If `body` is not a function or returns a promise, or an option has the wrong type
   * @throws {RangeError} If a number of calls is not a whole number
   * @throws {ReferenceError} If the stream was disposed
   *
   * @example
   * ```ts ignore
   * const { median } = await stream.benchmark((stream) => kernel.launch({ grid, block, stream }, buffer, 4096, 7));
   * ```
   */
  async benchmark(body: (stream: CudaStream) => void, options: BenchmarkOptions = {}): Promise<BenchmarkResult> {
    this.#session.captures.refuseWait(this, `benchmark work on a stream of device ${this.device.ordinal}`);
    return await benchmark(this, body, options);
  }

  #mark(): { marker: Marker; position: number } {
    const { ordinal } = this.device;
    const handle = this.unsafeHandle;
    const marker = this.#markers.record((event) => this.#session.driver.eventRecord(ordinal, event, handle));
    return { marker, position: this.#progress.record() };
  }

  /** If the stream is idle, synchronizes with it, so that pools count its work as complete. */
  #synchronizeIfIdle(handle: bigint): void {
    const { driver } = this.#session;
    const { ordinal } = this.device;
    if (driver.streamQuery(ordinal, handle, forLibrary)) driver.streamSynchronize(ordinal, handle);
  }

  /**
   * Destroys the stream. Work that is already enqueued still runs. Does nothing for a default stream. A stream from
   * `wrapStream` is not destroyed: only this object becomes unusable.
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined || this.#handle === defaultStream) return;
    const handle = this.#handle;
    const capture = this.#session.captures.of(handle);
    if (capture?.origin === this) ignoreLoss(capture.drop);
    for (const { callback } of this.#disposeCallbacks ?? []) ignoreLoss(callback);
    let isLost = true;
    ignoreLoss(() => {
      this.#lastWork = this.#workOf(handle, PendingWork.last);
      isLost = false;
    });
    this.#handle = undefined;
    const { driver } = this.#session;
    if (this.#session.completed.delete(this) && !this.#isGone) ignoreLoss(() => this.#synchronizeIfIdle(handle));
    this.#markers[Symbol.dispose]();
    const work = this.#lastWork;
    if (work === undefined) this.#leave({ isLost });
    else this.#session.afterWork([this], () => this.#leave(work));
    try {
      ignoreLoss(() => this.#onDispose?.(handle));
    } finally {
      if (this.#isForeign) {
        this.#session.waitErrors?.onStreamReleased(this.device.ordinal, handle);
      } else {
        this.#session.opened.delete(this.#opened!);
        ignoreLoss(() => driver.streamDestroy(this.device.ordinal, handle));
        this.#session.captures.forget(handle);
      }
    }
  }

  /** The state in the stream's printed form: "idle", "busy", "capturing", "disposed", or the code of the driver's error. */
  get #state(): string {
    if (this.disposed || this.#session.hasEnded) return "disposed";
    return stateOf(() => {
      const { device: { ordinal }, unsafeHandle } = this;
      const { driver } = this.#session;
      if (driver.streamQuery(ordinal, unsafeHandle, { peek: true })) return "idle";
      return driver.streamIsCapturing(ordinal, unsafeHandle) && unsafeHandle !== defaultStream ? "capturing" : "busy";
    });
  }

  /** Removes the stream from the session when no work is pending any more. */
  #leave({ isLost }: { readonly isLost: boolean }): void {
    this.#session.streams.delete(this);
    if (!isLost && this.#launches !== undefined) this.#session.launches.delete(this.#launches);
  }

  #addLaunches(): StreamLaunches {
    const name = `${this.#handle === defaultStream ? "the default" : "a"} stream of device ${this.device.ordinal}`;
    return this.#session.launches.add({ name, progress: this.#progress });
  }

  #workOf(handle: bigint, work: typeof PendingWork.of): PendingWork | undefined {
    if (this.#isGone) return undefined;
    try {
      const isDisposed = () => this.#handle === undefined;
      return work(this.#session, { device: this.device.ordinal, stream: handle, isDisposed });
    } catch (error) {
      const isGone = error instanceof CudaError && error.code === "cudaErrorInvalidResourceHandle";
      if (!this.#isForeign || !isGone) throw error;
      this.#isGone = true;
      reportDestroyedStream(this.device.ordinal);
      return undefined;
    }
  }
}

/** Checks the options of a record or a wait, and returns whether it is external. */
function isExternal(options: ExternalOption, event: CudaEvent, action: "record" | "wait"): boolean {
  checkOptions(options, externalOptions);
  const { external = false } = options;
  checkBoolean(external, "external of a record or a wait");
  if (!external || !isInterprocess(event)) return external;
  const why = action === "record"
    ? "record it on a stream behind a launch"
    : "their process may end before it records, and the launch would never be complete; wait for it before a launch";
  throw new TypeError(
    `Cannot ${action === "record" ? "record" : "wait for"} an event externally that other processes can open: ${why}`,
  );
}

function isIllegalState(error: unknown): boolean {
  return error instanceof CudaError && error.code === "cudaErrorIllegalState";
}

/** Whether an error is about a capture, and already says what to do. */
function isCaptureError(error: unknown): boolean {
  return error instanceof CudaError && /Capture/.test(error.code);
}
