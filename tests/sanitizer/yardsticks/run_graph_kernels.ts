/** Runs kernels on graphs with checks, and returns what was found of each. */
import { CudaError, open, type SanitizerCheck, type SanitizerReport } from "../../../mod.ts";
import { geometryOf, graph, type GraphKernel, nameOf } from "./graph_kernels.ts";

/** What was found of a kernel. */
export interface Found {
  readonly kernel: GraphKernel;
  readonly reports: readonly SanitizerReport[];
}

/** Runs kernels of a module, each once on the same graph. A kernel that faults ends its devices: the next has others. */
export function foundIn(ptx: string, kernels: readonly GraphKernel[], checks: readonly SanitizerCheck[]): Found[] {
  const found: Found[] = [];
  while (found.length < kernels.length) found.push(...foundUntilFault(ptx, kernels.slice(found.length), checks));
  return found;
}

function foundUntilFault(ptx: string, kernels: readonly GraphKernel[], checks: readonly SanitizerCheck[]): Found[] {
  let reports: SanitizerReport[] = [];
  const found: Found[] = [];
  using cuda = open({ driver: "software", sanitize: checks, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const module = gpu.loadModule(ptx);
  const { vertices } = graph();
  for (const kernel of kernels) {
    reports = [];
    found.push({ kernel, reports });
    const buffers = argumentsOf(kernel).map((values) => {
      const buffer = pool.allocate(values.byteLength);
      buffer.copyFrom(values);
      return buffer;
    });
    module.kernel(nameOf(kernel)).launch(geometryOf(kernel, vertices), ...buffers, vertices);
    try {
      gpu.synchronize();
    } catch (error) {
      if (error instanceof CudaError && error.code === "cudaErrorIllegalAddress") return found;
      throw error;
    }
    for (const buffer of buffers) buffer.free();
  }
  return found;
}

/** What the buffers hold that a kernel is launched with. */
export function argumentsOf(kernel: GraphKernel): (Int32Array<ArrayBuffer> | BigUint64Array<ArrayBuffer>)[] {
  const { vertices, offsets, neighbors } = graph();
  const values = valuesOf(kernel, vertices, neighbors.length);
  const typed = values.map((values) => {
    return kernel.type === "int" ? Int32Array.from(values) : BigUint64Array.from(values, BigInt);
  });
  return [offsets, neighbors, ...typed];
}

/** What `data1` and `data2` hold at first. */
function valuesOf({ pattern }: GraphKernel, vertices: number, edges: number): [number[], number[]] {
  const scattered = Array.from({ length: vertices }, (_, vertex) => (vertex * 37 + 11) % 101);
  const zeros = new Array<number>(edges).fill(0);
  switch (pattern) {
    case "edge":
    case "vertex":
      return [[0], scattered];
    case "worklist":
      return [zeros, [0]];
    case "pull":
      return [zeros.slice(0, vertices), scattered];
    case "push":
      return [scattered.map((value) => value + 1000), scattered];
    case "path":
      // Paths of several steps, which lead to 0.
      return [scattered.map((_, vertex) => Math.max(0, vertex - 1 - vertex % 3)), zeros.slice(0, vertices)];
  }
}
