/**
 * The operations that a program enqueues, in order.
 *
 * @module
 */
import type { CallSite } from "../reporting/call_sites.ts";
import type { LiveAllocation } from "../leaks.ts";
import type { Operation, Point } from "../order/timelines.ts";
import type { RangeAccess, SharedContents, StreamOrder } from "../order/stream_order.ts";
import type { ObservedStreams } from "./observed_streams.ts";

const none: readonly RangeAccess[] = [];

/** Adds the operations of streams and of the host. */
export class ObservedWork {
  /** Where the program called the operation that is being added. */
  site: CallSite = {};
  readonly order: StreamOrder;
  readonly #streams: ObservedStreams;
  /**
   * The live allocations by address. Addresses of freed ones stay in the map: they are allocated again, and engines take
   * long to delete from a large map.
   */
  readonly #live = new Map<number, LiveAllocation | undefined>();

  constructor(order: StreamOrder, streams: ObservedStreams) {
    this.order = order;
    this.#streams = streams;
  }

  /** Begins the next operation of a stream. */
  next(name: string, device: number, stream: bigint): Operation {
    return this.#operation(name, this.#streams.next(device, stream));
  }

  /** Begins the next operation of the host. */
  nextOfHost(name: string): Operation {
    return this.#operation(name, this.#streams.nextOfHost());
  }

  /** Adds an operation of a stream that accesses memory. */
  add(
    name: string,
    { device, stream }: { device: number; stream: bigint },
    accesses: readonly RangeAccess[],
  ): Operation {
    const operation = this.next(name, device, stream);
    this.order.add({ operation, accesses });
    return operation;
  }

  /** Adds an operation that allocates. `contents` returns the shadow state that the memory's other addresses share. */
  allocated(
    operation: Operation,
    { address, byteLength }: { address: number; byteLength: number },
    contents?: () => SharedContents | undefined,
  ): void {
    this.#live.set(address, { operation, byteLength });
    this.order.add({ operation, allocates: { address, byteLength, contents }, accesses: none });
  }

  /** Adds an operation that frees. */
  freed(operation: Operation, address: number): void {
    this.#live.set(address, undefined);
    this.order.add({ operation, frees: address, accesses: none });
  }

  /** The live allocation at an address. */
  liveAt(address: number): LiveAllocation | undefined {
    return this.#live.get(address);
  }

  #operation(name: string, { timeline, position, clock }: Point): Operation {
    const { processes: { sequence }, assumed } = this.#streams;
    return { name, site: this.site, sequence, assumed, timeline, position, clock };
  }
}
