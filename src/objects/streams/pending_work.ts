import { defaultStream, type Driver } from "../../driver.ts";
import { ignoreLoss } from "../../support/driver_errors.ts";
import type { Session } from "../../session.ts";

/** The library asks for itself, which tells the program nothing. */
const forLibrary = { forLibrary: true };

/** A stream, by its device's ordinal and its handle. */
interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
}

/**
 * The work that was enqueued on a stream until some moment. It outlives the stream and the session.
 *
 * Usually it was not complete then. With a sanitizer it may have been, by luck: what has to come after it is then still
 * told to the driver, and so to the sanitizer, until the program knows that the work is done.
 */
export class PendingWork {
  readonly #session: Session;
  readonly #driver: Driver;
  readonly #stream: StreamHandle;
  /**
   * Recorded after the work, until nothing has to be told to come after it. A default stream has none: an event on it
   * would order the blocking streams' work before and after it.
   */
  #marker: bigint | undefined;
  #isComplete = false;
  #isLost = false;

  private constructor(session: Session, stream: StreamHandle) {
    this.#session = session;
    this.#driver = session.driver;
    this.#stream = stream;
    if (stream.stream === defaultStream) return;
    const marker = session.createMarker(stream.device);
    try {
      this.#driver.eventRecord(stream.device, marker, stream.stream);
    } catch (error) {
      session.destroyMarker(marker);
      throw error;
    }
    this.#marker = marker;
  }

  /** The work enqueued on a stream so far; undefined if it is complete. */
  static of(session: Session, stream: StreamHandle): PendingWork | undefined {
    if (session.driver.streamQuery(stream.device, stream.stream, { peek: true })) return undefined;
    return new PendingWork(session, stream);
  }

  /** The work enqueued on a stream; undefined if nothing has to be told to come after it. */
  static last(session: Session, stream: StreamHandle): PendingWork | undefined {
    if (session.sanitizer === undefined) return PendingWork.of(session, stream);
    const work = new PendingWork(session, stream);
    return work.isPast ? undefined : work;
  }

  /** Whether the work is complete, or lost with its device. For a default stream: whether the stream is idle. */
  get isComplete(): boolean {
    if (this.#isComplete) return true;
    let isComplete = true;
    this.#isLost = true;
    ignoreLoss(() => {
      isComplete = this.#marker === undefined
        ? this.#driver.streamQuery(this.#stream.device, this.#stream.stream, forLibrary)
        : this.#driver.eventQuery(this.#marker, forLibrary);
      this.#isLost = false;
    });
    if (!isComplete) return false;
    this.#isComplete = true;
    if (this.#session.sanitizer === undefined) this.#forgetMarker();
    return true;
  }

  /** Whether nothing has to be told to come after the work: it is complete, and a sanitizer knows why. */
  get isPast(): boolean {
    if (!this.isComplete) return false;
    const isKnown = this.#isLost || this.#marker !== undefined && this.#session.sanitizer?.isKnown(this.#marker);
    if (isKnown) this.#forgetMarker();
    return this.#marker === undefined;
  }

  /** Whether the device was lost before the work was known to be complete. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Makes a stream wait for the work, which must not be a default stream's. */
  precede({ device, stream }: StreamHandle): void {
    if (!this.isPast) this.#driver.streamWaitEvent(device, stream, this.#marker!);
  }

  #forgetMarker(): void {
    if (this.#marker === undefined) return;
    this.#session.destroyMarker(this.#marker);
    this.#marker = undefined;
  }
}
