/**
 * Proves that the threads of a block do not conflict in shared memory: between two barriers of the block, no two
 * threads access the same byte if one of them writes it. Also proves that threads read only bytes that were written
 * before the last barrier.
 *
 * @module
 */
import { type AffineForm, type Domain, formOf, noBase, rangeOf } from "./domain.ts";
import { Budget, type ByteRange, coveredBytes, mergedRanges, TooManyRanges, without } from "./covered_bytes.ts";
import type { CertainAccess } from "./thread_state.ts";
import { threadsAreApart } from "./separate_accesses.ts";

/**
 * An access in a phase. The dimensions of its form and domain are reordered, so that the dimensions of thread indices
 * in a block come first.
 */
interface PhaseAccess extends CertainAccess {
  readonly phase: number;
  /** The first accessed byte, as an offset in the shared variable. */
  readonly first: number;
  /** The end of the last accessed byte, as an offset in the shared variable. */
  readonly last: number;
}

/** A snapshot of `SharedPhases`, which `reset` restores. */
interface Mark {
  readonly count: number;
  readonly reads: number;
  readonly isRefused: boolean;
  readonly hasPartialBarriers: boolean;
}

/** The maximum number of pairs of accesses to compare. If there are more, nothing is proven. */
const mostPairs = 4000;

/**
 * The accesses of a run to shared memory, by phase. A phase is the part of a run between two barriers. Phases with no
 * barrier between them, such as the end of a loop's body and the beginning of the next iteration, are joined.
 */
export class SharedPhases {
  /** The size of each shared variable in bytes, keyed by the variable's base. */
  readonly #byteLengths: ReadonlyMap<number, number>;
  /** The indices of the dimensions that make up a thread's index in its block. */
  readonly #dimensions: readonly number[];
  /** The domain of all threads of the launch. */
  readonly #whole: Domain;
  readonly #accesses: PhaseAccess[] = [];
  readonly #reads = new SharedReads();
  /** The phases' parents in a union-find structure: a phase is its own parent unless it was joined to another one. */
  readonly #joined: number[] = [0];
  /** Whether some accesses to shared memory are unknown, so that nothing can be proven. */
  #isRefused = false;
  /** Whether some threads of a block may reach a barrier without the other threads. */
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

  /** Records that some accesses to shared memory are unknown, so that nothing can be proven about them. */
  refuse(): void {
    this.#isRefused = true;
  }

  /** Records that some threads of a block may reach a barrier without the other threads. */
  refuseBarriers(): void {
    this.#isRefused = true;
    this.#hasPartialBarriers = true;
  }

  /** Returns a snapshot, which `reset` can restore. */
  mark(): Mark {
    return {
      count: this.#accesses.length,
      reads: this.#reads.count,
      isRefused: this.#isRefused,
      hasPartialBarriers: this.#hasPartialBarriers,
    };
  }

  /** Restores a snapshot: drops all accesses added since then. */
  reset({ count, reads, isRefused, hasPartialBarriers }: Mark): void {
    this.#accesses.length = count;
    this.#reads.truncate(reads);
    this.#isRefused = isRefused;
    this.#hasPartialBarriers = hasPartialBarriers;
  }

  /**
   * Adds an access to shared memory.
   *
   * @param before the writes before the access; if the access is a write, it is added to them
   */
  add(access: CertainAccess, phase: number, before: WritesBefore): void {
    const { low, high } = rangeOf(access.form, access.domain);
    const last = high + access.byteLength;
    // An access outside the variable may hit another variable, because the layout of the variables is unknown.
    if (!(low >= 0 && last <= (this.#byteLengths.get(access.form.base) ?? -1))) this.refuse();
    else this.#accesses.push({ ...this.#ordered(access), phase, first: low, last });
    if (access.instruction.form.traits.access === "read") this.#reads.add(access, before);
    else before.writes = { write: access, before: [before.writes] };
  }

  /** Begins the next phase, after a barrier that all threads of a domain have reached. Returns the phase's number. */
  next({ low, high, constraints }: Domain): number {
    const isWhole = this.#dimensions.every((index) =>
      low[index] === this.#whole.low[index] && high[index] === this.#whole.high[index] &&
      constraints.every(({ terms }) => (terms[index] ?? 0) === 0)
    );
    // The domain lacks some threads of the block, which may be at a different barrier.
    if (!isWhole) this.refuseBarriers();
    return this.#joined.push(this.#joined.length) - 1;
  }

  /** Joins two phases that have no barrier between them. */
  join(a: number, b: number): void {
    this.#joined[this.#rootOf(a)] = this.#rootOf(b);
  }

  #rootOf(phase: number): number {
    while (this.#joined[phase] !== phase) phase = this.#joined[phase]!;
    return phase;
  }

  /** Whether it is proven that all threads of a block reach each barrier together. */
  get hasUniformBarriers(): boolean {
    return !this.#hasPartialBarriers;
  }

  /** Returns whether it is proven that no two threads of a block conflict in shared memory. */
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

  /**
   * Returns whether it is proven that the threads of each block read only bytes that they have written before the last
   * barrier.
   */
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
 * Rewrites two accesses so that they have the same terms in the first `dimensions` dimensions. Changes a term only if
 * all threads of the access have the same coordinate in the dimension, and adjusts the constant accordingly. Returns
 * undefined if the terms cannot be made equal.
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

/**
 * The writes to shared memory before a point in the code, as a linked graph: the last write, and the writes before that
 * one on each path.
 */
export interface SharedWrites {
  readonly write?: CertainAccess;
  readonly before: readonly SharedWrites[];
}

/** The writes to shared memory that threads have certainly made before a point in the code. */
export interface WritesBefore {
  /** All writes before the point. */
  writes: SharedWrites;
  /** The writes before the last barrier, which all threads of the block can see. */
  settled: SharedWrites;
  /** The indices of the dimensions that are iteration numbers of the enclosing loops. */
  readonly iterations: readonly number[];
}

interface SharedRead extends Pick<WritesBefore, "settled" | "iterations"> {
  readonly read: CertainAccess;
}

/** The maximum number of steps for checking a kernel's reads of shared memory. */
const mostSteps = 40_000;

/** The empty set of writes. */
export const noWrites: SharedWrites = { before: [] };

/** Returns the writes made on any of several paths. */
export function allWrites(ways: readonly SharedWrites[]): SharedWrites {
  const [first, ...others] = new Set(ways);
  return first !== undefined && others.length === 0 ? first : { before: [...new Set(ways)] };
}

/** The reads of shared memory in a run, each with the writes before the read. */
export class SharedReads {
  readonly #reads: SharedRead[] = [];

  get count(): number {
    return this.#reads.length;
  }

  /** Drops all reads except the first `count` ones. */
  truncate(count: number): void {
    this.#reads.length = count;
  }

  add(read: CertainAccess, { settled, iterations }: WritesBefore): void {
    this.#reads.push({ read, settled, iterations });
  }

  /**
   * Returns whether it is proven that the threads of each block have written all bytes that they read.
   *
   * @param blocks the indices of the dimensions that make up block indices
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

/** Determines which bytes of shared memory were written before a read. */
class WrittenBytes {
  readonly #budget: Budget;
  /** The cached results of `#matching`, keyed by the writes, and by a string for the properties of the read. */
  readonly #known = new Map<SharedWrites, Map<string, ByteRange[]>>();

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /**
   * Returns whether all bytes of a read were written in the same block and loop iteration.
   *
   * @param settled the writes before the last barrier before the read
   * @param fixed the indices of the dimensions that make up block indices and loop iteration numbers
   */
  include(read: CertainAccess, settled: SharedWrites, fixed: readonly number[]): boolean {
    const written = this.#matching(read, settled, fixed);
    const form = withoutTerms(read.form, fixed);
    const { low, high } = rangeOf(form, read.domain);
    const last = high + read.byteLength;
    if (written.some(({ begin, end }) => begin <= low && last <= end)) return true;
    return without(mergedRanges(coveredBytes({ ...read, form }, this.#budget)), written).length === 0;
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
      known.set(key, bytes = mergedRanges(ranges));
    }
    return bytes;
  }
}

/** Yields each write of a graph once. */
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
 * Returns whether a write corresponds to a read in the fixed dimensions. The write must happen at all coordinates that
 * the read has in these dimensions, and both addresses must depend on the coordinates in the same way. Then each block
 * and loop iteration has itself written the bytes that it reads.
 */
function isAsFixed({ form, domain }: CertainAccess, read: CertainAccess, fixed: readonly number[]): boolean {
  return form.base === read.form.base && fixed.every((index) => {
    if ((form.terms[index] ?? 0) !== (read.form.terms[index] ?? 0)) return false;
    if (domain.constraints.some(({ terms }) => (terms[index] ?? 0) !== 0)) return false;
    const { low, high } = domain;
    // A write whose domain lacks a loop's dimension was made before the loop.
    return index >= low.length || low[index]! <= read.domain.low[index]! && high[index]! >= read.domain.high[index]!;
  });
}

function withoutTerms({ terms, constant }: AffineForm, fixed: readonly number[]): AffineForm {
  return formOf(terms.map((term, index) => fixed.includes(index) ? 0 : term), constant, noBase)!;
}

/** Restricts a domain to the smallest coordinate in each of the fixed dimensions. */
function atOne({ low, high, constraints }: Domain, fixed: readonly number[]): Domain {
  return { low, high: high.map((last, index) => fixed.includes(index) ? low[index]! : last), constraints };
}
