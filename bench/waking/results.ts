/**
 * The results of the measurement in one runtime.
 *
 * @module
 */
import type { Times } from "../harness/measurement.ts";

/** Milliseconds of pause before each sample; 0 for samples back to back. They cover all intervals of the poller. */
export const pauseMilliseconds = [0, 20, 120] as const;

/** The output of `measure.ts`, as JSON. */
export interface WakingResult {
  /** The times of each wait, for each of the pauses. */
  readonly waits: Readonly<Record<string, readonly Times[]>>;
  /** The times until each observer notices that a process was killed. */
  readonly deaths: Readonly<Record<string, Times>>;
  readonly idle: readonly IdleShares[];
}

/** The shares of one processor that processes use while they are idle. */
export interface IdleShares {
  readonly connections: number;
  readonly exporter: number;
  readonly importer: number;
}
