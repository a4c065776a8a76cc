/**
 * The collectives of a communicator that its streams have not done yet, and whether they can end.
 *
 * A collective itself notes next to nothing. Now and then, by a timer or when the program waits for a stream, an event is
 * recorded behind what was asked for since the last time: its completion, or that it does not come, tells the rest.
 *
 * @module
 */
import type { CollectiveLibrary } from "../collective_library.ts";
import { type CudaStream, whenStreamDisposed } from "../objects/cuda_stream.ts";
import type { Session } from "../session.ts";
import { SharingError } from "../support/errors.ts";
import { ignoreLoss } from "../support/driver_errors.ts";
import { UnreferencedTimer } from "../support/waiting/unreferenced_timer.ts";
import { type CollectiveFaults, faultsOf, type PolledCommunicator, type StreamFaults } from "./collective_faults.ts";
import { namesOfRanks } from "./creation.ts";

/** Milliseconds between two polls by waits of the program. */
const pollInterval = 1;
/** Milliseconds between two polls by the timer, while nobody waits. */
const watchInterval = 50;

/** A stream that was given collectives. */
interface Given {
  readonly device: number;
  readonly stream: bigint;
  readonly faults: StreamFaults;
  /** Takes back what is done when the stream is disposed of. */
  readonly letGo: () => void;
}

/** An event behind collectives of a stream. */
interface Marked {
  readonly faults: StreamFaults;
  readonly event: bigint;
  /** When they should be done, by `performance.now()`. */
  readonly deadline: number;
}

/** What it works with. */
interface Parts {
  readonly session: Session;
  readonly library: CollectiveLibrary;
  readonly comm: bigint;
  /** Milliseconds in which a collective must be done. */
  readonly timeout: number;
  /** The communicator, as messages name it. */
  readonly name: string;
}

/** The unfinished collectives of a communicator. */
export class PendingCollectives implements PolledCommunicator {
  /** Why it can do no more. */
  failure: Error | undefined;
  readonly #parts: Parts;
  readonly #faults: CollectiveFaults;
  /** The streams that were given collectives since the last look, and since they were done. */
  readonly #unmarked = new Map<CudaStream, Given>();
  #lastStream: CudaStream | undefined;
  #marked: Marked[] = [];
  #nextPoll = 0;
  /** Resolves when what could not end has been ended. */
  #ending: Promise<void> | undefined;
  readonly #timer = new UnreferencedTimer(() => this.#watch(), watchInterval);

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#faults = faultsOf(parts.session);
  }

  /** Notes that a stream was given a collective. */
  add(stream: CudaStream): void {
    if (stream === this.#lastStream) return;
    this.#lastStream = stream;
    if (this.#unmarked.has(stream)) return;
    const { device: { ordinal: device }, unsafeHandle: handle } = stream;
    const faults = this.#faults.begin(this, device, handle);
    // Afterwards, nothing can be recorded on it.
    const letGo = whenStreamDisposed(stream, () => this.#mark(performance.now()));
    this.#unmarked.set(stream, { device, stream: handle, faults, letGo });
    this.#timer.start();
  }

  /** Whether nothing is left to be done, or nothing can be. */
  get isDone(): boolean {
    this.look();
    return this.#isIdle;
  }

  poll(): void {
    if (performance.now() >= this.#nextPoll) this.look();
  }

  settle(stream: StreamFaults): void {
    if (this.failure !== undefined) return;
    // Work of other streams may be done, too, or hang.
    for (const { faults } of this.#unmarked.values()) if (faults !== stream) return this.look();
    for (const { faults } of this.#marked) if (faults !== stream) return this.look();
    const { library, comm } = this.#parts;
    const state = library.commGetAsyncError(comm, { isDone: true });
    if (state instanceof Error) return this.fail(state);
    this.#forgetUnmarked();
    for (const { faults, event } of this.#marked) this.#unmark(faults, event);
    this.#marked = [];
    this.#faults.end(this);
  }

  /**
   * Notes that the communicator can do no more, and ends what it has given to its streams.
   *
   * @param options.isAborted whether the program has aborted it
   */
  fail(error: Error, options: { readonly isAborted?: boolean } = {}): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    const streams = new Set([...this.#unmarked.values(), ...this.#marked].map(({ faults }) => faults));
    for (const faults of streams) this.#faults.fail(faults, error);
    for (const { faults } of this.#marked) faults.marks--;
    this.#forgetUnmarked();
    const { library, comm } = this.#parts;
    // What cannot be ended has been reported by the error itself.
    this.#ending = library.commRevoke(comm, options).catch(() => {}).then(() => this.#forget());
  }

  /** Resolves when what could not end has been ended. */
  async ended(): Promise<void> {
    await this.#ending;
  }

  /** Ends the watch. */
  stop(): void {
    this.#timer.stop();
    this.#forget();
  }

  #watch(): void {
    try {
      this.look();
    } catch {
      // The device is lost, or the Cuda object is gone: the program's own calls say so.
      return this.stop();
    }
    if (!this.#isIdle) this.#timer.start();
  }

  get #isIdle(): boolean {
    return this.#unmarked.size === 0 && this.#marked.length === 0;
  }

  look(): void {
    const now = performance.now();
    this.#nextPoll = now + pollInterval;
    if (this.failure !== undefined) return;
    const { session, library, comm, timeout, name } = this.#parts;
    const { driver } = session;
    this.#mark(now);
    const areDone = this.#marked.map(({ event }) => driver.eventQuery(event, { forLibrary: true }));
    // Asked afterwards: what has failed is done, too.
    const state = library.commGetAsyncError(comm);
    if (state instanceof Error) return this.fail(state);
    this.#marked = this.#marked.filter(({ event, faults }, index) => {
      if (areDone[index]) this.#unmark(faults, event);
      return !areDone[index];
    });
    if (this.#marked.some(({ deadline }) => deadline < now)) {
      const late = library.lateRanks(comm);
      const who = late.length === 0 ? "not all ranks took part" : `${namesOfRanks(late)} did not take part`;
      return this.fail(
        new SharingError(
          "timed-out",
          `Cannot finish a collective of ${name}: ${who} in ${timeout} ms; ranks that one thread works for have to be ` +
            "called together, in Communicator.group",
        ),
      );
    }
    if (this.#isIdle) this.#faults.end(this);
  }

  /** Records events behind what was asked for since the last time. */
  #mark(now: number): void {
    const { session, timeout } = this.#parts;
    for (const { device, stream, faults } of this.#unmarked.values()) {
      const event = session.createMarker(device);
      session.driver.eventRecord(device, event, stream);
      faults.marks++;
      this.#marked.push({ faults, event, deadline: now + timeout });
    }
    this.#forgetUnmarked();
  }

  #unmark(faults: StreamFaults, event: bigint): void {
    faults.marks--;
    this.#parts.session.destroyMarker(event);
  }

  #forgetUnmarked(): void {
    for (const { letGo } of this.#unmarked.values()) letGo();
    this.#unmarked.clear();
    this.#lastStream = undefined;
  }

  #forget(): void {
    for (const { event, faults } of this.#marked) {
      if (this.failure === undefined) faults.marks--;
      ignoreLoss(() => this.#parts.session.destroyMarker(event));
    }
    this.#marked = [];
    this.#forgetUnmarked();
    this.#faults.end(this);
  }
}
