/**
 * A queue of allocations that wait for memory, and the decision when to retry them.
 *
 * @module
 */
import { type CudaStream, whenStreamDisposed } from "../../objects/streams/cuda_stream.ts";
import type { KnownStreamOptions, StreamOption } from "../../objects/streams/stream_option.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { Session } from "../../session.ts";
import { cannot, driverErrorOf } from "../../support/driver_errors.ts";
import {
  abortError,
  disposedMeanwhile,
  Mutex,
  throwIfAborted,
  type WaitOptions,
  waitUntil,
} from "../../support/waiting/waiting.ts";
import type { KnownOptions } from "../../support/validation.ts";
import type { Allocation } from "../allocation.ts";

/** Options of an allocation that may wait for memory. */
export interface AllocateAsyncOptions extends WaitOptions {
  /** The stream to allocate on. Defaults to the device's default stream; required for a pool in host memory. */
  stream?: CudaStream;
}

/** Describes the options of an allocation that may wait for memory, for validation by `checkOptions`. */
export const allocateAsyncOptions: KnownOptions<AllocateAsyncOptions> = {
  action: "allocate memory",
  names: { stream: true, signal: true },
};

/** Describes the options of an allocation that does not wait. */
export const allocateOptions: KnownStreamOptions<StreamOption> = {
  action: "allocate memory",
  names: { stream: true },
  instead: { signal: "allocate does not wait; use await allocateAsync(byteLength, { stream, signal })" },
  usage: "allocate(byteLength, stream) or allocate(byteLength, { stream })",
};
/** Describes the options of an allocation of an array. */
export const allocateArrayOptions: KnownStreamOptions<StreamOption> = {
  action: "allocate an array",
  names: { stream: true },
  usage: "allocateArray(type, length, stream) or allocateArray(type, length, { stream })",
};

/** An allocation that may have to wait for memory. */
export interface QueuedAllocation extends WaitOptions {
  /** The description of the allocation in error messages: `"allocate 4 bytes from the pool on device 0"`. */
  readonly what: string;
  readonly stream: CudaStream;
  /** Throws if the allocation has become impossible: the pool or the stream was disposed. */
  readonly check: () => void;
  /** Describes the buffers that use the memory, if known, for the error of an aborted wait. */
  readonly describe?: () => string | undefined;
  /** Tries to allocate the memory. Returns undefined if too little is left. */
  readonly attempt: () => Allocation | undefined;
}

/**
 * A first-in, first-out queue of allocations that wait for memory. Freed memory is reserved for the first allocation
 * until it has enough, so that smaller, later allocations do not starve it.
 */
export class AllocationQueue {
  readonly #session: Session;
  readonly #device: CudaDevice | undefined;
  readonly #mutex = new Mutex();

  constructor(session: Session, device: CudaDevice | undefined) {
    this.#session = session;
    this.#device = device;
  }

  /**
   * Resolves when the memory is allocated. Rejects with the error that `check` throws, or with the signal's reason if
   * the signal is aborted.
   */
  async allocate({ what, stream, check, attempt, describe, signal }: QueuedAllocation): Promise<Allocation> {
    throwIfAborted(signal, awaited(what));
    await this.#turn({ what, stream, check, signal });
    const progress = new MemoryProgress(this.#session, this.#device);
    try {
      let allocation: Allocation | undefined;
      await waitUntil(() => {
        check();
        if (!progress.hasChanged()) return false;
        allocation = attempt();
        if (allocation === undefined) progress.note();
        return allocation !== undefined;
      }, signal === undefined ? {} : { signal });
      return allocation!;
    } catch (error) {
      if (signal?.aborted === true && error === signal.reason) throw abortError(error, awaited(what), describe);
      throw cannot(what, driverErrorOf(disposalOf(error, what)));
    } finally {
      progress.close();
      this.#mutex.release();
    }
  }

  /** Waits for the earlier allocations in the queue. Rejects as soon as the stream is disposed. */
  async #turn({ what, stream, check, signal }: Omit<QueuedAllocation, "attempt">): Promise<void> {
    if (this.#mutex.tryAcquire()) return;
    const disposed = new AbortController();
    const stopWatching = whenStreamDisposed(stream, () => disposed.abort());
    try {
      await this.#mutex.acquire([signal, disposed.signal], awaited(what));
    } catch (error) {
      try {
        if (disposed.signal.aborted) check();
      } catch (cause) {
        throw cannot(what, driverErrorOf(disposalOf(cause, what)));
      }
      throw error;
    } finally {
      stopWatching();
    }
  }
}

/** Returns the description of the awaited memory for an error's message. */
function awaited(what: string): string {
  return `memory to ${what}`;
}

/**
 * Returns the error to throw after `error` has aborted a wait. A ReferenceError, which `check` throws if the pool or
 * the stream was disposed, is replaced by an error that names the awaited memory.
 */
function disposalOf(error: unknown, what: string): unknown {
  return error instanceof ReferenceError ? disposedMeanwhile(what, "its pool, stream or Cuda object") : error;
}

/** A point in a stream's work: once the device has reached it, the frees enqueued before it have been executed. */
interface Mark {
  /**
   * The event recorded at the point. Undefined for a default stream, which is queried instead, because recording an
   * event on it would be a barrier for other streams.
   */
  readonly event: bigint | undefined;
  /** The value of `MemoryRegistry.frees` when the event was recorded. */
  frees: number;
  isPending: boolean;
}

/** The initial and the maximum interval in milliseconds between attempts while nothing has changed in this process. */
const interval = { first: 1, most: 64 };

/**
 * Decides when to retry a refused allocation: after this process has freed memory on the device, after a stream has
 * executed frees, and at growing intervals, because other processes free memory too.
 */
export class MemoryProgress {
  readonly #session: Session;
  readonly #device: CudaDevice | undefined;
  readonly #marks = new Map<CudaStream, Mark>();
  #frees = -1;
  #used = -1;
  #interval = interval.first;
  #nextAttempt = 0;

  /** @param device The device of the memory; undefined for host memory. */
  constructor(session: Session, device: CudaDevice | undefined) {
    this.#session = session;
    this.#device = device;
  }

  /**
   * Returns whether a refused allocation should be attempted again. Synchronizes with the frees that are known to be
   * complete, which does not block.
   */
  hasChanged(): boolean {
    const { driver, memory } = this.#session;
    let hasChanged = memory.frees !== this.#frees || this.#usedOfCaches() !== this.#used;
    for (const [{ device: { ordinal }, unsafeHandle }, mark] of this.#marks) {
      const { event } = mark;
      if (!mark.isPending) continue;
      if (!(event === undefined ? driver.streamQuery(ordinal, unsafeHandle) : driver.eventQuery(event))) continue;
      mark.isPending = false;
      if (event === undefined) driver.streamSynchronize(ordinal, unsafeHandle);
      else driver.eventSynchronize(event);
      hasChanged = true;
    }
    if (hasChanged) this.#interval = interval.first;
    return hasChanged || performance.now() >= this.#nextAttempt;
  }

  /**
   * Records how much memory was in use when an allocation was refused, and which frees are pending, so that
   * `hasChanged` can detect a change.
   */
  note(): void {
    this.#frees = this.#session.memory.frees;
    this.#used = this.#usedOfCaches();
    this.#nextAttempt = performance.now() + this.#interval;
    this.#interval = Math.min(2 * this.#interval, interval.most);
    for (const { device, freedStreams } of this.#session.memory.pools) {
      if (device === this.#device) { for (const stream of freedStreams) this.#mark(stream); }
    }
  }

  /** Destroys the events. */
  close(): void {
    for (const { event } of this.#marks.values()) if (event !== undefined) this.#session.destroyMarker(event);
    this.#marks.clear();
  }

  #mark(stream: CudaStream): void {
    let mark = this.#marks.get(stream);
    if (mark !== undefined && (mark.isPending || mark.frees === this.#frees)) return;
    if (stream.isCapturing) return;
    const { ordinal, defaultStream } = stream.device;
    if (mark === undefined) {
      const event = stream === defaultStream ? undefined : this.#session.createMarker(ordinal);
      mark = { event, frees: 0, isPending: false };
      this.#marks.set(stream, mark);
    }
    if (mark.event !== undefined) this.#session.driver.eventRecord(ordinal, mark.event, stream.unsafeHandle);
    mark.isPending = true;
    mark.frees = this.#frees;
  }

  #usedOfCaches(): number {
    let used = 0;
    for (const cache of this.#session.memory.caches) used += cache.used;
    return used;
  }
}
