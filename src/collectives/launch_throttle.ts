/**
 * A throttle for launches: CUDA takes some 1020 kernels and copies on a stream that have not begun. One more blocks the
 * host, and with it the code that could abort a collective that they come after. So while collectives are unfinished,
 * the host waits, polling, before a queue is that long.
 *
 * @module
 */

/** Calls enqueued between two checks, and how many checks may be outstanding. */
const callsBetweenChecks = 250;
const maximumOutstandingChecks = 2;
/** Calls between two checks with the sanitizer, where a launch may be three of CUDA's. */
const sanitizedCallsBetweenChecks = 80;

/** The events by which the throttle finds out how far a stream has got. */
interface ThrottleEvents {
  createEvent(device: number): bigint;
  destroyEvent(event: bigint): void;
  record(device: number, event: bigint, stream: bigint): void;
  /** Waits for an event until it is complete or no collective is unfinished any more. */
  await(event: bigint): void;
}

/** The launch queue of a stream. */
interface LaunchQueue {
  readonly device: number;
  readonly stream: bigint;
  /** Calls enqueued since the last check. */
  calls: number;
  /** The events recorded by the last checks, oldest first. */
  readonly events: bigint[];
}

/** The launch queues of a session's streams, while collectives are unfinished. */
export class LaunchThrottle {
  readonly #events: ThrottleEvents;
  readonly #callsBetweenChecks: number;
  readonly #queues = new Map<bigint, LaunchQueue>();
  /** The queue that was used last: a look-up by bigint takes longer than everything else here. */
  #last: LaunchQueue | undefined;

  constructor(events: ThrottleEvents, { isSanitized }: { readonly isSanitized: boolean }) {
    this.#events = events;
    this.#callsBetweenChecks = isSanitized ? sanitizedCallsBetweenChecks : callsBetweenChecks;
  }

  /** Call before kernels, copies or collectives are enqueued on a stream. Waits, if need be, until they fit. */
  reserve(device: number, stream: bigint, key: bigint, calls = 1): void {
    let queue = this.#last;
    if (queue?.stream !== stream || queue.device !== device) this.#last = queue = this.#queueOf(device, stream, key);
    queue.calls += calls;
    if (queue.calls <= this.#callsBetweenChecks) return;
    queue.calls = calls;
    this.#check(queue);
  }

  /** Forgets a stream that is about to be destroyed. */
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
    // Only an event that is older than the awaited one is recorded anew: the awaited one shows how far the stream is.
    const event = events.length > maximumOutstandingChecks ? events.shift()! : this.#events.createEvent(device);
    events.push(event);
    this.#events.record(device, event, stream);
  }
}
