/** A range of integers from `begin` up to, but not including, `end`. */
export interface Range {
  readonly begin: number;
  readonly end: number;
}

/** Allocates parts of a range of integers: best fit, with adjacent free ranges merged. */
export class RangeAllocator {
  /** The free ranges, sorted. No two of them are adjacent. */
  readonly #free: Range[];

  /** Without a range, there is nothing to allocate until something is freed. */
  constructor(whole?: Range) {
    this.#free = whole === undefined ? [] : [whole];
  }

  /** The total length of the free ranges. */
  get freeLength(): number {
    return this.#free.reduce((sum, { begin, end }) => sum + end - begin, 0);
  }

  /** Allocates a part. Returns its begin, or undefined if no free range is long enough. */
  allocate(length: number): number | undefined {
    let best = -1;
    let bestLength = Infinity;
    for (const [index, { begin, end }] of this.#free.entries()) {
      if (end - begin < length || end - begin >= bestLength) continue;
      best = index;
      bestLength = end - begin;
    }
    const range = this.#free[best];
    if (range === undefined) return undefined;
    if (bestLength === length) this.#free.splice(best, 1);
    else this.#free[best] = { begin: range.begin + length, end: range.end };
    return range.begin;
  }

  /** Allocates the part from `begin` on. Returns false if some of it is in use. */
  take(begin: number, length: number): boolean {
    const index = this.#free.findIndex((range) => range.begin <= begin && begin + length <= range.end);
    const range = this.#free[index];
    if (range === undefined) return false;
    const rest = [{ begin: range.begin, end: begin }, { begin: begin + length, end: range.end }];
    this.#free.splice(index, 1, ...rest.filter(({ begin, end }) => begin < end));
    return true;
  }

  /** Frees a part, which must have been allocated, whole or in pieces. */
  free(begin: number, length: number): void {
    const end = begin + length;
    let index = 0;
    while (index < this.#free.length && this.#free[index]!.end < begin) index++;
    const joined: Range[] = [];
    while (index + joined.length < this.#free.length && this.#free[index + joined.length]!.begin <= end) {
      joined.push(this.#free[index + joined.length]!);
    }
    const first = joined[0]?.begin ?? begin;
    const last = joined.at(-1)?.end ?? end;
    this.#free.splice(index, joined.length, { begin: Math.min(begin, first), end: Math.max(end, last) });
  }
}
