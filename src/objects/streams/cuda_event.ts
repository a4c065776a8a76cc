import { printAs, stateOf } from "../../support/printing.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { callStack, reportUnrecordedEvent } from "../../support/leaks.ts";
import { CudaError } from "../../support/errors.ts";
import type { OpenedObject } from "../opened_objects.ts";
import type { Session } from "../../session.ts";
import type { StreamProgress } from "./stream_progress.ts";
import { errorOfAnotherCuda, type KnownOptions, refuseConstruction, whatIs } from "../../support/validation.ts";
import { type WaitOptions, waitUntil } from "../../support/waiting/waiting.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of a new event. */
export interface EventOptions {
  /** Whether the event can be used for `elapsedTime`. Events without timing are faster. Defaults to false. */
  timing?: boolean;
  /** Whether `synchronize` yields the processor while it waits. Defaults to false. */
  blockingSync?: boolean;
  /** Whether other processes can open the event. Such an event cannot have timing. Defaults to false. */
  interprocess?: boolean;
}

/** Describes the options of a new event, for validation by `checkOptions`. */
export const eventOptions: KnownOptions<EventOptions> = {
  action: "create an event",
  names: { timing: true, blockingSync: true, interprocess: true },
  instead: { flags: "set timing, blockingSync or interprocess" },
};

/** Returns advice on what to pass instead of `value`, which is not an event. */
function eventInsteadOf(value: unknown): string {
  return whatIs(value) === "a CudaStream"
    ? "record a CudaEvent on that stream, and give the event"
    : "give a CudaEvent from CudaDevice.createEvent";
}

/**
 * Returns an event's handle without the side effect of `unsafeHandle`, whose getter makes the library assume that other
 * code may record the event.
 */
export let handleOf: (event: CudaEvent) => bigint;

/** Whether other processes can wait for the event. */
export let isInterprocess: (event: CudaEvent) => boolean;

/**
 * Keeps an event until the returned function is called, even if the program disposes of it: a graph uses it, and may
 * record it at any time.
 */
export let keepEvent: (event: CudaEvent) => () => void;

/** Throws unless `event` is an event of the `Cuda` object that `session` belongs to. */
export let checkEvent: (event: CudaEvent, session: Session) => void;

/**
 * Must be called after a record of the event on a stream was enqueued, to track which stream recorded the event last.
 */
export let noteRecord: (event: CudaEvent, stream: StreamProgress) => void;

/**
 * Must be called after a stream was made to wait for the event, to track which streams are ordered after its record.
 */
export let noteWait: (event: CudaEvent, stream: StreamProgress) => void;

const refusalToClone = cloneRefusal("a CudaEvent", openInWorker);

/**
 * A point in a stream's work, which the host and other streams can wait for. Comes from `CudaDevice.createEvent` or
 * `CudaDevice.openEvent`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
 */
export class CudaEvent implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device that the event belongs to. */
  readonly device: CudaDevice;
  readonly #session: Session;
  /**
   * Whether the event is interprocess. The library never synchronizes with such an event on its own, because another
   * process may record the event at any time, after work that never completes.
   */
  readonly #isInterprocess: boolean;
  readonly #hasTiming: boolean;
  readonly #opened: OpenedObject;
  #handle: bigint | undefined;
  /** Whether other processes, or code that has read `unsafeHandle`, may record the event. */
  #mayBeRecordedByOthers: boolean;
  /**
   * The stream of the latest record; undefined if there was none, or if other code may have recorded the event since.
   */
  #recordedBy: StreamProgress | undefined;
  #position = 0;
  /** The number of callers of `keepEvent` that keep the event. */
  #keepers = 0;
  /** Destroys the event. Set when it was disposed and is kept. */
  #destroyKept: (() => void) | undefined;
  /**
   * The call stack at the event's creation, to be reported if the program waits for the event without ever recording
   * it. Set only with POOLPASS_DEBUG=1 or the sanitizer. Cleared once that has been reported, or once other code may
   * have recorded the event.
   */
  #unrecordedOrigin: string | undefined;

  static {
    handleOf = (event) => {
      if (event.#handle === undefined) throw new ReferenceError("Cannot use the event: it was disposed");
      return event.#handle;
    };
    isInterprocess = (event) => event.#isInterprocess;
    keepEvent = (event) => {
      void handleOf(event);
      event.#keepers++;
      return () => {
        if (--event.#keepers > 0 || event.#destroyKept === undefined || event.#session.hasEnded) return;
        ignoreLoss(event.#destroyKept);
        event.#destroyKept = undefined;
      };
    };
    noteRecord = (event, stream) => {
      if (event.#mayBeRecordedByOthers) {
        event.#unrecordedOrigin = undefined;
        return;
      }
      event.#recordedBy = stream;
      event.#position = stream.record();
    };
    noteWait = (event, stream) => {
      if (event.#recordedBy !== undefined) stream.waitFor(event.#recordedBy, event.#position);
      else event.#checkRecorded("a stream waits for");
    };
    checkEvent = (event, session) => {
      if (!(event instanceof CudaEvent)) {
        throw new TypeError(
          `Cannot use ${whatIs(event, "CudaEvent")} as an event: ${eventInsteadOf(event)}`,
        );
      }
      if (event.#session !== session) throw errorOfAnotherCuda("use an event");
    };
    printAs(
      this,
      "CudaEvent",
      (event) => `CudaEvent { device ${event.device.ordinal}, ${event.#state} }`,
      ["device", ["state", (event) => event.#state]],
    );
  }

  /**
   * Events come from `CudaDevice.createEvent` and `CudaDevice.openEvent`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    {
      device,
      handle = refuseConstruction("CudaEvent", "CudaDevice.createEvent"),
      isInterprocess,
      hasTiming = false,
      isOpened = false,
    }: {
      device: CudaDevice;
      handle: bigint;
      isInterprocess: boolean;
      hasTiming?: boolean;
      /** Whether the event belongs to another process. */
      isOpened?: boolean;
    } = {} as never,
  ) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
    this.#isInterprocess = isInterprocess;
    this.#hasTiming = hasTiming;
    this.#mayBeRecordedByOthers = isInterprocess;
    const isWatched = session.debug || session.sanitizer !== undefined;
    if (isWatched && !isOpened) this.#unrecordedOrigin = callStack("event created");
    this.#opened = { kind: "event", release: (driver) => driver.eventDestroy(device.ordinal, handle) };
    session.opened.add(this.#opened);
  }

  /** The `cudaEvent_t`, for CUDA calls that this library does not make. */
  get unsafeHandle(): bigint {
    this.#unrecordedOrigin = undefined;
    this.#mayBeRecordedByOthers = true;
    this.#recordedBy = undefined;
    return handleOf(this);
  }

  /** Whether the work before the event's latest record is done. True if the event was never recorded. */
  query(): boolean {
    // Does not warn if there is a sanitizer: a query is not a wait, so it is not an error to query an event that was
    // never recorded.
    if (this.#recordedBy === undefined && this.#session.sanitizer === undefined) {
      this.#checkRecorded("the host queries");
    }
    try {
      const isComplete = this.#session.driver.eventQuery(handleOf(this));
      this.#session.waitErrors?.throwErrorOfEvent(handleOf(this), isComplete);
      if (isComplete && !this.#isInterprocess) {
        this.#session.completed.add(this);
        this.#recordedBy?.complete(this.#position);
      }
      return isComplete;
    } catch (error) {
      throw cannot(`query an event of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Blocks until the work before the event's latest record is done.
   *
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on
   */
  synchronize(): void {
    if (this.#recordedBy === undefined) this.#checkRecorded("the host waits for");
    try {
      this.#session.driver.eventSynchronize(handleOf(this));
      this.#session.waitErrors?.throwErrorOfEvent(handleOf(this), true);
      this.#recordedBy?.complete(this.#position);
    } catch (error) {
      throw cannot(`wait for an event of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Resolves when the work captured by the latest recording of the event is done. If the event is recorded again during
   * the wait, waits for the new recording instead.
   *
   * @throws {CudaError} The work's error, if it has failed
   * @throws {SharingError} The error of a failed collective that the work depends on
   */
  finished(options?: WaitOptions): Promise<void> {
    if (this.#recordedBy === undefined) this.#checkRecorded("the host waits for");
    const wait = () => waitUntil(() => this.query(), options, () => `an event of device ${this.device.ordinal}`);
    const { recorder } = this.#session;
    if (recorder === undefined || this.#handle === undefined) return wait();
    return recorder.wait("event", this.#handle, this.device.ordinal, wait);
  }

  /**
   * Returns the milliseconds from `start` to this event, with a resolution of about half a microsecond.
   *
   * @param start An event of the same device. Both events must have been created with `timing`.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} If `start` is not an event of the same `Cuda` object
   * @throws {CudaError} `cudaErrorNotReady` if the device has not reached an event yet,
   * `cudaErrorInvalidResourceHandle` if an event was created without `timing` or was never recorded
   */
  elapsedTime(start: CudaEvent): number {
    checkEvent(start, this.#session);
    try {
      const milliseconds = this.#session.driver.eventElapsedTime(handleOf(start), handleOf(this));
      start.#recordedBy?.complete(start.#position);
      this.#recordedBy?.complete(this.#position);
      return milliseconds;
    } catch (error) {
      throw cannot("measure the time between two events", error, this.#timingHint(start, error));
    }
  }

  /** Returns why the time from `start` to this event cannot be measured, with advice. */
  #timingHint(start: CudaEvent, error: unknown): string {
    const events = [["first", start], ["second", this]] as const;
    const [untimed] = events.find(([, event]) => !event.#hasTiming) ?? [];
    if (untimed !== undefined) return `the ${untimed} event has no timing: create it with { timing: true }`;
    const [unrecorded] = events.find(([, event]) => event.#recordedBy === undefined && !event.#mayBeRecordedByOthers) ??
      [];
    if (unrecorded !== undefined) return `the ${unrecorded} event was never recorded: record it on a stream`;
    return error instanceof CudaError && error.code === "cudaErrorNotReady"
      ? "the device has not reached both events yet: wait for the second one, by finished or synchronize"
      : "record both on streams of their device";
  }

  /**
   * Returns a handle of 64 bytes for `CudaDevice.openEvent` in another process. A wait in the other process covers the
   * event's latest record at the time when the wait is called, so record the event before sending the handle.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
   * @throws {CudaError} If the event was not created with `interprocess`
   */
  exportHandle(): Uint8Array<ArrayBuffer> {
    try {
      return this.#session.driver.ipcGetEventHandle(this.unsafeHandle);
    } catch (error) {
      const hint = "create it with { interprocess: true }";
      throw cannot(`export an event of device ${this.device.ordinal}`, error, hint);
    }
  }

  /** The state in the event's printed form: "done", "pending", "captured", "disposed", or the code of the driver's error. */
  get #state(): string {
    if (this.#handle === undefined || this.#session.hasEnded) return "disposed";
    if (this.#session.captures.hasRecorded(this.#handle)) return "captured";
    return stateOf(() => this.#session.driver.eventQuery(handleOf(this), { peek: true }) ? "done" : "pending");
  }

  /**
   * With POOLPASS_DEBUG=1 or the sanitizer, warns once if the event was never recorded. Must only be called if
   * `#recordedBy` is undefined.
   */
  #checkRecorded(wait: string): void {
    const origin = this.#unrecordedOrigin;
    if (origin === undefined) return;
    this.#unrecordedOrigin = undefined;
    if (this.#handle === undefined) return;
    const waitForEvent = `${wait} an event of device ${this.device.ordinal}`;
    const { sanitizer } = this.#session;
    if (sanitizer === undefined) reportUnrecordedEvent(waitForEvent, origin);
    else sanitizer.reportUnrecordedWait(waitForEvent, origin);
  }

  /**
   * Destroys the event. Work that already waits for it is not affected. A graph that records it or waits for it keeps
   * it, and can still be launched.
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    const handle = this.#handle;
    this.#handle = undefined;
    const session = this.#session;
    if (this.#keepers > 0) {
      session.completed.delete(this);
      session.opened.markDisposed(this.#opened);
      this.#destroyKept = () => {
        session.opened.delete(this.#opened);
        session.driver.eventDestroy(this.device.ordinal, handle);
      };
      return;
    }
    session.opened.delete(this.#opened);
    ignoreLoss(() => {
      if (session.completed.delete(this) && session.driver.eventQuery(handle)) {
        session.adoptMarker(handle, this.device.ordinal);
        session.completed.keepEvent(handle);
      } else {
        session.driver.eventDestroy(this.device.ordinal, handle);
      }
    });
  }
}
