/**
 * Kernels on graphs, in right and wrong forms: the patterns of the Indigo suite (M. Burtscher's group, Texas State
 * University), written anew from its description. Each pattern is spread over threads, warps or blocks, in variants that
 * do not matter for correctness, and with at most one mistake.
 *
 * All kernels take the same arguments: `offsets` (where the neighbors of each vertex begin), `neighbors`, `data1`,
 * `data2`, and the number of vertices.
 */

/** What a kernel computes. */
type Pattern =
  /** The largest value among neighbors, of all vertices. */
  | "edge"
  /** How many edges lead to a vertex with a larger number. */
  | "vertex"
  /** A list of such edges. */
  | "worklist"
  /** For each vertex, the sum of the values of its neighbors. */
  | "pull"
  /** For each vertex, the smallest of its value and those of the vertices that lead to it. */
  | "push"
  /** For each vertex, the root that its parents lead to. */
  | "path";

/** What works on a vertex: one neighbor or all by a thread, or all by a warp or a block. */
export type Partition = "first" | "thread" | "warp" | "block";

/** A mistake: a plain access in place of an atomic one, a plain check before it, no barrier, or no check of an index. */
export type Mistake = "none" | "atomic" | "guard" | "sync" | "race" | "bounds";

/** One kernel. */
export interface GraphKernel {
  readonly pattern: Pattern;
  readonly partition: Partition;
  readonly mistake: Mistake;
  /** The type of the values. */
  readonly type: "int" | "unsigned long long";
  /** Whether the threads go on with further vertices until there are none. */
  readonly isPersistent: boolean;
  /** Whether neighbors are visited from the last on. */
  readonly isReversed: boolean;
  /** Whether only neighbors with a larger number count. */
  readonly isConditional: boolean;
  /** In a block: whether the lanes of a warp exchange values before the block does. Of `path`: whether it only reads. */
  readonly isVariant: boolean;
}

/** The name of a kernel, as it is exported. */
export function nameOf(kernel: GraphKernel): string {
  const { pattern, partition, mistake, type, isPersistent, isReversed, isConditional, isVariant } = kernel;
  return [
    pattern,
    partition,
    type === "int" ? "int" : "long",
    ...isPersistent ? ["persistent"] : [],
    ...isReversed ? ["reversed"] : [],
    ...isConditional ? ["conditional"] : [],
    ...isVariant ? ["variant"] : [],
    ...mistake === "none" ? [] : [`${mistake}Bug`],
  ].join("_");
}

/** Whether threads race in a kernel. The others with a mistake access memory that is not theirs. */
export function isRacy({ mistake }: GraphKernel): boolean {
  return mistake !== "none" && mistake !== "bounds";
}

const mistakesOf: Readonly<Record<Pattern, readonly Mistake[]>> = {
  edge: ["none", "atomic", "guard", "sync", "bounds"],
  vertex: ["none", "atomic", "bounds"],
  worklist: ["none", "atomic", "bounds"],
  pull: ["none", "sync", "bounds"],
  push: ["none", "atomic", "bounds"],
  path: ["none", "race"],
};

/** All kernels. */
export function allGraphKernels(): GraphKernel[] {
  const booleans = [false, true];
  const kernels: GraphKernel[] = [];
  for (const pattern of Object.keys(mistakesOf) as Pattern[]) {
    const partitions: readonly Partition[] = pattern === "path" ? ["thread"] : ["first", "thread", "warp", "block"];
    for (const partition of partitions) {
      for (const mistake of mistakesOf[pattern]) {
        for (const type of ["int", "unsigned long long"] as const) {
          for (const isPersistent of booleans) {
            for (const isReversed of booleans) {
              for (const isConditional of booleans) {
                for (const isVariant of booleans) {
                  const kernel = {
                    pattern,
                    partition,
                    mistake,
                    type,
                    isPersistent,
                    isReversed,
                    isConditional,
                    isVariant,
                  };
                  if (exists(kernel)) kernels.push(kernel);
                }
              }
            }
          }
        }
      }
    }
  }
  return kernels;
}

/** Those whose PTX is stored: each mistake of each pattern in each partition, and what is right, in few variants. */
export function storedGraphKernels(): GraphKernel[] {
  return allGraphKernels().filter(({ type, isReversed, isConditional, isPersistent, mistake, pattern }) => {
    const usual = type === "int" && !isReversed && !(isConditional && pattern !== "push");
    return usual && isConditional === (pattern === "push") && (mistake !== "bounds" || !isPersistent);
  });
}

function exists(kernel: GraphKernel): boolean {
  const { pattern, partition, mistake, isPersistent, isReversed, isConditional, isVariant } = kernel;
  const hasBlockMemory = partition === "block" && (pattern === "edge" || pattern === "pull");
  if (isVariant && !hasBlockMemory && pattern !== "path") return false;
  // The lanes' exchange of the second half of a block needs the barrier in another place.
  if (mistake === "sync" && (!hasBlockMemory || isVariant)) return false;
  if (mistake === "bounds" && (isPersistent || partition !== "first" && partition !== "thread")) return false;
  // These count larger neighbors in any case.
  if ((pattern === "vertex" || pattern === "worklist") && isConditional) return false;
  if (pattern === "path" && (isReversed || isConditional || mistake !== "none" && isVariant)) return false;
  return true;
}

/** The geometry of a launch: enough for all vertices, or so little that threads take several. */
export function geometryOf(
  { partition, isPersistent }: GraphKernel,
  vertices: number,
): { grid: number; block: number } {
  const block = 64;
  if (isPersistent) return { grid: 3, block: partition === "first" || partition === "thread" ? 8 : block };
  switch (partition) {
    case "warp":
      return { grid: Math.ceil(vertices / 2), block };
    case "block":
      return { grid: vertices, block };
    default:
      return { grid: Math.ceil(vertices / block) + 1, block };
  }
}

/** A graph. */
export interface Graph {
  readonly vertices: number;
  readonly offsets: Int32Array<ArrayBuffer>;
  readonly neighbors: Int32Array<ArrayBuffer>;
}

/**
 * A graph whose first and last vertex have no neighbors. Some of the others have many. Several have the same first
 * neighbor, and the same last one, so that what is wrong goes wrong.
 */
export function graph(): Graph {
  const vertices = 40;
  const offsets = new Int32Array(vertices + 1);
  const neighbors: number[] = [];
  for (let vertex = 0; vertex < vertices; vertex++) {
    offsets[vertex] = neighbors.length;
    const degree = vertex === 0 || vertex === vertices - 1 ? 0 : vertex % 7 === 0 ? 100 : vertex % 5 + 1;
    for (let edge = 0; edge < degree; edge++) {
      const isEnd = edge === 0 || edge === degree - 1;
      neighbors.push(isEnd ? vertices - 2 - vertex % 2 : (vertex * 17 + edge * 11 + 5) % vertices);
    }
  }
  offsets[vertices] = neighbors.length;
  return { vertices, offsets, neighbors: Int32Array.from(neighbors) };
}
