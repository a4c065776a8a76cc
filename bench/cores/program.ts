/**
 * Runs workloads with a number of threads in the current runtime. `main.ts` starts this program, and asks it for runs by
 * lines of JSON.
 *
 *     program.ts CHECKOUT THREADS
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { type PreparedWorkload, prepareWorkload } from "../software/prepared_workload.ts";
import { xorshift } from "../software/workloads.ts";
import { importCheckout } from "./checkout.ts";
import { prepareLaunches, shortLaunches } from "./short_launches.ts";
import { coresWorkloads } from "./workloads.ts";

/** A request for a run. What is prepared stays so until the next request with another name. */
export interface CoresRequest {
  readonly kind: "workload" | "launches" | "timers";
  readonly name: string;
  /** Whether the answer must have a hash of the results. */
  readonly hasDigest?: boolean;
}

/** The answer to a request. */
export interface CoresAnswer {
  readonly milliseconds: number;
  /** A hash of the arrays of a workload after the run, if the request asks for it. */
  readonly digest?: string;
  /** How many milliseconds after its time the latest timer ran. */
  readonly lateness?: number;
}

/** The time in milliseconds after which each timer is to run while a kernel runs. */
const timerMilliseconds = 2;

interface Prepared extends Disposable {
  run(request: CoresRequest): CoresAnswer | Promise<CoresAnswer>;
}

const [folder, threads] = process.argv.slice(2) as [string, string];
const checkout = await importCheckout(folder);
let prepared: (CoresRequest & Prepared) | undefined;

function prepare({ kind, name }: CoresRequest): Prepared {
  const owned = new DisposableStack();
  const workload = coresWorkloads.find((workload) => workload.name === name);
  const cuda = owned.use(checkout.open({ threads: Number(threads), gangs: workload?.gangs ?? true }));
  const device = cuda.device(0);
  const dispose = { [Symbol.dispose]: () => owned.dispose() };
  if (kind === "launches") {
    const launches = owned.use(prepareLaunches(device, shortLaunches.find((launches) => launches.name === name)!));
    return { run: () => ({ milliseconds: launches.run() }), ...dispose };
  }
  if (kind === "timers") {
    const kernel = owned.use(prepareWorkload(device, xorshift({ generators: 262_144, numbers: 8192 })));
    return { run: () => timeTimers(kernel), ...dispose };
  }
  const ready = owned.use(prepareWorkload(device, workload!));
  return {
    run({ hasDigest }) {
      const start = performance.now();
      ready.run();
      const milliseconds = performance.now() - start;
      return hasDigest ? { milliseconds, digest: ready.digest() } : { milliseconds };
    },
    ...dispose,
  };
}

/** Lets timers run, one after another, until the kernel is done. */
async function timeTimers(kernel: PreparedWorkload): Promise<CoresAnswer> {
  let lateness = 0, isDone = false;
  const start = performance.now();
  kernel.launch();
  const ended = new Promise<void>((resolve) => {
    const next = () => {
      const set = performance.now();
      setTimeout(() => {
        lateness = Math.max(lateness, performance.now() - set - timerMilliseconds);
        if (isDone) resolve();
        else next();
      }, timerMilliseconds);
    };
    next();
  });
  await kernel.stream.finished();
  const milliseconds = performance.now() - start;
  isDone = true;
  await ended;
  return { milliseconds, lateness };
}

console.log(JSON.stringify({}));
for await (const line of createInterface({ input: process.stdin })) {
  const request: CoresRequest = JSON.parse(line);
  if (prepared?.kind !== request.kind || prepared.name !== request.name) {
    prepared?.[Symbol.dispose]();
    prepared = { ...request, ...prepare(request) };
  }
  console.log(JSON.stringify(await prepared.run(request)));
}
prepared?.[Symbol.dispose]();
