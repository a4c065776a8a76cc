/**
 * The addresses of a pool's allocations that are not freed. In typed arrays, because a reference from a pool, which is
 * old, to an allocation, which is new, would cost the garbage collector more than the rest of an allocation.
 */
export class LiveAddresses {
  #addresses = new BigUint64Array(16);
  /** Indices that were freed, to be used again. */
  #freed = new Int32Array(16);
  #freedCount = 0;
  /** Indices that were ever used. */
  #end = 0;

  /** How many addresses there are. */
  get count(): number {
    return this.#end - this.#freedCount;
  }

  /** Adds an address. Returns its index. */
  add(address: bigint): number {
    const index = this.#freedCount > 0 ? this.#freed[--this.#freedCount]! : this.#next();
    this.#addresses[index] = address;
    return index;
  }

  delete(index: number): void {
    this.#addresses[index] = 0n;
    this.#freed[this.#freedCount++] = index;
  }

  [Symbol.iterator](): Iterator<bigint> {
    return this.#addresses.values().filter((address) => address !== 0n);
  }

  #next(): number {
    if (this.#end === this.#addresses.length) {
      const { length } = this.#addresses;
      const addresses = new BigUint64Array(2 * length);
      addresses.set(this.#addresses);
      this.#addresses = addresses;
      // It is empty: otherwise a freed index would have been used.
      this.#freed = new Int32Array(2 * length);
    }
    return this.#end++;
  }
}
