// A process whose Workers each use the same device: process.ts DRIVER SCENARIO FOLDER. The scenarios are functions of
// `scenarios`. Prints one line of JSON with what the scenario returns, and exits by itself. A process of its own,
// because the loss of a context ends all work of a process.
import process from "node:process";
import { Worker } from "node:worker_threads";
import type { Answer, Command, WorkerData } from "./worker.ts";

const [driverName, scenario, folder] = process.argv.slice(2) as [string, keyof typeof scenarios, string];
/** In this time after the loss of a context is known, all waits must have ended. */
const promptMilliseconds = 1000;
/** A scenario that takes longer hangs. */
const hangMilliseconds = 60_000;

let started = 0;
/** The commands that have not been answered, each with its Worker's number. */
const unanswered = new Set<string>();

class RemoteWorker {
  readonly #number = ++started;
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  #settle: { resolve(result: unknown): void; reject(error: unknown): void } | undefined;

  constructor() {
    const workerData: WorkerData = { driverName, seed: this.#number, socketPath: `${folder}/${this.#number}` };
    this.#worker = new Worker(new URL("worker.ts", import.meta.url), { workerData });
    this.#exited = new Promise((resolve) => this.#worker.on("exit", resolve));
    this.#worker.on("error", (error) => this.#settle?.reject(error));
    this.#worker.on("message", ({ result, error }: Answer) => {
      if (error === undefined) this.#settle?.resolve(result);
      else this.#settle?.reject(new Error(error));
    });
  }

  /** Resolves with the result of a command. One command runs at a time. */
  async run(command: Command): Promise<unknown> {
    const name = `${command} of Worker ${this.#number}`;
    unanswered.add(name);
    const result = await new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#worker.postMessage(command);
    });
    unanswered.delete(name);
    return result;
  }

  /** Runs commands in order. */
  async runAll(...commands: readonly Command[]): Promise<void> {
    for (const command of commands) await this.run(command);
  }

  /** Ends the Worker, whatever it is doing. */
  async terminate(): Promise<void> {
    await this.#worker.terminate();
    await this.#exited;
  }
}

function startWorkers<const N extends readonly unknown[]>(count: N): { [K in keyof N]: RemoteWorker } {
  return count.map(() => new RemoteWorker()) as { [K in keyof N]: RemoteWorker };
}

function endAll(workers: readonly RemoteWorker[]): Promise<unknown> {
  return Promise.all(workers.map((worker) => worker.terminate()));
}

const scenarios = {
  /** All Workers do the same, with other data, at the same time. */
  async compute(): Promise<unknown> {
    const workers = startWorkers([1, 2, 3, 4]);
    await Promise.all(workers.map((worker) => worker.run("compute")));
    await endAll(workers);
    return "right";
  },

  /** A Worker disposes its `Cuda` while another computes and another waits. */
  async dispose(): Promise<unknown> {
    const workers = startWorkers([1, 2, 3]);
    const [closing, waiting, computing] = workers;
    for (const worker of workers) await worker.run("open");
    await waiting.run("waitForMemory");
    await Promise.all([closing.run("dispose"), computing.run("compute")]);
    await closing.terminate();
    await waiting.run("release");
    const outcomes = await waiting.run("outcomes");
    await Promise.all([waiting, computing].map((worker) => worker.runAll("use", "compute", "use", "dispose")));
    await endAll([waiting, computing]);
    return outcomes;
  },

  /** Workers are terminated while they wait, with everything that they have opened. */
  async terminate(): Promise<unknown> {
    const workers = startWorkers([1, 2, 3]);
    const [first, second, other] = workers;
    for (const worker of workers) await worker.run("open");
    await first.run("waitForPeer");
    await second.run("waitForPeer");
    await first.terminate();
    await Promise.all([second.terminate(), other.runAll("use", "compute")]);
    const later = new RemoteWorker();
    await Promise.all([later, other].map((worker) => worker.runAll("compute", "open", "use", "dispose")));
    await endAll([later, other]);
    return "right";
  },

  /** A kernel of one Worker traps while others wait. */
  async fail(): Promise<unknown> {
    const workers = startWorkers([1, 2, 3]);
    const [failing, waiting, idle] = workers;
    for (const worker of workers) await worker.run("open");
    await waiting.run("wait");
    const failure = await failing.run("fail");
    const begun = performance.now();
    if (driverName === "software") await waiting.run("release");
    const waits = await waiting.run("outcomes");
    const isPrompt = performance.now() - begun < promptMilliseconds;
    const next = [await waiting.run("next"), await idle.run("next"), await failing.run("next")];
    const another = await idle.run("openAnother");
    for (const worker of workers) await worker.run("dispose");
    await endAll(workers);
    return { failure, waits, isPrompt, next, another };
  },
};

const watchdog = setTimeout(() => {
  console.error("These do not end:", [...unanswered].join(", "));
  process.exit(1);
}, hangMilliseconds);
console.log(JSON.stringify(await scenarios[scenario]()));
clearTimeout(watchdog);
