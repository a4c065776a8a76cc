import { defaultStream, type Driver } from "../driver.ts";
import { ignoreLoss } from "../support/driver_errors.ts";
import type { Session } from "../session.ts";

/** The driver's stream, by its device's ordinal and its handle. */
interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
}

/**
 * The work that was enqueued on a stream until some moment, and was not complete then. It outlives the stream and the
 * session.
 */
export class PendingWork {
  readonly #session: Session;
  readonly #driver: Driver;
  readonly #stream: StreamHandle;
  /**
   * Recorded after the work. A default stream has none: an event on it would order the blocking streams' work before
   * and after it.
   */
  readonly #marker: bigint | undefined;
  #isComplete = false;
  #isLost = false;

  private constructor(session: Session, stream: StreamHandle) {
    this.#session = session;
    this.#driver = session.driver;
    this.#stream = stream;
    if (stream.stream === defaultStream) return;
    this.#marker = session.createMarker(stream.device);
    try {
      this.#driver.eventRecord(stream.device, this.#marker, stream.stream);
    } catch (error) {
      session.destroyMarker(this.#marker);
      throw error;
    }
  }

  /** The work enqueued on a stream so far; undefined if it is complete. */
  static of(session: Session, stream: StreamHandle): PendingWork | undefined {
    if (session.driver.streamQuery(stream.device, stream.stream, { peek: true })) return undefined;
    return new PendingWork(session, stream);
  }

  /** Whether the work is complete, or lost with its device. For a default stream: whether the stream is idle. */
  get isComplete(): boolean {
    if (this.#isComplete) return true;
    let isComplete = true;
    this.#isLost = true;
    ignoreLoss(() => {
      isComplete = this.#marker === undefined
        ? this.#driver.streamQuery(this.#stream.device, this.#stream.stream)
        : this.#driver.eventQuery(this.#marker);
      this.#isLost = false;
    });
    if (!isComplete) return false;
    this.#isComplete = true;
    if (this.#marker !== undefined) this.#session.destroyMarker(this.#marker);
    return true;
  }

  /** Whether the device was lost before the work was known to be complete. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Makes a stream wait for the work, which must not be a default stream's. */
  precede({ device, stream }: StreamHandle): void {
    if (!this.isComplete) this.#driver.streamWaitEvent(device, stream, this.#marker!);
  }
}
