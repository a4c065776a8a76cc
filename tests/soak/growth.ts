/**
 * How much a process holds, and whether that grows.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";

/** What a process holds of the system; of a pool, bytes. */
export interface Figures {
  /** Bytes of memory that are resident. */
  readonly rss: number;
  /** Bytes that JavaScript's objects take after a collection. */
  readonly heap: number;
  readonly descriptors: number;
  readonly used?: number;
  readonly reserved?: number;
}

/** How much more may be there after a million rounds than after a thousand: what is kept to be used again. */
const slack = {
  /** Bytes: the engine sizes its heap by what is allocated between two collections. */
  rss: 128 * 2 ** 20,
  heap: 2 * 2 ** 20,
  /** Events of as many offers as there are at once. */
  descriptors: 64,
  used: 0,
  reserved: 0,
} as const;

/** Looks at this process, after a collection: needs `--v8-flags=--expose-gc`. */
export function measure(): Figures {
  (globalThis as unknown as { gc(): void }).gc();
  const status = readFileSync("/proc/self/status", "utf8");
  const kibibytes = Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
  return {
    rss: kibibytes * 1024,
    heap: Deno.memoryUsage().heapUsed,
    descriptors: readdirSync("/proc/self/fd").length,
  };
}

/** Figures of several processes over time. */
export class Growth {
  readonly #samples: (readonly Figures[])[] = [];

  add(figures: readonly Figures[]): void {
    this.#samples.push(figures);
  }

  /** What has grown from the first sample, after a thousand rounds, to the last. */
  verdicts(what: string): string[] {
    const first = this.#samples[0] ?? [];
    const last = this.#samples.at(-1) ?? [];
    return first.flatMap((begin, index) =>
      (["rss", "heap", "descriptors", "used", "reserved"] as const)
        .filter((name) => (last[index]![name] ?? 0) > (begin[name] ?? 0) + slack[name])
        .map((name) => `${what}, process ${index}: ${name} from ${begin[name]} to ${last[index]![name]}`)
    );
  }
}
