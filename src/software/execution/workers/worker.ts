/**
 * The program of a worker thread: it takes jobs from the board and runs their blocks, for as long as the process lives.
 *
 * @module
 */
import "./address_space.ts";
import { hostFunctionImports } from "../../compiler/helpers/host_imports.ts";
import { ConditionTable } from "../../memory/condition_table.ts";
import { HeapAllocator } from "../../memory/heap_allocator.ts";
import { addressOfOffset } from "../../memory/memory_layout.ts";
import type { LaunchMemory } from "../../memory/linear_memory.ts";
import { InVainError, KernelStop, StepCounter } from "../faults/kernel_fault.ts";
import { type HostFunctionParts, hostFunctions } from "../host_functions.ts";
import { type BlockRunner, blockRunner } from "../launching/block_runner.ts";
import { LaunchRecord } from "../launching/launch_state.ts";
import type { RunKernel, RunnableGangs } from "../modules/kernel_versions.ts";
import type { RunnableKernel } from "../modules/module_loader.ts";
import { Job, JobBoard, jobCount, type JobFields } from "./job_board.ts";
import { type FromWorker, type SentKernel, type ToWorker, type WorkerData, workerThreads } from "./messages.ts";
import { Pace } from "../launching/pace.ts";
import { runBlocks } from "./claimed_blocks.ts";
import { Progress } from "./progress.ts";
import { scratchOfWorker } from "./worker_scratch.ts";

const threads = workerThreads()!;
const { source, index: worker, ports, memory, timeOrigin, ...data }: WorkerData = threads.workerData;
const board = new JobBoard(data.board);
const progress = new Progress(new Int32Array(data.progress));
const port = ports.get(worker)!;

/** Linear memory, of which this thread uses only its own scratch ranges, and what kernels access. */
const launchMemory: LaunchMemory = {
  memory,
  bytes: new Uint8Array(memory.buffer),
  takeScratch() {},
  leaveScratch() {},
  reserve: () => undefined,
  release() {},
  discard: () => false,
};

/** The state of the device that kernels use by calls, as the running job says. */
const deviceMemory: HostFunctionParts["linearMemory"] = {
  bytes: launchMemory.bytes,
  get conditions() {
    const { conditions: begin } = current!.device;
    return begin === 0 ? undefined : { begin, table: new ConditionTable(memory, begin) };
  },
  heapAt() {
    const allocator = new HeapAllocator(memory, current!.device.heap);
    return {
      allocate: (byteLength, alignment) => allocator.allocate(byteLength, alignment!) || undefined,
      free: (begin) => allocator.free(begin),
      byteLengthAt: (begin) => allocator.byteLengthAt(begin) ?? 0,
      ranges: () => allocator.ranges(),
    };
  },
  printLimitAt: () => current!.device.printLimit || undefined,
};

/** Starts the workers that this one is to start, each with the channels of those that it starts in turn. */
function startOthers(): void {
  for (const index of [2 * worker + 1, 2 * worker + 2]) {
    if (!ports.has(index)) continue;
    const theirs = new Map([...ports].filter(([other]) => isStartedBy(index, other)));
    const workerData = { ...threads.workerData, index, ports: theirs };
    new threads.Worker(source, { eval: true, workerData, transferList: [...theirs.values()] }).unref();
  }
}

/** Whether a worker is the given one, or is started by it, directly or not. */
function isStartedBy(index: number, other: number): boolean {
  while (other > index) other = (other - 1) >> 1;
  return other === index;
}

/** A kernel that was sent, once it is instantiated. */
interface WorkerKernel {
  readonly kernel: RunnableKernel;
  readonly gang: RunnableGangs | undefined;
}

const sent = new Map<number, SentKernel>();
const kernels = new Map<number, WorkerKernel>();

/** Returns a kernel, which was sent before the job that needs it was opened. */
function kernelOf(number: number): WorkerKernel {
  let kernel = kernels.get(number);
  while (kernel === undefined) {
    const found = sent.get(number);
    if (found === undefined) receive();
    else kernels.set(number, kernel = instantiate(found));
  }
  return kernel;
}

function receive(): void {
  for (let got; (got = threads.receiveMessageOnPort(port)) !== undefined;) {
    const message = got.message as ToWorker;
    if (message.kind === "kernel") {
      sent.set(message.number, message);
    } else {
      sent.delete(message.number);
      kernels.delete(message.number);
    }
  }
}

/** The job that this thread runs, and the state of the device that its kernel uses. */
let current: { readonly job: Job; readonly device: Pick<JobFields, "heap" | "conditions" | "printLimit"> } | undefined;

function instantiate({ code, image, compiled, gang, stepLimit }: SentKernel): WorkerKernel {
  const steps = new StepCounter(stepLimit);
  steps.isInVain = () => current!.job.isInVain(current!.job.first);
  const functions = hostFunctions({ linearMemory: deviceMemory, steps, image, timeOrigin });
  const device = {
    memory,
    imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(image.begin)),
    ...hostFunctionImports(functions),
  };
  const exportsOf = (code: WebAssembly.Module) => new WebAssembly.Instance(code, { device }).exports;
  const run = exportsOf(code)[compiled.name] as RunKernel;
  const kernel = { compiled, run, steps };
  if (gang === undefined) return { kernel, gang: undefined };
  const { gangs, threads } = exportsOf(gang.code) as unknown as Pick<RunnableGangs, "gangs" | "threads">;
  return { kernel, gang: { compiled: gang.compiled, gangs, threads } };
}

/** A job that this thread has joined, and how it runs the job's blocks. */
class JobRunner {
  readonly fields: JobFields;
  readonly #job: Job;
  readonly #launch: LaunchRecord;
  readonly #runner: BlockRunner;
  readonly #pace = new Pace(claimMilliseconds);

  constructor(job: Job) {
    const fields = this.fields = job.fields();
    const { kernel, gang } = kernelOf(fields.kernel);
    this.#job = job;
    this.#launch = new LaunchRecord(kernel, {
      grid: [fields.gridX, fields.gridY, fields.gridZ],
      block: [fields.blockX, fields.blockY, fields.blockZ],
    }, {
      linearMemory: launchMemory,
      ranges: scratchOfWorker(fields, { worker, sharedBytes: kernel.compiled.sharedBytes + fields.sharedMemoryBytes }),
      parameters: new Uint8Array(),
      bounds: fields.bounds,
      sharedMemoryBytes: fields.sharedMemoryBytes,
    });
    this.#runner = blockRunner(this.#launch, gang);
  }

  /** Runs blocks until none is left, or until workers take turns with other jobs. */
  run(): void {
    const job = this.#job;
    this.#runner.prepare();
    do {
      this.#pace.begin();
      if (!job.claim(this.#pace.count, this.fields.threads)) break;
      this.#runClaimed();
      this.#pace.isOver();
    } while (!board.hasSeveralJobs);
  }

  #runClaimed(): void {
    const job = this.#job;
    try {
      runBlocks(this.#runner, job, this.#launch.geometry.grid);
    } catch (error) {
      if (error instanceof InVainError) return;
      const fault = error instanceof KernelStop ? this.#launch.locateFault(error.report) : String(error);
      report({ job: this.fields.number, block: this.#launch.blockNumber, fault }, job);
    }
  }
}

/** The time in milliseconds for which a thread runs the blocks that it claims at once. */
const claimMilliseconds = 0.5;

const jobs = Array.from({ length: jobCount }, (_, index) => new Job(board, index));
const runners: (JobRunner | undefined)[] = new Array(jobCount).fill(undefined);

/** Runs a part of each open job. Returns whether there was one. */
function runJobs(): boolean {
  let hasRun = false;
  for (const job of jobs) {
    if (!job.isOpen || !job.hasBlocks || job.isFull) continue;
    if (!job.join()) {
      // This thread counted while the last one left.
      if (job.isOver) progress.advance();
      continue;
    }
    hasRun = true;
    const start = performance.now();
    try {
      let runner = runners[job.index];
      if (runner?.fields.number !== job.number) runners[job.index] = runner = new JobRunner(job);
      current = { job, device: runner.fields };
      runner.run();
    } catch (error) {
      // The engine may be out of memory, for example.
      report({ job: job.number, block: 0, fault: String(error) }, job);
    }
    if (job.leave(performance.now() - start) && !job.hasBlocks) progress.advance();
  }
  return hasRun;
}

/** Reports the fault of a block, or the error of a job. */
function report(message: FromWorker, job: Job): void {
  if (job.fail(message.block)) port.postMessage(message);
}

startOthers();
board.start();
progress.advance();
for (;;) {
  const { opened } = board;
  if (!runJobs()) {
    receive();
    board.waitForJob(opened);
  }
}
