/**
 * Vector clocks: for each other thread, the time up to which that thread's work is ordered before the next work of this
 * thread. Entries result from acquires, and from barriers of a part of the block. Barriers of the whole block and of a
 * warp are tracked by `block_clocks.ts`.
 *
 * A message is the knowledge that threads release at a memory location, for threads that acquire at the same location.
 *
 * @module
 */

/**
 * Maps the key ({@linkcode keyOf}) of a thread, warp or block to a logical time. All work of that thread, warp or block
 * at epochs before this time is ordered before the next work of the thread to which the map belongs.
 */
type Known = ReadonlyMap<number, number>;

/** The keys of threads, warps and blocks in {@linkcode Known}. */
export const keyOf = {
  thread: (thread: number): number => thread * 4,
  warp: (warp: number): number => warp * 4 + 1,
  block: (block: number): number => block * 4 + 2,
  /**
   * The key of a warp whose lanes are assumed to run in lockstep, so that a release by one lane applies to the whole
   * warp.
   */
  lockstep: (warp: number): number => warp * 4 + 7,
  /** The key of all threads of the launch. */
  everything: 3,
} as const;

/**
 * The maximum number of entries of a {@linkcode Known}. If there are more, they are merged into one entry for all
 * threads. Races may then be missed, but no false races are reported.
 */
const mostKnown = 2048;

/** The times of the last sequentially consistent fences of a block's threads before a barrier of the block. */
interface FenceTimes {
  /** The time of the barrier. */
  readonly time: number;
  /** For each thread of the block, the time of its last fence. */
  readonly times: Int32Array;
}

/** For each block, the times of its threads' fences. */
type KnownFences = ReadonlyMap<number, FenceTimes>;

const nothing: Known = new Map();
const noFences: KnownFences = new Map();

/** A happens-before state: the work that is ordered before a thread's next work. Immutable. */
export class Knowledge {
  static readonly none: Knowledge = new Knowledge(nothing, nothing);
  readonly known: Known;
  /** Like `known`, but computed as if every operation had the widest scope, to detect scopes that are too narrow. */
  readonly withoutScopes: Known;
  /**
   * For each block, fences in its threads: the block's work before these fences is also ordered before the next work of
   * the thread to which this state belongs.
   */
  readonly fences: KnownFences;

  constructor(known: Known, withoutScopes: Known, fences: KnownFences = noFences) {
    this.fences = fences;
    this.known = known;
    this.withoutScopes = withoutScopes;
  }

  /** Returns the union of this happens-before state with another one. */
  and(other: Knowledge): Knowledge {
    if (other === this) return this;
    const known = join(this.known, other.known);
    const isSame = this.known === this.withoutScopes && other.known === other.withoutScopes;
    const withoutScopes = isSame ? known : join(this.withoutScopes, other.withoutScopes);
    const fences = joinFences(this.fences, other.fences);
    if (known === this.known && withoutScopes === this.withoutScopes && fences === this.fences) return this;
    return new Knowledge(known, withoutScopes, fences);
  }

  /** Returns the union of the happens-before states `all`, without the keys for which `isLeftOut` returns true. */
  static joined(all: readonly (Knowledge | undefined)[], isLeftOut: (key: number) => boolean): Knowledge {
    const different = [...new Set(all)].filter((each): each is Knowledge =>
      (each ?? Knowledge.none) !== Knowledge.none
    );
    if (different.length === 0) return Knowledge.none;
    const joinAll = (maps: readonly Known[]) => {
      const joined = new Map<number, number>();
      for (const known of maps) {
        for (const [key, time] of known) if ((joined.get(key) ?? -1) < time && !isLeftOut(key)) joined.set(key, time);
      }
      return joined;
    };
    const known = joinAll(different.map((each) => each.known));
    const isSame = different.every((each) => each.known === each.withoutScopes);
    const withoutScopes = isSame ? known : joinAll(different.map((each) => each.withoutScopes));
    return new Knowledge(
      known,
      withoutScopes,
      different.reduce((joined, { fences }) => joinFences(joined, fences), noFences),
    );
  }

  /** Returns this happens-before state, extended by a block's work before the given fences. */
  withFences(block: number, fences: FenceTimes): Knowledge {
    return new Knowledge(this.known, this.withoutScopes, new Map(this.fences).set(block, fences));
  }

  /** Combines `known` and `fences` of the first argument with `withoutScopes` of the second. */
  static of({ known, fences }: Knowledge, { withoutScopes }: Knowledge): Knowledge {
    return new Knowledge(known, withoutScopes, fences);
  }
}

function joinFences(a: KnownFences, b: KnownFences): KnownFences {
  if (a === b || b.size === 0) return a;
  if (a.size === 0) return b;
  let joined: Map<number, FenceTimes> | undefined;
  for (const [block, fences] of b) {
    if ((a.get(block)?.time ?? -1) >= fences.time) continue;
    joined ??= new Map(a);
    joined.set(block, fences);
  }
  return joined ?? a;
}

function join(a: Known, b: Known): Known {
  if (a === b || b.size === 0) return a;
  if (a.size === 0) return b;
  let joined: Map<number, number> | undefined;
  for (const [key, time] of b) {
    if ((a.get(key) ?? -1) >= time) continue;
    joined ??= new Map(a);
    joined.set(key, time);
  }
  return joined === undefined ? a : joined.size > mostKnown ? simplified(joined) : joined;
}

function simplified(known: Known): Known {
  let latest = 0;
  for (const time of known.values()) if (time > latest) latest = time;
  return new Map([[keyOf.everything, latest]]);
}

/**
 * Returns the part of the mask `lanes` with the lanes of `warp` whose work at `epoch` is not included in a
 * happens-before state.
 */
export function unknownLanes(
  known: Known,
  { warp, warpsPerBlock, epoch, lanes, fences }: {
    warp: number;
    warpsPerBlock: number;
    epoch: number;
    lanes: number;
    fences: KnownFences;
  },
): number {
  const isKnown = (key: number) => {
    const time = known.get(key);
    return time !== undefined && time > epoch;
  };
  if (isKnown(keyOf.warp(warp)) || isKnown(keyOf.everything)) return 0;
  const block = Math.floor(warp / warpsPerBlock);
  if (isKnown(keyOf.block(block))) return 0;
  const times = fences.get(block)?.times;
  let unknown = lanes;
  for (let rest = lanes; rest !== 0; rest &= rest - 1) {
    const lane = 31 - Math.clz32(rest & -rest);
    const thread = warp * 32 + lane;
    const isFenced = times !== undefined && times[thread - block * warpsPerBlock * 32]! > epoch;
    if (isFenced || isKnown(keyOf.thread(thread))) unknown &= ~(1 << lane);
  }
  return unknown;
}

/**
 * Returns whether a happens-before state includes the work of a warp at `epoch`, assuming that the warp's lanes run in
 * lockstep: the work of a single lane is then sufficient.
 */
export function knowsInLockstep(
  { known, fences }: Knowledge,
  { warp, warpsPerBlock, epoch }: { warp: number; warpsPerBlock: number; epoch: number },
): boolean {
  return (known.get(keyOf.lockstep(warp)) ?? 0) > epoch ||
    unknownLanes(known, { warp, warpsPerBlock, epoch, lanes: -1, fences }) !== -1;
}

/** A message: the union of the happens-before states that threads have released at a memory location. Immutable. */
export class ReleasedKnowledge {
  /** The union of all states that were released, with any scope. */
  readonly #all: Knowledge;
  /** The union of the states that were released with a scope wider than a block. */
  readonly wide: Knowledge;
  /** For each block, the union of the states that its threads have released with the scope of a block. */
  readonly #narrow: ReadonlyMap<number, Knowledge>;
  /** The block of the releasing threads. Undefined if the threads belong to several blocks. */
  readonly #block: number | undefined;

  constructor(
    { all, wide, narrow, block }: {
      all: Knowledge;
      wide: Knowledge;
      narrow: ReadonlyMap<number, Knowledge>;
      block: number | undefined;
    },
  ) {
    this.#all = all;
    this.wide = wide;
    this.#narrow = narrow;
    this.#block = block;
  }

  /**
   * Returns the happens-before state that a thread of a block acquires from this message. `isWide` specifies whether
   * the scope of the acquire operation is wider than a block.
   */
  for(block: number, isWide: boolean): Knowledge {
    if (this.#block === block || isWide && this.wide === this.#all) return this.#all;
    const narrow = this.#narrow.get(block) ?? Knowledge.none;
    return Knowledge.of(isWide ? this.wide.and(narrow) : narrow, this.#all);
  }

  /** Returns this message, extended by another release. */
  with({ block, isWide, knowledge }: Release): ReleasedKnowledge {
    const all = this.#all.and(knowledge);
    const isAllWide = isWide && this.wide === this.#all;
    const narrow = new Map(this.#narrow);
    if (!isWide) narrow.set(block, (narrow.get(block) ?? Knowledge.none).and(knowledge));
    return new ReleasedKnowledge({
      all,
      wide: isAllWide ? all : isWide ? this.wide.and(knowledge) : this.wide,
      narrow: isWide ? this.#narrow : narrow,
      block: this.#block === block ? block : undefined,
    });
  }

  /** Returns a message that consists of a single release. */
  static of({ block, isWide, knowledge }: Release): ReleasedKnowledge {
    return new ReleasedKnowledge({
      all: knowledge,
      wide: isWide ? knowledge : Knowledge.none,
      narrow: isWide ? new Map() : new Map([[block, knowledge]]),
      block,
    });
  }
}

/** A release operation of a thread. */
export interface Release {
  readonly block: number;
  readonly isWide: boolean;
  readonly knowledge: Knowledge;
}

/** The maximum number of messages that are recorded for a thread as read but not yet acquired by a fence. */
const mostUnacquired = 64;

/**
 * The messages that a thread has read and will acquire with its next fence, and the happens-before states that its
 * fences have released.
 */
export class FenceState {
  #read: { readonly offset: number; readonly message: ReleasedKnowledge; readonly isWide: boolean }[] = [];
  /** The thread's last release at each memory offset. */
  readonly #released = new Map<number, Release>();
  /** The happens-before state that the thread's last fence of any scope has released. */
  #narrow: Knowledge | undefined;
  /** The happens-before state that the thread's last fence with a scope wider than a block has released. */
  #wide: Knowledge | undefined;

  /** Records that the thread has read a message at an offset with a strong read. */
  noteRead(offset: number, message: ReleasedKnowledge, isWide: boolean): void {
    const last = this.#read.at(-1);
    if (last?.message === message && last.isWide === isWide) return;
    this.#read.push({ offset, message, isWide });
    if (this.#read.length > mostUnacquired) this.#read.shift();
  }

  /**
   * Returns the happens-before state that a fence acquires. With `at`, returns the state that a load at this memory
   * offset acquires.
   */
  acquire(block: number, isWide: boolean, at?: number): Knowledge {
    let acquired = Knowledge.none;
    for (const { offset, message, isWide: isWideRead } of this.#read) {
      if (at === undefined || at === offset) acquired = acquired.and(message.for(block, isWide && isWideRead));
    }
    if (isWide && at === undefined) this.#read = [];
    return acquired;
  }

  /** Records that the thread made a release at an offset. */
  noteRelease(offset: number, release: Release): void {
    this.#released.set(offset, release);
  }

  /** Records the happens-before state that a fence of the thread releases. */
  release(knowledge: Knowledge, isWide: boolean): void {
    this.#narrow = knowledge;
    if (isWide) this.#wide = knowledge;
  }

  /**
   * Returns the releases that a strong write at an offset publishes: the releases of the thread's earlier fences, and
   * the thread's earlier releases at this offset.
   */
  releases(offset: number, block: number, isWide: boolean): Release[] {
    const releases: Release[] = [];
    if (this.#wide !== undefined && isWide) releases.push({ block, isWide: true, knowledge: this.#wide });
    if (this.#narrow !== undefined && (!isWide || this.#narrow !== this.#wide)) {
      releases.push({ block, isWide: false, knowledge: this.#narrow });
    }
    const before = this.#released.get(offset);
    if (before !== undefined) releases.push({ ...before, isWide: isWide && before.isWide });
    return releases;
  }
}
