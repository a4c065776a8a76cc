/**
 * The texts of reports of races.
 *
 * @module
 */
import type { ThreadAccess } from "../../../../kernel_checker.ts";

/** What is wrong with two accesses. */
export type ConflictKind =
  /** They are not ordered. */
  | "race"
  /** A wider scope would order them, or make both strong. */
  | "scope"
  /** Both are strong, and access different numbers of bytes. */
  | "size"
  /** The earlier access is an asynchronous copy that is not complete. */
  | "copy"
  /** The later access reads through a cache that does not see the kernel's writes. */
  | "cache";

/** How far apart two threads are. */
export const relations = ["thread", "warp", "block", "grid"] as const;

/** One of {@linkcode relations}. */
export type Relation = typeof relations[number];

/** Two accesses that conflict. */
export interface RacingAccesses {
  readonly relation: Relation;
  readonly isShared: boolean;
  /** Whether threads read an element and write it back. */
  readonly isUpdate: boolean;
  /** Whether the later access's block has read a flag that the earlier access's block wrote. */
  readonly isSignalled: boolean;
  /** Whether blocks have no more threads than a warp. */
  readonly isOneWarp: boolean;
  readonly later: ThreadAccess;
  readonly earlier: ThreadAccess;
}

/** The parts of a report. */
export interface RaceWording {
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

/** Writes the report of a conflict. */
export function wordingOf(kind: ConflictKind, accesses: RacingAccesses): RaceWording {
  const { isShared, later, earlier } = accesses;
  const space = isShared ? "shared-race" : "global-race";
  const pair = later.access === earlier.access
    ? `the two ${pluralNouns[later.access]}`
    : `the ${nouns[later.access]} and the ${nouns[earlier.access]}`;
  switch (kind) {
    case "race":
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
  }
}

const missing: Readonly<Record<Relation, string>> = {
  thread: "nothing orders them",
  warp: "the threads are in one warp, whose lanes need not run in step, and no barrier stands between them",
  block: "the threads are in one block, and no barrier stands between them",
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

/** The advice for flags in memory by which threads signal that data is ready. */
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
  if (relation !== "warp") return "__syncthreads()";
  return isOneWarp ? "__syncwarp() (__syncthreads(), if blocks may be larger)" : "__syncwarp()";
}

/** The line of an access. Atomic operations are functions in headers, which a compiler inlines. */
function lineOf({ access, source }: ThreadAccess): string {
  return access === "atomic" ? source.split(", inlined at ").at(-1)! : source;
}

/** The two lines, in the order of the file. */
function betweenLines({ later, earlier }: RacingAccesses, conjunction: string): string {
  const lines = [lineOf(later), lineOf(earlier)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return lines.join(` ${conjunction} `);
}
