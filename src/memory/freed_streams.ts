/**
 * Tracks the streams on which memory is freed, and provides the library's own streams for memory that several streams
 * have used. Pools count freed memory as available only once the host has synchronized with the work that queries have
 * found complete.
 *
 * @module
 */
import type { Driver } from "../driver.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import {
  type CudaStream,
  disownStream,
  isOrderedByDefaultStream,
  lastWorkOf,
  pendingWorkOf,
  progressOf,
} from "../objects/streams/cuda_stream.ts";
import { finishedWithoutErrors, withoutCollectiveErrors } from "../objects/device_sessions.ts";
import { allSettledUnseen } from "../support/lost_devices.ts";
import type { Session } from "../session.ts";
import { ignoreLoss } from "../support/driver_errors.ts";

/** Marks a query as made by the library itself. */
const forLibrary = { forLibrary: true } as const;

/**
 * Whenever the number of streams in the set reaches a multiple of this, disposed streams are replaced by their devices.
 */
const sweepSize = 64;

/**
 * The streams on which a pool's memory was freed. They must be waited for before the pool is destroyed.
 *
 * If a pool is destroyed before the device has executed its frees, driver 580 may crash in a later
 * `cudaMemPoolDestroy`, in a C program too. If an imported pool is destroyed before the host has waited for its frees,
 * a descriptor stays open until the process exits.
 */
export class FreedStreams {
  readonly #streams = new Set<CudaStream>();
  /** The devices of disposed streams: a disposed stream can only be waited for through its device. */
  readonly #devices = new Set<CudaDevice>();
  #last: CudaStream | undefined;

  /** Adds a stream on which memory of the pool was freed. */
  add(stream: CudaStream): void {
    if (stream === this.#last) return;
    this.#last = stream;
    this.#streams.add(stream);
    if (this.#streams.size % sweepSize === 0) this.#sweep();
  }

  /** Yields the streams that are not disposed. */
  *[Symbol.iterator](): Generator<CudaStream> {
    for (const stream of this.#streams) if (!stream.disposed) yield stream;
  }

  /** Resolves when the frees are complete, or their device is lost. */
  async finished(): Promise<void> {
    this.#sweep();
    await allSettledUnseen([...this.#streams, ...this.#devices].map(finishedWithoutErrors));
  }

  /** Blocks until the frees are complete. */
  synchronize(): void {
    this.#sweep();
    for (const stream of this.#streams) withoutCollectiveErrors(stream.device, () => stream.synchronize());
    for (const device of this.#devices) withoutCollectiveErrors(device, () => device.synchronize());
    this.#streams.clear();
    this.#devices.clear();
    this.#last = undefined;
  }

  /**
   * Blocks until the frees are complete, using `driver`. Used at the end of the session, when the session's own driver
   * can no longer be used.
   */
  synchronizeBy(driver: Driver): void {
    this.#sweep();
    for (const { device, unsafeHandle } of this.#streams) driver.streamSynchronize(device.ordinal, unsafeHandle);
    for (const { ordinal } of this.#devices) driver.deviceSynchronize(ordinal);
  }

  #sweep(): void {
    for (const stream of this.#streams) {
      if (!stream.disposed) continue;
      this.#streams.delete(stream);
      this.#devices.add(stream.device);
    }
  }
}

/**
 * The library's own streams for freeing memory that several streams have used. A release stream waits for the streams
 * that have used the memory, so that the application's streams need not wait for each other.
 *
 * Each application stream whose work a free must wait for gets a release stream of its own: work that never completes
 * delays only the frees of memory that it uses.
 */
export class ReleaseStreams {
  readonly #session: Session;
  readonly #byStream = new Map<CudaStream, CudaStream>();
  /** Release streams whose application stream was disposed and has completed its work, for reuse. */
  readonly #idle: CudaStream[] = [];
  /** One event per device, recorded again for each wait. */
  readonly #events = new Map<number, bigint>();

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Returns a stream whose later work runs after all work enqueued so far on `stream`, and after the work of each
   * stream in `others` up to the position that `others` maps the stream to. Returns `stream` itself if it is already
   * ordered after this work, otherwise a release stream.
   *
   * @param options.isStreamOrdered Whether the memory is freed in stream order. If so, CUDA's implicit order between a
   *   device's default stream and its blocking streams suffices, and no event is needed.
   */
  join(
    stream: CudaStream,
    others: ReadonlyMap<CudaStream, number>,
    { isStreamOrdered }: { readonly isStreamOrdered: boolean },
  ): CudaStream {
    let busy: CudaStream[] | undefined;
    for (const [other, position] of others) {
      if (other === stream || progressOf(stream).isAfter(progressOf(other), position)) continue;
      if (isStreamOrdered && isOrderedByDefaultStream(other, stream)) continue;
      // With a sanitizer, always waits for the stream instead of querying it: after a successful query, the sanitizer
      // would assume that the program is ordered after the work, which may merely happen to be complete.
      if (this.#session.sanitizer !== undefined || this.#isBusy(other)) (busy ??= []).push(other);
    }
    if (busy === undefined) return stream;
    const release = this.#streamFor(busy[0]!);
    for (const each of [stream, ...busy]) this.#makeWait(release, each);
    return release;
  }

  #isBusy(stream: CudaStream): boolean {
    const { driver } = this.#session;
    if (stream.disposed) return pendingWorkOf(stream) !== undefined;
    return !driver.streamQuery(stream.device.ordinal, stream.unsafeHandle, forLibrary);
  }

  #makeWait(release: CudaStream, stream: CudaStream): void {
    const { device: { ordinal }, unsafeHandle } = release;
    if (stream.disposed) return lastWorkOf(stream)?.precede({ device: ordinal, stream: unsafeHandle });
    const { driver } = this.#session;
    if (stream.isCapturing) {
      // The work of the capture is not executed. A graph with the memory waits for its own launches.
      return pendingWorkOf(stream)?.precede({ device: ordinal, stream: unsafeHandle });
    }
    const event = this.#eventOf(stream.device.ordinal);
    driver.eventRecord(stream.device.ordinal, event, stream.unsafeHandle);
    driver.streamWaitEvent(ordinal, unsafeHandle, event);
  }

  #eventOf(device: number): bigint {
    let event = this.#events.get(device);
    if (event === undefined) {
      event = this.#session.createMarker(device);
      this.#events.set(device, event);
    }
    return event;
  }

  #streamFor(stream: CudaStream): CudaStream {
    let release = this.#byStream.get(stream);
    if (release === undefined) {
      this.#collectIdle();
      release = this.#takeIdle(stream.device.ordinal) ?? this.#create(stream.device);
      this.#byStream.set(stream, release);
    }
    return release;
  }

  #create(device: CudaDevice): CudaStream {
    const release = device.createStream({ nonBlocking: true });
    disownStream(release);
    return release;
  }

  #takeIdle(device: number): CudaStream | undefined {
    const index = this.#idle.findIndex((idle) => idle.device.ordinal === device && !this.#isBusy(idle));
    return index < 0 ? undefined : this.#idle.splice(index, 1)[0];
  }

  /** Reclaims the release streams of disposed streams that have completed their work. */
  #collectIdle(): void {
    for (const [stream, release] of this.#byStream) {
      if (!stream.disposed || pendingWorkOf(stream) !== undefined) continue;
      this.#byStream.delete(stream);
      this.#idle.push(release);
    }
  }
}

/** A stream or an event of the application. Both can be queried and synchronized with. */
export interface Waitable {
  /** Whether it is a stream that is being captured, and can neither be queried nor synchronized with. */
  readonly isCapturing?: boolean;
  query(): boolean;
  synchronize(): void;
}

/**
 * The members of a session that {@linkcode CompletedEvents} uses. A marker is an event that the library has created.
 */
interface MarkerOwner {
  readonly driver: Driver;
  withoutCollectiveErrors<Result>(wait: () => Result): Result;
  destroyMarker(marker: bigint): void;
}

/**
 * The maximum number of disposed events that are kept. When it is reached, all of them are synchronized with and
 * destroyed.
 */
const maxKeptEvents = 64;

/**
 * The work that a program has found to be complete without a synchronization: with `finished`, `read` or `query`.
 *
 * CUDA's pools count freed memory as available only once a synchronization, not a query, has found the free complete. A
 * synchronization unmaps memory and releases it to the system, which takes 0.1 ms or more, so waits avoid it. Instead,
 * `synchronize` synchronizes with all of this work at once when the count matters: before a pool is trimmed, when a
 * pool's usage is requested, and when a pool has no memory left.
 *
 * Streams with newer work and events that were recorded again are skipped: they are no longer complete.
 */
export class CompletedEvents {
  readonly #session: MarkerOwner;
  readonly #markers = new Set<bigint>();
  /** Complete events that the application has disposed. The session now owns and destroys them. */
  readonly #keptEvents = new Set<bigint>();
  readonly #waitables = new Set<Waitable>();
  /** The stream or event that was added last: programs that poll add the same one again and again. */
  #last: Waitable | undefined;

  constructor(session: MarkerOwner) {
    this.#session = session;
  }

  /** Adds a completed event of the library. The event must not be recorded again before `deleteMarker`. */
  addMarker(marker: bigint): void {
    this.#markers.add(marker);
  }

  /** Removes an event of the library that is about to be recorded again or destroyed. */
  deleteMarker(marker: bigint): void {
    this.#markers.delete(marker);
    this.#keptEvents.delete(marker);
  }

  /** Takes ownership of a complete event that the application has disposed, and destroys it later. */
  keepEvent(event: bigint): void {
    this.#keptEvents.add(event);
    if (this.#keptEvents.size === maxKeptEvents) this.synchronize();
  }

  /** Adds a stream or an event of the application. */
  add(waitable: Waitable): void {
    if (waitable === this.#last) return;
    this.#last = waitable;
    this.#waitables.add(waitable);
  }

  /** Removes a stream or an event that the application is disposing. Returns whether it had been added. */
  delete(waitable: Waitable): boolean {
    if (waitable === this.#last) this.#last = undefined;
    return this.#waitables.delete(waitable);
  }

  /**
   * Synchronizes with all added events and streams that are still complete, without blocking. Returns whether there
   * were any.
   */
  synchronize(): boolean {
    if (this.#markers.size === 0 && this.#keptEvents.size === 0 && this.#waitables.size === 0) return false;
    const session = this.#session;
    ignoreLoss(() =>
      session.withoutCollectiveErrors(() => {
        const { driver } = session;
        for (const marker of this.#markers) driver.eventSynchronize(marker);
        for (const event of this.#keptEvents) driver.eventSynchronize(event);
        for (const waitable of this.#waitables) {
          if (waitable.isCapturing !== true && waitable.query()) waitable.synchronize();
        }
      })
    );
    for (const event of this.#keptEvents) this.#session.destroyMarker(event);
    this.#markers.clear();
    this.#waitables.clear();
    this.#last = undefined;
    return true;
  }
}

/** Maximum time to wait for streams on which memory was freed to become idle, in milliseconds. */
const idleTimeoutMilliseconds = 2;

/**
 * Synchronizes with the streams that are idle or soon become idle, so that memory that was freed on them counts as
 * free.
 */
export function synchronizeSoonIdle(streams: Iterable<CudaStream>): void {
  const deadline = performance.now() + idleTimeoutMilliseconds;
  for (const stream of streams) {
    if (!becomesIdle(stream, deadline)) continue;
    withoutCollectiveErrors(stream.device, () => stream.synchronize());
  }
}

/** Waits for a stream to become idle, until the deadline at the latest. Returns whether the stream has become idle. */
function becomesIdle(stream: CudaStream, deadline: number): boolean {
  if (stream.isCapturing) return false;
  do {
    if (withoutCollectiveErrors(stream.device, () => stream.query())) return true;
  } while (performance.now() < deadline);
  return false;
}
