/**
 * What the check `race` knows of a cluster of blocks: the blocks whose shared memory the others may access, and which
 * work the barrier of the cluster orders.
 *
 * @module
 */
import type { BlockClocks } from "./block_clocks.ts";
import { keyOf, Knowledge } from "./knowledge.ts";

/** A block of a cluster. */
export interface ClusterMember {
  readonly clocks: BlockClocks;
  readonly sharedBegin: number;
  /** Whether threads of the block have run. */
  readonly isStarted: boolean;
}

/** The blocks of a running cluster. */
export class ClusterRaces<Member extends ClusterMember> {
  readonly members: Set<Member> = new Set();
  readonly #phases = new Map<number, ClusterPhase>();

  /** Returns the phase of the cluster's barrier with a number. Phases before the previous one are forgotten. */
  phase(number: number): ClusterPhase {
    let phase = this.#phases.get(number);
    if (phase === undefined) {
      this.#phases.set(number, phase = new ClusterPhase());
      this.#phases.delete(number - 2);
    }
    return phase;
  }

  /** Returns the block that has started and whose shared memory begins at an offset. */
  memberAt(sharedBegin: number): Member | undefined {
    for (const member of this.members) if (member.isStarted && member.sharedBegin === sharedBegin) return member;
    return undefined;
  }
}

/** The arrivals of a block's threads in a phase. */
interface BlockArrivals {
  /** The block's work before this time is ordered before the end of the phase, unless `later` says more. */
  readonly time: number;
  readonly arrived: Set<number>;
  /** Whether the work of some threads is known up to later times than that of the block. */
  hasLater: boolean;
}

/** A phase of the barrier of a cluster. */
class ClusterPhase {
  readonly #blocks = new Map<BlockClocks, BlockArrivals>();
  /** The released times of blocks and threads. */
  readonly #times = new Map<number, number>();
  /** What the arriving threads knew of other threads. */
  readonly #known = new Set<Knowledge>();
  #released: Knowledge | undefined;

  /** Records an arrival of a thread that releases its work. */
  arrive(clocks: BlockClocks, thread: number): void {
    let arrivals = this.#blocks.get(clocks);
    if (arrivals === undefined) {
      this.#blocks.set(clocks, arrivals = { time: clocks.nextTime(), arrived: new Set(), hasLater: false });
      this.#times.set(keyOf.block(clocks.block), arrivals.time);
    }
    arrivals.arrived.add(thread);
    const later = clocks.beginEpoch(thread, arrivals.time);
    if (later !== undefined) {
      arrivals.hasLater = true;
      this.#times.set(keyOf.thread(clocks.base + thread), later);
    }
    this.#known.add(clocks.knowledgeOf(thread));
  }

  /** Records an arrival of a thread that releases only what its fences have released. */
  arriveRelaxed(clocks: BlockClocks, thread: number): void {
    for (const { knowledge } of clocks.orderIfAny(thread)?.releases(-1, clocks.block, false) ?? []) {
      this.#known.add(knowledge);
    }
  }

  /** Returns the happens-before state that threads acquire at the end of the phase. */
  get released(): Knowledge {
    return this.#released ??= this.#release();
  }

  #release(): Knowledge {
    for (const [clocks, { time, arrived }] of this.#blocks) {
      // Threads that have exited do not arrive: their work is ordered, as at barriers of the block.
      clocks.epochs.forEach((epoch, thread) => {
        if (epoch >= time && !arrived.has(thread)) this.#times.set(keyOf.thread(clocks.base + thread), epoch + 1);
      });
    }
    return Knowledge.joined([...this.#known, new Knowledge(this.#times, this.#times)], () => false);
  }
}
