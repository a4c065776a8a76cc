/**
 * A throttle for launches: CUDA takes some 1020 kernels and copies on a stream that have not begun. One more blocks the
 * host, and with it the code that could abort a collective that they come after. So while collectives are unfinished,
 * the host waits, polling, before a queue is that long.
 *
 * @module
 */

/** The number of calls enqueued on a stream between two checks of the stream's progress. */
const callsBetweenChecks = 250;
/** The maximum number of recorded events per stream that may be incomplete. */
const maximumOutstandingChecks = 2;
/** The number of calls between two checks if the sanitizer is active, which may turn a launch into three CUDA calls. */
const sanitizedCallsBetweenChecks = 80;

/** The operations on events by which the throttle determines a stream's progress. */
interface ThrottleEvents {
  createEvent(device: number): bigint;
  destroyEvent(event: bigint): void;
  record(device: number, event: bigint, stream: bigint): void;
  /** Returns when the event is complete, or no collective is unfinished. */
  await(event: bigint): void;
}

/** The state of a stream's launch queue. */
interface LaunchQueue {
  readonly device: number;
  readonly stream: bigint;
  /** The number of calls enqueued since the last check. */
  calls: number;
  /** The events recorded after earlier calls to check the stream's progress, oldest first. */
  readonly events: bigint[];
}

/**
 * Limits the number of pending calls on each stream while collectives are unfinished, so that enqueuing never blocks.
 */
export class LaunchThrottle {
  readonly #events: ThrottleEvents;
  readonly #callsBetweenChecks: number;
  readonly #queues = new Map<bigint, LaunchQueue>();
  /** The queue of the last call. Cached, because looking it up by bigint takes longer than the rest of `reserve`. */
  #last: LaunchQueue | undefined;

  constructor(events: ThrottleEvents, { isSanitized }: { readonly isSanitized: boolean }) {
    this.#events = events;
    this.#callsBetweenChecks = isSanitized ? sanitizedCallsBetweenChecks : callsBetweenChecks;
  }

  /** Call before kernels, copies or collectives are enqueued on a stream. Waits if the launch queue may be too full. */
  reserve(device: number, stream: bigint, key: bigint, calls = 1): void {
    let queue = this.#last;
    if (queue?.stream !== stream || queue.device !== device) this.#last = queue = this.#queueOf(device, stream, key);
    queue.calls += calls;
    if (queue.calls <= this.#callsBetweenChecks) return;
    queue.calls = calls;
    this.#check(queue);
  }

  /** Drops the queue of a stream that is about to be destroyed. */
  forget(key: bigint): void {
    const queue = this.#queues.get(key);
    if (queue === undefined) return;
    this.#queues.delete(key);
    this.#last = undefined;
    for (const event of queue.events) this.#events.destroyEvent(event);
  }

  #queueOf(device: number, stream: bigint, key: bigint): LaunchQueue {
    let queue = this.#queues.get(key);
    if (queue === undefined) this.#queues.set(key, queue = { device, stream, calls: 0, events: [] });
    return queue;
  }

  #check(queue: LaunchQueue): void {
    const { device, stream, events } = queue;
    if (events.length >= maximumOutstandingChecks) {
      this.#events.await(events[events.length - maximumOutstandingChecks]!);
    }
    // Reuse an event only if it is older than the awaited one: the completion of the awaited event still shows how far
    // the stream has progressed.
    const event = events.length > maximumOutstandingChecks ? events.shift()! : this.#events.createEvent(device);
    events.push(event);
    this.#events.record(device, event, stream);
  }
}
