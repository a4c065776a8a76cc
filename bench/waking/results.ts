/**
 * What a runtime's measurement says.
 *
 * @module
 */
import type { Times } from "../measurement.ts";

/** Milliseconds of rest before each sample; 0 for one after the other. The poller then looks in turn in all its ways. */
export const restMilliseconds = [0, 20, 120] as const;

/** What `measure.ts` prints, as JSON. */
export interface WakingResult {
  /** By what is waited for: the times for each of the rests. */
  readonly waits: Readonly<Record<string, readonly Times[]>>;
  /** By who is to notice that a process was killed. */
  readonly deaths: Readonly<Record<string, Times>>;
  readonly idle: readonly IdleShares[];
}

/** Parts of a processor's time that processes take while nothing happens. */
export interface IdleShares {
  readonly connections: number;
  readonly exporter: number;
  readonly importer: number;
}
