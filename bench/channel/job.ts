/**
 * What is asked of a pair of processes that streams frames, and what it answers: a line each way.
 *
 * @module
 */

/** A round of frames. */
export interface Job {
  /** Frames, those that come first and are not counted among them. */
  readonly frames: number;
  readonly slots: number;
  /** A multiple of 16. */
  readonly slotByteLength: number;
  /** Milliseconds of sleep after each frame; at once where that is 0. */
  readonly interval: number;
  /** Whether the host waits until a slot has been read, where otherwise a stream may. Ours always does. */
  readonly isHostWaiting: boolean;
  /** The number of the first frame, from which its contents are made. */
  readonly firstFrame: number;
}

/** Said once, when the processes are ready for jobs. */
export interface Greeting {
  /** What it runs on: "NVIDIA H200", say. */
  readonly device: string;
  readonly isSoftware: boolean;
  /** Of what it is made of. */
  readonly versions: string;
}

/** Times of the device since a moment of the round, in nanoseconds, each an element for each frame. */
export interface RoundTimes {
  /** When the host asked to send it, by the producer's own clock. */
  readonly sent: readonly number[];
  readonly writeStart: readonly number[];
  readonly writeEnd: readonly number[];
  readonly readStart: readonly number[];
  readonly readEnd: readonly number[];
  /** Words that were not what was written. */
  readonly wrongWords: readonly number[];
  /** A look at both clocks, before the round and after: the host's, the device's, the host's. */
  readonly clocks: readonly (readonly [before: number, device: number, after: number])[];
}

/** As the programs in other languages read it. */
export function formatJob(job: Job): string {
  const { frames, slots, slotByteLength, interval, isHostWaiting, firstFrame } = job;
  return [frames, slots, slotByteLength, interval, Number(isHostWaiting), firstFrame].join(" ");
}

/** The job of a line. */
export function parseJob(line: string): Job {
  const [frames, slots, slotByteLength, interval, isHostWaiting, firstFrame] = line.split(" ").map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return { frames, slots, slotByteLength, interval, isHostWaiting: isHostWaiting !== 0, firstFrame };
}
