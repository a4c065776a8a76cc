/**
 * A program whose calls and kernels take longer with the sanitizer, which answers requests, as
 * `bench/sharing/contract.ts` says. Engines compile calls for the objects that they see: one process has either kind.
 *
 *     program.ts calls|kernels plain|sanitized
 *
 * @module
 */
import process from "node:process";
import { ptx as mandelbrotPtx } from "../../kernels/mandelbrot.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { open } from "../../mod.ts";
import { frameCount } from "../../src/sanitizer/reporting/call_stacks.ts";
import { answerRequests, type Request, type Workload } from "../sharing/contract.ts";

const [what, kind] = process.argv.slice(2) as ["calls" | "kernels", "plain" | "sanitized"];

/** The calls of a sample. */
const batch = 200;

const sanitize = kind === "sanitized";
// Checks run kernels on one thread.
using cuda = open(what === "calls" ? { sanitize } : { driver: "software", softwareThreads: 1, sanitize });
const gpu = cuda.device(0);
using owned = new DisposableStack();

/**
 * Takes samples, in nanoseconds. In a microtask, and not in an asynchronous function, whose callers would be in each call
 * stack: what is measured is called by functions as deep as those of a script, not by timers of the runtime.
 */
function samples(time: () => number): Workload {
  return ({ repetitions, warmUp = 0 }: Request) =>
    new Promise((resolve) =>
      queueMicrotask(() => {
        const times: number[] = [];
        for (let sample = 0; sample < warmUp; sample++) time();
        for (let sample = 0; sample < repetitions; sample++) times.push(time());
        resolve(times);
      })
    );
}

/** Samples of one call, when nothing waits for the device. */
function perCall(call: () => void): Workload {
  return samples(() => {
    const start = performance.now();
    for (let count = 0; count < batch; count++) call();
    const elapsed = performance.now() - start;
    gpu.synchronize();
    return elapsed * 1e6 / batch;
  });
}

function calls(): Record<string, Workload> {
  const [stream, other] = [0, 1].map(() => owned.use(gpu.createStream({ nonBlocking: true }))) as [
    ReturnType<typeof gpu.createStream>,
    ReturnType<typeof gpu.createStream>,
  ];
  const pool = owned.use(gpu.createPool({ releaseThreshold: Infinity }));
  const [x, y] = [0, 1].map(() => owned.use(pool.allocateArray(Float32Array, 256, stream)));
  const event = owned.use(gpu.createEvent());
  const saxpy = owned.use(gpu.loadModule(saxpyPtx)).kernel("saxpy");
  return {
    "allocate + free": perCall(() => pool.allocate(1024, stream).free()),
    "fill": perCall(() => x!.fill(1)),
    "record + wait": perCall(() => {
      stream.record(event);
      other.wait(event);
    }),
    "launch": perCall(() => saxpy.launch({ grid: 1, block: 256, stream }, 256, 2, x!, y!)),
    "call stack": callStack(),
  };
}

/** Of a call stack that is as deep as that of a fill. */
function callStack(): Workload {
  const note = (depth: number): Error => {
    if (depth === 0) return new Error();
    const site = note(depth - 1);
    return site;
  };
  let last: Error | undefined;
  const measure = perCall(() => last = note(3));
  return async (request) => {
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = frameCount;
    const times = await measure(request);
    Error.stackTraceLimit = limit;
    if (last?.stack === undefined) throw new Error("there is no call stack");
    return times;
  };
}

function kernels(): Record<string, Workload> {
  const pool = owned.use(gpu.createPool());
  const count = 2 ** 18;
  const [x, y] = [0, 1].map(() => owned.use(pool.allocateArray(Float32Array, count)));
  // The check of initialization notes each word that nothing has written.
  for (const buffer of [x!, y!]) buffer.fill(1);
  const pixels = owned.use(pool.allocateArray(Uint32Array, 512 * 512));
  const saxpy = owned.use(gpu.loadModule(saxpyPtx)).kernel("saxpy");
  const mandelbrot = owned.use(gpu.loadModule(mandelbrotPtx)).kernel("mandelbrot");
  const time = (run: () => void): Workload =>
    samples(() => {
      const start = performance.now();
      run();
      gpu.synchronize();
      return (performance.now() - start) * 1e6;
    });
  return {
    "saxpy of 262,144 elements": time(() => saxpy.launch({ grid: count / 256, block: 256 }, count, 2, x!, y!)),
    "Mandelbrot of 512 x 512": time(() =>
      mandelbrot.launch({ grid: [32, 32], block: [16, 16] }, pixels, 512, 512, -2.5, -1.5, 3 / 512, 256)
    ),
  };
}

await answerRequests({
  name: kind,
  device: gpu.name,
  uuid: gpu.uuid,
  isSoftware: cuda.driver === "software",
  versions: "",
}, what === "calls" ? calls() : kernels());
