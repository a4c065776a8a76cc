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
import { defaultStream, type Driver, type QueryOptions, streamFlags } from "../driver.ts";
import type { Session, WorkFaults } from "../session.ts";
import { pause } from "../support/waiting/pause.ts";

/** A communicator that may have unfinished work. */
export interface PolledCommunicator {
  /** Finds out whether its work can end, and ends it if it cannot. Does so now and then, however often it is called. */
  poll(): void;
  /** Does so now. */
  look(): void;
  /**
   * Does so when all work of a stream is done, and forgets what it had. Takes less time if it was the only stream with
   * work.
   */
  settle(stream: StreamFaults): void;
}

/** What is known of a stream that has collectives, or comes after one that has. */
export class StreamFaults {
  readonly device: number;
  readonly isDefault: boolean;
  /** Whether the default stream and this one wait for each other. */
  readonly isBlocking: boolean;
  /** Of collectives on it, the last error, and how many there were. */
  failure: Error | undefined;
  failures = 0;
  /** How many of them a wait has thrown. */
  thrown = 0;
  /** How many events behind collectives are not complete, and are not known to be ended. */
  marks = 0;
  /** The streams that wait for this one. */
  readonly followers: Set<StreamFaults> = new Set();

  constructor(device: number, { isDefault, isBlocking }: { isDefault: boolean; isBlocking: boolean }) {
    this.device = device;
    this.isDefault = isDefault;
    this.isBlocking = isBlocking;
  }
}

/** A record of an event on such a stream. */
interface EventRecord {
  readonly stream: StreamFaults;
  /** How many failures a wait had thrown when the event was recorded. */
  readonly thrown: number;
}

const found = new WeakMap<Session, CollectiveFaults>();
/**
 * How long the host asks again and again, as CUDA's own waits do, and what pauses it asks for then between two questions:
 * each takes some 0.08. The ranks of the software device are processes that share the processor's cores.
 */
const eagerMilliseconds = { cuda: 5, software: 0.5 } as const;
const pauseMilliseconds = 0.02;
/** How long a wait asks for nothing else: the collectives of most are done by then. */
const trustingMilliseconds = 0.5;
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
  /** Streams that were destroyed: their work may go on, and fail. */
  readonly #destroyed = new Set<StreamFaults>();
  readonly #records = new Map<bigint, EventRecord>();
  readonly #unfinished = new Set<PolledCommunicator>();
  /** The driver that is guarded. */
  readonly #guarded: Driver;
  readonly #eagerMilliseconds: number;

  constructor(driver: Driver) {
    this.#guarded = driver;
    this.#eagerMilliseconds = eagerMilliseconds[driver.kind];
    this.driver = this.#guard(driver);
  }

  /** Notes that a communicator has given a stream work. Returns what is known of the stream. */
  begin(communicator: PolledCommunicator, device: number, stream: bigint): StreamFaults {
    this.#unfinished.add(communicator);
    const faults = this.#streamOf(device, stream);
    // Its work comes after that of the blocking streams.
    if (faults.isBlocking) this.#streamOf(device, defaultStream);
    return faults;
  }

  /** Notes that all work of a communicator has ended. */
  end(communicator: PolledCommunicator): void {
    this.#unfinished.delete(communicator);
    if (this.#unfinished.size > 0) return;
    // What waited for the work that is done does not wait for what comes later.
    for (const { followers } of this.#streams.values()) followers.clear();
    for (const faults of this.#destroyed) if (faults.failures === faults.thrown) this.#destroyed.delete(faults);
  }

  /** Notes that collectives on a stream have failed: what they should have written is undefined. */
  fail(stream: StreamFaults, error: Error): void {
    // What the default stream orders goes one step: whether it has work between two others is not known.
    const reached = new Set([stream, ...this.#orderedAfter(stream)]);
    for (const faults of reached) {
      faults.failure = error;
      faults.failures++;
      for (const follower of faults.followers) reached.add(follower);
    }
  }

  ofStream(device: number, stream: bigint, isDone: boolean): void {
    const faults = this.#known(device, stream);
    if (!isDone || faults === undefined) this.#poll();
    else for (const communicator of this.#unfinished) communicator.settle(faults);
    if (faults !== undefined) throwFailure(faults, faults.thrown);
  }

  ofEvent(event: bigint, isDone: boolean): void {
    if (isDone) this.#look();
    else this.#poll();
    const record = this.#records.get(event);
    if (record !== undefined) throwFailure(record.stream, record.thrown);
  }

  ofDevice(device: number): void {
    this.#look();
    let failure: Error | undefined;
    for (const faults of [...this.#streams.values(), ...this.#destroyed]) {
      if (faults.device !== device || faults.failures === faults.thrown) continue;
      failure ??= faults.failure;
      faults.thrown = faults.failures;
    }
    if (failure !== undefined) throw failure;
  }

  #poll(): void {
    for (const communicator of this.#unfinished) communicator.poll();
  }

  #look(): void {
    for (const communicator of this.#unfinished) communicator.look();
  }

  #streamOf(device: number, stream: bigint): StreamFaults {
    const key = keyOf(device, stream);
    let faults = this.#streams.get(key);
    if (faults === undefined) {
      const isDefault = key < 0n;
      const isBlocking = isDefault || this.#guarded.streamGetFlags(device, stream) !== streamFlags.nonBlocking;
      this.#streams.set(key, faults = new StreamFaults(device, { isDefault, isBlocking }));
      const before = isBlocking && !isDefault ? this.#streams.get(keyOf(device, defaultStream)) : undefined;
      if (before !== undefined) {
        faults.failure = before.failure;
        faults.failures = before.failures;
        faults.thrown = before.thrown;
      }
    }
    return faults;
  }

  /** What is known of a stream, or may be because the default stream is known. */
  #known(device: number, stream: bigint): StreamFaults | undefined {
    return this.#streams.get(keyOf(device, stream)) ??
      (this.#streams.has(keyOf(device, defaultStream)) ? this.#streamOf(device, stream) : undefined);
  }

  /** The streams whose work CUDA orders after that of another one without being asked to. */
  #orderedAfter({ device, isDefault, isBlocking }: StreamFaults): StreamFaults[] {
    if (!isBlocking) return [];
    return [...this.#streams.values()].filter((other) =>
      other.device === device && other.isBlocking && other.isDefault !== isDefault
    );
  }

  /** Waits for work that may come after collectives, as long as there are such. */
  #until(isDone: () => boolean, trusting: number = trustingMilliseconds): void {
    const begin = performance.now();
    while (this.#unfinished.size > 0 && !isDone()) {
      const waited = performance.now() - begin;
      if (waited >= trusting) this.#poll();
      if (waited > this.#eagerMilliseconds) pause(pauseMilliseconds);
    }
  }

  #untilIdle(driver: Driver, device: number): void {
    for (const [key, faults] of this.#streams) {
      const stream = key < 0n ? defaultStream : key;
      if (faults.device === device) this.#until(() => driver.streamQuery(device, stream, forLibrary));
    }
    // The polls find those complete.
    for (const faults of this.#destroyed) if (faults.device === device) this.#until(() => faults.marks === 0, 0);
  }

  /** A driver that does the same, and waits by asking as long as a collective may not end. */
  #guard(driver: Driver): Driver {
    const calls: Partial<Driver> = {
      eventRecord: (device, event, stream) => {
        driver.eventRecord(device, event, stream);
        const faults = this.#known(device, stream);
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
        if (record.stream.failures > record.thrown) this.fail(faults, record.stream.failure!);
      },
      streamDestroy: (device, stream) => {
        const faults = this.#streams.get(stream);
        if (faults !== undefined) this.#destroyed.add(faults);
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
