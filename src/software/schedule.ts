/**
 * The order in which a software device does what it may do in any order.
 *
 * @module
 */
import { shown, whatIs } from "../support/validation.ts";

/**
 * Which stream's work comes next: that of the stream that was created first or last, or of any. With `newest`, the
 * blocks, warps and threads of kernels run from the last to the first, and with `random` in any order.
 */
export type Schedule = "oldest" | "newest" | `random:${number}`;

/** Chooses among some streams, the oldest first. Takes how many there are, and returns an index. */
export type Choice = (count: number) => number;

/** The choice of a schedule. */
export function choiceOf(schedule: Schedule): Choice {
  if (schedule === "oldest") return () => 0;
  if (schedule === "newest") return (count) => count - 1;
  const random = randomNumbers(seedOf(schedule)!);
  return (count) => random() % count;
}

/** The seed of a random schedule. */
function seedOf(schedule: Schedule): number | undefined {
  return schedule.startsWith("random:") ? Number(schedule.slice("random:".length)) : undefined;
}

/** Returns the next of some numbers of 32 bits. */
type RandomNumbers = () => number;

/** The numbers of a seed. */
function randomNumbers(seed: number): RandomNumbers {
  let state = seed | 0;
  return () => {
    state = state + 0x9e3779b9 | 0;
    let mixed = Math.imul(state ^ state >>> 16, 0x85ebca6b);
    mixed = Math.imul(mixed ^ mixed >>> 13, 0xc2b2ae35);
    return (mixed ^ mixed >>> 16) >>> 0;
  };
}

/** What `"random"` means in this process. */
let chosen: Schedule | undefined;

/**
 * The schedule that an option or an environment variable names. Without a seed, one is chosen for the process, and
 * printed.
 *
 * @throws {TypeError} If the option names no schedule
 * @throws {RangeError} If the variable does not
 */
export function scheduleFrom(option: unknown, variable: string | undefined): Schedule | undefined {
  const wanted = option === undefined ? variable : option;
  if (wanted === undefined || option === undefined && wanted === "") return undefined;
  const where = option === undefined ? "POOLPASS_SOFTWARE_SCHEDULE" : "softwareSchedule";
  if (typeof wanted !== "string") {
    throw new TypeError(`Cannot use ${whatIs(wanted)} as ${where}: give "oldest", "newest", "random" or "random:SEED"`);
  }
  if (wanted === "random") return seeded();
  if (wanted === "oldest" || wanted === "newest" || /^random:\d{1,9}$/.test(wanted)) return wanted as Schedule;
  const kind = option === undefined ? RangeError : TypeError;
  throw new kind(
    `Cannot use ${
      shown(wanted)
    } as ${where}: it must be "oldest", "newest", "random", or "random:" and a number below ` +
      "10^9",
  );
}

function seeded(): Schedule {
  if (chosen === undefined) {
    chosen = `random:${Math.floor(Math.random() * 1e9)}`;
    // At once: a process that hangs and is killed says nothing later, nor does one whose test has failed.
    console.error(`poolpass: the schedule is POOLPASS_SOFTWARE_SCHEDULE=${chosen}`);
  }
  return chosen;
}

/** The order of some threads: starting with one of them, forwards or backwards, wrapping around. */
export interface ThreadOrder {
  readonly start: number;
  readonly isReversed: boolean;
}

/** The order of a launch. */
export interface KernelOrder {
  /** The block to run at a position of the order. */
  blockAt(position: number, count: number): number;
  /** The warps of a block, each once. */
  warps(count: number): readonly number[];
  /** The order of the threads of a warp, or of a dimension of a block. */
  threads(count: number): ThreadOrder;
}

/** Everything from the last to the first. */
const reversed: KernelOrder = {
  blockAt: (position, count) => count - 1 - position,
  warps: (count) => Array.from({ length: count }, (_, index) => count - 1 - index),
  threads: () => ({ start: 0, isReversed: true }),
};

/** The orders of the launches of a schedule, one after another. Undefined if everything runs in order. */
export function kernelOrders(schedule: Schedule | undefined): (() => KernelOrder) | undefined {
  if (schedule === "newest") return () => reversed;
  const seed = schedule === undefined ? undefined : seedOf(schedule);
  if (seed === undefined) return undefined;
  let launches = 0;
  return () => new RandomOrder(randomNumbers(seed + Math.imul(++launches, 0x632be5ab)));
}

/** The elements of an order, each once. */
export function* inOrder(count: number, { start, isReversed }: ThreadOrder): Generator<number> {
  for (let step = 0; step < count; step++) {
    const index = (step + start) % count;
    yield isReversed ? count - 1 - index : index;
  }
}

const rounds = 4;
/** The order of more blocks than this is not changed. */
const mostBlocks = 2 ** 32;

/** A random order, from a seed. */
class RandomOrder implements KernelOrder {
  readonly #random: RandomNumbers;
  readonly #keys: readonly number[];

  constructor(random: RandomNumbers) {
    this.#random = random;
    this.#keys = Array.from({ length: rounds }, random);
  }

  /**
   * A permutation that takes no memory: a Feistel network permutes the numbers of an even number of bits, and is applied
   * again to those that are not a block.
   */
  blockAt(position: number, count: number): number {
    if (count > mostBlocks) return position;
    const half = Math.max(1, Math.ceil((32 - Math.clz32(count - 1)) / 2));
    let block = position;
    do block = this.#permuted(block, half); while (block >= count);
    return block;
  }

  #permuted(number: number, half: number): number {
    const mask = 2 ** half - 1;
    let left = Math.floor(number / 2 ** half), right = number & mask;
    for (const key of this.#keys) [left, right] = [right, (left ^ mixed(right + key)) & mask];
    return left * 2 ** half + right;
  }

  warps(count: number): readonly number[] {
    const order = Array.from({ length: count }, (_, index) => index);
    for (let last = count - 1; last > 0; last--) {
      const other = this.#random() % (last + 1);
      [order[last], order[other]] = [order[other]!, order[last]!];
    }
    return order;
  }

  threads(count: number): ThreadOrder {
    return { start: this.#random() % count, isReversed: this.#random() % 2 === 1 };
  }
}

function mixed(number: number): number {
  const product = Math.imul(number ^ number >>> 15, 0x2c1b3c6d);
  return product ^ product >>> 12;
}
