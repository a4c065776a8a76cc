import type { NamedBuffer } from "../../driver.ts";
import { callStack } from "../../support/leaks.ts";
import { placeIn } from "./out_of_memory.ts";

interface Site {
  readonly byteLength: number;
  /** The call stacks. */
  readonly allocated: string;
  readonly freed?: string;
}

/** How many freed buffers are remembered. */
const maximumFreed = 256;

/** Where buffers were allocated and freed, as POOLPASS_DEBUG=1 records it for the messages of errors. */
export class AllocationSites {
  readonly #live = new Map<bigint, Site>();
  /** The buffers that were freed last, the latest at the end. */
  readonly #freed: (Site & { readonly address: bigint })[] = [];

  /** @param stack the call stack of the allocation */
  addAllocated(address: bigint, byteLength: number, stack: string): void {
    this.#live.set(address, { byteLength, allocated: stack });
  }

  addFreed(address: bigint): void {
    const site = this.#live.get(address);
    if (site === undefined) return;
    this.#live.delete(address);
    this.#freed.push({ ...site, address, freed: callStack("freed") });
    if (this.#freed.length > maximumFreed) this.#freed.shift();
  }

  /** The buffers, the live ones first and then the freed ones, the latest first. */
  *named(): Generator<NamedBuffer> {
    for (const [address, { byteLength, allocated }] of this.#live) {
      yield { address, byteLength, isFreed: false, allocated: placeIn(allocated) };
    }
    for (const { address, byteLength, allocated, freed } of this.#freed.toReversed()) {
      yield { address, byteLength, isFreed: true, allocated: placeIn(allocated), freed: placeIn(freed!) };
    }
  }
}
