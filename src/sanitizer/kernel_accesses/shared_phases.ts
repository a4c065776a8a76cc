/**
 * Proves that the threads of a block do not conflict in shared memory: no two of them access the same bytes between two
 * barriers of the block if one of them writes.
 *
 * @module
 */
import { type AffineForm, formOf } from "./affine_form.ts";
import { type Domain, rangeOf } from "./domain.ts";
import { threadsAreApart } from "./separate_accesses.ts";
import { SharedReads, type WritesBefore } from "./shared_writes.ts";
import type { CertainAccess } from "./thread_state.ts";

/** An access, with the dimensions of a block's threads before all others. */
interface PhaseAccess extends CertainAccess {
  readonly phase: number;
  readonly first: number;
  readonly last: number;
}

/** What to go back to, where a part of a run is given up. */
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
    // Where variables lie is not known, and so neither is what lies around them.
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
    // Other threads may be elsewhere.
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
  get hasWholeBarriers(): boolean {
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

  /** Whether the threads of each block have written all that they read, and before a barrier. */
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
