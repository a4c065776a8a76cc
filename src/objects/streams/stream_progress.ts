/**
 * The progress of streams: the order of their work, the work that was pending at some moment, and the events recorded
 * for it.
 *
 * @module
 */
import { defaultStream, type Driver } from "../../driver.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";
import { type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";

/** The streams whose waits are remembered, apart from the last one. Forgetting a wait makes a free wait again. */
const rememberedWaits = 16;

/**
 * The progress of a stream, and the work of other streams that is ordered before its own, as far as the program's
 * events and waits show it. With it, a program that orders its streams by events need not do so again when it frees
 * memory.
 *
 * Positions in a stream's work are counted in records of events: work that is enqueued when `position` is n comes before
 * the record that makes it n + 1.
 */
export class StreamProgress {
  /** The number of records so far. */
  position = 0;
  /** Work before this position is known to be complete. */
  completed = 0;
  /** The stream that was last waited for, and the position to which. Kept apart from the others to be quick. */
  #last: StreamProgress | undefined;
  #lastPosition = 0;
  /** The other streams that were waited for. */
  #others: Map<StreamProgress, number> | undefined;

  /** Records the record of an event and returns its position: it completes with all work before that position. */
  record(): number {
    return ++this.position;
  }

  /** Records that the record at a position was found complete. */
  complete(position: number): void {
    if (position > this.completed) this.completed = position;
  }

  /** Records that all work so far was found complete. */
  completeAll(): void {
    this.completed = ++this.position;
  }

  /** Records that later work is ordered after the record at a position of another stream. */
  waitFor(other: StreamProgress, position: number): void {
    if (other !== this.#last) this.#changeLast(other);
    if (position > this.#lastPosition) this.#lastPosition = position;
  }

  /** Whether the work of another stream at `position` is complete, or ordered before later work of this one. */
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
    // A program may use a new stream for each task.
    if (others.size > rememberedWaits) others.clear();
  }
}

/** The library asks for its own purposes, of which the program learns nothing. */
const forLibrary = { forLibrary: true };

/** A stream, by its device's ordinal and its handle. */
interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
}

/**
 * The work that was enqueued on a stream until some moment. It outlives the stream and the session.
 *
 * Usually it was not complete then. With a sanitizer, it may have been complete by luck: later work is then still
 * ordered after it by calls of the driver, which the sanitizer sees, until the program knows that the work is done.
 */
export class PendingWork {
  readonly #session: Session;
  readonly #driver: Driver;
  readonly #stream: StreamHandle;
  /**
   * Recorded after the work, until nothing has to be ordered after it. A default stream has none: an event on it would
   * order the blocking streams' work before and after it.
   */
  #marker: bigint | undefined;
  #isComplete = false;
  #isLost = false;

  private constructor(session: Session, stream: StreamHandle) {
    this.#session = session;
    this.#driver = session.driver;
    this.#stream = stream;
    if (stream.stream === defaultStream) return;
    const marker = session.createMarker(stream.device);
    try {
      this.#driver.eventRecord(stream.device, marker, stream.stream);
    } catch (error) {
      session.destroyMarker(marker);
      throw error;
    }
    this.#marker = marker;
  }

  /** The work enqueued on a stream so far; undefined if it is complete. */
  static of(session: Session, stream: StreamHandle): PendingWork | undefined {
    if (session.driver.streamQuery(stream.device, stream.stream, { peek: true })) return undefined;
    return new PendingWork(session, stream);
  }

  /** The work enqueued on a stream; undefined if nothing has to be ordered after it. */
  static last(session: Session, stream: StreamHandle): PendingWork | undefined {
    if (session.sanitizer === undefined) return PendingWork.of(session, stream);
    const work = new PendingWork(session, stream);
    return work.isPast ? undefined : work;
  }

  /** Whether the work is complete, or lost with its device. For a default stream: whether the stream is idle. */
  get isComplete(): boolean {
    if (this.#isComplete) return true;
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

  /** Whether nothing has to be ordered after the work: it is complete, and a sanitizer knows why. */
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

  /** Makes a stream wait for the work, which must not be a default stream's. */
  precede({ device, stream }: StreamHandle): void {
    if (!this.isPast) this.#driver.streamWaitEvent(device, stream, this.#marker!);
  }

  #forgetMarker(): void {
    if (this.#marker === undefined) return;
    this.#session.destroyMarker(this.#marker);
    this.#marker = undefined;
  }
}

/** A recorded event. */
export interface Marker {
  readonly event: bigint;
  /** How many records there were up to this one. */
  readonly order: number;
}

/**
 * The events that `finished` of a stream or a device records and waits for. Each is used again for later records, except
 * the latest that was found complete: the session synchronizes with it when a pool needs that.
 */
export class Markers implements Disposable {
  readonly #session: Session;
  /** The ordinal of the device that the events belong to. */
  readonly #device: number;
  readonly #idle: bigint[] = [];
  #recordCount = 0;
  /** Of the markers that were found complete, the one that was recorded last. */
  #completed: Marker | undefined;
  #isDisposed = false;

  constructor(session: Session, device: number) {
    this.#session = session;
    this.#device = device;
  }

  /** Calls `record` with an event. Returns what `wait` takes, once. */
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
   * Resolves when a marker is complete.
   *
   * @param throwsErrors whether to reject with errors of failed collectives
   */
  async wait(marker: Marker, options: WaitOptions, throwsErrors: boolean): Promise<void> {
    try {
      // Reads the driver at each poll, because the session replaces it at its end.
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
   * Removes a marker that is known to be complete. Waits that overlap may be found complete in another order than that
   * of their records.
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

  /** Makes an event available for another record. */
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
