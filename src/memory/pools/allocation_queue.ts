import { type CudaStream, whenStreamDisposed } from "../../objects/streams/cuda_stream.ts";
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
import { MemoryProgress } from "./memory_progress.ts";

/** Options of an allocation that waits for memory. */
export interface AllocateAsyncOptions extends WaitOptions {
  /** The stream to allocate on. Defaults to the device's default stream; required for a pool in host memory. */
  stream?: CudaStream;
}

/** The options of an allocation that waits for memory. */
export const allocateAsyncOptions: KnownOptions<AllocateAsyncOptions> = {
  action: "allocate memory",
  names: { stream: true, signal: true },
};

/** An allocation that may have to wait for memory. */
export interface QueuedAllocation extends WaitOptions {
  /** The allocation in error messages: `"allocate 4 bytes from the pool on device 0"`. */
  readonly what: string;
  readonly stream: CudaStream;
  /** Throws if the allocation has become impossible: the pool or the stream was disposed. */
  readonly check: () => void;
  /** Says who has the memory, if that is known, for the error of an aborted wait. */
  readonly describe?: () => string | undefined;
  /** Allocates the memory; undefined if there is too little. */
  readonly attempt: () => Allocation | undefined;
}

/**
 * Allocations that wait for memory, first in, first out: the first one gets the memory that is freed until it has enough,
 * so that smaller ones behind it do not starve it.
 */
export class AllocationQueue {
  readonly #session: Session;
  readonly #device: CudaDevice | undefined;
  readonly #mutex = new Mutex();

  constructor(session: Session, device: CudaDevice | undefined) {
    this.#session = session;
    this.#device = device;
  }

  /** Resolves when the memory is allocated. Rejects with what `check` throws, or with an aborted signal's reason. */
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

  /** Waits for the allocations before this one. Rejects at once if the stream is disposed meanwhile. */
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

/** What an allocation waits for. */
function awaited(what: string): string {
  return `memory to ${what}`;
}

/** The error to throw for one that ended a wait for memory: `check` throws a ReferenceError after a disposal. */
function disposalOf(error: unknown, what: string): unknown {
  return error instanceof ReferenceError ? disposedMeanwhile(what, "its pool, stream or Cuda object") : error;
}
