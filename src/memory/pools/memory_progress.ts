import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { Session } from "../../session.ts";

/** A record on a stream of what was enqueued there before. */
interface Mark {
  /** Undefined for a default stream, on which a record would be a barrier for other streams: it is queried instead. */
  readonly event: bigint | undefined;
  /** The number of frees at the record. */
  frees: number;
  isPending: boolean;
}

/** Milliseconds until the next attempt if nothing has changed in this process: at first, and at most. */
const interval = { first: 1, most: 64 };

/**
 * Tells when an allocation that was refused may succeed: when this process has freed memory on the device, when a stream
 * has executed frees, and, because other processes free memory too, again and again at growing intervals.
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

  /** Whether to try again. Synchronizes with the frees that are known to be complete, which does not block. */
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

  /** Notes the state of the memory, after an allocation was refused. */
  note(): void {
    this.#frees = this.#session.memory.frees;
    this.#used = this.#usedOfCaches();
    this.#nextAttempt = performance.now() + this.#interval;
    this.#interval = Math.min(2 * this.#interval, interval.most);
    for (const { device, freedStreams } of this.#session.memory.pools) {
      if (device === this.#device) { for (const stream of freedStreams) this.#mark(stream); }
    }
  }

  /** Releases the events. */
  close(): void {
    for (const { event } of this.#marks.values()) if (event !== undefined) this.#session.destroyMarker(event);
    this.#marks.clear();
  }

  #mark(stream: CudaStream): void {
    let mark = this.#marks.get(stream);
    if (mark !== undefined && (mark.isPending || mark.frees === this.#frees)) return;
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
