/**
 * Measures the software device beside loops in C with OpenMP, and beside POCL, all of them on all cores.
 *
 * @module
 */
import type { CudaDevice } from "../../mod.ts";
import { formatSpread, median, type Times, warmUpRounds } from "../harness/measurement.ts";
import { loadOpenCl, MissingError, type OpenCl, prepareOpenCl } from "../opencl/opencl.ts";
import { type CLoops, loadCLoops } from "../software/c_loops.ts";
import { prepareWorkload } from "../software/prepared_workload.ts";
import { mandelbrot, matrixMultiply, sha256, type Workload } from "../software/workloads.ts";

/** The workloads that are measured. */
export const nativeWorkloads: readonly Workload[] = [
  matrixMultiply("matrix multiply 1024", {
    file: "matrix_multiply",
    tile: 32,
    loop: "matrix_multiply_32",
    size: 1024,
  }),
  mandelbrot(),
  sha256({ messageCount: 262_144 }),
];

/** The least acceptable quotient of C's time and the device's. */
const goalBesideC = 0.6;

/**
 * The time in milliseconds between two runs. Threads of OpenMP spin for a while after a loop, and would compete with those
 * of the next run.
 */
const pauseMilliseconds = 10;

/** What the software device is compared with. */
export interface Natives extends Disposable {
  /** The compiler and its options, and POCL's version, or why they are not there. */
  readonly descriptions: readonly string[];
  readonly loops: CLoops | undefined;
  readonly opencl: OpenCl | undefined;
}

/** Compiles the loops and the kernels in OpenCL C. */
export function loadNatives(): Natives {
  const owned = new DisposableStack();
  const descriptions: string[] = [];
  /** Notes what is missing. */
  const attempt = <Loaded>(name: string, load: () => Loaded): Loaded | undefined => {
    try {
      return load();
    } catch (error) {
      if (!(error instanceof MissingError || error instanceof Deno.errors.NotFound)) throw error;
      descriptions.push(
        `${name} is not measured: ${error instanceof MissingError ? error.message : "there is no gcc"}`,
      );
      return undefined;
    }
  };
  const loaded = attempt("C", () => owned.use(loadCLoops({ hasThreads: true })));
  if (loaded !== undefined) descriptions.push(loaded.compiler);
  const pocl = attempt("POCL", loadOpenCl);
  if (pocl !== undefined) descriptions.push(pocl.version);
  return {
    descriptions,
    loops: loaded?.loops,
    opencl: pocl?.opencl,
    [Symbol.dispose]: () => owned.dispose(),
  };
}

/** The names of the columns after the workload's. */
export const nativeColumns: readonly string[] = [
  "C, ms",
  "POCL, ms",
  "software device, ms",
  "C / device",
  "goal, met",
  "POCL / device, faster",
];

/** Measures a workload on all that there are, in turn. Returns the cells of its row. Compares the results bit for bit. */
export function measureBesideNatives(
  workload: Workload,
  { device, natives: { loops, opencl }, rounds }: { device: CudaDevice; natives: Natives; rounds: number },
): string[] {
  using ours = prepareWorkload(device, workload);
  const arrays = workload.arrays();
  const theirs = opencl && prepareOpenCl(opencl, workload);
  const contenders = [
    loops && (() => workload.loop(loops, arrays)),
    theirs?.run,
    ours.run,
  ].map((run) => ({ run, times: [] as number[] }));
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const { run, times } of contenders) {
      if (run === undefined) continue;
      const elapsed = timeAfterPause(run);
      if (round >= 0) times.push(elapsed);
    }
  }
  if (loops !== undefined) ours.assertEqual(arrays);
  if (theirs !== undefined) ours.assertEqual(theirs.read());
  const [c, pocl, own] = contenders.map(({ times }): Times => times) as [Times, Times, Times];
  const ratioToC = median(c) / median(own), ratioToPocl = median(pocl) / median(own);
  return [
    ...[c, pocl, own].map((times) => times.length === 0 ? "" : formatSpread(times)),
    ...c.length === 0 ? ["", ""] : [ratioToC.toFixed(2), `${goalBesideC}, ${ratioToC >= goalBesideC ? "yes" : "NO"}`],
    pocl.length === 0 ? "" : `${ratioToPocl.toFixed(2)}, ${ratioToPocl > 1 ? "yes" : "NO"}`,
  ];
}

function timeAfterPause(run: () => void): number {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMilliseconds);
  const start = performance.now();
  run();
  return performance.now() - start;
}
