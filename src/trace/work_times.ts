import { type CallEffects, effectsOf, takesSlot } from "../call_effects.ts";
import { type Driver, eventFlags, type KernelLaunch, streamCaptureMode } from "../driver.ts";
import type { DriverMethod } from "../driver_layers.ts";
import { type Anchor, destroyEvents, DeviceClock } from "./device_clock.ts";
import type { TraceRecorder } from "./trace_recorder.ts";

/** The maximum number of pairs of events of a device. Work for which no pair is free is not timed. */
const mostPairs = 4096;
/** The number of operations of a stream after which those that are done are looked for. */
const operationsBetweenCollections = 64;

/** The events before and after an operation. */
interface Pair {
  readonly begin: bigint;
  readonly end: bigint;
  /** The kind of event. */
  kind: number;
  /** The number of the name. */
  name: number;
  /** The time of the call that enqueues the operation. */
  time: number;
  /** The event with which `begin` is compared. */
  anchor: Anchor | undefined;
}

/** The operations of a stream that have not been collected, in their order. */
class StreamTimes {
  readonly stream: bigint;
  pending: Pair[] = [];
  /** The number of operations at which those that are done are collected. */
  limit: number = operationsBetweenCollections;
  /** The time at which the last operation ended. */
  lastEnd = 0;

  constructor(stream: bigint) {
    this.stream = stream;
  }
}

/** What is timed on a device. */
class DeviceTimes {
  readonly device: number;
  readonly clock: DeviceClock;
  readonly streams: Map<bigint, StreamTimes> = new Map();
  /** Streams that were destroyed while work was pending. Another stream may have the same handle. */
  destroyed: StreamTimes[] = [];
  readonly free: Pair[] = [];
  /** The events of all pairs. */
  readonly events: bigint[] = [];
  /** Whether a call has failed. Then nothing is timed any more. */
  hasFailed = false;

  constructor(device: number, clock: DeviceClock) {
    this.device = device;
    this.clock = clock;
  }
}

/**
 * Measures when kernels, copies, fills and graphs run, with events before and after them, and records it. Nothing here
 * waits for work or fails: what cannot be timed is not.
 */
export class WorkTimes {
  readonly #driver: Driver;
  readonly #recorder: TraceRecorder;
  /** Null for a device that gives no stream. */
  readonly #devices = new Map<number, DeviceTimes | null>();
  /** The names of kernels, by their handles. */
  readonly #kernels = new Map<bigint, number>();
  /** The number of operations that have not been collected. */
  #pending = 0;
  /** The number of operations that could not be timed. */
  #untimed = 0;

  constructor(driver: Driver, recorder: TraceRecorder) {
    this.#driver = driver;
    this.#recorder = recorder;
  }

  /** Remembers the name of a kernel. */
  nameKernel(kernel: bigint, name: string): void {
    this.#kernels.set(kernel, this.#recorder.text(name));
  }

  /** Returns a method that also measures when the work runs that it enqueues, or collects the times of work. */
  wrap(name: PropertyKey, method: DriverMethod): DriverMethod {
    const effects = effectsOf(name);
    if (takesSlot(effects)) return this.#timed(name, method, effects);
    if (name === "streamDestroy") {
      return (...parameters) => {
        this.#forget(...parameters as [device: number, stream: bigint]);
        return method(...parameters);
      };
    }
    if (name !== "streamQuery" && name !== "eventQuery" && effects.blocksOn === undefined) return method;
    return (...parameters) => {
      const result = method(...parameters);
      if (this.#pending > 0 && result !== false) this.collect();
      return result;
    };
  }

  /** Records the times of all work that is done. */
  collect(): void {
    for (const times of this.#devices.values()) {
      if (times !== null && !times.hasFailed) this.#relaxed(times, () => this.#collectAll(times));
    }
  }

  /** Collects what is done, and destroys all events. */
  close(): void {
    this.collect();
    for (const times of this.#devices.values()) {
      if (times === null) continue;
      destroyEvents(this.#driver, times.device, times.events);
      times.clock.close();
    }
    this.#devices.clear();
    if (this.#untimed === 0) return;
    const kind = this.#recorder.kind({ name: "untimed work", values: ["count"] });
    this.#recorder.instant(kind, this.#untimed);
  }

  #forget(device: number, stream: bigint): void {
    const times = this.#devices.get(device);
    const queue = times?.streams.get(stream);
    if (queue === undefined) return;
    times!.streams.delete(stream);
    if (queue.pending.length > 0) times!.destroyed.push(queue);
  }

  #timed(name: PropertyKey, method: DriverMethod, { stream: place, enqueues }: CallEffects): DriverMethod {
    const kind = this.#recorder.kind({ name: enqueues!, values: ["name", "stream", "error"] });
    const text = this.#recorder.text(String(name));
    return (...parameters) => {
      const launch = place === "launch" ? parameters[0] as KernelLaunch : undefined;
      const device = launch?.device ?? parameters[0] as number;
      const stream = launch?.stream ?? parameters[place as number] as bigint;
      const times = this.#timesOf(device);
      const pair = times && this.#begin(times, stream);
      if (pair === undefined) {
        if (times === undefined) this.#untimed++;
        return method(...parameters);
      }
      let hasThrown = true;
      try {
        const result = method(...parameters);
        hasThrown = false;
        return result;
      } finally {
        pair.kind = kind;
        pair.name = launch === undefined ? text : this.#kernels.get(launch.kernel) ?? 0;
        this.#end(times!, stream, pair, hasThrown);
      }
    };
  }

  /** Returns what is timed on a device, with an anchor of this time. Undefined if events cannot be used there. */
  #timesOf(device: number): DeviceTimes | undefined {
    let times = this.#devices.get(device);
    if (times === undefined) {
      times = this.#open(device) ?? null;
      this.#devices.set(device, times);
    }
    if (times === null) return undefined;
    const { clock } = times;
    if (!times.hasFailed && clock.isDue) this.#relaxed(times, () => clock.synchronize());
    return times.hasFailed ? undefined : times;
  }

  #open(device: number): DeviceTimes | undefined {
    try {
      return new DeviceTimes(device, new DeviceClock(this.#driver, device, this.#recorder.now));
    } catch {
      return undefined;
    }
  }

  /** Records the event before an operation. Returns undefined if the operation is captured or cannot be timed. */
  #begin(times: DeviceTimes, stream: bigint): Pair | undefined {
    const { device } = times;
    let pair: Pair | undefined;
    try {
      if (this.#driver.streamIsCapturing(device, stream)) return undefined;
      pair = this.#take(times);
      if (pair !== undefined) {
        this.#driver.eventRecord(device, pair.begin, stream);
        pair.time = this.#recorder.now();
      }
    } catch {
      if (pair !== undefined) this.#free(times, pair);
      pair = undefined;
    }
    if (pair === undefined) this.#untimed++;
    return pair;
  }

  #end(times: DeviceTimes, stream: bigint, pair: Pair, hasThrown: boolean): void {
    try {
      if (hasThrown) return this.#free(times, pair);
      this.#driver.eventRecord(times.device, pair.end, stream);
    } catch {
      return this.#free(times, pair);
    }
    let queue = times.streams.get(stream);
    if (queue === undefined) times.streams.set(stream, queue = new StreamTimes(stream));
    queue.pending.push(pair);
    this.#pending++;
    if (queue.pending.length < queue.limit) return;
    this.#relaxed(times, () => this.#collectStream(times, queue));
    queue.limit = queue.pending.length + operationsBetweenCollections;
  }

  /** Returns a pair of events. Undefined if all are in use, or there is no anchor. */
  #take(times: DeviceTimes): Pair | undefined {
    const { free, events, device } = times;
    const areAllMade = events.length >= 2 * mostPairs;
    if (free.length === 0 && areAllMade) this.#relaxed(times, () => this.#collectAll(times));
    if (free.length === 0) {
      if (areAllMade) return undefined;
      const create = (): bigint => {
        const event = this.#driver.eventCreateWithFlags(device, eventFlags.default);
        events.push(event);
        return event;
      };
      free.push({ begin: create(), end: create(), kind: 0, name: 0, time: 0, anchor: undefined });
    }
    const anchor = times.clock.use();
    if (anchor === undefined) return undefined;
    const pair = free.pop()!;
    pair.anchor = anchor;
    return pair;
  }

  #free(times: DeviceTimes, pair: Pair): void {
    times.clock.release(pair.anchor!);
    times.free.push(pair);
  }

  #collectAll(times: DeviceTimes): void {
    for (const queue of [...times.streams.values(), ...times.destroyed]) this.#collectStream(times, queue);
    times.destroyed = times.destroyed.filter(({ pending }) => pending.length > 0);
  }

  #collectStream(times: DeviceTimes, queue: StreamTimes): void {
    const { pending } = queue;
    const isDone = ({ end }: Pair) => this.#driver.eventQuery(end, { peek: true, forLibrary: true });
    let count = 0;
    // Work of a stream ends in its order.
    if (pending.length > 0 && isDone(pending.at(-1)!)) count = pending.length;
    else while (count < pending.length && isDone(pending[count]!)) count++;
    this.#pending -= count;
    for (const pair of pending.splice(0, count)) this.#record(times, queue, pair);
    if (pending.length === 0) queue.limit = operationsBetweenCollections;
  }

  /** Records an operation that is done. */
  #record({ device, clock, free }: DeviceTimes, queue: StreamTimes, pair: Pair): void {
    const { time, error } = clock.timeOf(pair.anchor!, pair.begin);
    const duration = this.#driver.eventElapsedTime(pair.begin, pair.end) * 1e6;
    // If the stream was idle, the event was recorded before the call that enqueued the operation. The work of a stream
    // does not overlap, although its times have errors.
    const begin = Math.max(time, pair.time - error, queue.lastEnd);
    const end = queue.lastEnd = Math.max(begin, time + duration);
    clock.release(pair.anchor!);
    free.push(pair);
    const recorder = this.#recorder;
    const at = recorder.beginTimed(pair.kind, device, begin, end);
    recorder.values[at] = pair.name;
    recorder.values[at + 1] = Number(queue.stream);
    recorder.values[at + 2] = error;
    recorder.end();
  }

  /**
   * Does something with potentially unsafe calls, which do not invalidate the captures of other streams meanwhile. If it
   * fails, nothing is timed any more on the device.
   */
  #relaxed(times: DeviceTimes, body: () => void): void {
    try {
      const mode = this.#driver.threadExchangeStreamCaptureMode(streamCaptureMode.relaxed);
      try {
        body();
      } finally {
        this.#driver.threadExchangeStreamCaptureMode(mode);
      }
    } catch {
      times.hasFailed = true;
    }
  }
}
