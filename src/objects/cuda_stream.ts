import { printAs, stateOf } from "../support/printing.ts";
import type { CudaDevice } from "./cuda_device.ts";
import { checkEvent, type CudaEvent } from "./cuda_event.ts";
import { defaultStream } from "../driver.ts";
import { cannot, ignoreLoss } from "../support/error_wording.ts";
import type { Session } from "../session.ts";
import { errorOfAnotherCuda, whatIs } from "../support/validation.ts";
import { type WaitOptions, waitUntil } from "../support/waiting/waiting.ts";

/** How a stream is made. */
export interface StreamOptions {
  /** Lower numbers go first; 0 unless given. `CudaDevice.streamPriorityRange` tells which there are. */
  priority?: number;
  /** Whether it is free of the device's default stream, which otherwise waits for it and it for that. */
  nonBlocking?: boolean;
}

/** Calls back when the stream is disposed, before it is destroyed. The function that it returns cancels. */
export let whenStreamDisposed: (stream: CudaStream, callback: () => void) => () => void;

/** Throws unless it is a stream, and of the same `Cuda` object as what it is to be used with. */
export let checkStream: (stream: CudaStream, session: Session) => void;

/**
 * A queue of work for a device, done in order. Made by `CudaDevice.createStream`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
 */
export class CudaStream implements Disposable {
  /** The device whose work it is. */
  readonly device: CudaDevice;
  readonly #session: Session;
  readonly #onDispose: ((handle: bigint) => void) | undefined;
  /** Events by which `finished` knows how far the stream was. */
  readonly #idleMarkers: bigint[] = [];
  #handle: bigint | undefined;
  #disposeCallbacks: Set<{ readonly callback: () => void }> | undefined;

  static {
    whenStreamDisposed = (stream, callback) => {
      const entry = { callback };
      const entries = stream.#disposeCallbacks ??= new Set();
      entries.add(entry);
      return () => void entries.delete(entry);
    };
    checkStream = (stream, session) => {
      if (!(stream instanceof CudaStream)) {
        throw new TypeError(
          `Cannot use ${whatIs(stream, "CudaStream")} as a stream: give what CudaDevice.createStream made`,
        );
      }
      if (stream.#session !== session) throw errorOfAnotherCuda("use a stream");
    };
    printAs(this, "CudaStream", (stream) => {
      const kind = stream.#handle === defaultStream ? "default, " : "";
      const state = stream.disposed || stream.#session.hasEnded ? "disposed" : stateOf(() => {
        const { device: { ordinal }, unsafeHandle } = stream;
        return stream.#session.driver.streamQuery(ordinal, unsafeHandle, { onlyLook: true }) ? "idle" : "busy";
      });
      return `CudaStream { device ${stream.device.ordinal}, ${kind}${state} }`;
    });
  }

  /**
   * Made by `CudaDevice.createStream`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, handle, onDispose }: {
      device: CudaDevice;
      handle: bigint;
      onDispose?: (handle: bigint) => void;
    },
  ) {
    this.#session = session;
    this.device = device;
    this.#handle = handle;
    this.#onDispose = onDispose;
  }

  /** The `cudaStream_t`, for calls that this library does not make; 0 for the default stream. */
  get unsafeHandle(): bigint {
    if (this.#handle === undefined) {
      throw new ReferenceError(`Cannot use the stream of device ${this.device.ordinal}: it was disposed`);
    }
    return this.#handle;
  }

  /** Whether it was disposed. */
  get disposed(): boolean {
    return this.#handle === undefined;
  }

  /**
   * Records an event behind the work given so far.
   *
   * @param event One of the stream's own device.
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html
   * @throws {TypeError} for what is no event of the same `Cuda` object
   * @throws {ReferenceError} where the stream or the event was disposed
   * @throws {CudaError} `cudaErrorInvalidResourceHandle` for an event of another device
   */
  record(event: CudaEvent): void {
    checkEvent(event, this.#session);
    try {
      this.#session.driver.eventRecord(this.device.ordinal, event.unsafeHandle, this.unsafeHandle);
    } catch (error) {
      const own = this.device.ordinal;
      const hint = event.device === this.device
        ? undefined
        : `record an event of device ${own}, for which streams of any device can wait`;
      throw cannot(`record an event of device ${event.device.ordinal} on a stream of device ${own}`, error, hint);
    }
  }

  /**
   * Lets the work given from now on wait for the event as it was last recorded, whichever device it belongs to.
   *
   * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
   * @throws {TypeError} for what is no event of the same `Cuda` object
   * @throws {ReferenceError} where the stream or the event was disposed
   */
  wait(event: CudaEvent): void {
    checkEvent(event, this.#session);
    try {
      this.#session.driver.streamWaitEvent(this.device.ordinal, this.unsafeHandle, event.unsafeHandle);
    } catch (error) {
      throw cannot(`let a stream of device ${this.device.ordinal} wait for an event`, error);
    }
  }

  /**
   * Whether all work so far is done.
   *
   * @throws {CudaError} that of the device's work, where it has failed
   */
  query(): boolean {
    try {
      return this.#session.driver.streamQuery(this.device.ordinal, this.unsafeHandle);
    } catch (error) {
      throw cannot(`go on with a stream of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Blocks until all work so far is done.
   *
   * @throws {CudaError} that of the device's work, where it has failed
   */
  synchronize(): void {
    try {
      this.#session.driver.streamSynchronize(this.device.ordinal, this.unsafeHandle);
    } catch (error) {
      throw cannot(`wait for a stream of device ${this.device.ordinal}`, error);
    }
  }

  /**
   * Resolves when all work given so far is done; rejects with the device's error. To pools this is no synchronization: they
   * give nothing back to the system at it, as they do at `synchronize`.
   *
   * @throws {CudaError} that of the device's work, where it has failed
   */
  async finished(options?: WaitOptions): Promise<void> {
    const { driver } = this.#session;
    const { ordinal } = this.device;
    const handle = this.unsafeHandle;
    try {
      const marker = this.#idleMarkers.pop() ?? this.#session.createMarker(ordinal);
      try {
        driver.eventRecord(ordinal, marker, handle);
        await waitUntil(() => this.#session.driver.eventQuery(marker), options);
      } finally {
        if (this.disposed) this.#session.destroyMarker(marker);
        else this.#idleMarkers.push(marker);
      }
    } catch (error) {
      throw cannot(`wait for a stream of device ${ordinal}`, error);
    }
  }

  /** Destroys the stream; its work is still done. The default stream stays. */
  [Symbol.dispose](): void {
    if (this.#handle === undefined || this.#handle === defaultStream) return;
    const handle = this.#handle;
    for (const { callback } of this.#disposeCallbacks ?? []) ignoreLoss(callback);
    this.#handle = undefined;
    const { driver } = this.#session;
    for (const marker of this.#idleMarkers.splice(0)) this.#session.destroyMarker(marker);
    try {
      ignoreLoss(() => this.#onDispose?.(handle));
    } finally {
      ignoreLoss(() => driver.streamDestroy(this.device.ordinal, handle));
    }
  }
}
