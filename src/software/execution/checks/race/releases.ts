import { orderBits } from "../../../abi/check_state.ts";
import type { BlockClocks } from "./block_clocks.ts";
import { Knowledge } from "./knowledge.ts";
import { Message, type Release } from "./messages.ts";

/** A strong write, by the bits of its order. */
interface StrongWrite {
  readonly offset: number;
  readonly bytes: number;
  readonly order: number;
  /** Whether it reads first, as atomics do. */
  readonly isUpdate: boolean;
}

/** An atomic operation. */
interface Update {
  readonly thread: number;
  readonly bytes: number;
}

/** An arrival at a barrier in memory, or a test of its phase, by the bits of its order. */
interface PhasedAccess {
  readonly offset: number;
  readonly order: number;
  readonly arrives: boolean;
  /** The parity of the phase, before the access. */
  readonly parity: number;
}

/** A barrier in memory: what was released in the phases that are complete, and in these and the current one. */
interface Phases {
  parity: number;
  completed: Message | undefined;
  arriving: Message | undefined;
}

/** What orders threads by memory: releases and acquisitions, by accesses and by fences. */
export class Releases {
  /** By offset. */
  readonly #messages = new Map<number, Message>();
  readonly #phases = new Map<number, Phases>();
  /** By offsets, what sequentially consistent fences have released before the last strong write. */
  readonly #fenced = new Map<number, Knowledge>();
  /** By offsets, the last strong write, if it was an atomic operation whose result the thread has got. */
  readonly #updates = new Map<number, Update>();

  /** A strong read. */
  read(clocks: BlockClocks, local: number, offset: number, order: number): void {
    const isWide = (order & orderBits.wide) !== 0;
    const message = this.#messages.get(offset);
    if (message !== undefined) clocks.orderOf(local).noteRead(offset, message, isWide);
    const fenced = isWide ? this.#fenced.get(offset) : undefined;
    if (fenced !== undefined) clocks.fences.observe(local, fenced);
    if ((order & orderBits.acquire) === 0) return;
    const acquired = clocks.orderIfAny(local)?.acquire(clocks.block, isWide, offset);
    if (acquired !== undefined) clocks.acquire(local, acquired);
  }

  /** A strong write, after it was compared with others. */
  write(clocks: BlockClocks, local: number, { offset, bytes, order, isUpdate }: StrongWrite): void {
    const isWide = (order & orderBits.wide) !== 0;
    const message = this.#messages.get(offset);
    const releases = clocks.orderIfAny(local)?.releases(offset, clocks.block, isWide) ?? [];
    if ((order & orderBits.release) !== 0) {
      const release = { block: clocks.block, isWide, knowledge: clocks.release(local) };
      clocks.orderOf(local).noteRelease(offset, release);
      releases.push(release);
    }
    // An update goes on with what was released before.
    const after = releases.reduce<Message | undefined>(added, isUpdate ? message : undefined);
    if (after !== undefined) this.#messages.set(offset, after);
    else if (message !== undefined) this.#messages.delete(offset);
    if (isWide && (order & orderBits.hasResult) !== 0) {
      this.#updates.set(offset, { thread: clocks.base + local, bytes });
    } else this.#updates.delete(offset);
    const before = isUpdate ? this.#fenced.get(offset) ?? Knowledge.none : Knowledge.none;
    const own = isWide ? clocks.fences.releasedBefore(local) : Knowledge.none;
    // Mostly, only the writers have fenced, and have released nothing else: joining that once is enough.
    const isOfWriters = own === releases[0]?.knowledge && releases.length === 1 && releases[0].isWide &&
      before === (isUpdate ? message?.wide ?? Knowledge.none : Knowledge.none);
    const fenced = isOfWriters ? after!.wide : before.and(own);
    if (fenced !== Knowledge.none) this.#fenced.set(offset, fenced);
    else this.#fenced.delete(offset);
  }

  /**
   * Whether a thread has made the last strong write of these bytes, by an atomic operation whose result it has got: then
   * it comes behind all others that are atomic, as the last of the blocks that count themselves does.
   */
  isLastUpdate(thread: number, offset: number, bytes: number): boolean {
    const update = this.#updates.get(offset);
    return update !== undefined && update.thread === thread && update.bytes === bytes;
  }

  /** An access to a barrier in memory: who sees that a phase is complete acquires what was released in it, and no more. */
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

  /** A weak store, behind which nothing can be acquired. */
  overwrite(offset: number, bytes: number): void {
    if (this.#messages.size + this.#phases.size + this.#fenced.size + this.#updates.size === 0) return;
    for (let at = offset; at < offset + bytes; at++) {
      this.#messages.delete(at);
      this.#fenced.delete(at);
      this.#updates.delete(at);
      this.#phases.delete(at);
    }
  }

  /** Forgets everything. */
  clear(): void {
    this.#messages.clear();
    this.#phases.clear();
    this.#fenced.clear();
    this.#updates.clear();
  }
}

/** A fence. */
export function fence(clocks: BlockClocks, local: number, order: number): void {
  const isWide = (order & orderBits.wide) !== 0;
  const threadOrder = clocks.orderOf(local);
  if ((order & orderBits.acquire) !== 0) clocks.acquire(local, threadOrder.acquire(clocks.block, isWide));
  const isSequential = isWide && (order & orderBits.sequential) !== 0;
  if (isSequential) threadOrder.release(clocks.fence(local), isWide);
  else if ((order & orderBits.release) !== 0) threadOrder.release(clocks.release(local), isWide);
}

function added(message: Message | undefined, release: Release): Message {
  return message === undefined ? Message.of(release) : message.with(release);
}
