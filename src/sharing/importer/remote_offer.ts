import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { OrStream } from "../../objects/streams/stream_option.ts";
import { countOf, printAs } from "../../support/printing.ts";
import { checkElements } from "../../memory/buffer_arguments.ts";
import { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { layoutFromMetadata, typeFromMetadata } from "../../memory/dtypes.ts";
import type { SharingError } from "../../support/errors.ts";
import type { ImportedMemoryPool } from "../../memory/handles/imported_memory_pool.ts";
import type { TypedArray, TypedArrayConstructor } from "../../support/validation.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { ChannelMessage, OfferMessage } from "../protocol/messages.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";

/** Options of `RemoteOffer.map`. */
export interface MapOptions extends WaitOptions {
  /**
   * The stream that the buffer's methods use by default and on which the buffer is released. Defaults to the device's
   * default stream.
   */
  stream?: CudaStream;
}

/** The operations of an importer that its `RemoteOffer` objects call. */
export interface RemoteOfferOwner {
  map(state: RemoteOfferState, options: OrStream<MapOptions>): Promise<DeviceBuffer>;
  importPool(state: RemoteOfferState): ImportedMemoryPool;
}

/** The state that the importer keeps for an offer. */
export class RemoteOfferState {
  readonly message: OfferMessage;
  /** The CHANNEL message, which states how the ring is divided into slots. Undefined if the offer is not a channel. */
  channel: ChannelMessage | undefined;
  isWithdrawn = false;
  /** The number of mappings of the offer in this process. */
  holds = 0;
  /** The number of pending waits for the offer's ready event. */
  waiting = 0;
  /** Whether the offer's ready event is known to have fired. */
  isReady: boolean;
  #recalled: AbortController | undefined;
  #recallReason: SharingError | undefined;

  constructor(message: OfferMessage) {
    this.message = message;
    this.isReady = message.readyEvent === 0;
  }

  get recalled(): AbortSignal {
    if (this.#recalled === undefined) {
      this.#recalled = new AbortController();
      if (this.#recallReason !== undefined) this.#recalled.abort(this.#recallReason);
    }
    return this.#recalled.signal;
  }

  /** Called after all recalled memory was released, so that `recalled` returns a new signal for a later recall. */
  clearRecall(): void {
    this.#recalled = undefined;
    this.#recallReason = undefined;
  }

  /** Aborts the signal `recalled`, because the exporter recalls the memory or the connection was closed. */
  recall(reason: SharingError): void {
    this.#recallReason ??= reason;
    this.#recalled?.abort(this.#recallReason);
  }
}

/**
 * An offer of another process: a buffer, a whole pool, or a channel. Created by `Importer`.
 *
 * @typeParam Metadata the type of the metadata, which is not checked against what the exporter's application sent
 *
 * @example
 * ```ts ignore
 * const offer = await importer.offer("weights");
 * using weights = await offer.map({ stream });
 * kernel.launch({ grid, block, stream }, weights); // in stream order: the memory is ready
 * ```
 */
export class RemoteOffer<Metadata = JsonValue> {
  readonly #state: RemoteOfferState;
  readonly #owner: RemoteOfferOwner;

  static {
    printAs(this, "RemoteOffer", (offer) => {
      const state = offer.isWithdrawn ? ", withdrawn" : "";
      const what = offer.kind === "pool" ? "whole pool" : `${offer.kind}, ${countOf(offer.byteLength, "byte")}`;
      return `RemoteOffer { ${offer.name}, ${what}${state} }`;
    }, ["name", "kind", "byteLength", "metadata", "isWithdrawn"]);
  }

  /**
   * Created by `Importer`.
   *
   * @ignore
   */
  constructor(state: RemoteOfferState, owner: RemoteOfferOwner) {
    this.#state = state;
    this.#owner = owner;
  }

  /**
   * The name that the exporter gave the offer. It may contain control characters, which are escaped when the
   * `RemoteOffer` object is printed.
   */
  get name(): string {
    return this.#state.message.name;
  }

  /** The kind of offer. Use `Importer.channel` to map a channel's ring. */
  get kind(): "buffer" | "pool" | "channel" {
    return this.#state.message.kind;
  }

  /** The number of bytes offered; 0 for a whole pool. */
  get byteLength(): number {
    return this.#state.message.byteLength;
  }

  /**
   * The metadata that the exporter's application attached to the offer. Its type is what this process expects; nothing
   * checks that the exporter sent a value of that type.
   */
  get metadata(): Metadata | undefined {
    return decodeMetadata(this.#state.message.metadata) as Metadata | undefined;
  }

  /**
   * Whether the exporter has withdrawn the offer, which can then no longer be mapped. Existing mappings stay valid
   * until they are released.
   */
  get isWithdrawn(): boolean {
    return this.#state.isWithdrawn;
  }

  /**
   * Aborted with a `SharingError` "cut-off" when the exporter recalls the memory: release all mappings of the offer
   * soon, or the connection may be cut off. Also aborted, with the connection's error, when the connection is closed.
   * Once all mappings are released, this property returns a new signal.
   */
  get recalled(): AbortSignal {
    return this.#state.recalled;
  }

  /**
   * Maps the buffer, and resolves once it may be read: work enqueued on its stream after that sees what the exporter
   * wrote. Freeing the buffer releases it in stream order: the exporter can reuse the memory once the stream has
   * finished the work enqueued before the free.
   *
   * @param options the stream of the buffer, and a signal that aborts the wait
   * @throws {TypeError} If the offer is a pool or a channel, or if `stream` is not a CudaStream of the same `Cuda`
   * object
   * @throws {ReferenceError} If the importer or the stream was disposed
   * @throws {SharingError} `not-found` if the offer was withdrawn, `peer-gone` if the exporter is gone,
   * `device-not-visible`, `size-mismatch` if the memory is smaller than the exporter stated
   * @throws {CudaError} If the driver cannot map the memory
   */
  map(options: OrStream<MapOptions> = {}): Promise<DeviceBuffer> {
    return this.#owner.map(this.#state, options);
  }

  /**
   * Like `map`, but returns the memory as an array of elements of the given type. The array's `shape` is taken from the
   * offer's metadata if the number of elements matches the size of the memory. Its `dtype` is taken from the metadata
   * if `type` can represent that dtype: for example, map an offer of dtype `"bfloat16"` with `Uint16Array`. Freeing the
   * array releases the memory.
   *
   * @param type the typed array constructor that selects the element type, such as `Float32Array`
   * @param options the stream of the array, and a signal that aborts the wait
   * @throws {RangeError} If the memory does not consist of whole elements, or its address is not a multiple of the
   * element size
   * @throws {TypeError} If `type` is not the constructor of a typed array, or in the same cases as `map`
   * @throws {ReferenceError} In the same cases as `map`
   * @throws {SharingError} In the same cases as `map`
   * @throws {CudaError} If the driver cannot map the memory
   */
  mapArray<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    options?: OrStream<MapOptions>,
  ): Promise<DeviceArray<T>>;

  /**
   * Like the other overload, but takes the element type from the `dtype` in the offer's metadata. `Exporter.offer` adds
   * `dtype` for arrays, as does the Python package for all arrays and tensors.
   *
   * @param options the stream of the array, and a signal that aborts the wait
   * @throws {TypeError} If the metadata has no `dtype`, or one without a corresponding typed array, such as
   * `"bfloat16"`
   *
   * @example
   * ```ts
   * import { Exporter, Importer, open } from "./mod.ts";
   *
   * using cuda = open();
   * using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
   * using weights = pool.allocateArray(new Float32Array([1, 2, 3, 4]));
   * await using exporter = Exporter.listen("/tmp/poolpass_map_array.sock");
   * exporter.offer("weights", weights, { metadata: { shape: [2, 2] } });
   *
   * // Usually in another process:
   * await using importer = await Importer.connect(cuda, "/tmp/poolpass_map_array.sock");
   * using mapped = await (await importer.offer("weights")).mapArray();
   * console.log(mapped.type.name, mapped.shape);
   * ```
   */
  mapArray(options?: OrStream<MapOptions>): Promise<DeviceArray<TypedArray>>;
  async mapArray(
    typeOrOptions?: TypedArrayConstructor<TypedArray> | OrStream<MapOptions>,
    optionsOfType: OrStream<MapOptions> = {},
  ): Promise<DeviceArray<TypedArray>> {
    const isTyped = typeof typeOrOptions !== "object" && typeOrOptions !== undefined;
    const options = isTyped ? optionsOfType : typeOrOptions ?? {};
    const { metadata } = this;
    const type = isTyped
      ? typeOrOptions
      : this.kind === "buffer"
      ? typeFromMetadata(metadata, `offer "${this.name}"`)
      : Uint8Array;
    if (this.kind === "buffer") checkElements(type, { address: 0n, byteLength: this.byteLength });
    const buffer = await this.map(options);
    try {
      checkElements(type, buffer);
    } catch (error) {
      buffer.free();
      throw error;
    }
    const layout = layoutFromMetadata(metadata, { type, byteLength: buffer.byteLength });
    return new DeviceArray(type, allocationOf(buffer), undefined, layout);
  }

  /**
   * Imports the pool that this offer consists of. Memory in the pool can then be mapped from export data that the
   * application receives by means other than this offer. The offer is held until the pool is disposed.
   *
   * @throws {TypeError} If the offer is a buffer or a channel
   * @throws {ReferenceError} If the importer was disposed
   * @throws {SharingError} In the same cases as `map`; `out-of-descriptors` if this process can open few more
   * descriptors and has closed the pool's descriptor: get the offer again and import it at once
   * @throws {CudaError} If the driver cannot import the pool
   */
  importPool(): ImportedMemoryPool {
    return this.#owner.importPool(this.#state);
  }
}
