/**
 * The time of the system's latest tick, for measurements so frequent that a precise clock would cost too much.
 *
 * @module
 */
import { dlopen, ffiRefusal, jsRuntime, platform } from "./host.ts";

/** `CLOCK_MONOTONIC`, and `CLOCK_MONOTONIC_COARSE`, for which Linux only reads memory. */
const [preciseClock, coarseClock] = [1, 6];
/** Loading the native clock takes as long as some hundred readings of the runtime's. */
const readingsBeforeLoading = 64;

let readings = 0;
let clock: (() => number) | undefined;

/**
 * The time as `performance.now()` has it, up to a tick of the system (1 to 10 ms) late. In Deno, where
 * `performance.now()` takes 130 ns, it takes 20 ns.
 */
export function coarseTime(): number {
  if (clock === undefined) {
    if (++readings < readingsBeforeLoading) return performance.now();
    clock = openClock() ?? (() => performance.now());
  }
  return clock();
}

/** Undefined where the runtime's clock is as fast, or the system's cannot be read. */
function openClock(): (() => number) | undefined {
  if (jsRuntime !== "deno" || platform().os !== "linux" || ffiRefusal() !== undefined) return undefined;
  const timespec = new Int32Array(4);
  const bytes = new Uint8Array(timespec.buffer);
  try {
    const { clock_gettime } = dlopen("libc.so.6", {
      clock_gettime: { parameters: ["i32", /* clockid_t clockid */ "buffer" /* struct timespec *tp */], result: "i32" },
    }).symbols;
    if (clock_gettime?.(coarseClock, bytes) !== 0) return undefined;
    // Seconds since the system's start and nanoseconds, of each the low word of two.
    const read = (clock: number): number => {
      clock_gettime(clock, bytes);
      return timespec[0]! * 1000 + timespec[2]! / 1e6;
    };
    const start = performance.now() - read(preciseClock);
    return () => start + read(coarseClock);
  } catch {
    return undefined;
  }
}
