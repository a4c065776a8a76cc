/**
 * The workloads that are measured with several numbers of threads.
 *
 * @module
 */
import { ptx as reducePtx } from "../../kernels/reduce.ts";
import type { KernelWorkload } from "../software/prepared_workload.ts";
import { floats, mandelbrot, matrixMultiply, saxpy, sha256, xorshift } from "../software/workloads.ts";

/** The acceptable speedups by the numbers of threads for which there is a goal; a function if there is one for all. */
type Goal = Readonly<Record<number, number>> | ((threads: number) => number);

/** A workload that threads share. */
export interface CoresWorkload extends KernelWorkload {
  /** Whether threads of the kernel run in gangs if the cost model expects a gain. Default: true. */
  readonly gangs?: boolean;
  /** How many times as fast as on one thread it is to be. */
  readonly goal: Goal;
}

const sixteen = (speedup: number): Goal => ({ 16: speedup });
const most: Goal = (threads) => 0.8 * threads;

/** All workloads, in the order of the table. */
export const coresWorkloads: readonly CoresWorkload[] = [
  {
    ...matrixMultiply("matrix multiply 1024", {
      file: "matrix_multiply",
      tile: 32,
      loop: "matrix_multiply_32",
      size: 1024,
    }),
    goal: most,
  },
  { ...mandelbrot(), name: "Mandelbrot by threads", gangs: false, goal: most },
  { ...mandelbrot(), name: "Mandelbrot by gangs", goal: most },
  { ...xorshift({ generators: 262_144, numbers: 1024 }), goal: sixteen(10) },
  { ...saxpy("SAXPY, 16 M floats", { goal: undefined, grid: 2 ** 24 / 256 }), goal: sixteen(8) },
  blockReduction({ goal: sixteen(6.5) }),
  {
    ...matrixMultiply("matrix multiply 256, block scheduler", {
      file: "matrix_multiply",
      tile: 16,
      loop: "matrix_multiply_16",
      size: 256,
    }),
    gangs: false,
    goal: sixteen(7),
  },
  { ...sha256({ messageCount: 262_144 }), goal: most },
];

/** Returns the speedup that a workload is to reach with a number of threads, if there is a goal. */
export function goalOf({ goal }: CoresWorkload, threads: number, runtime: string): number | undefined {
  if (typeof goal !== "function") return goal[threads];
  return runtime === "bun" && threads === 2 ? 1.4 : goal(threads);
}

function blockReduction({ goal }: { goal: Goal }): CoresWorkload {
  const [count, blocks] = [2 ** 24, 1024];
  return {
    name: "block reduction",
    goal,
    ptx: reducePtx,
    kernel: "reduce_sum",
    launch: { grid: blocks, block: 256 },
    arrays: () => ({ input: floats(count), sums: new Float32Array(blocks) }),
    arguments: ["input", count, "sums"],
  };
}
