/** A range of linear memory that a program got from the driver: an address names it, and a free ends it. */
export interface Allocation {
  readonly begin: number;
  /** Bytes that were asked for. */
  readonly byteLength: number;
}

/** One of a device's memory. */
export interface DeviceAllocation extends Allocation {
  readonly device: number;
}

/** The allocations that there are, found by any offset inside. */
export class Allocations<A extends Allocation> {
  /** In the order of their begins. */
  readonly #sorted: A[] = [];

  add(allocation: A): void {
    this.#sorted.splice(this.#indexAfter(allocation.begin), 0, allocation);
  }

  /** The allocation that starts at `begin`. */
  at(begin: number): A | undefined {
    const found = this.#sorted[this.#indexAfter(begin) - 1];
    return found?.begin === begin ? found : undefined;
  }

  /** The allocation in which all bytes of a range lie. */
  containing(begin: number, byteLength: number): A | undefined {
    const found = this.#sorted[this.#indexAfter(begin) - 1];
    return found !== undefined && begin + byteLength <= found.begin + found.byteLength ? found : undefined;
  }

  remove(allocation: A): void {
    this.#sorted.splice(this.#indexAfter(allocation.begin) - 1, 1);
  }

  /** How many allocations start at or before `offset`. */
  #indexAfter(offset: number): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#sorted[middle]!.begin <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
