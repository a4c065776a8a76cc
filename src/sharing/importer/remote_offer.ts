import type { CudaStream } from "../../objects/cuda_stream.ts";
import { countOf, printAs } from "../../support/printing.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import type { SharingError } from "../../support/errors.ts";
import type { ImportedMemoryPool } from "../../memory/imported_memory_pool.ts";
import type { WaitOptions } from "../../support/waiting/waiting.ts";
import type { ChannelMessage, OfferMessage } from "../protocol/messages.ts";
import { decodeMetadata, type JsonValue } from "../protocol/metadata.ts";

/** Options of `RemoteOffer.map`. */
export interface MapOptions extends WaitOptions {
  /** The stream that the buffer's methods use, and on which it is released: the device's default stream unless given. */
  stream?: CudaStream;
}

/** What an importer does for its offers. */
export interface RemoteOfferOwner {
  map(state: RemoteOfferState, options: MapOptions): Promise<DeviceBuffer>;
  importPool(state: RemoteOfferState): ImportedMemoryPool;
}

/** An offer as the importer knows it. */
export class RemoteOfferState {
  readonly message: OfferMessage;
  /** How its memory is divided, where it is a channel. */
  channel: ChannelMessage | undefined;
  isWithdrawn = false;
  /** Times that it is mapped here. */
  holds = 0;
  /** Waits for its ready event. */
  waiting = 0;
  /** Whether its ready event was seen to have fired. */
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

  /** What was asked for is given back. */
  forgetRecall(): void {
    this.#recalled = undefined;
    this.#recallReason = undefined;
  }

  /** The exporter asks for it, or is gone. */
  recall(reason: SharingError): void {
    this.#recallReason ??= reason;
    this.#recalled?.abort(this.#recallReason);
  }
}

/**
 * What another process offers: a buffer, a whole pool, or a channel. Made by `Importer`.
 *
 * @example
 * ```ts ignore
 * const offer = await importer.offer("weights");
 * using weights = await offer.map({ stream });
 * kernel.launch({ grid, block, stream }, weights); // in stream order: the memory is ready
 * ```
 */
export class RemoteOffer {
  readonly #state: RemoteOfferState;
  readonly #owner: RemoteOfferOwner;

  static {
    printAs(this, "RemoteOffer", (offer) => {
      const state = offer.isWithdrawn ? ", withdrawn" : "";
      const what = offer.kind === "pool" ? "whole pool" : `${offer.kind}, ${countOf(offer.byteLength, "byte")}`;
      return `RemoteOffer { ${offer.name}, ${what}${state} }`;
    });
  }

  /**
   * Made by `Importer`.
   *
   * @ignore
   */
  constructor(state: RemoteOfferState, owner: RemoteOfferOwner) {
    this.#state = state;
    this.#owner = owner;
  }

  /** What the exporter calls it. */
  get name(): string {
    return this.#state.message.name;
  }

  /** What is offered. A channel's ring is mapped by `Importer.channel`. */
  get kind(): "buffer" | "pool" | "channel" {
    return this.#state.message.kind;
  }

  /** Bytes that are offered; 0 for a whole pool. */
  get byteLength(): number {
    return this.#state.message.byteLength;
  }

  /** What the exporter's application says of it. */
  get metadata(): JsonValue | undefined {
    return decodeMetadata(this.#state.message.metadata);
  }

  /** Whether the exporter has taken it back: it cannot be mapped any more. What is mapped stays until released. */
  get isWithdrawn(): boolean {
    return this.#state.isWithdrawn;
  }

  /**
   * Aborted when the exporter asks for the memory back, with a `SharingError` "cut-off": release soon what is mapped, or
   * be cut off. Also when the connection ends, with its error. Once all is released, there is a new signal.
   */
  get recalled(): AbortSignal {
    return this.#state.recalled;
  }

  /**
   * Maps the buffer, and resolves when it may be read: what its stream is given from then on sees what the exporter wrote.
   * Freeing the buffer releases it, in stream order: the exporter has the memory back when the stream has got there.
   *
   * @param options the stream of the buffer; a signal ends the wait
   * @throws {TypeError} for an offer of a pool or a channel, and for what is no stream, or one of another `Cuda` object
   * @throws {ReferenceError} where the importer or the stream was disposed
   * @throws {SharingError} `not-found` when the offer was withdrawn, `peer-gone` when the exporter is gone,
   * `device-not-visible`, `size-mismatch` when the memory is smaller than the exporter says
   * @throws {CudaError} where the driver does not map it
   */
  map(options: MapOptions = {}): Promise<DeviceBuffer> {
    return this.#owner.map(this.#state, options);
  }

  /**
   * Imports the pool of an offer of a whole pool, to map what it holds by data that come on another way. It is held until
   * it is disposed.
   *
   * @throws {TypeError} for an offer of a buffer or a channel
   * @throws {ReferenceError} where the importer was disposed
   * @throws {SharingError} as `map` does
   * @throws {CudaError} where the driver does not import it
   */
  importPool(): ImportedMemoryPool {
    return this.#owner.importPool(this.#state);
  }
}
