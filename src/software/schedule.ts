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
export function seedOf(schedule: Schedule): number | undefined {
  return schedule.startsWith("random:") ? Number(schedule.slice("random:".length)) : undefined;
}

/** Returns the next of some numbers of 32 bits. */
export type RandomNumbers = () => number;

/** The numbers of a seed. */
export function randomNumbers(seed: number): RandomNumbers {
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
