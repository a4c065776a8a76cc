/**
 * Measures the resources of a process and finds those that grow.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";

/** The resources of a process, and the bytes of a pool. */
export interface Measurements {
  /** Resident memory in bytes. */
  readonly rss: number;
  /** Bytes of JavaScript objects after a garbage collection. */
  readonly heap: number;
  readonly descriptors: number;
  readonly used?: number;
  readonly reserved?: number;
}

/** How much more a process may hold after a million rounds than after a thousand, because of what is kept for reuse. */
const slack = {
  /** In bytes. The engine sizes its heap by the allocations between two collections. */
  rss: 128 * 2 ** 20,
  heap: 2 * 2 ** 20,
  /** Events of all concurrent offers. */
  descriptors: 64,
  used: 0,
  reserved: 0,
} as const;

/** Measures this process after a garbage collection. Needs `--v8-flags=--expose-gc`. */
export function measure(): Measurements {
  (globalThis as unknown as { gc(): void }).gc();
  const status = readFileSync("/proc/self/status", "utf8");
  const kibibytes = Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
  return {
    rss: kibibytes * 1024,
    heap: Deno.memoryUsage().heapUsed,
    descriptors: readdirSync("/proc/self/fd").length,
  };
}

/** Measurements of several processes over time. */
export class Growth {
  readonly #samples: (readonly Measurements[])[] = [];

  add(measurements: readonly Measurements[]): void {
    this.#samples.push(measurements);
  }

  /** Returns what has grown from the first sample, which is taken after a thousand rounds, to the last one. */
  findGrowth(what: string): string[] {
    const first = this.#samples[0] ?? [];
    const last = this.#samples.at(-1) ?? [];
    return first.flatMap((begin, index) =>
      (["rss", "heap", "descriptors", "used", "reserved"] as const)
        .filter((name) => (last[index]![name] ?? 0) > (begin[name] ?? 0) + slack[name])
        .map((name) => `${what}, process ${index}: ${name} from ${begin[name]} to ${last[index]![name]}`)
    );
  }
}
