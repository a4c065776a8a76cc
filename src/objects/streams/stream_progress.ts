/**
 * The progress of streams: the order of their work, work that was pending at some time, and the events recorded after
 * it.
 *
 * @module
 */
import { defaultStream, type Driver, streamFlags } from "../../driver.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import { cudaErrorNumbers, explainedError } from "../../support/errors.ts";
import type { Session } from "../../session.ts";
import { type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";

/**
 * The maximum number of streams whose waits are kept, in addition to the stream that was waited for last. Dropping a
 * wait only causes a redundant wait before a free.
 */
const rememberedWaits = 16;

/**
 * The progress of a stream, and the work of other streams that is ordered before its own, as far as the program's
 * events and waits show it. If a program orders its streams with events, the library need not order them again when
 * memory is freed.
 *
 * Positions in a stream's work are counted in event records: work that is enqueued while `position` is n precedes the
 * record that increments it to n + 1.
 */
export class StreamProgress {
  /** The number of event records so far. */
  position = 0;
  /** The position before which all work is known to be complete. */
  completed = 0;
  /** The stream that this stream waited for last. Kept separately from `#others`, for speed. */
  #last: StreamProgress | undefined;
  /** The latest position in the work of `#last` that this stream waited for. */
  #lastPosition = 0;
  /** Maps each other stream that this stream waited for to the latest position waited for. */
  #others: Map<StreamProgress, number> | undefined;

  /** Counts an event record. Returns its position: the event completes with all work before that position. */
  record(): number {
    return ++this.position;
  }

  /** Marks all work before an event record as complete. `position` is the record's position. */
  complete(position: number): void {
    if (position > this.completed) this.completed = position;
  }

  /** Marks all work so far as complete. */
  completeAll(): void {
    this.completed = ++this.position;
  }

  /** Records that later work of this stream is ordered after the event record at `position` of another stream. */
  waitFor(other: StreamProgress, position: number): void {
    if (other !== this.#last) this.#changeLast(other);
    if (position > this.#lastPosition) this.#lastPosition = position;
  }

  /** Returns whether another stream's work at `position` is complete, or is ordered before this stream's later work. */
  isAfter(other: StreamProgress, position: number): boolean {
    if (other.completed > position) return true;
    const reached = other === this.#last ? this.#lastPosition : this.#others?.get(other) ?? 0;
    return reached > position;
  }

  #changeLast(other: StreamProgress): void {
    const others = this.#others ??= new Map();
    if (this.#last !== undefined) others.set(this.#last, this.#lastPosition);
    this.#last = other;
    this.#lastPosition = others.get(other) ?? 0;
    // Limits the size of the map, because a program may use a new stream for each task.
    if (others.size > rememberedWaits) others.clear();
  }
}

/** Marks a query as made by the library itself: the program does not learn the result. */
const forLibrary = { forLibrary: true };

/** A stream, by its device's ordinal and its handle. */
interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
  /** Returns whether the stream was disposed: its handle must not be used any more. */
  readonly isDisposed?: () => boolean;
}

/**
 * The work that was enqueued on a stream before the object was created. The object can outlive the stream and the
 * session.
 *
 * Usually the work is pending when the object is created. With a sanitizer, the work may already be complete. The
 * library then still makes the driver calls that order later work after it, because the sanitizer observes them. They
 * are omitted once the sanitizer knows that the program is ordered after the work.
 */
export class PendingWork {
  readonly #session: Session;
  readonly #driver: Driver;
  readonly #stream: StreamHandle;
  /**
   * The event recorded after the work; undefined once nothing needs to be ordered after it. A default stream has none,
   * because recording an event on it would order the work of blocking streams; nor has a stream that another library is
   * capturing, whose work counts as pending until the capture has ended.
   */
  #marker: bigint | undefined;
  #isComplete = false;
  #isLost = false;

  private constructor(session: Session, stream: StreamHandle) {
    this.#session = session;
    this.#driver = session.driver;
    this.#stream = stream;
    if (stream.stream === defaultStream) return;
    if (isCapturedByOthers(session, stream)) return;
    const before = session.captures.markerBefore(stream.stream);
    const marker = session.createMarker(stream.device);
    try {
      if (before === undefined) this.#driver.eventRecord(stream.device, marker, stream.stream);
      else recordBehind(session.driver, stream.device, { marker, before });
    } catch (error) {
      session.destroyMarker(marker);
      throw error;
    }
    this.#marker = marker;
  }

  /** Returns the work enqueued on a stream so far; undefined if the work is complete. */
  static of(session: Session, stream: StreamHandle): PendingWork | undefined {
    if (session.driver.streamQuery(stream.device, stream.stream, { peek: true })) return undefined;
    return new PendingWork(session, stream);
  }

  /**
   * Returns the work enqueued on a stream that is about to be destroyed; undefined if nothing needs to be ordered after
   * it.
   */
  static last(session: Session, stream: StreamHandle): PendingWork | undefined {
    // The stream is about to be destroyed, so it can never be asked.
    if (isCapturedByOthers(session, stream)) return undefined;
    if (session.sanitizer === undefined) return PendingWork.of(session, stream);
    const work = new PendingWork(session, stream);
    return work.isPast ? undefined : work;
  }

  /** Whether the work is complete, or lost with its device. For a default stream: whether the stream is idle. */
  get isComplete(): boolean {
    if (this.#isComplete) return true;
    // The work before the capture is not known any more. It is complete, unless the capture's owner let it go.
    if (this.#marker === undefined && this.#stream.isDisposed?.()) return this.#isComplete = true;
    let isComplete = true;
    this.#isLost = true;
    ignoreLoss(() => {
      isComplete = this.#marker === undefined
        ? this.#driver.streamQuery(this.#stream.device, this.#stream.stream, forLibrary)
        : this.#driver.eventQuery(this.#marker, forLibrary);
      this.#isLost = false;
    });
    if (!isComplete) return false;
    this.#isComplete = true;
    if (this.#session.sanitizer === undefined) this.#forgetMarker();
    return true;
  }

  /**
   * Whether nothing needs to be ordered after the work: it is complete and, if there is a sanitizer, the sanitizer
   * knows that the program is ordered after it.
   */
  get isPast(): boolean {
    if (!this.isComplete) return false;
    const isKnown = this.#isLost || this.#marker !== undefined && this.#session.sanitizer?.isKnown(this.#marker);
    if (isKnown) this.#forgetMarker();
    return this.#marker === undefined;
  }

  /** Whether the device was lost before the work was known to be complete. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Makes a stream wait for the work, which must not be work of a default stream. */
  precede({ device, stream }: StreamHandle): void {
    if (this.isPast) return;
    const marker = this.#marker;
    if (marker === undefined) {
      const why = "another library is capturing the stream into a graph; free it when the capture has ended";
      throw explainedError(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, "cudaEventRecord", why);
    }
    this.#driver.streamWaitEvent(device, stream, marker);
  }

  #forgetMarker(): void {
    if (this.#marker === undefined) return;
    this.#session.destroyMarker(this.#marker);
    this.#marker = undefined;
  }
}

/** Whether a stream is being captured, but not by the session. */
function isCapturedByOthers({ captures, driver }: Session, { device, stream }: StreamHandle): boolean {
  return captures.of(stream) === undefined && driver.streamIsCapturing(device, stream);
}

/** Records an event behind another one. */
function recordBehind(driver: Driver, device: number, { marker, before }: { marker: bigint; before: bigint }): void {
  const stream = driver.streamCreateWithPriority(device, streamFlags.nonBlocking, 0);
  try {
    driver.streamWaitEvent(device, stream, before);
    driver.eventRecord(device, marker, stream);
  } finally {
    driver.streamDestroy(device, stream);
  }
}

/** A recorded event. */
export interface Marker {
  readonly event: bigint;
  /** The sequence number of the record among all records of a `Markers` object. */
  readonly order: number;
}

/**
 * The events that `finished` of a stream or a device records and waits for. The events are reused for later records,
 * except the latest event that was found complete: the session synchronizes with this event when a pool needs to know
 * which memory is free.
 */
export class Markers implements Disposable {
  readonly #session: Session;
  /** The ordinal of the device that the events belong to. */
  readonly #device: number;
  readonly #idle: bigint[] = [];
  #recordCount = 0;
  /** The most recently recorded of the complete markers. */
  #completed: Marker | undefined;
  #isDisposed = false;

  constructor(session: Session, device: number) {
    this.#session = session;
    this.#device = device;
  }

  /** Calls `record` with an event. Returns the marker, to pass to `wait` once. */
  record(record: (event: bigint) => void): Marker {
    const event = this.#idle.pop() ?? this.#session.createMarker(this.#device);
    try {
      record(event);
    } catch (error) {
      this.#release(event);
      throw error;
    }
    return { event, order: ++this.#recordCount };
  }

  /**
   * Resolves when the marker's event is complete.
   *
   * @param throwsErrors whether to reject with errors of failed collectives
   */
  async wait(marker: Marker, options: WaitOptions, throwsErrors: boolean): Promise<void> {
    try {
      // The driver is read at each poll, because the session replaces it when it ends.
      await waitUntil(() => {
        const isDone = this.#session.driver.eventQuery(marker.event);
        if (throwsErrors) this.#session.waitErrors?.throwErrorOfEvent(marker.event, isDone);
        return isDone;
      }, options);
      this.complete(marker);
    } catch (error) {
      this.abandon(marker);
      throw error;
    }
  }

  /** Removes a marker that is no longer waited for. */
  abandon(marker: Marker): void {
    this.#release(marker.event);
  }

  /**
   * Removes a marker that is known to be complete. If waits overlap, markers need not become complete in the order in
   * which they were recorded.
   */
  complete(marker: Marker): void {
    if (this.#isDisposed) return this.#observe(marker);
    const latest = this.#completed;
    if (latest !== undefined && latest.order > marker.order) return this.#release(marker.event);
    if (latest !== undefined) this.#release(latest.event);
    this.#completed = marker;
    this.#session.completed.addMarker(marker.event);
  }

  /** Synchronizes with a complete marker, so that pools count the work before it as done, and destroys the marker. */
  #observe({ event }: Marker): void {
    ignoreLoss(() => this.#session.driver.eventSynchronize(event));
    this.#session.destroyMarker(event);
  }

  /** Makes an event available for reuse. */
  #release(event: bigint): void {
    this.#session.completed.deleteMarker(event);
    if (this.#isDisposed) this.#session.destroyMarker(event);
    else this.#idle.push(event);
  }

  /** Destroys the events. Waits that are pending still resolve. */
  [Symbol.dispose](): void {
    this.#isDisposed = true;
    const completed = this.#completed;
    this.#completed = undefined;
    if (completed !== undefined) this.#observe(completed);
    for (const event of this.#idle.splice(0)) this.#session.destroyMarker(event);
  }
}
