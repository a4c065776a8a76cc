import { orderBits } from "../../../abi/check_state.ts";
import type { BlockClocks } from "./block_clocks.ts";
import { Knowledge, type Release, ReleasedKnowledge } from "./knowledge.ts";

/** A strong write to memory. */
interface StrongWrite {
  readonly offset: number;
  readonly bytes: number;
  /** The `orderBits` of the write. */
  readonly order: number;
  /** Whether the operation also reads, as an atomic operation does. */
  readonly isUpdate: boolean;
}

/** An atomic operation that returned a result. */
interface Update {
  readonly thread: number;
  readonly bytes: number;
}

/** An arrival at an `mbarrier`, or a test of its phase. */
interface PhasedAccess {
  readonly offset: number;
  /** The `orderBits` of the access. */
  readonly order: number;
  readonly arrives: boolean;
  /** The parity of the phase before the access. */
  readonly parity: number;
}

/** The happens-before states that threads have released by arriving at an `mbarrier`. */
interface Phases {
  /** The parity of the current phase. */
  parity: number;
  /** The states released by arrivals in all completed phases. */
  completed: ReleasedKnowledge | undefined;
  /** The states released by arrivals in all completed phases and in the current phase. */
  arriving: ReleasedKnowledge | undefined;
}

/**
 * Tracks which work of threads is ordered by release and acquire operations, that is, by strong accesses to memory and
 * by fences.
 */
export class Releases {
  /** For each memory offset, the released happens-before states that a thread can acquire there. */
  readonly #messages = new Map<number, ReleasedKnowledge>();
  /** Maps the offset of each `mbarrier` to the states that were released there. */
  readonly #phases = new Map<number, Phases>();
  /**
   * For each memory offset, the happens-before state released by the sequentially consistent fences before the last
   * strong write. In global memory, only fences and writes with scopes wider than the block count.
   */
  readonly #fenced = new Map<number, Knowledge>();
  /** For each memory offset, the last strong write, if it was an atomic operation that returned a result. */
  readonly #updates = new Map<number, Update>();

  readonly #isOfBlock: boolean;

  /** @param isOfBlock whether the offsets are in a block's shared memory */
  constructor(isOfBlock: boolean) {
    this.#isOfBlock = isOfBlock;
  }

  /** Records a strong read. */
  read(clocks: BlockClocks, local: number, offset: number, order: number): void {
    const isWide = (order & orderBits.wide) !== 0;
    const message = this.#messages.get(offset);
    if (message !== undefined) clocks.orderOf(local).noteRead(offset, message, isWide);
    const fenced = isWide || this.#isOfBlock ? this.#fenced.get(offset) : undefined;
    if (fenced !== undefined) (this.#isOfBlock ? clocks.narrowFences : clocks.fences).observe(local, fenced);
    if ((order & orderBits.acquire) === 0) return;
    const acquired = clocks.orderIfAny(local)?.acquire(clocks.block, isWide, offset);
    if (acquired !== undefined) clocks.acquire(local, acquired);
  }

  /** Records a strong write, after it was compared with earlier accesses. */
  write(clocks: BlockClocks, local: number, { offset, bytes, order, isUpdate }: StrongWrite): void {
    const isWide = (order & orderBits.wide) !== 0;
    const message = this.#messages.get(offset);
    const releases = clocks.orderIfAny(local)?.releases(offset, clocks.block, isWide) ?? [];
    if ((order & orderBits.release) !== 0) {
      const release = { block: clocks.block, isWide, knowledge: clocks.release(local) };
      clocks.orderOf(local).noteRelease(offset, release);
      releases.push(release);
    }
    // An atomic read-modify-write operation continues the release sequence of the value that it replaces.
    if (this.#isOfBlock && releases.length > 0) {
      releases.push({ block: clocks.block, isWide: false, knowledge: clocks.releasedInLockstep(local) });
    }
    const after = releases.reduce<ReleasedKnowledge | undefined>(added, isUpdate ? message : undefined);
    if (after !== undefined) this.#messages.set(offset, after);
    else if (message !== undefined) this.#messages.delete(offset);
    if (isWide && (order & orderBits.hasResult) !== 0) {
      this.#updates.set(offset, { thread: clocks.base + local, bytes });
    } else this.#updates.delete(offset);
    const before = isUpdate ? this.#fenced.get(offset) ?? Knowledge.none : Knowledge.none;
    const narrow = this.#isOfBlock ? clocks.narrowFences.releasedBefore(local) : Knowledge.none;
    const own = isWide ? clocks.fences.releasedBefore(local).and(narrow) : narrow;
    // In the common case, only threads that wrote this location have executed fences, and nothing else was released.
    // The message then already contains the union of `before` and `own`.
    const isOfWriters = own === releases[0]?.knowledge && releases.length === 1 && releases[0].isWide &&
      before === (isUpdate ? message?.wide ?? Knowledge.none : Knowledge.none);
    const fenced = isOfWriters ? after!.wide : before.and(own);
    if (fenced !== Knowledge.none) this.#fenced.set(offset, fenced);
    else this.#fenced.delete(offset);
  }

  /**
   * Returns whether the last strong write of these bytes was an atomic operation of the given thread that returned a
   * result. The thread is then treated as ordered after all other atomic operations on these bytes, because this is how
   * the last block of a grid determines that it is the last.
   */
  isLastUpdate(thread: number, offset: number, bytes: number): boolean {
    const update = this.#updates.get(offset);
    return update !== undefined && update.thread === thread && update.bytes === bytes;
  }

  /**
   * Records an access to an `mbarrier`. A thread that observes the completion of a phase acquires what was released up
   * to the end of that phase, but not what was released in the next phase.
   */
  phased(clocks: BlockClocks, local: number, { offset, order, arrives, parity }: PhasedAccess): void {
    let phases = this.#phases.get(offset);
    if (phases === undefined) {
      this.#phases.set(offset, phases = { parity, completed: undefined, arriving: undefined });
    }
    if (phases.parity !== parity) {
      phases.parity = parity;
      phases.completed = phases.arriving;
    }
    const isWide = (order & orderBits.wide) !== 0;
    const { block } = clocks;
    if (arrives && (order & orderBits.release) !== 0) {
      phases.arriving = added(phases.arriving, { block, isWide, knowledge: clocks.release(local) });
    }
    if (!arrives && (order & orderBits.acquire) !== 0 && phases.completed !== undefined) {
      clocks.acquire(local, phases.completed.for(block, isWide));
    }
  }

  /** Records a weak store. Later reads of the stored bytes acquire nothing. */
  overwrite(offset: number, bytes: number): void {
    if (this.#messages.size + this.#phases.size + this.#fenced.size + this.#updates.size === 0) return;
    for (let at = offset; at < offset + bytes; at++) {
      this.#messages.delete(at);
      this.#fenced.delete(at);
      this.#updates.delete(at);
      this.#phases.delete(at);
    }
  }

  /** Removes all releases. */
  clear(): void {
    this.#messages.clear();
    this.#phases.clear();
    this.#fenced.clear();
    this.#updates.clear();
  }
}

/** Records a fence of a thread. */
export function recordFence(clocks: BlockClocks, local: number, order: number): void {
  const isWide = (order & orderBits.wide) !== 0;
  const threadOrder = clocks.orderOf(local);
  if ((order & orderBits.acquire) !== 0) clocks.acquire(local, threadOrder.acquire(clocks.block, isWide));
  if ((order & orderBits.sequential) !== 0) threadOrder.release(clocks.fence(local, isWide), isWide);
  else if ((order & orderBits.release) !== 0) threadOrder.release(clocks.release(local), isWide);
}

function added(message: ReleasedKnowledge | undefined, release: Release): ReleasedKnowledge {
  return message === undefined ? ReleasedKnowledge.of(release) : message.with(release);
}
