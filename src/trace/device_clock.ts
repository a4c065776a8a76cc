import { type Driver, eventFlags, streamFlags } from "../driver.ts";

/** The time in nanoseconds after which an anchor is replaced, and that until another attempt if the device is busy. */
const [longestUse, timeBetweenAttempts] = [2e7, 1e8];
/** The number of times that an anchor is recorded, of which the most exact one is used. */
const attempts = 4;
/**
 * The time in nanoseconds that an attempt may take: other work of the GPU may be ahead of the event. Without the first
 * anchor, nothing is timed, and the first work of a stream takes longer.
 */
const [longestAttempt, longestFirstAttempt] = [2e5, 2e7];
/** The bound of the drift between the clocks of a GPU and of the host. */
const mostDrift = 1e-4;
/** The resolution of events in nanoseconds, according to CUDA's documentation. */
const resolution = 500;
/** The relative error of a float of 32 bits, which is how CUDA returns the time between events. */
const floatError = 2 ** -24;

/** An event whose time on the host is known. */
export interface Anchor {
  readonly event: bigint;
  /** The time of the event in nanoseconds of `CLOCK_MONOTONIC`. */
  time: number;
  /** The bound of the error of `time` in nanoseconds. */
  error: number;
  /** The number of events that will be compared with the anchor. */
  uses: number;
}

/** A time that was measured with an event. */
export interface MeasuredTime {
  /** The time in nanoseconds of `CLOCK_MONOTONIC`. */
  readonly time: number;
  /** The bound of its error in nanoseconds. */
  readonly error: number;
}

/**
 * Converts times of a device's events to times of the host. An anchor is an event on an idle stream: its time is between
 * the moment before its record and the moment at which the host knows it to be complete.
 */
export class DeviceClock {
  readonly #driver: Driver;
  readonly #device: number;
  readonly #now: () => number;
  readonly #stream: bigint;
  readonly #spare: Anchor[] = [];
  /** All events. */
  readonly #events: bigint[] = [];
  #current: Anchor | undefined;
  /** The time before which no anchor is taken. */
  #next = 0;

  /** Call only while the thread's capture mode is relaxed. */
  constructor(driver: Driver, device: number, now: () => number) {
    this.#driver = driver;
    this.#device = device;
    this.#now = now;
    const { greatest } = driver.deviceGetStreamPriorityRange(device);
    this.#stream = driver.streamCreateWithPriority(device, streamFlags.nonBlocking, greatest);
  }

  /** Whether the current anchor is too old. */
  get isDue(): boolean {
    return this.#now() >= this.#next;
  }

  /**
   * Takes a new anchor, for at most a millisecond; the first one for at most 20 ms. Call only while the thread's capture
   * mode is relaxed. Leaves the current anchor if the device is too busy.
   */
  synchronize(): void {
    let best: Anchor | undefined;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const anchor = this.#spare.pop() ?? this.#create();
      const isFirst = this.#current === undefined && best === undefined;
      const isMeasured = this.#measure(anchor, isFirst ? longestFirstAttempt : longestAttempt);
      if (isMeasured && (best === undefined || anchor.error < best.error)) {
        if (best !== undefined) this.#spare.push(best);
        best = anchor;
      } else this.#spare.push(anchor);
      if (!isMeasured) break;
    }
    if (best === undefined) {
      this.#next = this.#now() + timeBetweenAttempts;
      return;
    }
    // Without drift, an anchor is used for ever.
    this.#next = this.#driver.runsOnHost ? Infinity : this.#now() + longestUse;
    const last = this.#current;
    this.#current = best;
    if (last?.uses === 0) this.#spare.push(last);
  }

  /** Returns the anchor with which to compare an event that is recorded now; undefined if there is none yet. */
  use(): Anchor | undefined {
    if (this.#current !== undefined) this.#current.uses++;
    return this.#current;
  }

  /** Ends a use of an anchor. */
  release(anchor: Anchor): void {
    if (--anchor.uses === 0 && anchor !== this.#current) this.#spare.push(anchor);
  }

  /** Returns the time of a complete event. */
  timeOf(anchor: Anchor, event: bigint): MeasuredTime {
    const elapsed = this.#driver.eventElapsedTime(anchor.event, event) * 1e6;
    const drift = this.#driver.runsOnHost ? 0 : mostDrift;
    return { time: anchor.time + elapsed, error: anchor.error + resolution + Math.abs(elapsed) * (drift + floatError) };
  }

  /** Destroys what the clock has created. */
  close(): void {
    destroyEvents(this.#driver, this.#device, this.#events);
    unlessFailing(() => this.#driver.streamDestroy(this.#device, this.#stream));
  }

  #create(): Anchor {
    const event = this.#driver.eventCreateWithFlags(this.#device, eventFlags.default);
    this.#events.push(event);
    return { event, time: 0, error: 0, uses: 0 };
  }

  /** Records an anchor's event and waits for it. Returns false if that takes more than `longest` nanoseconds. */
  #measure(anchor: Anchor, longest: number): boolean {
    const { event } = anchor;
    const before = this.#now();
    this.#driver.eventRecord(this.#device, event, this.#stream);
    while (!this.#driver.eventQuery(event)) if (this.#now() > before + longest) return false;
    const after = this.#now();
    anchor.time = (before + after) / 2;
    anchor.error = (after - before) / 2;
    return true;
  }
}

/** Destroys events, as far as possible. */
export function destroyEvents(driver: Driver, device: number, events: readonly bigint[]): void {
  for (const event of events) unlessFailing(() => driver.eventDestroy(device, event));
}

/** Calls a function, and ignores an error: a device that is lost has nothing to be released. */
function unlessFailing(body: () => void): void {
  try {
    body();
  } catch {
    // The program's own calls report it.
  }
}
