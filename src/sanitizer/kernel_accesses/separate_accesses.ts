/**
 * Proves that no two threads of a launch access the same byte with at least one write, so that the launch needs no
 * checks for races while it runs.
 *
 * @module
 */
import { greatestDivisor, noBase, rangeOf } from "./domain.ts";
import { type ResolvedInstruction, spaceOf } from "../../ptx/instructions/resolved_instruction.ts";
import type { KernelCode } from "./kernel_code.ts";
import { accessOf, type CertainAccess, isAsynchronous, mayAccess, sharedAccessOf } from "./thread_state.ts";

/**
 * A byte range in which the accesses of a launch do not conflict with each other. `begin` and `end` are offsets from
 * the value of a parameter.
 */
export interface SeparateRange {
  /** The parameter's offset in the packed parameters; -1 if `begin` and `end` are absolute addresses. */
  readonly base: number;
  readonly begin: number;
  readonly end: number;
  readonly isWritten: boolean;
}

/** The accesses found by a symbolic run of a kernel, which covers all threads of a launch. */
interface KernelAccesses {
  readonly certain: readonly CertainAccess[];
  readonly possible: ReadonlySet<ResolvedInstruction>;
  /** Whether the kernel accesses variables, shared memory or local memory through generic addresses. */
  readonly reachesUntracked: boolean;
}

/**
 * A cluster: accesses whose addresses depend on the thread index in the same way, and differ only by constants and by
 * multiples of loop iteration numbers.
 */
interface Cluster {
  readonly base: number;
  /** The terms that all addresses of the cluster have in the dimensions of thread indices. */
  readonly terms: readonly number[];
  /** The smallest coordinate in each dimension of thread indices. */
  readonly low: number[];
  /** The largest coordinate in each dimension of thread indices. */
  readonly high: number[];
  readonly accesses: CertainAccess[];
  /** The first accessed byte, as an offset from the base. */
  first: number;
  /** The end of the last accessed byte, as an offset from the base. */
  last: number;
  /** Whether any of the accesses is a write or atomic. */
  isWritten: boolean;
}

/** The state spaces whose memory is private to a thread, or that kernels cannot write. */
const harmlessSpaces: ReadonlySet<string> = new Set(["local", "param", "const"]);
/** The maximum number of clusters to compare. If there are more, nothing is proven. */
const mostClusters = 64;

/** Returns whether all accesses of a kernel to global and shared memory are weak loads and stores. */
export function hasOnlyWeakAccesses({ analysis }: KernelCode): boolean {
  return analysis.instructions.every(isWeak);
}

function isWeak(instruction: ResolvedInstruction): boolean {
  const { flow, traits } = instruction.form;
  // Textures and surfaces may show the memory of buffers, and blocks of a cluster share their memory.
  if (flow === "call" || traits.takesCoordinates === true || traits.mapsClusterMemory === true) return false;
  if (!mayAccess(instruction)) return true;
  if ((traits.access !== "read" && traits.access !== "write") || isAsynchronous(instruction)) return false;
  if (harmlessSpaces.has(spaceOf(instruction))) return true;
  const access = sharedAccessOf(instruction) ?? accessOf(instruction);
  return access !== undefined && access !== "unknown" && access.access !== "atomic";
}

/**
 * Returns the ranges that a launch accesses, if it is proven that no two threads make conflicting accesses through the
 * same parameter. Otherwise returns undefined. Use `areSeparate` to compare the ranges of different parameters.
 *
 * @param dimensions the number of dimensions of thread indices; further dimensions are loop iterations
 */
export function separateRanges(
  { certain, possible, reachesUntracked }: KernelAccesses,
  dimensions: number,
): SeparateRange[] | undefined {
  if (possible.size > 0 || reachesUntracked) return undefined;
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

/**
 * Returns whether it is proven that these accesses do not conflict between threads. The accesses must have the same
 * terms in the first `dimensions` dimensions.
 */
export function threadsAreApart(accesses: readonly CertainAccess[], dimensions: number): boolean {
  return isApart(clusterOf(accesses, dimensions));
}

/**
 * Returns whether it is proven that these accesses of different threads touch disjoint bytes. The accesses must have
 * the same terms in the first `dimensions` dimensions.
 */
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

/**
 * Returns whether the accesses of a cluster cannot conflict: different threads access disjoint bytes, or all accesses
 * are reads.
 */
function isApart(cluster: Cluster): boolean {
  const { accesses, isWritten } = cluster;
  if (!isWritten) return true;
  // Memory that is read through a noncoherent cache must not be written by the kernel, even by the thread that reads
  // it.
  if (accesses.some(({ instruction }) => instruction.form.traits.isNotCoherent === true)) return false;
  return hasOwnBytes(cluster);
}

/**
 * Returns whether different threads access disjoint bytes in a cluster.
 *
 * In one loop iteration, all threads together access a tile of memory. A loop advances by whole tiles, so it suffices
 * to prove that different threads access disjoint bytes within a tile.
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

/**
 * Returns the size in bytes of a cluster's tile. Considers only distances that are at least as large as the range that
 * the threads reach in one iteration. The size is the greatest common divisor of all such loop steps or, if there are
 * none, of all such differences between the accesses' constants. Returns 0 if there are neither.
 */
function tileOf({ terms, accesses }: Cluster, reach: number): number {
  const loops = accesses.flatMap(({ form }) => form.terms.slice(terms.length));
  const first = accesses[0]!.form.constant;
  const constants = accesses.map(({ form }) => form.constant - first);
  const far = (steps: readonly number[]) => steps.filter((step) => Math.abs(step) >= reach).reduce(greatestDivisor, 0);
  return far(loops) || far(constants);
}

/** Returns the size in bytes of the part of a tile that a single thread accesses. */
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

/**
 * Returns whether two clusters access disjoint bytes, or both only read. Returns true for clusters of different
 * parameters: `areSeparate` compares them.
 */
function areApart(a: Cluster, b: Cluster): boolean {
  if (!a.isWritten && !b.isWritten || a.base !== b.base) return true;
  return a.last <= b.first || b.last <= a.first;
}

/** Returns the byte range that each cluster accesses. */
function rangesOf(clusters: readonly Cluster[]): SeparateRange[] {
  return clusters.map(({ base, first: begin, last: end, isWritten }) => ({ base, begin, end, isWritten }));
}

/** Returns whether ranges of different parameters do not conflict, given the values of a launch's parameters. */
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

/**
 * Returns the value of the pointer parameter at offset `base`, or 0 for `noBase`. NaN if the launch has no such
 * parameter.
 */
function startOf(base: number, parameters: DataView): number {
  if (base === noBase) return 0;
  if (base < 0 || base + 8 > parameters.byteLength) return NaN;
  return parameters.getUint32(base, true) + parameters.getUint32(base + 4, true) * 2 ** 32;
}
