/**
 * How works are timed: as in the programs in other languages.
 *
 * @module
 */
import { numberOf, type Request } from "../sharing/contract.ts";

/** What is done in each sample. */
export interface Batch {
  /** Done first, untimed. */
  prepare?(operations: number): void;
  /** What is timed: so many operations. */
  run(operations: number): void;
  /** Done afterwards, untimed: waits for the GPU. */
  settle?(): void;
}

/** Nanoseconds for each operation, of batches of them, the first of which are not counted. */
export function timeBatches(request: Request, { prepare, run, settle }: Batch): number[] {
  const operations = numberOf(request, "batch", 1);
  const warmUp = Number(request.warmUp ?? 0);
  const times: number[] = [];
  for (let sample = -warmUp; sample < request.repetitions; sample++) {
    prepare?.(operations);
    const start = performance.now();
    run(operations);
    const elapsed = performance.now() - start;
    settle?.();
    if (sample >= 0) times.push(elapsed * 1e6 / operations);
  }
  return times;
}
