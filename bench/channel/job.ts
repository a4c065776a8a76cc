/**
 * The requests to a pair of processes that streams frames, and their answers: one line each.
 *
 * @module
 */

/** A round of frames. */
export interface Job {
  /** The number of frames, including the first ones, which are not counted. */
  readonly frames: number;
  readonly slots: number;
  /** A multiple of 16. */
  readonly slotByteLength: number;
  /** Milliseconds of sleep after each frame; 0 for no sleep. */
  readonly interval: number;
  /** Whether the host rather than a stream waits until a slot has been read. In poolpass, the host always waits. */
  readonly isHostWaiting: boolean;
  /** The number of the first frame. The content of a frame depends on its number. */
  readonly firstFrame: number;
}

/** The first line, which is printed when the processes are ready for jobs. */
export interface Greeting {
  /** The device's name, for example "NVIDIA H200". */
  readonly device: string;
  readonly isSoftware: boolean;
  /** The versions of the runtime and the libraries. */
  readonly versions: string;
}

/** The times of a round, in nanoseconds since the first clock sample. Each array has one element per frame. */
export interface RoundTimes {
  /** When the host sent the frame, by the producer's clock. All other times are by the device's clock. */
  readonly sent: readonly number[];
  readonly writeStart: readonly number[];
  readonly writeEnd: readonly number[];
  readonly readStart: readonly number[];
  readonly readEnd: readonly number[];
  /** The number of words that differ from what was written. */
  readonly wrongWords: readonly number[];
  /** Samples of both clocks, the first half before the round and the second half after it. */
  readonly clocks: readonly (readonly [before: number, device: number, after: number])[];
}

/** Formats a job as a line, which programs in all languages can read. */
export function formatJob(job: Job): string {
  const { frames, slots, slotByteLength, interval, isHostWaiting, firstFrame } = job;
  return [frames, slots, slotByteLength, interval, Number(isHostWaiting), firstFrame].join(" ");
}

/** Parses the line of a job. */
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
