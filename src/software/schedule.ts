/**
 * The order in which a software device runs work that CUDA leaves unordered.
 *
 * @module
 */
import { shown, whatIs } from "../support/validation.ts";
import { TypeError } from "../support/program_errors.ts";

/**
 * The rule that determines which stream runs next: the stream that was created first (`oldest`) or last (`newest`), or
 * a random stream. With `newest`, the blocks, warps and threads of kernels run from the last to the first, and with
 * `random` in a random order.
 */
export type Schedule = "oldest" | "newest" | `random:${number}`;

/**
 * Chooses one of `count` streams, which are sorted from the oldest to the newest. Returns the index of the chosen
 * stream.
 */
export type StreamChoice = (count: number) => number;

/** Returns a function that chooses streams according to a schedule. */
export function streamChoiceOf(schedule: Schedule): StreamChoice {
  if (schedule === "oldest") return () => 0;
  if (schedule === "newest") return (count) => count - 1;
  const random = randomNumbers(seedOf(schedule)!);
  return (count) => random() % count;
}

/** Returns the seed of a random schedule, or undefined for other schedules. */
function seedOf(schedule: Schedule): number | undefined {
  return schedule.startsWith("random:") ? Number(schedule.slice("random:".length)) : undefined;
}

/** A pseudorandom number generator: each call returns the next number, an unsigned 32-bit integer. */
type RandomNumbers = () => number;

/** Returns a pseudorandom number generator with the given seed. */
function randomNumbers(seed: number): RandomNumbers {
  let state = seed | 0;
  return () => {
    state = state + 0x9e3779b9 | 0;
    let mixed = Math.imul(state ^ state >>> 16, 0x85ebca6b);
    mixed = Math.imul(mixed ^ mixed >>> 13, 0xc2b2ae35);
    return (mixed ^ mixed >>> 16) >>> 0;
  };
}

/** The schedule that this process uses instead of `"random"`, with the seed. Undefined until it is first needed. */
let chosen: Schedule | undefined;

/**
 * Returns the schedule that an option, or otherwise an environment variable, specifies. For `"random"`, chooses a seed
 * once per process, and prints it.
 *
 * @throws {TypeError} If the option is not a valid schedule
 * @throws {RangeError} If the variable is not a valid schedule
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
    // Prints the schedule immediately, because a process that hangs or is killed could not print the seed later.
    console.error(`poolpass: the schedule is POOLPASS_SOFTWARE_SCHEDULE=${chosen}`);
  }
  return chosen;
}

/**
 * A cyclic order of threads: ascending from `start`, and then from 0. If `isReversed`, each index is subtracted from
 * the last index.
 */
export interface ThreadOrder {
  readonly start: number;
  readonly isReversed: boolean;
}

/** The order in which a launch runs its blocks, warps and threads. */
export interface KernelOrder {
  /**
   * Returns the index of the block at a position in the order. `count` is the number of blocks; `position` starts at 0.
   */
  blockAt(position: number, count: number): number;
  /** Returns a permutation of the indices of a block's `count` warps. */
  warps(count: number): readonly number[];
  /** Returns the order of `count` threads: those of a warp, or those along one dimension of a block. */
  threads(count: number): ThreadOrder;
}

/** The order in which blocks, warps and threads run from the last to the first. */
const reversed: KernelOrder = {
  blockAt: (position, count) => count - 1 - position,
  warps: (count) => Array.from({ length: count }, (_, index) => count - 1 - index),
  threads: () => ({ start: 0, isReversed: true }),
};

/**
 * Returns a function that returns the order of the next launch each time it is called. Returns undefined if all
 * launches run in ascending order.
 */
export function kernelOrders(schedule: Schedule | undefined): (() => KernelOrder) | undefined {
  if (schedule === "newest") return () => reversed;
  const seed = schedule === undefined ? undefined : seedOf(schedule);
  if (seed === undefined) return undefined;
  let launches = 0;
  return () => new RandomOrder(randomNumbers(seed + Math.imul(++launches, 0x632be5ab)));
}

/** Yields the indices of `count` threads in the given order. */
export function* inOrder(count: number, { start, isReversed }: ThreadOrder): Generator<number> {
  for (let step = 0; step < count; step++) {
    const index = (step + start) % count;
    yield isReversed ? count - 1 - index : index;
  }
}

/** The number of rounds of the Feistel network that permutes the blocks of a grid. */
const rounds = 4;
/** The maximum number of blocks of a grid that are permuted. Larger grids run in ascending order. */
const mostBlocks = 2 ** 32;

/** A pseudorandom order of blocks, warps and threads. */
class RandomOrder implements KernelOrder {
  readonly #random: RandomNumbers;
  readonly #keys: readonly number[];

  constructor(random: RandomNumbers) {
    this.#random = random;
    this.#keys = Array.from({ length: rounds }, random);
  }

  /**
   * Computes a permutation of the blocks without a table. A Feistel network permutes all numbers with a certain even
   * number of bits; it is applied repeatedly until the result is the index of a block.
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
