/** The CUDA C++ of kernels on graphs. */
import { type GraphKernel, type Mistake, nameOf, type Partition } from "./graph_kernels.ts";

const global = "blockIdx.x * blockDim.x + threadIdx.x";
const workers: Readonly<Record<Partition, { index: string; count: string }>> = {
  first: { index: global, count: "gridDim.x * blockDim.x" },
  thread: { index: global, count: "gridDim.x * blockDim.x" },
  warp: { index: `(${global}) / 32`, count: "gridDim.x * blockDim.x / 32" },
  block: { index: "blockIdx.x", count: "gridDim.x" },
};

/** A kernel's source in CUDA C++. */
export function sourceOf(kernel: GraphKernel): string {
  const { partition, mistake, isPersistent, type } = kernel;
  const { index, count } = workers[partition];
  const isUnchecked = mistake === "bounds" && partition === "thread";
  const loop = isPersistent
    ? `for (int v = ${index}; v < vertices; v += ${count}) {`
    : `int v = ${index};\n  ${isUnchecked ? "{" : "if (v < vertices) {"}`;
  const { before, inside } = bodyOf(kernel);
  return `extern "C" __global__ void ${nameOf(kernel)}(
    int* offsets, int* neighbors, ${type}* data1, ${type}* data2, int vertices) {
  ${[...before, loop].join("\n  ")}
    ${inside.join("\n    ")}
  }
}
`;
}

interface Body {
  /** Before the loop over vertices, and in it. */
  readonly before: readonly string[];
  readonly inside: readonly string[];
}

function bodyOf(kernel: GraphKernel): Body {
  const { pattern, partition } = kernel;
  if (pattern === "path") return { before: [], inside: pathCompression(kernel) };
  const range = ["int begin = offsets[v];", "int end = offsets[v + 1];"];
  switch (partition) {
    case "first": {
      const edge = kernel.isReversed ? "end - 1" : "begin";
      const check = kernel.mistake === "bounds" ? "{" : "if (begin < end) {";
      return { before: [], inside: [...range, check, `int edge = ${edge};`, ...visit(kernel), "}"] };
    }
    case "thread":
      return { before: [], inside: [...range, ...loopOver(kernel, "0", "1"), ...visit(kernel), "}"] };
    case "warp": {
      const lane = "int lane = threadIdx.x % 32;";
      return { before: [lane], inside: [...range, ...together(kernel, "lane", "32", warpSteps(kernel))] };
    }
    case "block":
      return inBlock(kernel, range);
  }
}

/** Begins a loop over a vertex's edges. */
function loopOver({ isReversed }: GraphKernel, first: string, step: string): string[] {
  return [
    isReversed
      ? `for (int edge = end - 1 - ${first}; edge >= begin; edge -= ${step}) {`
      : `for (int edge = begin + ${first}; edge < end; edge += ${step}) {`,
  ];
}

/** What a thread does with an edge. */
function visit(kernel: GraphKernel): string[] {
  const { pattern, isConditional } = kernel;
  const needsLarger = isConditional || pattern === "vertex" || pattern === "worklist";
  return [
    "int other = neighbors[edge];",
    needsLarger ? "if (v < other) {" : "{",
    ...update(kernel),
    "}",
  ];
}

function update({ pattern, mistake, type }: GraphKernel): string[] {
  const isPlain = mistake === "atomic";
  switch (pattern) {
    case "edge":
      return largest("data2[other]", mistake);
    case "vertex":
      return [isPlain ? "data1[0]++;" : `atomicAdd(data1, (${type})1);`];
    case "worklist":
      return [
        `${type} place = ${isPlain ? "data2[0]++" : `atomicAdd(data2, (${type})1)`};`,
        `data1[place] = (${type})edge;`,
      ];
    case "pull":
      return ["data1[v] += data2[other];"];
    case "push":
      return [isPlain ? "data1[other] = min(data1[other], data2[v]);" : "atomicMin(&data1[other], data2[v]);"];
    case "path":
      return [];
  }
}

/** Makes `data1[0]` at least a value. */
function largest(value: string, mistake: Mistake): string[] {
  const update = mistake === "atomic" ? `data1[0] = max(data1[0], ${value});` : `atomicMax(data1, ${value});`;
  return mistake === "guard" ? [`if (data1[0] < ${value}) {`, update, "}"] : [update];
}

/** The steps of several threads that work on the edges of a vertex together. */
interface Steps {
  /** Behind the loop over edges, with the thread's own result in `value`. */
  readonly behind: readonly string[];
}

function together(kernel: GraphKernel, first: string, step: string, { behind }: Steps): string[] {
  const { pattern, type, isConditional } = kernel;
  if (pattern === "worklist" || pattern === "push") return [...loopOver(kernel, first, step), ...visit(kernel), "}"];
  const take = pattern === "edge" ? "value = max(value, data2[other]);" : "value += data2[other];";
  const isVertex = pattern === "vertex";
  const visits = isVertex ? countTogether(kernel, first, step) : [
    ...loopOver(kernel, first, step),
    "int other = neighbors[edge];",
    ...isConditional ? ["if (v < other) {", take, "}"] : [take],
    "}",
  ];
  return [`${type} value = 0;`, ...visits, ...behind];
}

/** Counts edges with all threads of a warp or a block, none of which leaves the loop before the others. */
function countTogether({ isReversed, partition }: GraphKernel, first: string, step: string): string[] {
  const isInside = isReversed ? "edge >= begin" : "edge < end";
  const [any, count] = partition === "warp"
    ? [`__any_sync(~0u, ${isInside})`, "__popc(__ballot_sync(~0u, v < other))"]
    : [`__syncthreads_or(${isInside})`, "__syncthreads_count(v < other)"];
  return [
    isReversed
      ? `for (int edge = end - 1 - ${first}; ${any}; edge -= ${step}) {`
      : `for (int edge = begin + ${first}; ${any}; edge += ${step}) {`,
    `int other = ${isInside} ? neighbors[edge] : v;`,
    `value += ${count};`,
    "}",
  ];
}

function warpSteps({ pattern, type, mistake }: GraphKernel): Steps {
  switch (pattern) {
    case "edge":
      return { behind: [...exchange(pattern), "if (lane == 0) {", ...largest("value", mistake), "}"] };
    case "vertex":
      return {
        behind: [`if (lane == 0) ${mistake === "atomic" ? "data1[0] += value;" : `atomicAdd(data1, (${type})value);`}`],
      };
    case "pull":
      return { behind: [...exchange(pattern), "if (lane == 31) data1[v] += value;"] };
    default:
      return { behind: [] };
  }
}

/** Joins the values of a warp's lanes: of all in each, or of those up to each. */
function exchange(pattern: "edge" | "pull"): string[] {
  return pattern === "edge"
    ? ["for (int step = 1; step < 32; step *= 2) value = max(value, __shfl_xor_sync(~0u, value, step));"]
    : ["for (int step = 1; step < 32; step *= 2) value += __shfl_up_sync(~0u, value, step);"];
}

function inBlock(kernel: GraphKernel, range: readonly string[]): Body {
  const { pattern, type, mistake, isVariant } = kernel;
  if (pattern === "vertex") {
    const add = mistake === "atomic" ? "data1[0] += value;" : `atomicAdd(data1, (${type})value);`;
    const steps = { behind: [`if (threadIdx.x == 0) ${add}`] };
    return { before: [], inside: [...range, ...together(kernel, "threadIdx.x", "blockDim.x", steps)] };
  }
  if (pattern !== "edge" && pattern !== "pull") {
    return { before: [], inside: [...range, ...together(kernel, "threadIdx.x", "blockDim.x", { behind: [] })] };
  }
  const barrier = mistake === "sync" ? [] : ["__syncthreads();"];
  const join = (a: string, b: string) => pattern === "edge" ? `max(${a}, ${b})` : `${a} + ${b}`;
  const finish = (value: string) => pattern === "edge" ? largest(value, mistake) : [`data1[v] += ${value};`];
  const last = pattern === "edge" ? 0 : 31;
  const behind = isVariant
    ? [
      ...exchange(pattern),
      `if (lane == ${last}) carry[warp] = value;`,
      "__syncthreads();",
      "if (warp == 0) {",
      "value = carry[lane];",
      ...exchange(pattern),
      `if (lane == ${last}) {`,
      ...finish("value"),
      "}",
      "}",
    ]
    : [
      "carry[thread] = value;",
      ...barrier,
      "for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {",
      `if (thread < stride) carry[thread] = ${join("carry[thread]", "carry[thread + stride]")};`,
      "__syncthreads();",
      "}",
      "if (thread == 0) {",
      "value = carry[0];",
      ...finish("value"),
      "}",
    ];
  return {
    before: isVariant
      ? [
        `__shared__ ${type} carry[32];`,
        "int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
        "if (warp == 0) carry[lane] = 0;",
      ]
      : [`__shared__ ${type} carry[1024];`, "int thread = threadIdx.x;", "carry[thread] = 0;"],
    inside: ["__syncthreads();", ...range, ...together(kernel, "threadIdx.x", "blockDim.x", { behind })],
  };
}

function pathCompression({ type, mistake, isVariant }: GraphKernel): string[] {
  const isPlain = mistake === "race" || isVariant;
  const parent = isPlain ? "data1[root]" : `atomicOr(&data1[root], (${type})0)`;
  const write = isVariant ? "data2[v] = root;" : isPlain ? "data1[v] = root;" : "atomicExch(&data1[v], root);";
  return [`${type} root = v;`, `while (root > ${parent}) root = ${parent};`, write];
}
