/**
 * The streams of a device: creating them with priorities, wrapping foreign ones, and waiting for all of them.
 *
 * @module
 */
import { defaultStream, legacyStream, perThreadStream, streamFlags } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError, cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import { type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";
import { CudaStream, finishStream, markEnd, progressOf } from "./cuda_stream.ts";
import { type Marker, Markers } from "./stream_progress.ts";
import { whatIs } from "../../support/validation.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/** The streams of a device, for `CudaDevice.finished`, which waits for the work of all of them. */
export class DeviceStreams {
  readonly #session: Session;
  /** The device's ordinal. */
  readonly #device: number;
  readonly #defaultStream: CudaStream;
  /** The created and wrapped streams that are not disposed. */
  readonly #created = new Set<CudaStream>();
  /**
   * The events recorded after the work of streams that were disposed while busy. Only used if the driver lacks
   * `ctxRecordEvent`.
   */
  readonly #disposedStreamMarkers = new Set<bigint>();
  /** The events recorded after the work of all streams. */
  readonly #markers: Markers;
  /** The events recorded after the work of the default stream alone. */
  readonly #defaultStreamMarkers: Markers;

  constructor(session: Session, defaultStream: CudaStream) {
    const { ordinal } = defaultStream.device;
    this.#session = session;
    this.#device = ordinal;
    this.#defaultStream = defaultStream;
    this.#markers = new Markers(session, ordinal);
    this.#defaultStreamMarkers = new Markers(session, ordinal);
  }

  /** Adds a stream that was created or wrapped. */
  add(stream: CudaStream): void {
    this.#created.add(stream);
  }

  /** Deletes a stream that is being disposed. `finished` still waits for its work. */
  delete(stream: CudaStream, handle: bigint): void {
    this.#created.delete(stream);
    if (!this.#session.driver.hasContextEvents) this.#markDisposedStream(handle);
  }

  /**
   * Resolves when all work enqueued so far is done.
   *
   * @param throwsErrors whether to reject with errors of failed collectives
   */
  async finished(options: WaitOptions, throwsErrors: boolean): Promise<void> {
    const known = () => this.#knownStreamsFinished(options, throwsErrors);
    if (!this.#session.driver.hasContextEvents || this.#isCapturing()) return await known();
    // Also records an event on each stream: pools count freed memory as available only after a synchronization with an
    // event of the stream on which the memory was freed, not with an event of the context.
    const ends = [...this.#created].map(markEnd);
    let isComplete = false;
    try {
      const marker = this.#recordAllStreams();
      if (marker === undefined) return await known();
      const progress = progressOf(this.#defaultStream);
      const position = progress.record();
      await this.#markers.wait(marker, options, throwsErrors);
      isComplete = true;
      progress.complete(position);
      // No event is recorded on the default stream, because the event would be a barrier for other streams. Instead,
      // pools count the work of the default stream as done if the stream is still idle when they synchronize.
      this.#session.completed.add(this.#defaultStream);
    } finally {
      for (const end of ends) end(isComplete);
    }
  }

  /** Records an event after the work of all streams. Returns undefined during a capture. */
  #recordAllStreams(): Marker | undefined {
    const { driver } = this.#session;
    try {
      return this.#markers.record((event) => driver.ctxRecordEvent(this.#device, event));
    } catch (error) {
      // The error means that a stream outside `#created` is being captured.
      if (error instanceof CudaError && error.code === "cudaErrorStreamCaptureUnsupported") return undefined;
      throw error;
    }
  }

  /**
   * Returns whether a known stream is being captured. Recording an event for all streams would invalidate the capture.
   */
  #isCapturing(): boolean {
    const { driver } = this.#session;
    for (const { unsafeHandle } of [this.#defaultStream, ...this.#created]) {
      if (driver.streamIsCapturing(this.#device, unsafeHandle)) return true;
    }
    return false;
  }

  /** Resolves when all work enqueued so far on the created, wrapped and default streams is done. */
  async #knownStreamsFinished(options: WaitOptions, throwsErrors: boolean): Promise<void> {
    const { driver } = this.#session;
    const streams = [...this.#created].filter(({ unsafeHandle }) => {
      return !driver.streamIsCapturing(this.#device, unsafeHandle);
    });
    await Promise.all([
      this.#defaultStreamFinished(options, throwsErrors),
      ...streams.map((stream) => finishStream(stream, options, throwsErrors)),
      ...[...this.#disposedStreamMarkers].map((marker) => this.#disposedStreamFinished(marker, options, throwsErrors)),
    ]);
  }

  /**
   * Resolves when the default stream's work so far is done. An event on the default stream itself would make blocking
   * streams wait for each other. So the event is recorded on a new blocking stream, which waits only for the default
   * stream.
   */
  async #defaultStreamFinished(options: WaitOptions, throwsErrors: boolean): Promise<void> {
    const { driver } = this.#session;
    const marker = this.#defaultStreamMarkers.record((event) => {
      const stream = driver.streamCreateWithPriority(this.#device, streamFlags.default, 0);
      try {
        driver.eventRecord(this.#device, event, stream);
        this.#session.waitErrors?.onDefaultStreamRecorded(this.#device, event);
      } finally {
        driver.streamDestroy(this.#device, stream);
      }
    });
    const progress = progressOf(this.#defaultStream);
    const position = progress.record();
    await this.#defaultStreamMarkers.wait(marker, options, throwsErrors);
    progress.complete(position);
  }

  /**
   * Records an event after the pending work of a stream that is being disposed, so that `finished` can wait for this
   * work.
   */
  #markDisposedStream(stream: bigint): void {
    const { driver } = this.#session;
    for (const event of this.#disposedStreamMarkers) {
      if (this.#isPast(event)) this.#destroyDisposedStreamMarker(event);
    }
    // A stream that is being captured can neither be queried nor waited for.
    if (driver.streamIsCapturing(this.#device, stream)) return;
    // A sanitizer must be informed of the program's waits, even if the work happens to be complete already.
    const isWatched = this.#session.sanitizer !== undefined;
    if (!isWatched && driver.streamQuery(this.#device, stream, { peek: true })) return;
    const event = this.#session.createMarker(this.#device);
    this.#disposedStreamMarkers.add(event);
    driver.eventRecord(this.#device, event, stream);
  }

  /**
   * Returns whether the work before an event is complete and, if there is a sanitizer, the sanitizer knows this. Later
   * waits then need not include the work.
   */
  #isPast(event: bigint): boolean {
    const { driver, sanitizer } = this.#session;
    return driver.eventQuery(event, { forLibrary: true }) && (sanitizer?.isKnown(event) ?? true);
  }

  async #disposedStreamFinished(marker: bigint, options: WaitOptions, throwsErrors: boolean): Promise<void> {
    await waitUntil(() => {
      if (!this.#disposedStreamMarkers.has(marker)) return true;
      const isDone = this.#session.driver.eventQuery(marker);
      if (throwsErrors) this.#session.waitErrors?.throwErrorOfEvent(marker, isDone);
      return isDone;
    }, options);
    if (!this.#disposedStreamMarkers.has(marker)) return;
    // Synchronizes with the event, because pools count the work as done only after a synchronization.
    ignoreLoss(() => this.#session.driver.eventSynchronize(marker));
    this.#destroyDisposedStreamMarker(marker);
  }

  #destroyDisposedStreamMarker(event: bigint): void {
    if (this.#disposedStreamMarkers.delete(event)) this.#session.destroyMarker(event);
  }
}

/**
 * The smallest valid handle. CUDA reads the memory at a handle's address, and smaller addresses would crash the
 * process.
 */
const firstHandle = 4096n;

/**
 * Wraps a stream of a device by its handle. Returns the device's default stream if the handle refers to it.
 *
 * @param onWrap called with the new stream; returns a function to call when the stream is disposed
 */
export function wrapStream(
  session: Session,
  device: CudaDevice,
  handle: bigint,
  onWrap: (stream: CudaStream) => () => void,
): CudaStream {
  checkHandle(handle);
  if (handle === defaultStream || handle === legacyStream) return device.defaultStream;
  const { ordinal } = device;
  const what = `wrap the stream 0x${handle.toString(16)} on device ${ordinal}`;
  let owner: number | undefined;
  let flags = 0;
  let priority = 0;
  try {
    owner = session.driver.streamGetDevice(ordinal, handle);
    if (owner === ordinal) {
      // To ask for the flags of a stream invalidates its capture.
      if (session.driver.streamIsCapturing(ordinal, handle)) throw errorOfCaptured();
      flags = session.driver.streamGetFlags(ordinal, handle);
      priority = session.driver.streamGetPriority(ordinal, handle);
    }
  } catch (error) {
    const isUnknown = error instanceof CudaError && error.code === "cudaErrorInvalidResourceHandle";
    throw cannot(what, error, isUnknown ? "it was destroyed, or is no stream's handle" : undefined);
  }
  if (owner !== ordinal) {
    throw new RangeError(
      owner === undefined
        ? `Cannot ${what}: it belongs to another device, or to a context other than the device's primary context, which ` +
          "this library uses; create it with the CUDA runtime, or in the primary context"
        : `Cannot ${what}: it is a stream of device ${owner}; call wrapStream of that device`,
    );
  }
  const stream: CudaStream = new CudaStream(session, {
    device,
    handle,
    isNonBlocking: (flags & streamFlags.nonBlocking) !== 0,
    priority,
    isForeign: true,
    onDispose: () => onDispose(),
  });
  const onDispose = onWrap(stream);
  return stream;
}

function errorOfCaptured(): CudaError {
  const why = "it is being captured into a graph; wrap it before the capture, or when that has ended";
  return explainedError(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, "cudaStreamGetFlags", why);
}

function checkHandle(handle: bigint): void {
  if (typeof handle !== "bigint") {
    const advice = (handle as unknown) instanceof CudaStream
      ? "it needs no wrapping"
      : "give its handle, a cudaStream_t, as a bigint";
    throw new TypeError(`Cannot wrap ${whatIs(handle)} as a stream: ${advice}`);
  }
  if (handle === perThreadStream) {
    throw new RangeError(
      "Cannot wrap the stream 2: it is cudaStreamPerThread, the default stream of whichever thread makes a call; wrap a " +
        "stream that was created, or use CudaDevice.defaultStream",
    );
  }
  const isPossible = handle === defaultStream || handle === legacyStream ||
    handle >= firstHandle && BigInt.asUintN(64, handle) === handle;
  if (!isPossible) throw new RangeError(`Cannot wrap the stream ${handle}: no stream has this handle`);
}

/**
 * The number of bits of a C int, the type of priorities in CUDA. Priorities that do not fit are refused, because the
 * runtimes differ in how they convert them.
 */
const priorityBits = 32;

/**
 * Returns the priority that CUDA gives: 0 if the device supports no priorities. Throws unless it is in the device's
 * range. CUDA clamps other priorities, which would hide a wrong sign.
 *
 * @param what The object with the priority, in the message: "a stream".
 */
export function checkPriority(priority: number, device: CudaDevice, what: string): number {
  // The type is checked first, because the operator `|` throws for a bigint or a symbol.
  if (typeof priority !== "number" || (priority | 0) !== priority) refusePriority(priority, device, what);
  if (priority === 0) return 0;
  const { least, greatest } = device.streamPriorityRange();
  if (least === greatest) return 0;
  if (priority >= greatest && priority <= least) return priority;
  throw new RangeError(
    `Cannot use ${priority} as ${what}'s priority: it must be from ${greatest}, the greatest priority, to ${least}, ` +
      "the least",
  );
}

function refusePriority(priority: unknown, device: CudaDevice, what: string): never {
  if (typeof priority === "number") {
    throw new RangeError(
      `Cannot use ${priority} as ${what}'s priority: it must be a ${priorityBits}-bit integer; ` +
        "CudaDevice.streamPriorityRange returns the valid range",
    );
  }
  const { least, greatest } = device.streamPriorityRange();
  const range = least === greatest ? "" : ` from ${greatest}, the greatest priority, to ${least}, the least`;
  throw new TypeError(`Cannot use ${whatIs(priority)} as ${what}'s priority: it must be a number${range}`);
}
