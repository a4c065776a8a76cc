/**
 * Propagates errors of failed collectives to the streams whose work depends on them, and keeps the host from blocking
 * behind collectives that can never complete. See README.md in this folder.
 *
 * CUDA knows nothing of either: to a stream, a collective that was aborted has completed. So the streams with collectives
 * are tracked here, and the events that are recorded on them and waited for. A wait of the program for any of those polls
 * the communicators' watchdogs, and throws their error.
 *
 * @module
 */
import { type CallEffects, effectsOf, takesSlot } from "../call_effects.ts";
import {
  areOrderedByDefaultStream,
  defaultStream,
  type Driver,
  externalEvent,
  type KernelLaunch,
  type QueryOptions,
  streamFlags,
} from "../driver.ts";
import { intercept } from "../driver_layers.ts";
import { forEachSessionOfSharedContexts, type Session, type WaitErrors } from "../session.ts";
import { ignoreLoss, isLoss } from "../support/driver_errors.ts";
import { CudaError } from "../support/errors.ts";
import { pause } from "../support/waiting/timer.ts";
import { LaunchThrottle } from "./launch_throttle.ts";
import {
  type Epoch,
  type EventRecord,
  type FailureCause,
  isBehindFailure,
  isSameCause,
  isStuck,
  isUnthrown,
  renewedDeadline,
  type StreamFailure,
  type StreamPoint,
  StreamState,
  type UnfinishedWork,
  type WatchedCommunicator,
} from "./stream_state.ts";

const errorsOfSessions = new WeakMap<Session, StreamErrors>();
/**
 * The `StreamErrors` of each session that has unfinished collectives and whose driver shares its contexts with other
 * drivers. With shared contexts, some calls of one session wait for the streams of all of these sessions.
 */
const unfinishedInSharedContexts = new Set<StreamErrors>();
/**
 * The time in milliseconds for which a wait spins, like CUDA's own waits, before it pauses between queries. A pause
 * takes about 0.08 ms.
 */
const spinMilliseconds = 5;
/** `spinMilliseconds` for the software device, whose ranks share the host's processors. */
const spinMillisecondsOnHost = 0.5;
/** The requested duration of a pause in milliseconds. */
const pauseMilliseconds = 0.02;
/** The time in milliseconds after which a wait begins to poll the watchdogs. Most collectives complete earlier. */
const quietMilliseconds = 0.5;
const forLibrary: QueryOptions = { forLibrary: true };
/** The maximum number of failures stored per stream. */
const maximumFailures = 64;
/** The maximum number of destroyed streams that are kept so that a wait can throw their errors. */
const maximumDestroyed = 256;
/** The minimum number of wait edges at which removing the unneeded ones is worth the cost. */
const minimumPruneThreshold = 256;

/** Returns the errors of a session's streams. After the first call, every wait in the session throws these errors. */
export function streamErrorsOf(session: Session): StreamErrors {
  // A wait of another session may depend on collectives of this session.
  if (session.driver.contextsAreShared) forEachSessionOfSharedContexts(guard);
  return guard(session);
}

function guard(session: Session): StreamErrors {
  let errors = errorsOfSessions.get(session);
  if (errors === undefined) {
    errorsOfSessions.set(session, errors = new StreamErrors(session));
    session.guardWaits(errors, errors.driver);
  }
  return errors;
}

/** Propagates errors of failed collectives to the session's streams whose work depends on these collectives. */
export class StreamErrors implements WaitErrors {
  /** A layer over the session's driver. Its calls do not block on collectives that can never complete. */
  readonly driver: Driver;
  /** The current epoch, to which newly enqueued work belongs. */
  epoch: Epoch = 0;
  #sequence = 0;
  /** The states of streams. The key is the stream's handle, or -1 minus the device's ordinal for a default stream. */
  readonly #streams = new Map<bigint, StreamState>();
  /** Destroyed streams whose work may still be running, or whose errors have not been thrown by any wait. */
  readonly #destroyed = new Set<StreamState>();
  readonly #records = new Map<bigint, EventRecord>();
  readonly #unfinished = new Set<WatchedCommunicator>();
  /** For each stream created through the layer, the epoch in which it was created. */
  readonly #created = new Map<bigint, Epoch>();
  /** The driver below the layer. */
  readonly #guarded: Driver;
  readonly #spinMilliseconds: number;
  readonly #onlyThis: ReadonlySet<StreamErrors> = new Set([this]);
  /** The number of wait edges at which edges that can no longer propagate an error are removed. */
  #pruneThreshold = minimumPruneThreshold;
  #waitEdgeCount = 0;
  #areSuppressed = false;
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
      await: (event) => this.#pollUntil(() => driver.eventQuery(event, forLibrary)),
    }, { isSanitized: session.sanitizer !== undefined });
    this.#spinMilliseconds = driver.runsOnHost ? spinMillisecondsOnHost : spinMilliseconds;
    this.driver = this.#guard(driver);
  }

  /** Call before kernels, copies or collectives are enqueued on a stream. Waits if the launch queue may be too full. */
  reserveSlots(device: number, stream: bigint, calls?: number): void {
    if (this.#isAnyUnfinished) this.#throttle.reserve(device, stream, keyOf(device, stream), calls);
  }

  /** Call when a communicator enqueues work on a stream. Returns the stream's state. */
  beginWork(communicator: WatchedCommunicator, device: number, stream: bigint): StreamState {
    this.#unfinished.add(communicator);
    if (this.#guarded.contextsAreShared) unfinishedInSharedContexts.add(this);
    return this.#trackedStateOf(device, stream);
  }

  /**
   * Call before enqueuing work: makes the other communicators record end markers for their work on the stream, so that
   * a hang can be attributed to one of them.
   */
  recordOtherEnds(communicator: WatchedCommunicator, device: number, stream: bigint): void {
    const state = this.#streams.get(keyOf(device, stream));
    if (state === undefined || this.#unfinished.size === 0) return;
    this.#recordEnds([state, ...this.#implicitDependents(state)], communicator);
  }

  /**
   * Makes the communicators with unfinished work on the given streams record end markers, except for work that already
   * has one.
   */
  #recordEnds(streams: readonly StreamState[], except?: WatchedCommunicator): void {
    for (const { unfinished } of streams) {
      for (const { owner, deadline } of unfinished) {
        // Ignore the loss of the communicator's device, because the current call might not involve that device.
        if (deadline === undefined && owner !== except && !owner.isSaturated) ignoreLoss(() => owner.recordEnd());
      }
    }
  }

  /** Returns the next sequence number. The numbers give the order in which the session's work was enqueued. */
  nextSequence(): number {
    return this.#sequence++;
  }

  /** Call when a communicator has no more unfinished work. */
  endWork(communicator: WatchedCommunicator): void {
    this.#unfinished.delete(communicator);
    if (this.#unfinished.size === 0) unfinishedInSharedContexts.delete(this);
    if (this.#destroyed.size > 0) this.#forgetDestroyed();
    if (this.#waitEdgeCount > 0 && this.#unfinished.size === 0) this.#pruneWaitEdges();
  }

  /**
   * Records a failure of collectives for their stream, starting at the epoch of the first failed collective, and for
   * all streams that depend on this stream.
   */
  propagate(stream: StreamState, { first, last }: Pick<UnfinishedWork, "first" | "last">, cause: FailureCause): void {
    const now = performance.now();
    this.epoch++;
    for (const [each, { since, isImplicit }] of this.#dependents(stream, first)) {
      // A wait may already have thrown the error of another rank of the same communicator.
      const thrown = each.failures.find((other) => {
        return isSameCause(other, cause) && !isUnthrown(other) && Math.max(last, since) < other.thrownAt;
      });
      each.failures.push({ ...cause, since, isImplicit, thrownAt: thrown?.thrownAt ?? Infinity });
      if (each.failures.length > maximumFailures) dropFailure(each.failures);
      // Restart the timeout of the work that waited for the failed work.
      for (const work of each.unfinished) if (work.last >= since) work.deadline = renewedDeadline(work, now);
    }
  }

  /**
   * Returns whether the given work depends on no earlier unfinished work of other communicators, so that exceeding the
   * deadline is the fault of its own communicator.
   */
  isInTurn(stream: StreamState, { owner, sequence, last }: UnfinishedWork): boolean {
    for (const each of [...this.#streams.values(), ...this.#destroyed]) {
      if (each !== stream && each.waitEdges.length === 0 && !(each.isBlocking && stream.isBlocking)) continue;
      for (const other of each.unfinished) {
        if (other.owner === owner || other.sequence > sequence) continue;
        const dependent = this.#dependents(each, other.first).get(stream);
        if (dependent !== undefined && dependent.since <= last) return false;
      }
    }
    return true;
  }

  /**
   * Returns all streams that depend on `stream` by event waits or by the implicit order of the default stream. In the
   * result, `since` is an epoch: work enqueued on the dependent stream after that epoch depends on work that was
   * enqueued on `stream` after the epoch in the parameter `since`.
   */
  #dependents(stream: StreamState, since: Epoch): Map<StreamState, { since: Epoch; isImplicit: boolean }> {
    const reached = new Map<StreamState, { since: Epoch; isImplicit: boolean }>();
    const next: { stream: StreamState; since: Epoch; isImplicit: boolean }[] = [{ stream, since, isImplicit: false }];
    for (let each = next.pop(); each !== undefined; each = next.pop()) {
      const { stream, since, isImplicit } = each;
      const known = reached.get(stream);
      if (known !== undefined && known.since <= since && (isImplicit || !known.isImplicit)) continue;
      reached.set(stream, {
        since: Math.min(since, known?.since ?? Infinity),
        isImplicit: isImplicit && (known?.isImplicit ?? true),
      });
      for (const edge of stream.waitEdges) {
        if (edge.before > since) next.push({ stream: edge.stream, since: edge.since, isImplicit: false });
      }
      // Do not follow two implicit dependencies in a row: the default stream orders two blocking streams only if it has
      // work between theirs, which is not known here.
      if (isImplicit) continue;
      for (const other of this.#implicitDependents(stream)) next.push({ stream: other, since, isImplicit: true });
    }
    return reached;
  }

  /**
   * Returns the epoch before which a stream's work is complete, according to events recorded after epoch `since`. Call
   * before the library aborts the work: events after aborted work complete, too.
   */
  completedBefore(stream: StreamState, since: Epoch, isComplete: (event: bigint) => boolean): Epoch {
    let epoch = since;
    for (const [event, { of, at }] of this.#records) {
      if (of === stream && at > epoch && isComplete(event)) epoch = at;
    }
    return epoch;
  }

  withoutErrors<Result>(action: () => Result): Result {
    const areSuppressed = this.#areSuppressed;
    this.#areSuppressed = true;
    try {
      return action();
    } finally {
      this.#areSuppressed = areSuppressed;
    }
  }

  throwErrorOfStream(device: number, stream: bigint, isDone: boolean): void {
    if (this.#areSuppressed) return;
    const state = this.#stateIfRelevant(device, stream);
    if (!isDone || state === undefined) {
      this.#pollIfDue();
    } else {
      const completed = { stream: state, before: ++this.epoch };
      this.#forEachUnfinished((communicator) => communicator.pollCompleted(completed));
    }
    if (state !== undefined) this.#throw(state.failures.filter(isUnthrown));
  }

  throwErrorOfEvent(event: bigint, isDone: boolean): void {
    if (this.#areSuppressed) return;
    const record = this.#records.get(event);
    if (!isDone) this.#pollIfDue();
    else if (record === undefined || typeof record.of === "number") this.#poll();
    else this.#poll({ stream: record.of, before: record.at });
    if (record === undefined) return;
    this.#throw(
      this.#statesOf(record).flatMap(({ failures }) => failures.filter((failure) => isBehindFailure(record, failure))),
    );
  }

  throwErrorOfDevice(device: number): void {
    if (this.#areSuppressed) return;
    this.#poll();
    const failures = this.#allStatesOf(device).flatMap(({ failures }) => failures.filter(isUnthrown));
    this.#throw(failures);
  }

  onDefaultStreamRecorded(device: number, event: bigint): void {
    const state = this.#streams.get(keyOf(device, defaultStream));
    if (state !== undefined) this.#records.set(event, { of: state, at: ++this.epoch });
  }

  onStreamReleased(device: number, stream: bigint): void {
    const key = keyOf(device, stream);
    const state = this.#streams.get(key);
    this.#streams.delete(key);
    this.#created.delete(key);
    this.#throttle.forget(key);
    if (state === undefined) return;
    this.#destroyed.add(state);
    const mayFail = this.#forgetDestroyed();
    if (this.#destroyed.size <= maximumDestroyed) return;
    // A destroyed stream's error can be thrown only by a wait for the whole device, so drop the oldest such stream.
    const oldest = this.#destroyed.values().find((each) => !mayFail.has(each));
    if (oldest !== undefined) this.#destroyed.delete(oldest);
  }

  /** Drops the destroyed streams that have no errors left to throw. Returns the streams whose work may still fail. */
  #forgetDestroyed(): ReadonlySet<StreamState> {
    const mayFail = this.#unfinishedStreams();
    for (const state of this.#destroyed) if (state.isSettled && !mayFail.has(state)) this.#destroyed.delete(state);
    return mayFail;
  }

  /** Returns the streams that have unfinished collectives, and those that depend on such a stream. */
  #unfinishedStreams(): ReadonlySet<StreamState> {
    const streams = new Set<StreamState>();
    if (this.#unfinished.size === 0) return streams;
    for (const state of [...this.#streams.values(), ...this.#destroyed]) {
      if (state.unfinished.size === 0) continue;
      const first = Math.min(...[...state.unfinished].map(({ first }) => first));
      for (const each of this.#dependents(state, first).keys()) streams.add(each);
    }
    return streams;
  }

  /**
   * Throws the error of the first failure that no wait has thrown yet. If waits have thrown all of them, throws the
   * first one again.
   */
  #throw(failures: readonly StreamFailure[]): void {
    const failure = failures.find(isUnthrown) ?? failures[0];
    if (failure === undefined) return;
    const epoch = ++this.epoch;
    for (const each of failures) if (isSameCause(each, failure) && isUnthrown(each)) each.thrownAt = epoch;
    throw failure.error;
  }

  #pollIfDue(): void {
    this.#forEachUnfinished((communicator) => communicator.pollIfDue());
  }

  #poll(completed?: StreamPoint): void {
    this.#forEachUnfinished((communicator) => communicator.poll(completed));
  }

  #forEachUnfinished(action: (communicator: WatchedCommunicator) => void): void {
    for (const communicator of this.#unfinished) {
      try {
        action(communicator);
      } catch (error) {
        // Ignore that a communicator's device is lost: if the current call uses that device, the call throws.
        if (!isLoss(error)) throw error;
      }
    }
  }

  #stateOf(device: number, stream: bigint): StreamState {
    const key = keyOf(device, stream);
    let state = this.#streams.get(key);
    if (state === undefined) {
      const isDefault = key < 0n;
      const isBlocking = isDefault || this.#guarded.streamGetFlags(device, stream) !== streamFlags.nonBlocking;
      this.#streams.set(key, state = new StreamState(device, { isDefault, isBlocking }));
      const ofDefault = isBlocking && !isDefault ? this.#streams.get(keyOf(device, defaultStream)) : undefined;
      const created = this.#created.get(key) ?? 0;
      for (const failure of ofDefault?.failures ?? []) {
        // The failure affects this stream unless the stream was created after a wait had thrown the failure's error:
        // the program then knew about the failure.
        if (!failure.isImplicit && failure.thrownAt > created) state.failures.push({ ...failure, isImplicit: true });
      }
    }
    return state;
  }

  /**
   * Returns the state of a stream, creating it if needed. Only for streams that have collectives or wait for such
   * streams.
   */
  #trackedStateOf(device: number, stream: bigint): StreamState {
    const state = this.#stateOf(device, stream);
    // Also create the state of the default stream, which waits for blocking streams and thus inherits their errors.
    if (state.isBlocking) this.#stateOf(device, defaultStream);
    return state;
  }

  /**
   * Returns the state of a stream, if the stream is tracked. If the device's default stream is tracked, starts to track
   * the given stream, too.
   */
  #stateIfRelevant(device: number, stream: bigint): StreamState | undefined {
    return this.#streams.get(keyOf(device, stream)) ??
      (this.#streams.has(keyOf(device, defaultStream)) ? this.#stateOf(device, stream) : undefined);
  }

  /** Returns the states of a device's streams, including destroyed ones. */
  #allStatesOf(device: number): StreamState[] {
    return [...this.#streams.values(), ...this.#destroyed].filter((state) => state.device === device);
  }

  /**
   * Returns the streams that CUDA orders after the work of `stream` implicitly, by the rules for the default stream.
   */
  #implicitDependents(stream: StreamState): StreamState[] {
    if (!stream.isBlocking) return [];
    return this.#allStatesOf(stream.device).filter((other) => areOrderedByDefaultStream(stream, other));
  }

  /** Returns the states of the streams whose work an event marks as complete. */
  #statesOf({ of }: EventRecord): StreamState[] {
    return typeof of === "number" ? this.#allStatesOf(of) : [of];
  }

  /** Adds wait edges to a stream that waits for an event, and propagates the failures of work before the event. */
  #addWaitEdges(record: EventRecord, stream: StreamState): void {
    const since = ++this.epoch;
    for (const awaited of this.#statesOf(record)) {
      if (awaited === stream) continue;
      awaited.waitEdges.push({ stream, before: record.at, since });
      this.#waitEdgeCount++;
      // Earlier failures were propagated before the edge existed, so propagate them now. Later failures will be
      // propagated along the edge.
      const failed = awaited.failures.filter((failure) => isBehindFailure(record, failure));
      const causes = new Map(failed.map((failure) => [failure.error, causeOf(failure)]));
      for (const cause of causes.values()) this.propagate(stream, { first: since, last: Infinity }, cause);
    }
    if (this.#waitEdgeCount > this.#pruneThreshold) this.#pruneWaitEdges();
  }

  /**
   * Removes the wait edges that can no longer propagate an error, because all work before the awaited event is
   * complete.
   */
  #pruneWaitEdges(): void {
    const all = [...this.#streams.values(), ...this.#destroyed];
    let oldest = Infinity;
    for (const { unfinished } of all) for (const { first } of unfinished) oldest = Math.min(oldest, first);
    this.#waitEdgeCount = 0;
    for (const state of all) {
      if (state.waitEdges.length === 0) continue;
      state.waitEdges = state.waitEdges.filter(({ before }) => before > oldest);
      this.#waitEdgeCount += state.waitEdges.length;
    }
    this.#pruneThreshold = Math.max(minimumPruneThreshold, 2 * this.#waitEdgeCount);
  }

  /** The errors of all sessions whose collectives a wait of this session may depend on. */
  get #involved(): ReadonlySet<StreamErrors> {
    return this.#guarded.contextsAreShared ? unfinishedInSharedContexts : this.#onlyThis;
  }

  get #isAnyUnfinished(): boolean {
    return this.#unfinished.size > 0 || this.#guarded.contextsAreShared && unfinishedInSharedContexts.size > 0;
  }

  /**
   * Polls until a condition holds or no collective is unfinished.
   *
   * @param throwIfStuck throws if the condition may never hold
   */
  #pollUntil(isDone: () => boolean, throwIfStuck?: () => void): void {
    const start = performance.now();
    while (this.#isAnyUnfinished && !isDone()) {
      const waited = performance.now() - start;
      if (waited >= quietMilliseconds) {
        for (const errors of this.#involved) errors.#pollIfDue();
        throwIfStuck?.();
      }
      if (waited > this.#spinMilliseconds) pause(pauseMilliseconds);
    }
  }

  /**
   * Throws the error of failed work that the library cannot abort, because a wait for later work would never return.
   */
  #throwIfStuck(failures: readonly StreamFailure[] = []): void {
    if (!this.#areSuppressed && failures.length > 0) this.#throw(failures.filter(isStuck));
  }

  #pollUntilIdle(device: number): void {
    for (const errors of this.#involved) {
      for (const [key, each] of errors.#streams) {
        if (each.device === device) this.#pollUntil(() => errors.#isIdle(device, key < 0n ? defaultStream : key));
      }
      for (const state of errors.#destroyed) {
        // A destroyed stream cannot be queried. Poll the collectives that it depends on, since nothing else can make it
        // hang.
        if (state.device === device) this.#pollUntil(() => !errors.#mayHang(state));
      }
    }
  }

  /** Polls the collectives that a destroyed stream depends on. Returns whether any of them is unfinished. */
  #mayHang(state: StreamState): boolean {
    if (this.#unfinished.size === 0) return false;
    for (const each of [...this.#streams.values(), ...this.#destroyed]) {
      for (const work of each.unfinished) {
        if (each !== state && !this.#dependents(each, work.first).has(state)) continue;
        if (!pollIsOver(work)) return true;
      }
    }
    return false;
  }

  #isIdle(device: number, stream: bigint): boolean {
    try {
      return this.#guarded.streamQuery(device, stream, forLibrary);
    } catch (error) {
      // An invalid handle means that the stream was created by other code, which has destroyed it.
      if (!isInvalidHandle(error)) throw error;
      this.onStreamReleased(device, stream);
      return true;
    }
  }

  /** Returns the ordinals of the devices that have tracked streams. */
  #devices(): Set<number> {
    const all = [...this.#involved].flatMap((errors) => [...errors.#streams.values(), ...errors.#destroyed]);
    return new Set(all.map(({ device }) => device));
  }

  /** Returns a layer over `driver` that tracks streams and events, and that polls before each call that blocks. */
  #guard(driver: Driver): Driver {
    const calls: Partial<Driver> = {
      eventRecord: (device, event, stream) => {
        driver.eventRecord(device, event, stream);
        const state = this.#stateIfRelevant(device, stream);
        if (state !== undefined) this.#records.set(event, { of: state, at: ++this.epoch });
        else if (this.#records.size > 0) this.#records.delete(event);
      },
      ctxRecordEvent: (device, event) => {
        driver.ctxRecordEvent(device, event);
        this.#records.set(event, { of: device, at: ++this.epoch });
      },
      eventDestroy: (device, event) => {
        this.#records.delete(event);
        driver.eventDestroy(device, event);
      },
      streamCreateWithPriority: (device, flags, priority) => {
        const stream = driver.streamCreateWithPriority(device, flags, priority);
        this.#created.set(stream, ++this.epoch);
        return stream;
      },
      streamWaitEvent: (device, stream, event, flags) => {
        // In a capture: nothing is waited for now.
        if (flags === externalEvent) return driver.streamWaitEvent(device, stream, event, flags);
        const record = this.#records.get(event);
        // The wait may order later work of this stream after another communicator's work. Record an end marker for the
        // earlier work first, so that the marker does not wait as well.
        const state = record === undefined || this.#unfinished.size < 2
          ? undefined
          : this.#streams.get(keyOf(device, stream));
        if (state !== undefined) this.#recordEnds([state]);
        driver.streamWaitEvent(device, stream, event);
        if (record === undefined) return;
        this.#addWaitEdges(record, this.#trackedStateOf(device, stream));
      },
      streamDestroy: (device, stream) => {
        this.onStreamReleased(device, stream);
        driver.streamDestroy(device, stream);
      },
    };
    return intercept(driver, calls, (name, method) => {
      const effects = effectsOf(name);
      // The wrapper of a launch has no rest parameter, because creating its array would take longer than the rest of
      // the wrapper.
      if (effects.stream === "launch") {
        return (launch, attributes) => {
          const { device, stream } = launch as KernelLaunch;
          this.reserveSlots(device, stream);
          return method.call(driver, launch, attributes);
        };
      }
      // A call that takes a slot of the launch queue needs no polling, because it does not wait for work: pageable
      // memory, whose copies would block, is copied through page-locked memory.
      const before = takesSlot(effects) ? this.#slotReservation(effects) : this.#pollingWait(effects);
      if (before === undefined) return method.bind(driver);
      return (...parameters) => {
        before(parameters);
        return Reflect.apply(method, driver, parameters);
      };
    });
  }

  /**
   * Returns a function that reserves a launch-queue slot, given the parameters of a call that enqueues a copy or a
   * fill.
   */
  #slotReservation({ stream }: CallEffects): (parameters: readonly unknown[]) => void {
    return (parameters) => this.reserveSlots(parameters[0] as number, parameters[stream as number] as bigint);
  }

  /**
   * Returns a function that polls until a call with the given parameters would not block. Undefined if calls with these
   * effects never block.
   */
  #pollingWait(
    { blocksOn, mayBlockOn, loads = false }: CallEffects,
  ): ((parameters: readonly unknown[]) => void) | undefined {
    const driver = this.#guarded;
    switch (loads && !driver.loadingBlocks ? undefined : blocksOn ?? mayBlockOn) {
      case "stream":
        return ([device, stream]) =>
          this.#pollUntil(
            () => driver.streamQuery(device as number, stream as bigint, forLibrary),
            () => this.#throwIfStuck(this.#streams.get(keyOf(device as number, stream as bigint))?.failures),
          );
      case "event":
        return ([event]) =>
          this.#pollUntil(() => driver.eventQuery(event as bigint, forLibrary), () => {
            const record = this.#records.get(event as bigint);
            if (record === undefined) return;
            const failures = this.#statesOf(record).flatMap(({ failures }) => failures);
            this.#throwIfStuck(failures.filter(({ since }) => since < record.at));
          });
      case "device":
        return ([device]) => this.#pollUntilIdle(device as number);
      case "all devices":
        return () => {
          for (const device of this.#devices()) this.#pollUntilIdle(device);
        };
    }
  }
}

function keyOf(device: number, stream: bigint): bigint {
  return stream === defaultStream ? -1n - BigInt(device) : stream;
}

/**
 * Removes a failure that is redundant because of another one in the list. If there is none, removes the oldest failure.
 */
function dropFailure(failures: StreamFailure[]): void {
  const redundant = failures.findLastIndex((failure, index) =>
    failures.some((other, otherIndex) => {
      if (otherIndex === index || !isSameCause(other, failure)) return false;
      // Of two equal failures, only the second one is redundant.
      if (other.since === failure.since && other.thrownAt === failure.thrownAt) return otherIndex < index;
      return other.since <= failure.since && other.thrownAt >= failure.thrownAt;
    })
  );
  failures.splice(Math.max(redundant, 0), 1);
}

function causeOf({ error, identity, revocation }: FailureCause): FailureCause {
  return { error, identity, revocation };
}

function isInvalidHandle(error: unknown): boolean {
  return error instanceof CudaError && error.code === "cudaErrorInvalidResourceHandle";
}

/**
 * Polls the communicator that owns the work. Returns whether the work is complete, has failed, or was lost with its
 * device.
 */
function pollIsOver(work: UnfinishedWork): boolean {
  const { owner, stream: { unfinished } } = work;
  if (!unfinished.has(work)) return true;
  try {
    owner.poll();
  } catch (error) {
    if (!isLoss(error)) throw error;
    return true;
  }
  return !unfinished.has(work);
}
