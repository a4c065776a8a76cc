/**
 * What is said of a round of frames.
 *
 * @module
 */
import type { RoundTimes } from "./job.ts";

/** A round, without the frames that come first. Latencies are in microseconds, an element for each frame. */
export interface RoundResult {
  readonly framesPerSecond: number;
  /** From the call of `send` to the start of the kernel that reads. */
  readonly fromSend: readonly number[];
  /** From the end of the kernel that writes to the start of the kernel that reads. */
  readonly fromWritten: readonly number[];
  /** How long the kernels ran. */
  readonly writing: readonly number[];
  readonly reading: readonly number[];
  /** How far the host's clock and the device's may be off. */
  readonly clockError: number;
}

/** The number that a part of the numbers is below: 0.5 for the median. */
export function quantile(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]!;
}

/** @throws {Error} where a frame was not read, or was not what was written */
export function resultOf(times: RoundTimes, { uncounted }: { uncounted: number }): RoundResult {
  const { sent, writeStart, writeEnd, readStart, readEnd, wrongWords } = times;
  const wrongFrame = wrongWords.findIndex((count) => count > 0);
  if (wrongFrame >= 0) throw new Error(`frame ${wrongFrame} has ${wrongWords[wrongFrame]} wrong words`);
  const unread = readEnd.findIndex((end, i) => !(end > readStart[i]!));
  if (unread >= 0 || readEnd.length !== sent.length) throw new Error(`frame ${unread} was not read`);
  const { toDevice, error } = clockOf(times);
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

/** The device's time of the host's: the looks before the round and those after it are points of a line. */
function clockOf({ clocks }: RoundTimes): { toDevice: (host: number) => number; error: number } {
  const half = clocks.length / 2;
  const [first, last] = [clocks.slice(0, half), clocks.slice(half)].map((looks) => {
    // The device's look came after the host's first, and before its second.
    const least = Math.max(...looks.map(([, device, after]) => device - after));
    const most = Math.min(...looks.map(([before, device]) => device - before));
    return { host: looks[0]![0], offset: (least + most) / 2, error: Math.abs(most - least) / 2 };
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
