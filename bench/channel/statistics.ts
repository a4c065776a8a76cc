/**
 * Statistics of a round of frames.
 *
 * @module
 */
import type { RoundTimes } from "./job.ts";

/** The result of a round, without the uncounted frames. Times are in microseconds, with one element per frame. */
export interface RoundResult {
  readonly framesPerSecond: number;
  /** From the call of `send` to the start of the kernel that reads. */
  readonly fromSend: readonly number[];
  /** From the end of the kernel that writes to the start of the kernel that reads. */
  readonly fromWritten: readonly number[];
  /** The durations of the kernels that write and read. */
  readonly writing: readonly number[];
  readonly reading: readonly number[];
  /** The largest possible error between the host's clock and the device's, in microseconds. */
  readonly clockError: number;
}

/**
 * Computes the result of a round.
 *
 * @throws {Error} If a frame was not read or is wrong
 */
export function resultOf(times: RoundTimes, { uncounted }: { uncounted: number }): RoundResult {
  const { sent, writeStart, writeEnd, readStart, readEnd, wrongWords } = times;
  const wrongFrame = wrongWords.findIndex((count) => count > 0);
  if (wrongFrame >= 0) throw new Error(`frame ${wrongFrame} has ${wrongWords[wrongFrame]} wrong words`);
  const unread = readEnd.findIndex((end, i) => !(end > readStart[i]!));
  if (unread >= 0 || readEnd.length !== sent.length) throw new Error(`frame ${unread} was not read`);
  const { toDevice, error } = fitClock(times);
  const microseconds = (from: readonly number[], to: readonly number[]) =>
    to.map((time, i) => (time - from[i]!) / 1000).slice(uncounted);
  return {
    framesPerSecond: (sent.length - uncounted) / (readEnd.at(-1)! - readEnd[uncounted - 1]!) * 1e9,
    fromSend: microseconds(sent.map(toDevice), readStart),
    fromWritten: microseconds(writeEnd, readStart),
    writing: microseconds(writeStart, writeEnd),
    reading: microseconds(readStart, readEnd),
    clockError: error / 1000,
  };
}

/** Converts host times to device times, along a line through the samples before and after the round. */
function fitClock({ clocks }: RoundTimes): { toDevice: (host: number) => number; error: number } {
  const half = clocks.length / 2;
  const [first, last] = [clocks.slice(0, half), clocks.slice(half)].map((samples) => {
    // The device's time lies between the two times of the host.
    const least = Math.max(...samples.map(([, device, after]) => device - after));
    const most = Math.min(...samples.map(([before, device]) => device - before));
    return { host: samples[0]![0], offset: (least + most) / 2, error: Math.abs(most - least) / 2 };
  }) as [Point, Point];
  const slope = (last.offset - first.offset) / (last.host - first.host);
  return {
    toDevice: (host) => host + first.offset + slope * (host - first.host),
    error: Math.max(first.error, last.error),
  };
}

interface Point {
  readonly host: number;
  readonly offset: number;
  readonly error: number;
}
