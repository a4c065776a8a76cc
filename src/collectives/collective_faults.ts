/**
 * What happens to streams when a collective cannot end, because a rank is gone: the host must not hang behind it, and
 * must not take the memory for written.
 *
 * CUDA knows nothing of this: a collective that is aborted is done, as far as its stream knows. So the streams that have
 * collectives are noted, and the events that are recorded on them. A wait of the program for one of those polls the
 * communicators, and throws their error.
 *
 * @module
 */
import { defaultStream, type Driver, type QueryOptions } from "../driver.ts";
import type { Session, WorkFaults } from "../session.ts";
import { pause } from "../support/waiting/pause.ts";

/** A communicator that may have unfinished work. */
export interface PolledCommunicator {
  /**
   * Finds out whether its work can end, and ends it if it cannot.
   *
   * @param isUrgent whether not to wait for the next time
   */
  poll(isUrgent: boolean): void;
}

/** What is known of a stream that has collectives, or waits for one that has. */
class StreamFaults {
  readonly device: number;
  /** Of collectives on it, the last error, and how many there were. */
  failure: Error | undefined;
  failures = 0;
  /** How many of them a wait has thrown. */
  thrown = 0;
  /** The streams that wait for this one. */
  readonly followers = new Set<StreamFaults>();

  constructor(device: number) {
    this.device = device;
  }

  fail(error: Error, reached: Set<StreamFaults> = new Set()): void {
    if (reached.has(this)) return;
    reached.add(this);
    this.failure = error;
    this.failures++;
    for (const follower of this.followers) follower.fail(error, reached);
  }
}

/** A record of an event on such a stream. */
interface EventRecord {
  readonly stream: StreamFaults;
  /** How many failures a wait had thrown when the event was recorded. */
  readonly thrown: number;
}

const found = new WeakMap<Session, CollectiveFaults>();
/** How long the host asks again and again, as CUDA's own waits do, and how long it pauses then between two questions. */
const eagerMilliseconds = 0.5;
const pauseMilliseconds = 0.02;
const forLibrary: QueryOptions = { forLibrary: true };

/** What a session's streams suffer from collectives. From the first call on, the session's waits take part in it. */
export function faultsOf(session: Session): CollectiveFaults {
  let faults = found.get(session);
  if (faults === undefined) {
    found.set(session, faults = new CollectiveFaults(session.driver));
    session.driver = faults.driver;
    session.faults = faults;
  }
  return faults;
}

/** What the streams of a session suffer from collectives. */
export class CollectiveFaults implements WorkFaults {
  /** A driver whose calls do not block behind a collective that cannot end. */
  readonly driver: Driver;
  /** By handles, and for default streams by the device's number below zero. */
  readonly #streams = new Map<bigint, StreamFaults>();
  readonly #records = new Map<bigint, EventRecord>();
  readonly #unfinished = new Set<PolledCommunicator>();

  constructor(driver: Driver) {
    this.driver = this.#guard(driver);
  }

  /** Notes that a communicator has given a stream work. */
  begin(communicator: PolledCommunicator, device: number, stream: bigint): void {
    this.#unfinished.add(communicator);
    this.#streamOf(device, stream);
  }

  /** Notes that all work of a communicator has ended. */
  end(communicator: PolledCommunicator): void {
    this.#unfinished.delete(communicator);
  }

  /** Notes that collectives on a stream have failed: what they should have written is undefined. */
  fail(device: number, stream: bigint, error: Error): void {
    this.#streamOf(device, stream).fail(error);
  }

  ofStream(device: number, stream: bigint, isDone: boolean): void {
    this.#poll(isDone);
    const faults = this.#streams.get(keyOf(device, stream));
    if (faults !== undefined) throwFailure(faults, faults.thrown);
  }

  ofEvent(event: bigint, isDone: boolean): void {
    this.#poll(isDone);
    const record = this.#records.get(event);
    if (record !== undefined) throwFailure(record.stream, record.thrown);
  }

  ofDevice(device: number): void {
    this.#poll(true);
    for (const faults of this.#streams.values()) if (faults.device === device) throwFailure(faults, faults.thrown);
  }

  /** Polls the communicators that have work: those that wait now and then, and before a wait succeeds in any case. */
  #poll(isDone: boolean): void {
    for (const communicator of this.#unfinished) communicator.poll(isDone);
  }

  #streamOf(device: number, stream: bigint): StreamFaults {
    const key = keyOf(device, stream);
    let faults = this.#streams.get(key);
    if (faults === undefined) this.#streams.set(key, faults = new StreamFaults(device));
    return faults;
  }

  /** Waits for work that may come after collectives, as long as there are such. */
  #until(isDone: () => boolean): void {
    const begin = performance.now();
    while (this.#unfinished.size > 0 && !isDone()) {
      this.#poll(false);
      if (performance.now() - begin > eagerMilliseconds) pause(pauseMilliseconds);
    }
  }

  #untilIdle(driver: Driver, device: number): void {
    for (const [key, faults] of this.#streams) {
      const stream = key < 0n ? defaultStream : key;
      if (faults.device === device) this.#until(() => driver.streamQuery(device, stream, forLibrary));
    }
  }

  /** A driver that does the same, and waits by asking as long as a collective may not end. */
  #guard(driver: Driver): Driver {
    const calls: Partial<Driver> = {
      eventRecord: (device, event, stream) => {
        driver.eventRecord(device, event, stream);
        const faults = this.#streams.get(keyOf(device, stream));
        if (faults !== undefined) this.#records.set(event, { stream: faults, thrown: faults.thrown });
        else if (this.#records.size > 0) this.#records.delete(event);
      },
      eventDestroy: (device, event) => {
        this.#records.delete(event);
        driver.eventDestroy(device, event);
      },
      streamWaitEvent: (device, stream, event) => {
        driver.streamWaitEvent(device, stream, event);
        const record = this.#records.get(event);
        if (record === undefined) return;
        const faults = this.#streamOf(device, stream);
        if (faults === record.stream) return;
        record.stream.followers.add(faults);
        if (record.stream.failures > record.thrown) faults.fail(record.stream.failure!);
      },
      streamDestroy: (device, stream) => {
        const faults = this.#streams.get(stream);
        if (faults !== undefined) { for (const other of this.#streams.values()) other.followers.delete(faults); }
        this.#streams.delete(stream);
        driver.streamDestroy(device, stream);
      },
      eventSynchronize: (event) => {
        this.#until(() => driver.eventQuery(event, forLibrary));
        driver.eventSynchronize(event);
      },
      streamSynchronize: (device, stream) => {
        this.#until(() => driver.streamQuery(device, stream, forLibrary));
        driver.streamSynchronize(device, stream);
      },
      deviceSynchronize: (device) => {
        this.#untilIdle(driver, device);
        driver.deviceSynchronize(device);
      },
      // It blocks until the device's work is done.
      free: (device, address) => {
        this.#untilIdle(driver, device);
        driver.free(device, address);
      },
    };
    const guarded: Driver = Object.create(
      new Proxy({}, {
        get(_, name) {
          // The other driver's methods need it as `this`.
          const value = calls[name as keyof Driver] ?? Reflect.get(driver, name, driver);
          if (typeof value !== "function") return value;
          const method = value.bind(driver);
          Object.defineProperty(guarded, name, { value: method });
          return method;
        },
      }),
    );
    return guarded;
  }
}

function keyOf(device: number, stream: bigint): bigint {
  return stream === defaultStream ? -1n - BigInt(device) : stream;
}

/** Throws what no wait has thrown yet. */
function throwFailure(faults: StreamFaults, thrown: number): void {
  if (faults.failures <= thrown) return;
  faults.thrown = faults.failures;
  throw faults.failure;
}
