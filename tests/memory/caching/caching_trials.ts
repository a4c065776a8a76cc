/**
 * Runs traces, and shortens a trace that fails.
 *
 * @module
 */
import { AssertionError } from "@std/assert";
import { describeOperation, type Operation, OperationSource, type TraceSettings } from "./caching_operations.ts";
import { type Bench, Trace } from "./caching_trace.ts";
import { randomFor } from "../../support/ptx_mutations.ts";

/** Creates and releases the benches that traces run on. */
export interface BenchMaker {
  readonly isFake: boolean;
  readonly mayHold: boolean;
  make(): Bench;
  /** Called after a trace. With `hasFailed`, the trace may have left resources. */
  release(bench: Bench, hasFailed: boolean): void;
}

/** Runs the trace of a seed and returns its number of operations. Throws with the shortest trace that fails. */
export async function runTrace(maker: BenchMaker, seed: number): Promise<number> {
  const source = new OperationSource(randomFor(`trace ${seed}`), { devices: 2, ...maker });
  const operations: Operation[] = [];
  const error = await attempt(maker, source.settings, function* (trace) {
    yield* source.first();
    for (let index = 0; index < source.length; index++) {
      const operation = source.next(trace);
      if (operation !== undefined) yield operation;
    }
  }, operations);
  if (error === undefined) return operations.length;
  const shortest = await shorten(maker, source.settings, operations);
  const last = await attempt(maker, source.settings, () => shortest) ?? error;
  const settings = Object.entries(source.settings).map(([name, value]) => `${name} ${value}`).join(", ");
  const lines = [`seed ${seed}: ${messageOf(last)}`, settings, ...shortest.map(describeOperation)];
  throw new AssertionError(lines.join("\n  "), { cause: last });
}

/** Runs operations and returns the error that was thrown, if any. Appends each operation to `done`. */
async function attempt(
  maker: BenchMaker,
  settings: TraceSettings,
  operations: (trace: Trace) => Iterable<Operation>,
  done: Operation[] = [],
): Promise<unknown> {
  const bench = maker.make();
  let trace: Trace | undefined;
  let failure: unknown;
  try {
    trace = new Trace(bench, settings);
    for (const operation of operations(trace)) {
      done.push(operation);
      trace.do(operation);
    }
    await trace.finish();
  } catch (error) {
    failure = error ?? new Error("Something was thrown");
    await trace?.abandon();
  } finally {
    trace?.close();
  }
  try {
    maker.release(bench, failure !== undefined);
  } catch (error) {
    failure ??= error;
  }
  return failure;
}

/** Removes operations, many at a time and then fewer, as long as the rest still fails. */
async function shorten(maker: BenchMaker, settings: TraceSettings, operations: Operation[]): Promise<Operation[]> {
  let shortest = operations;
  for (let length = Math.ceil(operations.length / 2); length >= 1; length = length === 1 ? 0 : Math.ceil(length / 2)) {
    for (let begin = 0; begin < shortest.length;) {
      const without = shortest.toSpliced(begin, length);
      if (await attempt(maker, settings, () => without) === undefined) begin += length;
      else shortest = without;
    }
  }
  return shortest;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
