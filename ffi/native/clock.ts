/**
 * The system's clocks, for measurements so frequent that the runtime's clock would be too slow, or that other processes
 * compare with theirs.
 *
 * @module
 */
import { addressOf, dlopen, ffiRefusal, jsRuntime, platform } from "./host.ts";

/**
 * The clock IDs `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_COARSE`. Linux keeps the time of the coarse clock in memory,
 * which makes it faster to read.
 */
const [preciseClock, coarseClock] = [1, 6];
const libc = "libc.so.6";
const symbols = {
  // Passing a buffer instead of its address takes half as long as the call itself.
  clock_gettime: { parameters: ["i32", /* clockid_t clockid */ "u64" /* struct timespec *tp */], result: "i32" },
} as const;
/**
 * Number of readings after which the native clock is loaded. Loading it takes as long as several hundred readings of
 * the runtime's clock.
 */
const readingsBeforeLoading = 64;

/** The number of times that the two clocks are compared. */
const sharedClockAttempts = 10;

let readings = 0;
let clock: (() => number) | undefined;

/**
 * Returns the same time as `performance.now()`, but lags behind it by up to one system tick (1 to 10 ms). A call takes
 * 20 ns in Deno, compared to 130 ns for `performance.now()`.
 */
export function coarseTime(): number {
  if (clock === undefined) {
    if (++readings < readingsBeforeLoading) return performance.now();
    clock = openClock() ?? (() => performance.now());
  }
  return clock();
}

/**
 * Opens the native clock. Returns undefined if the runtime's clock is as fast, or if the system's clock cannot be read.
 */
function openClock(): (() => number) | undefined {
  if (jsRuntime !== "deno" || platform().os !== "linux" || ffiRefusal() !== undefined) return undefined;
  try {
    const read = readerOf(coarseClock);
    const start = performance.now() - readerOf(preciseClock)() / 1e6;
    return () => start + read() / 1e6;
  } catch {
    return undefined;
  }
}

/**
 * Returns a function that returns the time of `CLOCK_MONOTONIC` in nanoseconds, which all processes of the machine
 * share, by the runtime's clock where that is faster.
 *
 * @throws {Error} If the system's clock cannot be read
 */
export function openSharedClock(): () => number {
  const read = readerOf(preciseClock);
  if (jsRuntime === "deno") return read;
  // Of several attempts, the shortest is the most exact.
  let shortest = Infinity, start = 0;
  for (let attempt = 0; attempt < sharedClockAttempts; attempt++) {
    const before = performance.now();
    const time = read();
    const after = performance.now();
    if (after - before >= shortest) continue;
    shortest = after - before;
    start = time - (before + after) / 2 * 1e6;
  }
  return () => start + performance.now() * 1e6;
}

/** Returns a function that reads a clock of the system, in nanoseconds. */
function readerOf(clock: number): () => number {
  const { clock_gettime } = dlopen(libc, symbols).symbols;
  const timespec = new Int32Array(new ArrayBuffer(16));
  const address = addressOf(timespec);
  if (clock_gettime?.(clock, address) !== 0) throw new Error(`The system has no clock ${clock}`);
  // `timespec` contains the seconds since boot and the nanoseconds as 64-bit integers. Only their low words are read.
  return () => {
    clock_gettime(clock, address);
    return timespec[0]! * 1e9 + timespec[2]!;
  };
}
