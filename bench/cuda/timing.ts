/**
 * How works are timed: as in the programs in other languages.
 *
 * @module
 */
import { numberOf, type Request } from "../sharing/contract.ts";

/** What is done again and again. */
export interface Batch {
  /** Done first, untimed. */
  prepare?(operations: number): void;
  /** What is timed: so many operations. */
  run(operations: number): void;
  /** Done afterwards, untimed: waits for the GPU. */
  settle?(): void;
}

/**
 * Nanoseconds for each operation, of samples. A sample is as many batches as take `sampleTime` milliseconds. The same
 * is done first for `warmUpTime` milliseconds that are not counted: a process that has waited for its turn runs on a
 * processor that has slowed down, on which short calls take up to twice as long.
 */
export function timeBatches(request: Request, { prepare, run, settle }: Batch): number[] {
  const operations = numberOf(request, "batch", 1);
  const warmUpTime = Number(request.warmUpTime ?? 0);
  const sampleTime = Number(request.sampleTime ?? 0);
  const timeBatch = () => {
    prepare?.(operations);
    const start = performance.now();
    run(operations);
    const elapsed = performance.now() - start;
    settle?.();
    return elapsed;
  };
  const warmUpStart = performance.now();
  while (performance.now() - warmUpStart < warmUpTime) timeBatch();
  const times: number[] = [];
  for (let sample = 0; sample < request.repetitions; sample++) {
    let [elapsed, batches] = [0, 0];
    do {
      elapsed += timeBatch();
      batches++;
    } while (elapsed < sampleTime);
    times.push(elapsed * 1e6 / (batches * operations));
  }
  return times;
}
