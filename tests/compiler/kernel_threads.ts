/**
 * Kernels that run on several threads of the process at once, for the compiler's tests.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { Worker } from "node:worker_threads";
import { addressBase } from "../../src/software/abi/addresses.ts";
import {
  exited,
  type LaunchField,
  launchFieldOffset,
  launchFields,
  threadRecord,
} from "../../src/software/abi/launch_record.ts";
import { compilePtx, hostFunctionImports, initializeImage } from "../../src/software/compiler/compile.ts";

/** How often a kernel is called before its thread gives up. A kernel that spins returns after 64 iterations. */
const mostCalls = 2 ** 24;

/** Calls kernels of one thread one after the other, each until it has ended. */
const workerSource = `
const { parentPort, workerData } = require("node:worker_threads");
const { memory, job, functions, imageAddress, launch, record, request, exited, mostCalls, counts } = workerData;
const device = { memory, imageAddress: new WebAssembly.Global({ value: "i64" }, imageAddress) };
for (const name of functions) device[name] = () => { throw new Error("The kernel calls " + name); };
device.refuel = () => 2 ** 20;
const kernels = job.map(({ name, program }) => {
  return { name, run: new WebAssembly.Instance(program, { device }).exports[name] };
});
const words = new Int32Array(memory.buffer);
parentPort.once("message", () => {
  let result = "done";
  try {
    for (const { name, run } of kernels) {
      words.fill(0, record / 4, record / 4 + 16);
      Atomics.store(words, counts / 4 + 1, 0);
      for (let calls = 1; words[request / 4] !== exited; calls++) {
        if (calls > mostCalls) throw new Error(name + " does not end");
        words[request / 4] = 0;
        run(launch);
        Atomics.store(words, counts / 4 + 1, calls);
      }
    }
  } catch (error) {
    result = String(error);
  }
  Atomics.add(words, counts / 4, 1);
  parentPort.postMessage(result);
});
parentPort.postMessage("ready");
`;

/** The variables of kernels that run on other threads, and how far the threads are. */
export interface RunningKernels {
  /** Returns whether a thread has run all its kernels, or has failed. */
  isOver(): boolean;
  /** Returns how often a thread has called the kernel that it runs, if there is only one thread. */
  calls(): number;
  /** Returns the first 16 bytes of a variable, which must have as many. */
  bytes(variable: string): Uint8Array;
}

/**
 * Runs kernels, which must be able to suspend their threads, in blocks of one thread.
 *
 * @param jobs for each thread of the process, the names of its kernels, which it runs one after the other
 * @param meanwhile called when all threads are ready to begin; must return when `isOver` returns true
 */
export async function runOnThreads(
  ptx: string,
  jobs: readonly (readonly string[])[],
  meanwhile: (running: RunningKernels) => void = () => {},
): Promise<RunningKernels> {
  const { image, refusals, kernels, wasm } = compilePtx(ptx);
  for (const refusal of refusals.values()) throw refusal;
  // Blocks of one thread need no lockstep points, which would take longer than everything else that a kernel does.
  const programs = new Map([...kernels].map(([name, kernel]) => {
    const forLaunch = kernel.compileForLaunch({ block: [1, 1, 1], shared: new Map() });
    assert((forLaunch?.kernel ?? kernel).suspensions !== undefined, `${name} is never suspended`);
    return [name, new WebAssembly.Module(forLaunch?.wasm ?? wasm)];
  }));
  const memory = new WebAssembly.Memory({ initial: 65536, maximum: 65536, shared: true });
  const counts = 0x1000, imageBegin = 0x100_0000;
  const imageAddress = addressBase + BigInt(imageBegin);
  initializeImage(image, { view: new DataView(memory.buffer, imageBegin, image.byteLength), address: imageAddress });
  const workers = jobs.map((names, index) => {
    const own = 0x10_0000 * (index + 1);
    const launch = own, record = own + 0x1000;
    const fields: Partial<Record<LaunchField, number>> = {
      ...{ gridX: 1, gridY: 1, gridZ: 1, blockDimX: 1, blockDimY: 1, blockDimZ: 1, lastThread: 1, fuelLeft: 2 ** 20 },
      ...{ threads: record, parameters: own + 0x2000, shared: own + 0x3000 },
      ...{ localMemory: own + 0x4000, savedRegisters: own + 0x8000 },
    };
    const view = new Int32Array(memory.buffer, launch, launchFields.length);
    for (const [field, value] of Object.entries(fields)) view[launchFieldOffset(field as LaunchField) / 4] = value;
    return new Worker(workerSource, {
      eval: true,
      workerData: {
        ...{ memory, job: names.map((name) => ({ name, program: programs.get(name) })), imageAddress },
        ...{ functions: Object.keys(hostFunctionImports({})), launch, record, request: record + threadRecord.request },
        ...{ exited, mostCalls, counts },
      },
    });
  });
  const message = (worker: Worker) =>
    new Promise<unknown>((resolve, reject) => worker.once("message", resolve).once("error", reject));
  await Promise.all(workers.map(message));
  const results = Promise.all(workers.map(message));
  const [ended, called] = [0, 1];
  const words = new Int32Array(memory.buffer, counts, 2);
  const running: RunningKernels = {
    isOver: () => Atomics.load(words, ended) > 0,
    calls: () => Atomics.load(words, called),
    bytes: (variable) => new Uint8Array(memory.buffer, imageBegin + image.variables.get(variable)!.offset, 16),
  };
  for (const worker of workers) worker.postMessage("begin");
  meanwhile(running);
  assertEquals(await results, jobs.map(() => "done"));
  await Promise.all(workers.map((worker) => worker.terminate()));
  return running;
}
