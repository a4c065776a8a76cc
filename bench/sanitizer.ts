/**
 * Measures what the sanitizer costs: a call's time on the host with and without it, and a kernel's on the software
 * device.
 *
 *     deno task bench:sanitizer [--rounds 10]
 *
 * Calls are measured on a GPU if there is one. Both kinds take turns in each round, in one process. The time of a call
 * stack alone, at the same depth as that of a fill, is printed, too: each call that accesses memory notes one.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../examples/table.ts";
import { ptx as mandelbrotPtx } from "../kernels/mandelbrot.ts";
import { ptx as saxpyPtx } from "../kernels/saxpy.ts";
import { type Cuda, open } from "../mod.ts";
import { answerHelp } from "../tests/support/program_help.ts";
import { median } from "./measurement.ts";

answerHelp(import.meta.url, ["rounds"]);

const { rounds } = parseArgs(Deno.args, { string: ["rounds"], default: { rounds: "10" } });
const batch = 200;

/** What to measure: returns the time of one call or kernel, in microseconds. */
type Measurement = (cuda: Cuda, owned: DisposableStack) => Record<string, () => number>;

/** Rounds that are not measured: until a method was called some thousand times, engines do not compile all of it. */
const warmUp = { calls: 20, kernels: 2 };

function perCall(call: () => void, finish: () => void): number {
  const start = performance.now();
  for (let count = 0; count < batch; count++) call();
  const elapsed = performance.now() - start;
  finish();
  return elapsed * 1000 / batch;
}

const calls: Measurement = (cuda, owned) => {
  const gpu = cuda.device(0);
  const stream = gpu.createStream({ nonBlocking: true }), other = gpu.createStream({ nonBlocking: true });
  const pool = gpu.createPool({ releaseThreshold: Infinity });
  const [x, y] = [0, 1].map(() => owned.use(pool.allocateArray(Float32Array, 256, stream)));
  const event = gpu.createEvent();
  const saxpy = gpu.loadModule(saxpyPtx).kernel("saxpy");
  const finish = () => gpu.synchronize();
  return {
    "allocate + free": () => perCall(() => pool.allocate(1024, stream).free(), finish),
    "fill": () => perCall(() => x!.fill(1), finish),
    "record + wait": () =>
      perCall(() => {
        stream.record(event);
        other.wait(event);
      }, finish),
    "launch": () => perCall(() => saxpy.launch({ grid: 1, block: 256, stream }, 256, 2, x!, y!), finish),
  };
};

const kernels: Measurement = (cuda, owned) => {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const count = 2 ** 18;
  const [x, y] = [0, 1].map(() => owned.use(pool.allocateArray(Float32Array, count)));
  // The check of initialization notes each word that nothing has written.
  for (const buffer of [x!, y!]) buffer.fill(1);
  const pixels = owned.use(pool.allocateArray(Uint32Array, 512 * 512));
  const saxpy = gpu.loadModule(saxpyPtx).kernel("saxpy");
  const mandelbrot = gpu.loadModule(mandelbrotPtx).kernel("mandelbrot");
  const time = (run: () => void) => {
    const start = performance.now();
    run();
    gpu.synchronize();
    return (performance.now() - start) * 1000;
  };
  return {
    "saxpy of 262,144 elements": () => time(() => saxpy.launch({ grid: count / 256, block: 256 }, count, 2, x!, y!)),
    "Mandelbrot of 512 x 512": () =>
      time(() => mandelbrot.launch({ grid: [32, 32], block: [16, 16] }, pixels, 512, 512, -2.5, -1.5, 3 / 512, 256)),
  };
};

/** The time of a call stack that is as deep as that of a fill. */
function callStackTime(): number {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 40;
  const note = (depth: number): Error => {
    if (depth === 0) return new Error();
    const site = note(depth - 1);
    return site;
  };
  let last: Error | undefined;
  const times = Array.from({ length: warmUp.calls + Number(rounds) }, () => perCall(() => last = note(3), () => {}));
  Error.stackTraceLimit = limit;
  if (last?.stack === undefined) throw new Error("there is no call stack");
  return median(times.slice(warmUp.calls));
}

function measure(what: Measurement, driver: "auto" | "software", warmUpRounds: number): void {
  using plain = open({ driver, sanitize: false });
  using sanitized = open({ driver, sanitize: true });
  using owned = new DisposableStack();
  const [without, withIt] = [what(plain, owned), what(sanitized, owned)] as const;
  const rows = Object.keys(without).map((name) => {
    const times: [number[], number[]] = [[], []];
    for (let round = -warmUpRounds; round < Number(rounds); round++) {
      const taken = [without[name]!(), withIt[name]!()];
      if (round >= 0) taken.forEach((time, index) => times[index]!.push(time));
    }
    const [a, b] = times.map(median) as [number, number];
    return [name, a.toFixed(2), b.toFixed(2), (b - a).toFixed(2), (b / a).toFixed(2)];
  });
  console.log(formatTable([[plain.device(0).name, "plain, us", "sanitized, us", "more, us", "ratio"], ...rows]));
}

measure(calls, "auto", warmUp.calls);
console.log(`A call stack alone: ${callStackTime().toFixed(2)} us`);
measure(kernels, "software", warmUp.kernels);
