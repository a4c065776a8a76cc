/** A range of linear memory that a program allocated from the driver. */
export interface SoftwareAllocation {
  readonly begin: number;
  /** The number of bytes that the program requested. */
  readonly byteLength: number;
}

/** An allocation that belongs to a device. */
export interface DeviceAllocation extends SoftwareAllocation {
  readonly device: number;
}

/** The live allocations, which can be looked up by any offset inside them. */
export class Allocations<A extends SoftwareAllocation> {
  /** Sorted by `begin`. */
  readonly #sorted: A[] = [];

  add(allocation: A): void {
    this.#sorted.splice(this.#indexAfter(allocation.begin), 0, allocation);
  }

  /** Returns the allocation that starts at `begin`. */
  at(begin: number): A | undefined {
    const found = this.#sorted[this.#indexAfter(begin) - 1];
    return found?.begin === begin ? found : undefined;
  }

  /** Returns the allocation that contains all bytes of a range. */
  containing(begin: number, byteLength: number): A | undefined {
    const found = this.#sorted[this.#indexAfter(begin) - 1];
    return found !== undefined && begin + byteLength <= found.begin + found.byteLength ? found : undefined;
  }

  /** All of them, in the order of their addresses. */
  toArray(): readonly A[] {
    return this.#sorted;
  }

  remove(allocation: A): void {
    this.#sorted.splice(this.#indexAfter(allocation.begin) - 1, 1);
  }

  /** Removes all allocations in a range. */
  removeWithin({ begin, byteLength }: SoftwareAllocation): void {
    const first = this.#indexAfter(begin - 1);
    this.#sorted.splice(first, this.#indexAfter(begin + byteLength - 1) - first);
  }

  /** Returns how many allocations start at or before `offset`. */
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
