/**
 * What threads release at memory locations, for threads that acquire it there.
 *
 * @module
 */
import { Knowledge } from "./knowledge.ts";

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
