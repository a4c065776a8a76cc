/**
 * Counts the races of a launch, and writes their reports. Races of the same source lines are reported as one finding.
 *
 * @module
 */
import { type Findings, type KernelFinding, type KernelVariables, nameShared } from "../findings.ts";
import type { ThreadAccess } from "../../../../kernel_checker.ts";
import { addressBase, bytesOfPlace, lineOfPlace, operationOfPlace } from "../../../abi/addresses.ts";
import type { LaunchGeometry } from "../../modules/kernel_versions.ts";
import type { BlockSignals } from "./race_check.ts";

/** An access to memory: the thread's number in the launch, and the encoded code location. */
interface PlacedAccess {
  readonly thread: number;
  readonly place: number;
}

/** Two accesses that conflict. */
export interface RaceConflict {
  readonly kind: ConflictKind;
  readonly later: PlacedAccess;
  readonly earlier: PlacedAccess;
  /** The offset of the later access in linear memory. */
  readonly offset: number;
  /** The offset of the accessed block's shared memory. Undefined for global memory. */
  readonly sharedBegin: number | undefined;
}

/** An access to the shared memory of another block of the cluster before the block starts, or after it has ended. */
interface LifetimeConflict extends PlacedAccess {
  readonly kind: "unstarted" | "exited";
  /** The offset of the access in linear memory. */
  readonly offset: number;
  readonly sharedBegin: number;
}

const lifetimeWordings: Readonly<Record<LifetimeConflict["kind"], RaceWording>> = {
  unstarted: {
    kind: "unstarted-block",
    problem: "a thread accesses the shared memory of another block of the cluster, which may not have started",
    advice: "Let all blocks of the cluster wait for each other before the first of these accesses, by cluster.sync() " +
      "(barrier.cluster.arrive and barrier.cluster.wait)",
  },
  exited: {
    kind: "exited-block",
    problem: "a thread accesses the shared memory of another block of the cluster, which may have exited",
    advice: "Let all blocks of the cluster wait for each other after the last of these accesses, by cluster.sync() " +
      "(barrier.cluster.arrive and barrier.cluster.wait)",
  },
};

/** Conflicts of the same kind between the same two PTX lines, which are counted together. */
interface CountedConflict {
  /** The counted conflict with the widest `relation`, which the report describes. */
  conflict: RaceConflict;
  relation: Relation;
  count: number;
}

/** Parameters of {@linkcode RaceFindings}. */
interface RaceFindingsOptions {
  readonly findings: Findings;
  readonly geometry: LaunchGeometry;
  readonly sourceOf: (place: number) => string;
  readonly signals: BlockSignals;
  readonly variables: KernelVariables;
  /** Whether global memory at an offset is that of an array. */
  readonly isArray: (offset: number) => boolean;
  /** Names a range of linear memory that belongs to no buffer. */
  readonly nameOf: (offset: number, bytes: number) => string | undefined;
}

const operations = ["none", "read", "write", "atomic"] as const;

/** Collects the races of a launch, and reports them as findings. */
export class RaceFindings {
  readonly #options: RaceFindingsOptions;
  readonly #stride: number;
  /** The encoded code locations of calls that free memory, which are recorded as writes. */
  readonly #frees = new Set<number>();
  /** The encoded code locations of atomic operations that are a load and a store in another block's shared memory. */
  readonly #divided = new Set<number>();
  /** The offsets of the words of shared memory that threads poll. */
  readonly #polled = new Set<number>();
  /** The counted conflicts. The key consists of the kind, the two PTX lines and, for volatile accesses, the offset. */
  readonly #conflicts = new Map<string, CountedConflict>();

  constructor(options: RaceFindingsOptions) {
    this.#options = options;
    const [x, y, z] = options.geometry.block;
    this.#stride = Math.ceil(x * y * z / 32) * 32;
  }

  /** Records that accesses at a code location are calls of `free`, which are checked as writes. */
  noteFree(place: number): void {
    this.#frees.add(place);
  }

  /** Records that the atomic operation at a code location is a load and a store in another block's shared memory. */
  noteDivided(place: number): void {
    this.#divided.add(place);
  }

  /**
   * Records that a volatile load polls bytes of shared memory. These bytes hold a flag, so other volatile loads of the
   * flag need no order, either.
   */
  notePolled(offset: number, bytes: number): void {
    for (let word = offset & ~3; word < offset + bytes; word += 4) this.#polled.add(word);
  }

  /** Counts a conflict. */
  add(conflict: RaceConflict): void {
    const { kind, later, earlier, offset } = conflict;
    const [a, b] = [lineOfPlace(later.place), lineOfPlace(earlier.place)];
    // Count the conflicts of volatile accesses separately for each word: whether the word is polled is known only at
    // the end of the launch.
    const at = kind === "volatile" ? ` ${offset & ~3}` : "";
    const key = `race ${kind} ${Math.min(a, b)} ${Math.max(a, b)}${at}`;
    const between = this.#relationOf(later.thread, earlier.thread);
    const relation = between === "grid" && conflict.sharedBegin !== undefined ? "cluster" : between;
    const found = this.#conflicts.get(key);
    if (found === undefined) this.#conflicts.set(key, { conflict, relation, count: 1 });
    else addTo(found, { conflict, relation, count: 1 });
  }

  /** Counts an access to the shared memory of a block that may not have started, or may have ended. */
  addLifetime({ kind, place, thread, offset, sharedBegin }: LifetimeConflict): void {
    const { findings, variables, sourceOf } = this.#options;
    findings.add(`race ${kind} ${sourceOf(place)}`, () => ({
      check: "race",
      ...lifetimeWordings[kind],
      memory: nameShared(variables, offset - sharedBegin, bytesOfPlace(place)),
      accesses: [this.#accessOf({ thread, place })],
    }));
  }

  /** Reports the counted conflicts as findings. */
  finish(): void {
    const updates = this.#updates();
    for (const [key, all] of [...this.#bySource(), ...this.#bySharedLines()]) {
      const most = { ...all[0]!, count: 0 };
      for (const each of all) addTo(most, each);
      const isUpdate = all.some(({ conflict }) => updates.has(conflict));
      this.#options.findings.addCounted(key, this.#describe(most, isUpdate), most.count);
    }
  }

  /**
   * Groups the conflicts by source lines. A source line may correspond to several instructions: compilers unroll loops,
   * and a statement such as `x += 1` both reads and writes.
   */
  #bySource(): Map<string, CountedConflict[]> {
    const bySource = new Map<string, CountedConflict[]>();
    for (const found of this.#conflicts.values()) {
      const { kind, later, earlier, sharedBegin } = found.conflict;
      if (kind === "volatile") continue;
      const sources = [later, earlier].map(({ place }) => this.#options.sourceOf(place)).sort();
      const key = ["race", kind, sharedBegin === undefined, ...sources].join(" ");
      const all = bySource.get(key);
      if (all === undefined) bySource.set(key, [found]);
      else all.push(found);
    }
    return bySource;
  }

  /**
   * Groups the conflicts of volatile accesses, except for polled bytes. Conflicts with a source line in common belong
   * to one programming error: for example, in the last steps of a reduction, each step conflicts with every later step.
   * In each group, the conflict with the lowest source lines comes first.
   */
  #bySharedLines(): Map<string, CountedConflict[]> {
    let groups: { readonly sources: Set<string>; readonly all: CountedConflict[] }[] = [];
    for (const found of this.#conflicts.values()) {
      const { kind, later, earlier, offset } = found.conflict;
      if (kind !== "volatile" || this.#polled.has(offset & ~3)) continue;
      const own = [later, earlier].map(({ place }) => this.#options.sourceOf(place));
      const [group, ...others] = groups.filter(({ sources }) => own.some((source) => sources.has(source)));
      if (group === undefined) {
        groups.push({ sources: new Set(own), all: [found] });
        continue;
      }
      group.all.push(found, ...others.flatMap(({ all }) => all));
      for (const source of [...own, ...others.flatMap(({ sources }) => [...sources])]) group.sources.add(source);
      if (others.length > 0) groups = groups.filter((group) => !others.includes(group));
    }
    return new Map(groups.map(({ sources, all }) => [
      ["race volatile", ...[...sources].sort()].join(" "),
      all.sort((a, b) => lastLineOf(a.conflict) - lastLineOf(b.conflict)),
    ]));
  }

  /**
   * Returns the conflicts that belong to unsynchronized read-modify-write sequences. In such a sequence, a thread's
   * read and the same thread's write both conflict with accesses of one other thread.
   */
  #updates(): Set<RaceConflict> {
    const updates = new Set<RaceConflict>();
    const races = Array.from(this.#conflicts.values(), ({ conflict }) => conflict).filter(({ kind }) =>
      kind === "race"
    );
    const writes = new Map<string, RaceConflict>();
    for (const conflict of races) if (!hasRead(conflict)) writes.set(keyOf(conflict), conflict);
    for (const conflict of races) {
      const write = hasRead(conflict) ? writes.get(keyOf(conflict)) : undefined;
      if (write !== undefined) updates.add(conflict).add(write);
    }
    return updates;
  }

  #describe({ conflict, relation }: CountedConflict, isUpdate: boolean): KernelFinding {
    const { kind, later, earlier, offset, sharedBegin } = conflict;
    const bytes = bytesOfPlace(later.place);
    const shared = sharedBegin === undefined
      ? undefined
      : nameShared(this.#options.variables, offset - sharedBegin, bytes);
    const accesses = [this.#accessOf(later), this.#accessOf(earlier)] as const;
    const isArray = shared === undefined && this.#options.isArray(offset);
    return {
      check: "race",
      ...wordingOf(kind, {
        relation,
        isShared: shared !== undefined,
        isUpdate,
        isSignalled: this.#options.signals.has(this.#blockOf(earlier.thread), this.#blockOf(later.thread)),
        isOneWarp: this.#stride === 32,
        isDivided: [later, earlier].some(({ place }) => this.#divided.has(place)),
        later: accesses[0],
        earlier: accesses[1],
      }),
      ...isArray ? { memory: "an array" } : shared === undefined
        ? {
          range: { address: addressBase + BigInt(offset), byteLength: bytes },
          memory: this.#options.nameOf(offset, bytes),
        }
        : { memory: shared },
      accesses,
    };
  }

  #accessOf({ thread, place }: PlacedAccess): ThreadAccess {
    const { geometry: { grid, block }, sourceOf } = this.#options;
    const operation = operations[operationOfPlace(place)]!;
    return {
      access: this.#frees.has(place) ? "free" : operation === "none" ? "write" : operation,
      source: sourceOf(place),
      block: indexIn(this.#blockOf(thread), grid),
      thread: indexIn(thread % this.#stride, block),
    };
  }

  #relationOf(a: number, b: number): Relation {
    if (a === b) return "thread";
    if (a >>> 5 === b >>> 5) return "warp";
    return this.#blockOf(a) === this.#blockOf(b) ? "block" : "grid";
  }

  #blockOf(thread: number): number {
    return Math.floor(thread / this.#stride);
  }
}

function addTo(found: CountedConflict, { conflict, relation, count }: CountedConflict): void {
  found.count += count;
  if (relations.indexOf(relation) <= relations.indexOf(found.relation)) return;
  found.conflict = conflict;
  found.relation = relation;
}

function lastLineOf({ later, earlier }: RaceConflict): number {
  return Math.max(lineOfPlace(later.place), lineOfPlace(earlier.place));
}

function hasRead({ later, earlier }: RaceConflict): boolean {
  return [later, earlier].some(({ place }) => operations[operationOfPlace(place)] === "read");
}

/** Returns a key that is equal for conflicts of the same two threads at the same offset. */
function keyOf({ later, earlier, offset }: RaceConflict): string {
  return `${later.thread} ${earlier.thread} ${offset}`;
}

function indexIn(number: number, [x, y]: readonly [number, number, number]): [number, number, number] {
  return [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))];
}

/** The reason why two accesses conflict. */
export type ConflictKind =
  /** The accesses are not ordered. */
  | "race"
  /** A wider scope would prevent the conflict, by ordering the accesses or by making both of them strong. */
  | "scope"
  /** Both accesses are strong, but access different numbers of bytes. */
  | "size"
  /** Both accesses are volatile accesses to shared memory, by different warps. */
  | "volatile"
  /** The earlier access is an asynchronous copy that is not complete. */
  | "copy"
  /**
   * The later access reads through the non-coherent cache, which may not contain the values that the kernel has
   * written.
   */
  | "cache"
  /** The later access reads through a texture or a surface what the kernel has written. */
  | "texels"
  /** The later access is made by the asynchronous proxy, which may not see the earlier write without a fence between proxies. */
  | "proxy";

/**
 * The kinds of thread groups, from the narrowest to the widest. A conflict is classified by the narrowest group that
 * contains both of its threads.
 */
const relations = ["thread", "warp", "block", "cluster", "grid"] as const;

/** One of {@linkcode relations}. */
type Relation = typeof relations[number];

/** The properties of a conflict on which the wording of the report depends. */
interface RacingAccesses {
  readonly relation: Relation;
  readonly isShared: boolean;
  /** Whether the accesses belong to a read-modify-write sequence. */
  readonly isUpdate: boolean;
  /**
   * Whether the later access's block has read a value, such as a flag, that the earlier access's block wrote with a
   * strong access.
   */
  readonly isSignalled: boolean;
  /** Whether a block has at most one warp. */
  readonly isOneWarp: boolean;
  /** Whether one of the accesses is an atomic operation that is a load and a store in another block's shared memory. */
  readonly isDivided: boolean;
  readonly later: ThreadAccess;
  readonly earlier: ThreadAccess;
}

/** The parts of a finding's text that depend on the conflict. */
interface RaceWording {
  readonly kind: string;
  readonly problem: string;
  readonly advice: string;
}

const nouns: Readonly<Record<ThreadAccess["access"], string>> = {
  read: "read",
  write: "write",
  atomic: "atomic access",
  free: "free",
  barrier: "wait",
};

const pluralNouns: Readonly<Record<ThreadAccess["access"], string>> = {
  read: "reads",
  write: "writes",
  atomic: "atomic accesses",
  free: "frees",
  barrier: "waits",
};

/** Returns the text that describes a conflict. */
function wordingOf(kind: ConflictKind, accesses: RacingAccesses): RaceWording {
  const { isShared, later, earlier } = accesses;
  const space = isShared ? "shared-race" : "global-race";
  const pair = later.access === earlier.access
    ? `the two ${pluralNouns[later.access]}`
    : `the ${nouns[later.access]} and the ${nouns[earlier.access]}`;
  switch (kind) {
    case "race":
      if (accesses.isDivided && later.access === earlier.access) {
        return {
          kind: space,
          problem:
            `${pair} are not atomic on a GPU of compute capability 9.0: in the shared memory of another block, ` +
            "ptxas makes the operation of a load and a store, between which others may store",
          advice: "Use an operation of 32 bits, atomicAdd or atomicExch of 64 bits, or a loop with atomicCAS; or let " +
            "the threads of each block update shared memory of their own, and combine it after cluster.sync()",
        };
      }
      return {
        kind: space,
        problem: `${pair} may happen in either order, or at once: ${missingIn(accesses)}`,
        advice: adviceFor(accesses),
      };
    case "scope":
      return {
        kind: "insufficient-scope",
        problem:
          `${pair} may happen in either order, or at once: the threads are in different blocks, and what should ` +
          "order them has the scope of a block",
        advice: "Use the scope of the device: __threadfence() instead of __threadfence_block(), " +
          "cuda::thread_scope_device, and atomics without _block",
      };
    case "size":
      return {
        kind: space,
        problem: `${pair} are both atomic or volatile, but of different numbers of bytes: ` +
          "they may happen in either order, or in parts",
        advice: "Let both access the same bytes, by one type",
      };
    case "volatile":
      return {
        kind: space,
        problem: `${pair} may happen in either order: the threads are in different warps, and volatile orders no ` +
          "threads: that takes a barrier, or fences around a flag",
        advice: adviceForVolatile(accesses),
      };
    case "copy":
      return {
        kind: "unfinished-copy",
        problem: `the ${nouns[later.access]} may happen before the asynchronous copy is done`,
        advice: "Let the thread that copies wait, by __pipeline_wait_prior, cuda::pipeline's consumer_wait, or " +
          "cp.async.wait_all, before the barrier that the others wait at",
      };
    case "cache":
      return {
        kind: "non-coherent-read",
        problem: "the read goes through a cache that does not see what the same kernel has written",
        advice: "Read with a plain load: no __ldg, and no const __restrict__ pointer to memory that the kernel writes",
      };
    case "texels":
      return {
        kind: "non-coherent-read",
        problem: "textures and surfaces are read through a cache that does not see what the same kernel has written",
        advice: "Let a later kernel read the texels, or read the memory that the texture shows by a plain load",
      };
    case "proxy":
      return {
        kind: "missing-proxy-fence",
        problem: "the asynchronous proxy may read what was there before the write: a barrier does not order them",
        advice: "Let the threads that write execute fence.proxy.async (cuda::ptx::fence_proxy_async, or " +
          "cutlass::arch::fence_view_async_shared) after the write, before the barrier that the copying or multiplying thread waits at",
      };
  }
}

const missing: Readonly<Record<Relation, string>> = {
  thread: "nothing orders them",
  warp: "the threads are in one warp, whose lanes need not run in step, and no barrier stands between them",
  block: "the threads are in one block, and no barrier stands between them",
  cluster: "the threads are in different blocks of a cluster, and no barrier of the cluster stands between them",
  grid: "the threads are in different blocks, and blocks do not wait for one another",
};

function missingIn({ relation, isSignalled, later, earlier }: RacingAccesses): string {
  return isSignalled && later.access !== "atomic" && earlier.access !== "atomic"
    ? "the threads are in different blocks, and reading a flag does not order other data without fences"
    : missing[relation];
}

function adviceFor(accesses: RacingAccesses): string {
  const { relation, isUpdate, later, earlier } = accesses;
  const kinds = [later.access, earlier.access];
  const isOneLine = lineOf(later) === lineOf(earlier);
  if (kinds.includes("free")) return adviceForFree(accesses);
  if (kinds.includes("atomic")) return adviceForAtomic(accesses, isOneLine);
  if (isUpdate) return adviceForUpdate(accesses, isOneLine);
  const areWrites = !kinds.includes("read");
  if (relation === "grid") return adviceBetweenBlocks(accesses, areWrites);
  const barrier = barrierFor(accesses);
  if (!isOneLine) {
    return `Put ${barrier} between ${betweenLines(accesses, "and")}, or at the end of the loop's body if there is ` +
      "one between them already";
  }
  return areWrites
    ? `Let one thread write the element, or put ${barrier} at the end of the loop's body if the writes are in ` +
      "different iterations"
    : `Put ${barrier} at the end of the loop's body, outside of any condition, if the read and the write are in ` +
      `different iterations; if they are in the same, read into a variable first, and put ${barrier} before the write`;
}

function adviceForVolatile(accesses: RacingAccesses): string {
  const place = lineOf(accesses.later) === lineOf(accesses.earlier)
    ? "at the end of the loop's body"
    : `between ${betweenLines(accesses, "and")}`;
  return `Put __syncthreads() ${place}, outside of any condition, or let one warp make both accesses, with ` +
    "__syncwarp() between them. If a flag tells when to read, put __threadfence_block() before setting the flag and " +
    "after seeing it";
}

function adviceForFree(accesses: RacingAccesses): string {
  return accesses.relation === "grid"
    ? "Free the memory in a later kernel, or let the last that uses it free it: each calls __threadfence(), counts " +
      "itself by an atomic operation, and calls __threadfence() again before it frees"
    : `Put ${barrierFor(accesses)} before the free, behind the last use of the memory`;
}

function adviceForUpdate(accesses: RacingAccesses, isOneLine: boolean): string {
  const what = isOneLine
    ? `${accesses.later.source} reads and writes back the same element in several threads`
    : `Several threads read the same element and write it back, at ${betweenLines(accesses, "and")}`;
  const advice = `${what}: use one atomic operation, such as atomicAdd`;
  return accesses.isSignalled
    ? `${advice}. If a lock protects the element, it needs __threadfence() after it is taken, and before it is released`
    : advice;
}

function adviceForAtomic(accesses: RacingAccesses, isOneLine: boolean): string {
  const { relation, later, earlier } = accesses;
  const plain = later.access === "atomic" ? earlier : later;
  if (plain.access === "read" && isOneLine) {
    return "Leave out the plain read: the atomic operation looks at the value by itself; or read by an atomic operation";
  }
  if (relation === "grid") {
    return plain.access === "read"
      ? `Let a later kernel make the read of ${plain.source}, or make it an atomic operation`
      : `Let the host or an earlier kernel make the write of ${plain.source}, or make it an atomic operation`;
  }
  const place = isOneLine ? "them" : betweenLines(accesses, "and");
  return `Put ${barrierFor(accesses)} between ${place}, or make the ${plain.access} an atomic operation, too`;
}

function adviceBetweenBlocks(accesses: RacingAccesses, areWrites: boolean): string {
  const { later, earlier, isSignalled } = accesses;
  if (isSignalled) return adviceForFlags(accesses);
  if (areWrites) {
    return "Let each block write elements of its own; to combine what several write, use an atomic operation, such as " +
      "atomicAdd or atomicMax";
  }
  if (later.source === earlier.source) return "Write to other memory than is read, or let a later kernel write";
  const lines = betweenLines(accesses, "and");
  return `Let ${lines} be in two kernels, or, in a cooperative launch, put grid.sync() between them`;
}

/** Returns the advice for programs whose threads set a flag in memory to signal that data is ready. */
function adviceForFlags({ later, earlier }: RacingAccesses): string {
  const [before, after] = [earlier, later].map(({ access, source }) => `${gerunds[access]} the data (${source})`);
  return "If a flag tells that the data is there, the writer needs __threadfence() between " +
    `${before} and setting the flag, and the reader needs __threadfence() between seeing the flag and ${after}: ` +
    "both are needed. Or make the flag a cuda::atomic_ref with store and load";
}

const gerunds: Readonly<Record<ThreadAccess["access"], string>> = {
  read: "reading",
  write: "writing",
  atomic: "accessing",
  free: "freeing",
  barrier: "waiting for",
};

function barrierFor({ relation, isOneWarp }: RacingAccesses): string {
  if (relation === "cluster") return "cluster.sync() (barrier.cluster.arrive and barrier.cluster.wait)";
  if (relation !== "warp") return "__syncthreads()";
  return isOneWarp ? "__syncwarp() (__syncthreads(), if blocks may be larger)" : "__syncwarp()";
}

/**
 * Returns the source line of an access. For atomic operations, which are inlined from headers, returns the line of the
 * caller.
 */
function lineOf({ access, source }: ThreadAccess): string {
  return access === "atomic" ? source.split(", inlined at ").at(-1)! : source;
}

/** Joins the source lines of two accesses with a conjunction, in the order in which the lines occur in the file. */
function betweenLines({ later, earlier }: RacingAccesses, conjunction: string): string {
  const lines = [lineOf(later), lineOf(earlier)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return lines.join(` ${conjunction} `);
}
