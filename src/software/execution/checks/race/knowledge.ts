/**
 * Vector clocks: for each other thread, the time up to which its work is ordered before the next work of this thread.
 * Entries come from acquires of what others have released, and from barriers of a part of the block. Barriers of the
 * whole block and of a warp are tracked by `block_clocks.ts`.
 *
 * A message is what threads release at a memory location, for threads that acquire it there.
 *
 * @module
 */

/**
 * The clocks of threads, warps and blocks, by their numbers ({@linkcode keyOf}). Work before a clock's time is ordered.
 */
type Known = ReadonlyMap<number, number>;

/** The numbers of threads, warps and blocks of a launch in {@linkcode Known}. */
export const keyOf = {
  thread: (thread: number): number => thread * 4,
  warp: (warp: number): number => warp * 4 + 1,
  block: (block: number): number => block * 4 + 2,
  /** The key of all threads of the launch. */
  everything: 3,
} as const;

/**
 * The maximum number of entries. If there are more, they are merged into one for all threads: races may then be missed,
 * but no false ones are reported.
 */
const mostKnown = 2048;

/** For each thread of a block, the time of its last sequentially consistent fence before a barrier of the block. */
interface FenceTimes {
  /** The time of the barrier. */
  readonly time: number;
  readonly times: Int32Array;
}

/** Times of fences, by block. */
type KnownFences = ReadonlyMap<number, FenceTimes>;

const nothing: Known = new Map();
const noFences: KnownFences = new Map();

/** What a thread knows. Immutable. */
export class Knowledge {
  static readonly none: Knowledge = new Knowledge(nothing, nothing);
  readonly known: Known;
  /** The same, as if every operation had the widest scope. */
  readonly withoutScopes: Known;
  /** Work of the threads of blocks before these fences is ordered, too. */
  readonly fences: KnownFences;

  constructor(known: Known, withoutScopes: Known, fences: KnownFences = noFences) {
    this.fences = fences;
    this.known = known;
    this.withoutScopes = withoutScopes;
  }

  /** The union of two. */
  and(other: Knowledge): Knowledge {
    if (other === this) return this;
    const known = join(this.known, other.known);
    const isSame = this.known === this.withoutScopes && other.known === other.withoutScopes;
    const withoutScopes = isSame ? known : join(this.withoutScopes, other.withoutScopes);
    const fences = joinFences(this.fences, other.fences);
    if (known === this.known && withoutScopes === this.withoutScopes && fences === this.fences) return this;
    return new Knowledge(known, withoutScopes, fences);
  }

  /** The union of several, without some threads. */
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

  /** Adds the work of a block's threads before their fences. */
  withFences(block: number, fences: FenceTimes): Knowledge {
    return new Knowledge(this.known, this.withoutScopes, new Map(this.fences).set(block, fences));
  }

  /** Takes the scoped clocks of one, and the unscoped clocks of another. */
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

/** The lanes of a warp, as bits, whose work at an epoch is not known to be ordered. */
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

/** What can be acquired at a memory location. Immutable. */
export class ReleasedMessage {
  /** What was released, whatever the scope. */
  readonly #all: Knowledge;
  /** What was released in a wide scope. */
  readonly wide: Knowledge;
  /** What was released in the scope of a block, by block. */
  readonly #narrow: ReadonlyMap<number, Knowledge>;
  /** The block of the releasing threads. Undefined if they belong to several blocks. */
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

  /** What a thread of a block acquires in the given scope. */
  for(block: number, isWide: boolean): Knowledge {
    if (this.#block === block || isWide && this.wide === this.#all) return this.#all;
    const narrow = this.#narrow.get(block) ?? Knowledge.none;
    return Knowledge.of(isWide ? this.wide.and(narrow) : narrow, this.#all);
  }

  /** What can be acquired after another release. */
  with({ block, isWide, knowledge }: Release): ReleasedMessage {
    const all = this.#all.and(knowledge);
    const isAllWide = isWide && this.wide === this.#all;
    const narrow = new Map(this.#narrow);
    if (!isWide) narrow.set(block, (narrow.get(block) ?? Knowledge.none).and(knowledge));
    return new ReleasedMessage({
      all,
      wide: isAllWide ? all : isWide ? this.wide.and(knowledge) : this.wide,
      narrow: isWide ? this.#narrow : narrow,
      block: this.#block === block ? block : undefined,
    });
  }

  /** What can be acquired after the release of one thread. */
  static of({ block, isWide, knowledge }: Release): ReleasedMessage {
    return new ReleasedMessage({
      all: knowledge,
      wide: isWide ? knowledge : Knowledge.none,
      narrow: isWide ? new Map() : new Map([[block, knowledge]]),
      block,
    });
  }
}

/** What a thread releases. */
export interface Release {
  readonly block: number;
  readonly isWide: boolean;
  readonly knowledge: Knowledge;
}

/** The maximum number of messages that a thread has read and not acquired. */
const mostUnacquired = 64;

/** The messages that a thread has read and will acquire with its next fence, and what its last fences have released. */
export class ThreadOrder {
  #read: { readonly offset: number; readonly message: ReleasedMessage; readonly isWide: boolean }[] = [];
  /** The last release at each offset. */
  readonly #released = new Map<number, Release>();
  /** Released by the last fence in the scope of the block, and by the last one in a wider scope. */
  #narrow: Knowledge | undefined;
  #wide: Knowledge | undefined;

  /** Records a strong read. */
  noteRead(offset: number, message: ReleasedMessage, isWide: boolean): void {
    const last = this.#read.at(-1);
    if (last?.message === message && last.isWide === isWide) return;
    this.#read.push({ offset, message, isWide });
    if (this.#read.length > mostUnacquired) this.#read.shift();
  }

  /** What a fence, or a load at an offset, acquires. */
  acquire(block: number, isWide: boolean, at?: number): Knowledge {
    let acquired = Knowledge.none;
    for (const { offset, message, isWide: isWideRead } of this.#read) {
      if (at === undefined || at === offset) acquired = acquired.and(message.for(block, isWide && isWideRead));
    }
    if (isWide && at === undefined) this.#read = [];
    return acquired;
  }

  /** Records what an access releases. */
  noteRelease(offset: number, release: Release): void {
    this.#released.set(offset, release);
  }

  /** Records what a fence releases. */
  release(knowledge: Knowledge, isWide: boolean): void {
    this.#narrow = knowledge;
    if (isWide) this.#wide = knowledge;
  }

  /** What a strong write at an offset releases, because of earlier fences and of releases at that offset. */
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
