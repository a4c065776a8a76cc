/**
 * Proves that the threads of a block do not conflict in shared memory: no two of them access the same bytes between two
 * barriers of the block if one of them writes. Also proves that they read only bytes that were written before the last
 * barrier.
 *
 * @module
 */
import { type AffineForm, type Domain, formOf, noBase, rangeOf } from "./domain.ts";
import { Budget, type ByteRange, coveredBytes, joined, TooManyRanges, without } from "./covered_bytes.ts";
import type { CertainAccess } from "./thread_state.ts";
import { threadsAreApart } from "./separate_accesses.ts";

/** An access, with the dimensions of a block's threads before all others. */
interface PhaseAccess extends CertainAccess {
  readonly phase: number;
  readonly first: number;
  readonly last: number;
}

/** A snapshot to return to when a part of a run is given up. */
interface Mark {
  readonly count: number;
  readonly reads: number;
  readonly isRefused: boolean;
  readonly hasPartialBarriers: boolean;
}

/** More pairs than these are not compared. */
const mostPairs = 4000;

/**
 * The accesses of a run to shared memory. A phase is what runs between two barriers. Phases that follow each other
 * without a barrier, as around the end of a loop's body, are joined.
 */
export class SharedPhases {
  /** The bytes of each variable, by its base. */
  readonly #byteLengths: ReadonlyMap<number, number>;
  /** The indices of the dimensions that the threads of a block have. */
  readonly #dimensions: readonly number[];
  readonly #whole: Domain;
  readonly #accesses: PhaseAccess[] = [];
  readonly #reads = new SharedReads();
  /** For each phase, itself or another one that it is joined with. */
  readonly #joined: number[] = [0];
  #isRefused = false;
  #hasPartialBarriers = false;

  constructor(
    { byteLengths, dimensions, whole }: {
      byteLengths: ReadonlyMap<number, number>;
      dimensions: readonly number[];
      whole: Domain;
    },
  ) {
    this.#byteLengths = byteLengths;
    this.#dimensions = dimensions;
    this.#whole = whole;
  }

  /** Records that not all accesses are known. */
  refuse(): void {
    this.#isRefused = true;
  }

  /** Records that some threads of a block may reach a barrier without the others. */
  refuseBarriers(): void {
    this.#isRefused = true;
    this.#hasPartialBarriers = true;
  }

  mark(): Mark {
    return {
      count: this.#accesses.length,
      reads: this.#reads.count,
      isRefused: this.#isRefused,
      hasPartialBarriers: this.#hasPartialBarriers,
    };
  }

  reset({ count, reads, isRefused, hasPartialBarriers }: Mark): void {
    this.#accesses.length = count;
    this.#reads.truncate(reads);
    this.#isRefused = isRefused;
    this.#hasPartialBarriers = hasPartialBarriers;
  }

  /** Records an access, and what was written before. A write is written from then on. */
  add(access: CertainAccess, phase: number, before: WritesBefore): void {
    const { low, high } = rangeOf(access.form, access.domain);
    const last = high + access.byteLength;
    // The layout of variables is unknown, and so is the memory around them.
    if (!(low >= 0 && last <= (this.#byteLengths.get(access.form.base) ?? -1))) this.refuse();
    else this.#accesses.push({ ...this.#ordered(access), phase, first: low, last });
    if (access.step.row?.traits.access === "read") this.#reads.add(access, before);
    else before.writes = { write: access, before: [before.writes] };
  }

  /** The phase after a barrier that all threads of a domain are at. */
  next({ low, high, constraints }: Domain): number {
    const isWhole = this.#dimensions.every((index) =>
      low[index] === this.#whole.low[index] && high[index] === this.#whole.high[index] &&
      constraints.every(({ terms }) => (terms[index] ?? 0) === 0)
    );
    // Other threads may be at another barrier.
    if (!isWhole) this.refuseBarriers();
    return this.#joined.push(this.#joined.length) - 1;
  }

  join(a: number, b: number): void {
    this.#joined[this.#rootOf(a)] = this.#rootOf(b);
  }

  #rootOf(phase: number): number {
    while (this.#joined[phase] !== phase) phase = this.#joined[phase]!;
    return phase;
  }

  /** Whether all threads of a block reach each barrier together. */
  get hasUniformBarriers(): boolean {
    return !this.#hasPartialBarriers;
  }

  /** Whether no two threads of a block conflict. */
  areSeparate(): boolean {
    if (this.#isRefused) return false;
    const phases = Map.groupBy(this.#accesses, ({ phase }) => this.#rootOf(phase));
    let pairs = 0;
    for (const accesses of phases.values()) {
      for (const [index, a] of accesses.entries()) {
        for (let other = index; other < accesses.length; other++) {
          const b = accesses[other]!;
          if (a.access === "read" && b.access === "read") continue;
          if (++pairs > mostPairs || !this.#areApart(a, b)) return false;
        }
      }
    }
    return true;
  }

  /** Whether the threads of each block have written all bytes that they read, before a barrier. */
  readOnlyWritten(): boolean {
    const blocks = [...this.#whole.low.keys()].filter((index) => !this.#dimensions.includes(index));
    return !this.#isRefused && this.#reads.areWritten(blocks);
  }

  #areApart(a: PhaseAccess, b: PhaseAccess): boolean {
    if (a.form.base !== b.form.base || a.last <= b.first || b.last <= a.first) return true;
    const count = this.#dimensions.length;
    const pair = aligned(a, b, count);
    return pair !== undefined && threadsAreApart(pair, count);
  }

  #ordered(access: CertainAccess): CertainAccess {
    const { form, domain } = access;
    const others = [...domain.low.keys()].filter((index) => !this.#dimensions.includes(index));
    const order = [...this.#dimensions, ...others];
    const reordered = ({ terms, constant, base }: AffineForm) =>
      formOf(order.map((index) => terms[index] ?? 0), constant, base)!;
    return {
      ...access,
      form: reordered(form),
      domain: {
        low: order.map((index) => domain.low[index]!),
        high: order.map((index) => domain.high[index]!),
        constraints: domain.constraints.map(reordered),
      },
    };
  }
}

/**
 * Two accesses with the same terms for the first dimensions. One that only threads with the same coordinate make may
 * have any term for that.
 */
function aligned(a: CertainAccess, b: CertainAccess, dimensions: number): [CertainAccess, CertainAccess] | undefined {
  for (let index = 0; index < dimensions; index++) {
    const [first, second] = [a.form.terms[index] ?? 0, b.form.terms[index] ?? 0];
    if (first === second) continue;
    if (hasOne(a.domain, index)) a = withTerm(a, index, second);
    else if (hasOne(b.domain, index)) b = withTerm(b, index, first);
    else return undefined;
  }
  return [a, b];
}

function hasOne({ low, high }: Domain, index: number): boolean {
  return low[index] === high[index];
}

function withTerm(access: CertainAccess, index: number, term: number): CertainAccess {
  const { form: { base, constant, terms }, domain } = access;
  const change = ((terms[index] ?? 0) - term) * domain.low[index]!;
  const others = Array.from(
    { length: Math.max(terms.length, index + 1) },
    (_, at) => at === index ? term : terms[at] ?? 0,
  );
  return { ...access, form: formOf(others, constant + change, base)! };
}

/** Writes to shared memory: the last one, and the earlier ones on each path that threads have taken. */
export interface SharedWrites {
  readonly write?: CertainAccess;
  readonly before: readonly SharedWrites[];
}

/** The writes of threads at the time of a read. */
export interface WritesBefore {
  /** All certain writes. */
  writes: SharedWrites;
  /** The writes that the block's threads had made at the last barrier. */
  settled: SharedWrites;
  /** The dimensions of the iterations of the enclosing loops. */
  readonly iterations: readonly number[];
}

interface SharedRead extends Pick<WritesBefore, "settled" | "iterations"> {
  readonly read: CertainAccess;
}

/** The budget of work for a kernel's reads. */
const mostSteps = 40_000;

export const noWrites: SharedWrites = { before: [] };

/** The writes on all paths. */
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

  /** Drops all but the first ones. */
  truncate(count: number): void {
    this.#reads.length = count;
  }

  add(read: CertainAccess, { settled, iterations }: WritesBefore): void {
    this.#reads.push({ read, settled, iterations });
  }

  /**
   * Whether the threads of each block have written all bytes that they read.
   *
   * @param blocks the dimensions of blocks
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
 * Whether a write is made at every point of the fixed dimensions at which a read is, and changes with these dimensions
 * as the read does: each block and iteration writes what it reads.
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
