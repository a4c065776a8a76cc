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
import { type CallEffects, effectsOf, takesSlot } from "../call_effects.ts";
import {
  areOrderedByDefaultStream,
  defaultStream,
  type Driver,
  type KernelLaunch,
  type QueryOptions,
  streamFlags,
} from "../driver.ts";
import { intercept } from "../driver_layers.ts";
import { forEachSessionOfSharedContexts, type Session, type WorkFaults } from "../session.ts";
import { ignoreLoss, isLoss } from "../support/driver_errors.ts";
import { CudaError } from "../support/errors.ts";
import { pause } from "../support/waiting/pause.ts";
import {
  type Epoch,
  type EventRecord,
  type FailureCause,
  isBehindFailure,
  isSameCause,
  isUnthrown,
  renewedDeadline,
  type StreamFailure,
  type StreamPoint,
  StreamState,
  type UnfinishedWork,
  type WaitEdge,
  type WatchedCommunicator,
} from "./stream_state.ts";
import { LaunchThrottle } from "./launch_throttle.ts";

const found = new WeakMap<Session, CollectiveFaults>();
/** Those with unfinished collectives whose drivers share contexts: some calls wait for the streams of all sessions. */
const unfinishedInSharedContexts = new Set<CollectiveFaults>();
/**
 * How long the host asks again and again, as CUDA's own waits do, and what pauses it asks for then between two questions:
 * each takes some 0.08. Ranks that run on the host are processes that share its processors.
 */
const eagerMilliseconds = 5;
const eagerMillisecondsOnHost = 0.5;
const pauseMilliseconds = 0.02;
/** How long a wait asks for nothing else: the collectives of most are done by then. */
const trustingMilliseconds = 0.5;
const forLibrary: QueryOptions = { forLibrary: true };
/** How many errors of a stream are remembered. */
const mostFailures = 64;
/** How many destroyed streams are remembered whose errors no wait has thrown. */
const mostDestroyed = 256;
/** So few streams that wait for others are not looked through. */
const fewFollowers = 256;

/** What a session's streams suffer from collectives. From the first call on, the session's waits take part in it. */
export function faultsOf(session: Session): CollectiveFaults {
  // The waits of other sessions may be for this one's collectives.
  if (session.driver.contextsAreShared) forEachSessionOfSharedContexts(guard);
  return guard(session);
}

function guard(session: Session): CollectiveFaults {
  let faults = found.get(session);
  if (faults === undefined) {
    found.set(session, faults = new CollectiveFaults(session));
    session.guardWaits(faults, faults.driver);
  }
  return faults;
}

/** What the streams of a session suffer from collectives. */
export class CollectiveFaults implements WorkFaults {
  /** A driver whose calls do not block behind a collective that cannot end. */
  readonly driver: Driver;
  /** Work that is asked for now is of this moment. */
  now: Epoch = 0;
  #sequence = 0;
  /** By handles, and for default streams by the device's number below zero. */
  readonly #streams = new Map<bigint, StreamState>();
  /** Streams that were destroyed: their work may go on, and fail. */
  readonly #destroyed = new Set<StreamState>();
  readonly #records = new Map<bigint, EventRecord>();
  readonly #unfinished = new Set<WatchedCommunicator>();
  /** When streams were created, since the first communicator was. */
  readonly #created = new Map<bigint, Epoch>();
  /** The driver that is guarded. */
  readonly #guarded: Driver;
  readonly #eagerMilliseconds: number;
  readonly #alone: ReadonlySet<CollectiveFaults> = new Set([this]);
  /** How many streams that wait for others are noted before those are forgotten that cannot get an error. */
  #followersToKeep = fewFollowers;
  #followerCount = 0;
  #isUnheard = false;
  readonly #throttle: LaunchThrottle;

  constructor(session: Session) {
    const { driver } = session;
    this.#guarded = driver;
    this.#throttle = new LaunchThrottle({
      createEvent: (device) => session.createMarker(device),
      destroyEvent: (event) => session.destroyMarker(event),
      record: (device, event, stream) => {
        if (!driver.streamIsCapturing(device, stream)) this.driver.eventRecord(device, event, stream);
      },
      await: (event) => this.#until(() => driver.eventQuery(event, forLibrary)),
    }, { isSanitized: session.sanitizer !== undefined });
    this.#eagerMilliseconds = driver.runsOnHost ? eagerMillisecondsOnHost : eagerMilliseconds;
    this.driver = this.#guard(driver);
  }

  /** To be called before a stream is given kernels, copies or collectives. Waits, if need be, until it has room. */
  takeRoom(device: number, stream: bigint, calls?: number): void {
    if (this.#isAnyUnfinished) this.#throttle.reserve(device, stream, keyOf(device, stream), calls);
  }

  /** Notes that a communicator has given a stream work. Returns what is known of the stream. */
  beginWork(communicator: WatchedCommunicator, device: number, stream: bigint): StreamState {
    this.#unfinished.add(communicator);
    if (this.#guarded.contextsAreShared) unfinishedInSharedContexts.add(this);
    const faults = this.#streamOf(device, stream);
    // Its work comes after that of the blocking streams.
    if (faults.isBlocking) this.#streamOf(device, defaultStream);
    return faults;
  }

  /** To be called before a communicator gives a stream work: or else nobody could tell later whose work hangs there. */
  recordOtherEnds(communicator: WatchedCommunicator, device: number, stream: bigint): void {
    const faults = this.#streams.get(keyOf(device, stream));
    if (faults === undefined || this.#unfinished.size === 0) return;
    this.#markAll([faults, ...this.#orderedAfter(faults)], communicator);
  }

  /** Notes where the work ends that streams were given so far. */
  #markAll(streams: readonly StreamState[], except?: WatchedCommunicator): void {
    for (const { unfinished } of streams) {
      for (const { owner, deadline } of unfinished) {
        // Another device's loss does not concern this one.
        if (deadline === undefined && owner !== except && !owner.isSaturated) ignoreLoss(() => owner.recordEnd());
      }
    }
  }

  /** The place of new work among all. */
  nextSequence(): number {
    return this.#sequence++;
  }

  /** Notes that all work of a communicator has ended. */
  endWork(communicator: WatchedCommunicator): void {
    this.#unfinished.delete(communicator);
    if (this.#unfinished.size === 0) unfinishedInSharedContexts.delete(this);
    for (const faults of this.#destroyed) if (faults.isSettled) this.#destroyed.delete(faults);
    if (this.#followerCount > 0 && this.#unfinished.size === 0) this.#forgetFollowers();
  }

  /** Notes that collectives on a stream have failed: what comes after the first of them there is undefined. */
  propagate(stream: StreamState, { first, last }: Pick<UnfinishedWork, "first" | "last">, what: FailureCause): void {
    const now = performance.now();
    const foundAt = ++this.now;
    for (const [each, { since: from, isImplicit }] of this.#behind(stream, first)) {
      // A wait may have thrown the error of another rank of the communicator already.
      const known = each.failures.find((other) => {
        return isSameCause(other, what) && !isUnthrown(other) && Math.max(last, from) < other.thrownAt;
      });
      each.failures.push({ ...what, since: from, foundAt, isImplicit, thrownAt: known?.thrownAt ?? Infinity });
      if (each.failures.length > mostFailures) each.failures.shift();
      // Their time begins when it is their turn.
      for (const work of each.unfinished) if (work.last >= from) work.deadline = renewedDeadline(work, now);
    }
  }

  /** Whether a stream's work does not come after unfinished work of another communicator. */
  isInTurn(stream: StreamState, { owner, sequence, last }: UnfinishedWork): boolean {
    for (const each of [...this.#streams.values(), ...this.#destroyed]) {
      if (each !== stream && each.waitEdges.length === 0 && !(each.isBlocking && stream.isBlocking)) continue;
      for (const other of each.unfinished) {
        if (other.owner === owner || other.sequence > sequence) continue;
        const behind = this.#behind(each, other.first).get(stream);
        if (behind !== undefined && behind.since <= last) return false;
      }
    }
    return true;
  }

  /** Since which moment streams are given what comes after what one is given after a moment. */
  #behind(stream: StreamState, since: Epoch): Map<StreamState, { since: Epoch; isImplicit: boolean }> {
    const reached = new Map<StreamState, { since: Epoch; isImplicit: boolean }>();
    const reach = (begin: StreamState, isImplicit: boolean): void => {
      const left: Pick<WaitEdge, "stream" | "since">[] = [{ stream: begin, since }];
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        const { stream, since } = next;
        if ((reached.get(stream)?.since ?? Infinity) <= since) continue;
        reached.set(stream, { since, isImplicit });
        for (const follower of stream.waitEdges) if (follower.before > since) left.push(follower);
      }
    };
    reach(stream, false);
    // What the default stream orders goes one step: whether it has work between two others is not known.
    for (const other of this.#orderedAfter(stream)) reach(other, true);
    return reached;
  }

  /** Before which moment a stream's work is done, as far as records after a moment show. To be asked before it is ended. */
  completedBefore(stream: StreamState, since: Epoch, isComplete: (event: bigint) => boolean): Epoch {
    let moment = since;
    for (const [event, { of, at }] of this.#records) {
      if (of === stream && at > moment && isComplete(event)) moment = at;
    }
    return moment;
  }

  /** Calls a function whose waits are the library's own: they throw no errors of collectives. */
  unheard<Result>(action: () => Result): Result {
    const isUnheard = this.#isUnheard;
    this.#isUnheard = true;
    try {
      return action();
    } finally {
      this.#isUnheard = isUnheard;
    }
  }

  ofStream(device: number, stream: bigint, isDone: boolean): void {
    if (this.#isUnheard) return;
    const faults = this.#known(device, stream);
    if (!isDone || faults === undefined) {
      this.#poll();
    } else {
      const done = { stream: faults, before: ++this.now };
      this.#each((communicator) => communicator.complete(done));
    }
    if (faults !== undefined) this.#throw(faults.failures.filter(isUnthrown));
  }

  ofEvent(event: bigint, isDone: boolean): void {
    if (this.#isUnheard) return;
    const record = this.#records.get(event);
    if (!isDone) this.#poll();
    else if (record === undefined || typeof record.of === "number") this.#look();
    else this.#look({ stream: record.of, before: record.at });
    if (record === undefined) return;
    this.#throw(
      this.#streamsOf(record).flatMap(({ failures }) => failures.filter((failure) => isBehindFailure(record, failure))),
    );
  }

  ofDevice(device: number): void {
    if (this.#isUnheard) return;
    this.#look();
    const failures = this.#allOf(device).flatMap(({ failures }) => failures.filter(isUnthrown));
    this.#throw(failures);
  }

  streamLeft(device: number, stream: bigint): void {
    const key = keyOf(device, stream);
    const faults = this.#streams.get(key);
    this.#streams.delete(key);
    this.#created.delete(key);
    this.#throttle.forget(key);
    if (faults === undefined || faults.isSettled) return;
    this.#destroyed.add(faults);
    if (this.#destroyed.size <= mostDestroyed) return;
    // Nobody has waited for it, and nobody can but with the whole device.
    const oldest = this.#destroyed.values().find(({ unfinished }) => unfinished.size === 0);
    if (oldest !== undefined) this.#destroyed.delete(oldest);
  }

  /** Throws the first one, rather one that no wait has thrown yet. */
  #throw(failures: readonly StreamFailure[]): void {
    const failure = failures.find(isUnthrown) ?? failures[0];
    if (failure === undefined) return;
    const now = ++this.now;
    for (const each of failures) if (isSameCause(each, failure) && isUnthrown(each)) each.thrownAt = now;
    throw failure.error;
  }

  #poll(): void {
    this.#each((communicator) => communicator.pollIfDue());
  }

  #look(done?: StreamPoint): void {
    this.#each((communicator) => communicator.poll(done));
  }

  #each(action: (communicator: WatchedCommunicator) => void): void {
    for (const communicator of this.#unfinished) {
      try {
        action(communicator);
      } catch (error) {
        // Another device's loss does not concern this one, and its own is thrown by the call itself.
        if (!isLoss(error)) throw error;
      }
    }
  }

  #streamOf(device: number, stream: bigint): StreamState {
    const key = keyOf(device, stream);
    let faults = this.#streams.get(key);
    if (faults === undefined) {
      const isDefault = key < 0n;
      const isBlocking = isDefault || this.#guarded.streamGetFlags(device, stream) !== streamFlags.nonBlocking;
      this.#streams.set(key, faults = new StreamState(device, { isDefault, isBlocking }));
      const before = isBlocking && !isDefault ? this.#streams.get(keyOf(device, defaultStream)) : undefined;
      const created = this.#created.get(key) ?? 0;
      for (const failure of before?.failures ?? []) {
        if (!failure.isImplicit && failure.foundAt > created) faults.failures.push({ ...failure, isImplicit: true });
      }
    }
    return faults;
  }

  /** What is known of a stream, or may be because the default stream is known. */
  #known(device: number, stream: bigint): StreamState | undefined {
    return this.#streams.get(keyOf(device, stream)) ??
      (this.#streams.has(keyOf(device, defaultStream)) ? this.#streamOf(device, stream) : undefined);
  }

  /** What is known of the streams of a device, those that were destroyed included. */
  #allOf(device: number): StreamState[] {
    return [...this.#streams.values(), ...this.#destroyed].filter((faults) => faults.device === device);
  }

  /** The streams whose work CUDA orders after that of another one without being asked to. */
  #orderedAfter(stream: StreamState): StreamState[] {
    if (!stream.isBlocking) return [];
    return [...this.#streams.values()].filter((other) => areOrderedByDefaultStream(stream, other));
  }

  /** The streams whose work comes before a record. */
  #streamsOf({ of }: EventRecord): StreamState[] {
    return typeof of === "number" ? this.#allOf(of) : [of];
  }

  /** Notes that a stream waits for an event. */
  #follow(record: EventRecord, stream: StreamState): void {
    const since = ++this.now;
    for (const followed of this.#streamsOf(record)) {
      if (followed === stream) continue;
      followed.waitEdges.push({ stream, before: record.at, since });
      this.#followerCount++;
      // What has failed before has reached those who followed before.
      const failed = followed.failures.filter((failure) => isBehindFailure(record, failure));
      const causes = new Map(failed.map(({ error, identity }) => [error, { error, identity }]));
      for (const cause of causes.values()) this.propagate(stream, { first: since, last: Infinity }, cause);
    }
    if (this.#followerCount > this.#followersToKeep) this.#forgetFollowers();
  }

  /** Forgets who waits for what is done. */
  #forgetFollowers(): void {
    const all = [...this.#streams.values(), ...this.#destroyed];
    let oldest = Infinity;
    for (const { unfinished } of all) for (const { first } of unfinished) oldest = Math.min(oldest, first);
    this.#followerCount = 0;
    for (const faults of all) {
      if (faults.waitEdges.length === 0) continue;
      faults.waitEdges = faults.waitEdges.filter(({ before }) => before > oldest);
      this.#followerCount += faults.waitEdges.length;
    }
    this.#followersToKeep = Math.max(fewFollowers, 2 * this.#followerCount);
  }

  /** Those whose collectives the waits of this session may come after. */
  get #involved(): ReadonlySet<CollectiveFaults> {
    return this.#guarded.contextsAreShared ? unfinishedInSharedContexts : this.#alone;
  }

  get #isAnyUnfinished(): boolean {
    return this.#unfinished.size > 0 || this.#guarded.contextsAreShared && unfinishedInSharedContexts.size > 0;
  }

  /** Waits for work that may come after collectives, as long as there are such. */
  #until(isDone: () => boolean): void {
    const begin = performance.now();
    while (this.#isAnyUnfinished && !isDone()) {
      const waited = performance.now() - begin;
      if (waited >= trustingMilliseconds) { for (const faults of this.#involved) faults.#poll(); }
      if (waited > this.#eagerMilliseconds) pause(pauseMilliseconds);
    }
  }

  #untilIdle(device: number): void {
    for (const faults of this.#involved) {
      for (const [key, each] of faults.#streams) {
        if (each.device === device) this.#until(() => faults.#isIdle(device, key < 0n ? defaultStream : key));
      }
      for (const { device: its, unfinished } of faults.#destroyed) {
        if (its === device) this.#until(() => [...unfinished].every(isOver));
      }
    }
  }

  #isIdle(device: number, stream: bigint): boolean {
    try {
      return this.#guarded.streamQuery(device, stream, forLibrary);
    } catch (error) {
      // Whoever owns a wrapped stream has destroyed it.
      if (!isGone(error)) throw error;
      this.streamLeft(device, stream);
      return true;
    }
  }

  /** The devices that have streams of which something is known. */
  #devices(): Set<number> {
    const all = [...this.#involved].flatMap((faults) => [...faults.#streams.values(), ...faults.#destroyed]);
    return new Set(all.map(({ device }) => device));
  }

  /** A driver that does the same, and waits by asking as long as a collective may not end. */
  #guard(driver: Driver): Driver {
    const calls: Partial<Driver> = {
      eventRecord: (device, event, stream) => {
        driver.eventRecord(device, event, stream);
        const faults = this.#known(device, stream);
        if (faults !== undefined) this.#records.set(event, { of: faults, at: ++this.now });
        else if (this.#records.size > 0) this.#records.delete(event);
      },
      ctxRecordEvent: (device, event) => {
        driver.ctxRecordEvent(device, event);
        this.#records.set(event, { of: device, at: ++this.now });
      },
      eventDestroy: (device, event) => {
        this.#records.delete(event);
        driver.eventDestroy(device, event);
      },
      streamCreateWithPriority: (device, flags, priority) => {
        const stream = driver.streamCreateWithPriority(device, flags, priority);
        this.#created.set(stream, ++this.now);
        return stream;
      },
      streamWaitEvent: (device, stream, event) => {
        const record = this.#records.get(event);
        // What comes next may be behind another communicator's work, and what came before is not.
        const known = record === undefined || this.#unfinished.size < 2
          ? undefined
          : this.#streams.get(keyOf(device, stream));
        if (known !== undefined) this.#markAll([known]);
        driver.streamWaitEvent(device, stream, event);
        if (record === undefined) return;
        this.#follow(record, this.#streamOf(device, stream));
      },
      streamDestroy: (device, stream) => {
        this.streamLeft(device, stream);
        driver.streamDestroy(device, stream);
      },
    };
    return intercept(driver, calls, (name, method) => {
      const effects = effectsOf(name);
      // By itself, because to spread the parameters takes longer than all else that a launch needs here.
      if (effects.stream === "launch") {
        return (launch, attributes) => {
          const { device, stream } = launch as KernelLaunch;
          this.takeRoom(device, stream);
          return method.call(driver, launch, attributes);
        };
      }
      // Copies of pageable memory that would wait for other work go through page-locked memory.
      const before = takesSlot(effects) ? this.#takeRoomFor(effects) : this.#untilUnblocked(effects);
      if (before === undefined) return method.bind(driver);
      return (...parameters) => {
        before(parameters);
        return Reflect.apply(method, driver, parameters);
      };
    });
  }

  /** What takes room for a copy or a fill. */
  #takeRoomFor({ stream }: CallEffects): (parameters: readonly unknown[]) => void {
    return (parameters) => this.takeRoom(parameters[0] as number, parameters[stream as number] as bigint);
  }

  /** What waits for the same as a call, by asking. Undefined if the call does not block. */
  #untilUnblocked(
    { blocksOn, mayBlockOn, loads = false }: CallEffects,
  ): ((parameters: readonly unknown[]) => void) | undefined {
    const driver = this.#guarded;
    switch (loads && !driver.loadingBlocks ? undefined : blocksOn ?? mayBlockOn) {
      case "stream":
        return ([device, stream]) =>
          this.#until(() => driver.streamQuery(device as number, stream as bigint, forLibrary));
      case "event":
        return ([event]) => this.#until(() => driver.eventQuery(event as bigint, forLibrary));
      case "device":
        return ([device]) => this.#untilIdle(device as number);
      case "all devices":
        return () => {
          for (const device of this.#devices()) this.#untilIdle(device);
        };
    }
  }
}

function keyOf(device: number, stream: bigint): bigint {
  return stream === defaultStream ? -1n - BigInt(device) : stream;
}

function isGone(error: unknown): boolean {
  return error instanceof CudaError && error.code === "cudaErrorInvalidResourceHandle";
}

/** Finds out whether work is done, or can be no more. */
function isOver(work: UnfinishedWork): boolean {
  const { owner, stream: { unfinished } } = work;
  if (!unfinished.has(work)) return true;
  try {
    owner.poll();
  } catch (error) {
    // With its device, it is gone.
    if (!isLoss(error)) throw error;
    return true;
  }
  return !unfinished.has(work);
}
