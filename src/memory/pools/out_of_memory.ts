import { CudaError, cudaErrorNumbers } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";

/** What POOLPASS_DEBUG=1 records of an allocation. */
export interface Origin {
  readonly byteLength: number;
  /** The call stack. */
  readonly stack: string;
  /** The `performance.now()` of the allocation. */
  readonly time: number;
}

/** Buffers of one size, or allocated in one place. */
export interface Holders {
  count: number;
  /** Bytes of all of them. */
  byteLength: number;
  /** Where they were allocated, if that was recorded. */
  readonly place?: string | undefined;
  /** When the oldest of them was allocated, if that was recorded. */
  since?: number | undefined;
}

/** A buffer, for messages that list the largest. */
export interface HeldBuffer {
  readonly byteLength: number;
  /** The `performance.now()` of the allocation; 0 if it was not recorded. */
  readonly time: number;
}

/**
 * The size in bytes from which the time of an allocation is recorded. Asking for the time costs 25 ns, a tenth of a small
 * allocation, but nothing beside the work that fills a large one.
 */
const timedByteLength = 2 ** 24;
/** How many groups of holders a message lists. */
const maximumListed = 4;
/** Matches a line of a call stack that ends with a path, a line and a column. */
const isInFile = /[/\\].*:\d+:\d+\)?$/;
/** This file in the sources. In a package, the whole library is one file of another name. */
const sourceFile = "src/memory/pools/out_of_memory.ts";

/** Why so many bytes can never be had, and what to do. */
export interface Refusal {
  readonly why: string;
  readonly advice: string;
}

/** Why a pool or an allocator can never have more than its maxSize. */
export function refusalOfMaxSize(maxSize: number): Refusal {
  return { why: `its maxSize is ${maxSize} bytes`, advice: "ask for less, or create it with a larger maxSize" };
}

/** The error for a lack of memory that the driver has not reported itself. */
export function outOfMemory(why: string): CudaError {
  return new CudaError(cudaErrorNumbers.cudaErrorMemoryAllocation, "cudaMallocFromPoolAsync", why);
}

/** Whether an error says that there is too little memory. */
export function isOutOfMemory(error: unknown): error is CudaError {
  return error instanceof CudaError && error.code === "cudaErrorMemoryAllocation";
}

/** Groups buffers by the place where they were allocated. */
export function holdersByOrigin(origins: Iterable<Origin>): Holders[] {
  const holders = new Map<string, Holders>();
  for (const { byteLength, stack, time } of origins) {
    const found = holders.get(stack) ?? { count: 0, byteLength: 0, place: placeIn(stack), since: Infinity };
    found.count++;
    found.byteLength += byteLength;
    found.since = Math.min(found.since!, time);
    holders.set(stack, found);
  }
  return [...holders.values()];
}

/** The time to record of an allocation; 0 if it is too small for that. */
export function timeOfAllocation(byteLength: number): number {
  return byteLength < timedByteLength ? 0 : performance.now();
}

/** Groups buffers by their sizes. */
export function holdersBySize(buffers: Iterable<HeldBuffer>): Holders[] {
  const holders = new Map<number, Holders>();
  for (const { byteLength, time } of buffers) {
    const found: Holders = holders.get(byteLength) ?? { count: 0, byteLength: 0 };
    found.count++;
    found.byteLength += byteLength;
    if (time > 0) found.since = Math.min(found.since ?? Infinity, time);
    holders.set(byteLength, found);
  }
  return [...holders.values()];
}

/** Lists the holders that have the most bytes: `"12 buffers, 805306368 bytes, the oldest for 3.2 s, at main.ts:7:9"`. */
export function describeHolders(holders: readonly Holders[]): string {
  const sorted = [...holders].sort((one, other) => other.byteLength - one.byteLength);
  const listed = sorted.slice(0, maximumListed).map(describe);
  const rest = sorted.slice(maximumListed);
  if (rest.length > 0) {
    const count = rest.reduce((sum, each) => sum + each.count, 0);
    listed.push(`${count} more, ${rest.reduce((sum, each) => sum + each.byteLength, 0)} bytes`);
  }
  return listed.join("; ");
}

function describe({ count, byteLength, place, since }: Holders): string {
  const age = since === undefined
    ? ""
    : `, ${count === 1 ? "" : "the oldest "}for ${((performance.now() - since) / 1000).toFixed(1)} s`;
  return `${countOf(count, "buffer")}, ${byteLength} bytes${age}${place === undefined ? "" : `, allocated ${place}`}`;
}

/** The first line of a call stack that names a file outside of the library. */
export function placeIn(stack: string): string | undefined {
  const library = libraryPath();
  return stack.split("\n").slice(1).find((line) => isInFile.test(line) && !line.includes(library))?.trim();
}

/** What the lines of a call stack that lie in the library contain. A bundled library cannot use `import.meta`. */
function libraryPath(): string {
  const line = new Error().stack!.split("\n").find((line) => isInFile.test(line))!;
  const file = line.replace(/:\d+:\d+\)?$/, "").replace(/^.*[(@ ]/, "");
  return file.endsWith(sourceFile) ? file.slice(0, -sourceFile.length) + "src/" : file;
}
