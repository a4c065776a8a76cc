/**
 * Times workloads in the same way as the programs in other languages.
 *
 * @module
 */
import { numberOf, type Request } from "../sharing/contract.ts";

/** A batch of operations, which runs repeatedly. */
export interface Batch {
  /** Runs before the operations, untimed. */
  prepare?(operations: number): void;
  /** Runs the operations, timed. */
  run(operations: number): void;
  /** Runs after the operations, untimed. Waits for the GPU. */
  settle?(): void;
}

/**
 * Returns the nanoseconds per operation, for each sample. A sample runs batches until they have taken `sampleTime`
 * milliseconds. Uncounted batches run first for `warmUpTime` milliseconds, because the processor has slowed down while
 * the process waited for its turn: short calls then take up to twice as long.
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

/** Does the same as `timeBatches` with operations that are awaited one by one. */
export async function timeAwaited(request: Request, operation: () => Promise<void>): Promise<number[]> {
  const operations = numberOf(request, "batch", 1);
  const warmUpTime = Number(request.warmUpTime ?? 0);
  const sampleTime = Number(request.sampleTime ?? 0);
  const timeBatch = async () => {
    const start = performance.now();
    for (let i = 0; i < operations; i++) await operation();
    return performance.now() - start;
  };
  const warmUpStart = performance.now();
  while (performance.now() - warmUpStart < warmUpTime) await timeBatch();
  const times: number[] = [];
  for (let sample = 0; sample < request.repetitions; sample++) {
    let [elapsed, batches] = [0, 0];
    do {
      elapsed += await timeBatch();
      batches++;
    } while (elapsed < sampleTime);
    times.push(elapsed * 1e6 / (batches * operations));
  }
  return times;
}
