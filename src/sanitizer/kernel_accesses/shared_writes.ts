/**
 * Proves that a block's threads read no bytes of shared memory but those that they have written before the last barrier.
 *
 * @module
 */
import { type AffineForm, formOf, noBase } from "./affine_form.ts";
import { Budget, type ByteRange, coveredBytes, joined, TooManyRanges, without } from "./covered_bytes.ts";
import { type Domain, rangeOf } from "./domain.ts";
import type { CertainAccess } from "./thread_state.ts";

/** Writes to shared memory: one, and those before on each of the ways that threads have taken. */
export interface SharedWrites {
  readonly write?: CertainAccess;
  readonly before: readonly SharedWrites[];
}

/** What threads have written when they read. */
export interface WritesBefore {
  /** All that they have written for sure. */
  writes: SharedWrites;
  /** Those of the writes that the block's threads had made at the last barrier. */
  settled: SharedWrites;
  /** The dimensions of the loops' iterations that they are in. */
  readonly iterations: readonly number[];
}

interface SharedRead extends Pick<WritesBefore, "settled" | "iterations"> {
  readonly read: CertainAccess;
}

/** How much work a kernel's reads may be. */
const mostSteps = 40_000;

export const noWrites: SharedWrites = { before: [] };

/** The writes on all ways. */
export function allWrites(ways: readonly SharedWrites[]): SharedWrites {
  const [first, ...others] = new Set(ways);
  return first !== undefined && others.length === 0 ? first : { before: [...new Set(ways)] };
}

/** The reads of shared memory of a run. */
export class SharedReads {
  readonly #reads: SharedRead[] = [];

  get count(): number {
    return this.#reads.length;
  }

  /** Forgets all but the first ones. */
  truncate(count: number): void {
    this.#reads.length = count;
  }

  add(read: CertainAccess, { settled, iterations }: WritesBefore): void {
    this.#reads.push({ read, settled, iterations });
  }

  /**
   * Whether the threads of each block have written all that they read.
   *
   * @param blocks the dimensions that blocks have
   */
  areWritten(blocks: readonly number[]): boolean {
    const written = new WrittenBytes(new Budget(mostSteps));
    try {
      return this.#reads.every(({ read, settled, iterations }) =>
        written.include(read, settled, [...blocks, ...iterations])
      );
    } catch (error) {
      if (error instanceof TooManyRanges) return false;
      throw error;
    }
  }
}

/** The bytes that writes have written. */
class WrittenBytes {
  readonly #budget: Budget;
  /** For the writes before a barrier, the bytes of those that match a read. */
  readonly #known = new Map<SharedWrites, Map<string, ByteRange[]>>();

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /** Whether all bytes of a read are written, whatever the coordinates in the fixed dimensions. */
  include(read: CertainAccess, settled: SharedWrites, fixed: readonly number[]): boolean {
    const written = this.#matching(read, settled, fixed);
    const form = withoutTerms(read.form, fixed);
    const { low, high } = rangeOf(form, read.domain);
    const last = high + read.byteLength;
    if (written.some(({ begin, end }) => begin <= low && last <= end)) return true;
    return without(joined(coveredBytes({ ...read, form }, this.#budget)), written).length === 0;
  }

  #matching(read: CertainAccess, settled: SharedWrites, fixed: readonly number[]): ByteRange[] {
    const { form, domain: { low, high } } = read;
    const places = fixed.map((index) => [index, form.terms[index] ?? 0, low[index], high[index]].join(" "));
    const key = [form.base, ...places].join();
    let known = this.#known.get(settled);
    if (known === undefined) this.#known.set(settled, known = new Map());
    let bytes = known.get(key);
    if (bytes === undefined) {
      const ranges: ByteRange[] = [];
      for (const write of writesIn(settled)) {
        this.#budget.spend(1);
        if (!isAsFixed(write, read, fixed)) continue;
        const form = withoutTerms(write.form, fixed);
        for (const range of coveredBytes({ ...write, form, domain: atOne(write.domain, fixed) }, this.#budget)) {
          ranges.push(range);
        }
      }
      known.set(key, bytes = joined(ranges));
    }
    return bytes;
  }
}

/** Each of the writes once. */
function* writesIn(writes: SharedWrites): Iterable<CertainAccess> {
  const seen = new Set([writes]);
  const waiting = [writes];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (next.write !== undefined) yield next.write;
    for (const before of next.before) {
      if (seen.has(before)) continue;
      seen.add(before);
      waiting.push(before);
    }
  }
}

/**
 * Whether a write is made wherever a read is in the fixed dimensions, and in these differs by as much as the read does:
 * blocks and iterations write for themselves.
 */
function isAsFixed({ form, domain }: CertainAccess, read: CertainAccess, fixed: readonly number[]): boolean {
  return form.base === read.form.base && fixed.every((index) => {
    if ((form.terms[index] ?? 0) !== (read.form.terms[index] ?? 0)) return false;
    if (domain.constraints.some(({ terms }) => (terms[index] ?? 0) !== 0)) return false;
    const { low, high } = domain;
    // It was made before the loop if it has no such dimension.
    return index >= low.length || low[index]! <= read.domain.low[index]! && high[index]! >= read.domain.high[index]!;
  });
}

function withoutTerms({ terms, constant }: AffineForm, fixed: readonly number[]): AffineForm {
  return formOf(terms.map((term, index) => fixed.includes(index) ? 0 : term), constant, noBase)!;
}

/** A domain's part at one coordinate in each of the fixed dimensions. */
function atOne({ low, high, constraints }: Domain, fixed: readonly number[]): Domain {
  return { low, high: high.map((last, index) => fixed.includes(index) ? low[index]! : last), constraints };
}
