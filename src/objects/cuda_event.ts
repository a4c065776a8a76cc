import { printAs, stateOf } from "../support/printing.ts";
import type { CudaDevice } from "./cuda_device.ts";
import { cannot, ignoreLoss } from "../support/error_wording.ts";
import type { Session } from "../session.ts";
import { errorOfAnotherCuda, whatIs } from "../support/validation.ts";
import { type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";

/** What an event is for. */
export interface EventOptions {
  /** Whether `elapsedTime` works with it. An event without is faster. */
  timing?: boolean;
  /** Whether `synchronize()` yields the processor while it waits. */
  blockingSync?: boolean;
  /** Whether another process may open it. Such an event has no timing. */
  interprocess?: boolean;
}

/** Throws unless it is an event, and of the same `Cuda` object as what it is to be used with. */
export let checkEvent: (event: CudaEvent, session: Session) => void;

/**
 * A point in a stream's work, which the host and other streams can wait for. Made by `CudaDevice.createEvent` and
 * `CudaDevice.openEvent`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
 */
export class CudaEvent implements Disposable {
  /** The device that it belongs to. */
  readonly device: CudaDevice;
  readonly #session: Session;
  #handle: bigint | undefined;

  static {
    checkEvent = (event, session) => {
      if (!(event instanceof CudaEvent)) {
        throw new TypeError(
          `Cannot use ${whatIs(event, "CudaEvent")} as an event: give what CudaDevice.createEvent made`,
        );
      }
      if (event.#session !== session) throw errorOfAnotherCuda("use an event");
    };
    printAs(this, "CudaEvent", (event) => {
      const state = event.#handle === undefined || event.#session.hasEnded
        ? "disposed"
        : stateOf(() => event.#session.driver.eventQuery(event.unsafeHandle, { onlyLook: true }) ? "done" : "pending");
      return `CudaEvent { device ${event.device.ordinal}, ${state} }`;
    });
  }

  /**
   * Made by `CudaDevice.createEvent` and `CudaDevice.openEvent`.
   *
   * @ignore
   */
  constructor(session: Session, { device, handle }: { device: CudaDevice; handle: bigint }) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
  }

  /** The `cudaEvent_t`, for calls that this library does not make. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the event: it was disposed");
    return this.#handle;
  }

  /** Whether the work that the event was last recorded behind is done; true for one never recorded. */
  query(): boolean {
    try {
      return this.#session.driver.eventQuery(this.unsafeHandle);
    } catch (error) {
      throw cannot(`query an event of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Blocks until that work is done.
   *
   * @throws {CudaError} that of the work, where it has failed
   */
  synchronize(): void {
    try {
      this.#session.driver.eventSynchronize(this.unsafeHandle);
    } catch (error) {
      throw cannot(`wait for an event of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Resolves when that work is done; rejects with its CudaError. Where the event is recorded again meanwhile, it is that
   * record which is waited for.
   *
   * @throws {CudaError} that of the work, where it has failed
   */
  finished(options?: WaitOptions): Promise<void> {
    return waitUntil(() => this.query(), options);
  }

  /**
   * Milliseconds from `start` to this event, with a resolution of about half a microsecond.
   *
   * @param start An event with timing, as this one, and of the same device.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} for what is no event of the same `Cuda` object
   * @throws {CudaError} `cudaErrorNotReady` while either is not reached, `cudaErrorInvalidResourceHandle` where either
   * has no timing or was never recorded
   */
  elapsedTime(start: CudaEvent): number {
    checkEvent(start, this.#session);
    try {
      return this.#session.driver.eventElapsedTime(start.unsafeHandle, this.unsafeHandle);
    } catch (error) {
      throw cannot("measure the time between two events", error, "record both, created with timing, and wait for them");
    }
  }

  /**
   * 64 bytes for another process's `openEvent`. A wait takes the latest record at the time of the call: record the event
   * before the bytes are sent.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {CudaError} where the event was not created as an interprocess one
   */
  exportHandle(): Uint8Array<ArrayBuffer> {
    try {
      return this.#session.driver.ipcGetEventHandle(this.unsafeHandle);
    } catch (error) {
      const hint = "create it with { interprocess: true }";
      throw cannot(`export an event of device ${this.device.ordinal}`, error, hint);
    }
  }

  /** Destroys the event. Work that waits for it goes on when its time comes. */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    const handle = this.#handle;
    this.#handle = undefined;
    ignoreLoss(() => this.#session.driver.eventDestroy(this.device.ordinal, handle));
  }
}
