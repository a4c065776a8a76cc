/**
 * Proves that no two threads of a launch access the same bytes with at least one write, so that nothing has to be
 * checked while it runs.
 *
 * @module
 */
import { greatestDivisor, noBase, rangeOf } from "./domain.ts";
import type { KernelCode, Step } from "./kernel_code.ts";
import { accessOf, type CertainAccess, mayAccess, sharedAccessOf } from "./thread_state.ts";

/** The bytes around all accesses from the value of a parameter on: threads do not conflict there. */
export interface SeparateRange {
  /** The offset of the parameter among the packed ones. -1 if the bytes are addresses themselves. */
  readonly base: number;
  readonly begin: number;
  readonly end: number;
  readonly isWritten: boolean;
}

/** The accesses that were found by running a kernel for all threads. */
interface KernelAccesses {
  readonly certain: readonly CertainAccess[];
  readonly possible: ReadonlySet<Step>;
  /** Whether it has accessed variables, or memory of the block, by generic addresses. */
  readonly reachesElsewhere: boolean;
}

/** Accesses whose addresses differ by constants and by the iterations of loops. */
interface Cluster {
  readonly base: number;
  /** For each dimension of the launch, its term, and its least and its most coordinate. */
  readonly terms: readonly number[];
  readonly low: number[];
  readonly high: number[];
  readonly accesses: CertainAccess[];
  /** All bytes. */
  first: number;
  last: number;
  isWritten: boolean;
}

/** The memory that no other thread accesses, or that is never written. */
const harmlessSpaces = ["local", "param", "param::entry", "const"];
const mostClusters = 64;

/** Whether a kernel accesses global and shared memory by weak loads and stores only. */
export function hasOnlyWeakAccesses({ blocks }: KernelCode): boolean {
  return blocks.every(({ steps }) => steps.every(isWeak));
}

function isWeak(step: Step): boolean {
  const { row, modifiers } = step;
  if (row?.flow === "call") return false;
  if (!mayAccess(step)) return true;
  const kind = row?.traits.access;
  if (kind !== "read" && kind !== "write" || modifiers.includes("async")) return false;
  if (modifiers.some((modifier) => harmlessSpaces.includes(modifier))) return true;
  const access = sharedAccessOf(step) ?? accessOf(step);
  return access !== undefined && access !== "unknown" && access.access !== "atomic";
}

/**
 * The ranges in which the threads of a launch do not conflict, if that holds for all its accesses that begin at the same
 * parameter. Otherwise undefined.
 *
 * @param dimensions how many dimensions threads have; those behind are the iterations of loops
 */
export function separateRanges(
  { certain, possible, reachesElsewhere }: KernelAccesses,
  dimensions: number,
): SeparateRange[] | undefined {
  if (possible.size > 0 || reachesElsewhere) return undefined;
  const clusters: Cluster[] = [];
  for (const access of certain) {
    const { base } = access.form;
    const terms = Array.from({ length: dimensions }, (_, index) => access.form.terms[index] ?? 0);
    let cluster = clusters.find((known) => known.base === base && known.terms.every((term, at) => term === terms[at]));
    if (cluster === undefined) clusters.push(cluster = newCluster(base, terms));
    add(cluster, access);
    if (clusters.length > mostClusters) return undefined;
  }
  const isSeparate = clusters.every((cluster, index) =>
    isApart(cluster) && clusters.slice(0, index).every((other) => areApart(cluster, other))
  );
  return isSeparate ? rangesOf(clusters) : undefined;
}

/** Whether no two threads conflict by accesses that have the same terms for the dimensions of threads. */
export function threadsAreApart(accesses: readonly CertainAccess[], dimensions: number): boolean {
  return isApart(clusterOf(accesses, dimensions));
}

/** Whether no two threads access the same bytes by such accesses, even if they only read. */
export function threadsHaveOwnBytes(accesses: readonly CertainAccess[], dimensions: number): boolean {
  return hasOwnBytes(clusterOf(accesses, dimensions));
}

function clusterOf(accesses: readonly CertainAccess[], dimensions: number): Cluster {
  const { base, terms } = accesses[0]!.form;
  const cluster = newCluster(base, Array.from({ length: dimensions }, (_, index) => terms[index] ?? 0));
  for (const access of accesses) add(cluster, access);
  return cluster;
}

function newCluster(base: number, terms: readonly number[]): Cluster {
  const low = terms.map(() => Infinity), high = terms.map(() => -Infinity);
  return { base, terms, low, high, accesses: [], first: Infinity, last: -Infinity, isWritten: false };
}

function add(cluster: Cluster, access: CertainAccess): void {
  const { form, domain, byteLength } = access;
  const { low, high, terms } = cluster;
  for (const index of terms.keys()) {
    low[index] = Math.min(low[index]!, domain.low[index]!);
    high[index] = Math.max(high[index]!, domain.high[index]!);
  }
  const range = rangeOf(form, domain);
  cluster.first = Math.min(cluster.first, range.low);
  cluster.last = Math.max(cluster.last, range.high + byteLength);
  if (access.access !== "read") cluster.isWritten = true;
  cluster.accesses.push(access);
}

/** Whether each thread has bytes of its own in a cluster, or none is written. */
function isApart(cluster: Cluster): boolean {
  const { accesses, isWritten } = cluster;
  if (!isWritten) return true;
  // Memory that is read through a noncoherent cache must not be written at all.
  if (accesses.some(({ step: { row } }) => row?.traits.isNotCoherent === true)) return false;
  return hasOwnBytes(cluster);
}

/**
 * Whether each thread has bytes of its own in a cluster.
 *
 * In one iteration, the threads access a tile of memory. The loop advances by whole tiles, so threads are separate if
 * they are separate within each tile.
 */
function hasOwnBytes(cluster: Cluster): boolean {
  const { terms, low, high } = cluster;
  const steps = terms.map((term, index) => ({ step: Math.abs(term), count: high[index]! - low[index]! }))
    .filter(({ count }) => count > 0)
    .sort((a, b) => a.step - b.step);
  const reach = steps.reduce((sum, { step, count }) => sum + step * count, 1);
  const tile = tileOf(cluster, reach);
  let span = windowOf(cluster, tile, reach);
  for (const { step, count } of steps) {
    if (!(step >= span)) return false;
    span += step * count;
  }
  return tile === 0 || span <= tile;
}

/** The step of loops, or else of constants, that exceeds the tile of the threads. 0 if there is none. */
function tileOf({ terms, accesses }: Cluster, reach: number): number {
  const loops = accesses.flatMap(({ form }) => form.terms.slice(terms.length));
  const first = accesses[0]!.form.constant;
  const constants = accesses.map(({ form }) => form.constant - first);
  const far = (steps: readonly number[]) => steps.filter((step) => Math.abs(step) >= reach).reduce(greatestDivisor, 0);
  return far(loops) || far(constants);
}

/** How many bytes a thread may access around one place of a tile. */
function windowOf({ terms, accesses }: Cluster, tile: number, reach: number): number {
  let begin = Infinity, end = -Infinity;
  const first = accesses[0]!.form.constant;
  for (const { form: { constant, terms: all }, domain, byteLength } of accesses) {
    const offset = constant - first;
    let least = tile === 0 ? offset : offset - Math.round(offset / tile) * tile;
    let most = least + byteLength;
    for (let index = terms.length; index < all.length; index++) {
      const term = all[index]!;
      if (term === 0 || Math.abs(term) >= reach) continue;
      const ends = [term * domain.low[index]!, term * domain.high[index]!];
      least += Math.min(...ends);
      most += Math.max(...ends);
    }
    begin = Math.min(begin, least);
    end = Math.max(end, most);
  }
  return end - begin;
}

/** Whether clusters have no bytes in common, or neither is written. Those of other parameters are compared later. */
function areApart(a: Cluster, b: Cluster): boolean {
  if (!a.isWritten && !b.isWritten || a.base !== b.base) return true;
  return a.last <= b.first || b.last <= a.first;
}

/** The union of all clusters of one base. */
function rangesOf(clusters: readonly Cluster[]): SeparateRange[] {
  return clusters.map(({ base, first: begin, last: end, isWritten }) => ({ base, begin, end, isWritten }));
}

/** Whether the ranges from different parameters are apart too, by what the parameters are. */
export function areSeparate(ranges: readonly SeparateRange[], parameters: DataView): boolean {
  const placed = ranges.map(({ base, begin, end, isWritten }) => {
    const start = startOf(base, parameters);
    return { base, begin: start + begin, end: start + end, isWritten };
  });
  return placed.every((range, index) =>
    placed.slice(0, index).every((other) =>
      range.base === other.base || !range.isWritten && !other.isWritten ||
      range.end <= other.begin || other.end <= range.begin
    )
  );
}

/** NaN if the launch has no such parameter. */
function startOf(base: number, parameters: DataView): number {
  if (base === noBase) return 0;
  if (base < 0 || base + 8 > parameters.byteLength) return NaN;
  return parameters.getUint32(base, true) + parameters.getUint32(base + 4, true) * 2 ** 32;
}
