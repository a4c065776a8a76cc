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
import type { LaunchMemory, ScratchOwner } from "../../memory/linear_memory.ts";
import { InVainError, KernelStop, StepCounter } from "../faults/kernel_fault.ts";
import { type HostFunctionParts, hostFunctions } from "../host_functions.ts";
import { type BlockRunner, blockRunner } from "../launching/block_runner.ts";
import { type BlockSource, type Coordinates, LaunchRecord } from "../launching/launch_state.ts";
import type { LaunchGeometry, RunKernel, RunnableGangs } from "../modules/kernel_versions.ts";
import type { RunnableKernel } from "../modules/module_loader.ts";
import { ResidentBlocks } from "../residency/resident_blocks.ts";
import { type Job, JobBoard, type JobFields, jobKinds } from "./job_board.ts";
import { JobLoop, type JobRunner } from "./job_loop.ts";
import {
  type FromWorker,
  mostStarted,
  type SentKernel,
  type ToWorker,
  type WorkerData,
  workerThreads,
} from "./messages.ts";
import { Pace } from "../launching/pace.ts";
import { runBlocks } from "./claimed_blocks.ts";
import { Progress } from "./progress.ts";
import { transferParts } from "./transfers.ts";
import { scratchOfWorker } from "./worker_scratch.ts";

const threads = workerThreads()!;
const { source, index: worker, ports, memory, timeOrigin, ...data }: WorkerData = threads.workerData;
const board = new JobBoard(data.board);
const progress = new Progress(new Int32Array(data.progress));
const port = ports.get(worker)!;
/** What to add to the time of this thread to get that of the main thread. */
const originOffset = performance.timeOrigin - timeOrigin;

let scratchOwner: ScratchOwner | undefined;

/** Linear memory, of which this thread uses only its own scratch ranges, memory of its jobs, and what kernels access. */
const launchMemory: LaunchMemory = {
  memory,
  bytes: new Uint8Array(memory.buffer),
  takeScratch(owner) {
    const previous = scratchOwner;
    if (previous === owner) return;
    scratchOwner = owner;
    previous?.saveScratch();
  },
  leaveScratch(owner) {
    if (scratchOwner === owner) scratchOwner = undefined;
  },
  reserve(byteLength) {
    const { job, fields: { places, placesBytes } } = current!;
    const offset = job.reserve(byteLength, placesBytes);
    return offset === undefined ? undefined : places + offset;
  },
  // The main thread releases the memory of a job when no thread runs the job.
  release() {},
  discard: () => false,
};

/** The state of the device that kernels use by calls, as the running job says. */
const deviceMemory: HostFunctionParts["linearMemory"] = {
  memory,
  bytes: launchMemory.bytes,
  get conditions() {
    const { conditions: begin } = current!.fields;
    return begin === 0 ? undefined : { begin, table: new ConditionTable(memory, begin) };
  },
  heapAt() {
    const allocator = new HeapAllocator(memory, current!.fields.heap);
    return {
      allocate: (byteLength, alignment) => allocator.allocate(byteLength, alignment!) || undefined,
      free: (begin) => allocator.free(begin),
      byteLengthAt: (begin) => allocator.byteLengthAt(begin) ?? 0,
      ranges: () => allocator.ranges(),
    };
  },
  printLimitAt: () => current!.fields.printLimit || undefined,
};

/** Starts the workers that this one is to start, each with the channels of those that it starts in turn. */
function startOthers(): void {
  for (let index = mostStarted * worker + 1; index <= mostStarted * (worker + 1) && ports.has(index); index++) {
    const theirs = new Map([...ports].filter(([other]) => isStartedBy(index, other)));
    const workerData = { ...threads.workerData, index, ports: theirs };
    try {
      const other = new threads.Worker(source, { eval: true, workerData, transferList: [...theirs.values()] });
      other.on("error", () => {});
      other.unref();
    } catch {
      // The system may refuse more threads. Fewer run jobs then.
    }
  }
}

/** Whether a worker is the given one, or is started by it, directly or not. */
function isStartedBy(index: number, other: number): boolean {
  while (other > index) other = Math.floor((other - 1) / mostStarted);
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
    if (found === undefined) {
      receive();
      continue;
    }
    kernels.set(number, kernel = instantiate(found));
    sent.delete(number);
  }
  return kernel;
}

/**
 * Bun, whose engine does not count compiled code when it decides whether to collect garbage: a worker kept 4 MB for each
 * module that was loaded and unloaded.
 */
const { Bun: bun } = globalThis as unknown as { Bun?: { gc(isBlocking: boolean): void } };
const kernelsPerCollection = 16;
/** The number of kernels that were forgotten. */
let stale = 0;

function receive(): void {
  for (let got; (got = threads.receiveMessageOnPort(port)) !== undefined;) {
    const message = got.message as ToWorker;
    if (message.kind === "kernel") {
      sent.set(message.number, message);
    } else {
      sent.delete(message.number);
      kernels.delete(message.number);
      if (++stale % kernelsPerCollection === 0) bun?.gc(true);
    }
  }
}

/** The job that this thread runs. */
let current: LaunchRunner | undefined;

function instantiate({ code, image, compiled, gang, stepLimit }: SentKernel): WorkerKernel {
  const steps = new StepCounter(stepLimit);
  steps.isInVain = () => {
    board.parkWhilePaused();
    return current!.isInVain;
  };
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
class LaunchRunner implements JobRunner {
  readonly fields: JobFields;
  readonly job: Job;
  readonly #launch: LaunchRecord;
  readonly #runner: BlockRunner;
  readonly #pace = new Pace(claimMilliseconds);
  /** The blocks that wait for each other. Undefined if there are none. */
  #residents: ResidentBlocks | undefined;
  /** The clusters of the job. Kept when all that have started have ended, because their memory belongs to the job. */
  #clusters: ResidentBlocks | undefined;

  constructor(job: Job, fields: JobFields) {
    this.fields = fields;
    const { kernel, gang } = kernelOf(fields.kernel);
    this.job = job;
    this.#launch = new LaunchRecord(kernel, {
      grid: [fields.gridX, fields.gridY, fields.gridZ],
      block: [fields.blockX, fields.blockY, fields.blockZ],
      cluster: fields.clusterX === 0 ? undefined : [fields.clusterX, fields.clusterY, fields.clusterZ],
    }, {
      linearMemory: launchMemory,
      ranges: scratchOfWorker(fields, { worker, sharedBytes: kernel.compiled.sharedBytes + fields.sharedMemoryBytes }),
      parameters: new Uint8Array(),
      bounds: fields.bounds,
      sharedMemoryBytes: fields.sharedMemoryBytes,
      workspace: fields.workspace || undefined,
    });
    this.#runner = blockRunner(this.#launch, gang);
  }

  /** The number of blocks that the thread claims at once, in each dimension. */
  get clusterSize(): LaunchGeometry["grid"] {
    const { geometry: { cluster = [1, 1, 1] }, hasClusters } = this.#launch;
    return hasClusters ? cluster : [1, 1, 1];
  }

  /** Whether blocks that this thread has started wait for others, so that it must not leave the job. */
  get hasResidents(): boolean {
    return this.#residents !== undefined;
  }

  /** Whether the blocks only wait for other threads, or to start. */
  get isStuck(): boolean {
    return this.#residents?.isStuck ?? this.fields.mayWait === 1;
  }

  /** Whether this thread must stop: because all must, or because it runs only blocks above one that has faulted. */
  get isInVain(): boolean {
    const { job } = this;
    // Of blocks that wait for each other, lower ones may wait for the one that has faulted.
    return this.fields.mayWait === 1 ? job.isStopped || job.hasFault : job.isInVain(job.first);
  }

  /** Runs blocks until none is left, or until workers take turns with other jobs. */
  run(): void {
    current = this;
    try {
      if (this.fields.mayWait === 1) this.#runWaiting();
      else this.#runClaimed();
    } catch (error) {
      if (error instanceof InVainError) return this.#leaveResidents();
      this.#residents = undefined;
      const fault = error instanceof KernelStop ? this.#launch.locateFault(error.report) : String(error);
      report({ job: this.fields.number, block: this.#launch.blockNumber, fault }, this.job);
    }
  }

  /** Leaves blocks that wait. Says where they wait, because another block may have faulted only for that. */
  #leaveResidents(): void {
    const { job, fields: { number } } = this;
    const residents = this.#residents;
    this.#residents = undefined;
    if (residents === undefined || job.isStopped) return;
    const fault = this.#launch.locateFault(residents.stuckReport());
    report({ job: number, block: this.#launch.blockNumber, fault, isBeside: true }, job);
  }

  #runClaimed(): void {
    const { job, fields: { threads } } = this;
    this.#runner.prepare();
    do {
      this.#pace.begin();
      board.parkWhilePaused();
      if (!job.claim(this.#pace.count, threads)) return;
      runBlocks(this.#runner, job, this.#launch.geometry.grid);
      this.#pace.isOver();
    } while (!board.hasSeveralJobs);
  }

  /** Runs blocks, each until it waits for others, and then these in turn. */
  #runWaiting(): void {
    if (this.isInVain) throw new InVainError();
    if (this.#residents !== undefined) {
      if (this.#residents.run()) this.#residents = undefined;
      return;
    }
    if (this.#launch.hasClusters) {
      this.#clusters ??= new ResidentBlocks(this.#launch, { first: undefined, source: this.#source });
      if (!this.#clusters.run()) this.#residents = this.#clusters;
      return;
    }
    this.#runner.prepare();
    const start = performance.now();
    do {
      const block = this.#source.take();
      if (block === undefined) return;
      if (this.#runner.run(block, block.x + 1) > block.x) {
        this.#source.noteEnd!();
        continue;
      }
      const first = { block, scheduler: this.#launch.scheduler! };
      this.#residents = new ResidentBlocks(this.#launch, { first, source: this.#source });
      return;
    } while (performance.now() - start < claimMilliseconds);
  }

  /** The blocks of the job that no thread has claimed. */
  readonly #source: BlockSource = new JobSource(this);
}

/** A copy, a fill, or a change of access that this thread has joined. */
class TransferRunner implements JobRunner {
  readonly fields: JobFields;
  readonly hasResidents = false;
  readonly isStuck = false;
  readonly #job: Job;

  constructor(job: Job, fields: JobFields) {
    this.fields = fields;
    this.#job = job;
  }

  /** Runs parts until none is left, or until workers take turns with other jobs. */
  run(): void {
    do {
      board.parkWhilePaused();
      if (!this.#job.claim(1, this.fields.threads)) return;
      transferParts(memory, this.fields, this.#job);
    } while (!board.hasSeveralJobs);
  }
}

function runnerOf(job: Job): LaunchRunner | TransferRunner {
  const fields = job.fields();
  return fields.kind === jobKinds.launch ? new LaunchRunner(job, fields) : new TransferRunner(job, fields);
}

/** The blocks of a job that no thread has claimed. */
class JobSource implements BlockSource {
  readonly #runner: LaunchRunner;
  /** The number of moves that were seen last. */
  #seen = 0;

  constructor(runner: LaunchRunner) {
    this.#runner = runner;
  }

  get isPastEnd(): boolean {
    return !this.#runner.job.isUnclaimed;
  }

  take(): Coordinates | undefined {
    const { job, fields: { gridX, gridY, mostResidents } } = this.#runner;
    if (!job.claimResident(mostResidents)) return undefined;
    // The blocks of a launch in clusters are claimed by clusters.
    const [x, y, z] = this.#runner.clusterSize;
    const [clustersX, clustersY] = [gridX / x, gridY / y];
    const row = Math.floor(job.first / clustersX);
    return { x: job.first % clustersX * x, y: row % clustersY * y, z: Math.floor(row / clustersY) * z };
  }

  get residents(): number {
    return this.#runner.job.residents;
  }

  noteEnd(): void {
    this.#runner.job.endResident();
  }

  noteProgress(): void {
    this.#runner.job.noteMove();
  }

  hasProgressElsewhere(): boolean {
    const { moves } = this.#runner.job;
    const hasProgress = moves !== this.#seen;
    this.#seen = moves;
    return hasProgress;
  }
}

/** The time in milliseconds for which a thread runs the blocks that it claims at once. */
const claimMilliseconds = 0.5;

/** Reports the fault of a block, or the error of a job, unless that of a lower block was reported. */
function report(message: FromWorker, job: Job): void {
  const isWanted = message.isBeside || job.fail(message.block) ||
    typeof message.fault !== "string" && message.fault.stuck;
  if (!isWanted) return;
  job.noteReport();
  port.postMessage(message);
}

startOthers();
board.start();
progress.advance();
const loop = new JobLoop(board, progress, {
  runnerOf,
  onError: (error, job) => report({ job: job.number, block: 0, fault: String(error) }, job),
  onIdle: receive,
  now: () => performance.now() + originOffset,
});
for (;;) loop.turn();
