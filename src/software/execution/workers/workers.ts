/**
 * The worker threads of the process, which run blocks of kernels while the main thread does something else or runs other
 * blocks.
 *
 * @module
 */
import { descriptorsLeft } from "../../../../ffi/native/shim/descriptors.ts";
import { addressSpace } from "../../abi/addresses.ts";
import type { LinearMemory, PageHolder } from "../../memory/linear_memory.ts";
import { pageByteLength, scratch, wholePages } from "../../memory/memory_layout.ts";
import type { LocatedFault } from "../faults/kernel_fault.ts";
import { blocksPerCluster, type LaunchRecord } from "../launching/launch_state.ts";
import { type GangFunctions, gangMemoryBytes, type GangProperties } from "../modules/kernel_versions.ts";
import type { SoftwareKernel } from "../modules/module_loader.ts";
import { blockMemorySizes, placeBytes } from "../residency/block_places.ts";
import { fittingBlocks } from "../residency/resident_blocks.ts";
import { pause } from "../../../support/waiting/timer.ts";
import { sliceMilliseconds } from "../launching/pace.ts";
import { fieldsOfBefore, Job, JobBoard, jobCount, type JobFields } from "./job_board.ts";
import { type FromWorker, type ToWorker, type WorkerPort, type WorkerThreads, workerThreads } from "./messages.ts";
import { workerProgram } from "./program.ts";
import { workerProgress } from "./progress.ts";
import { scratchBytesOf } from "./worker_scratch.ts";

/** When workers run launches. Tests change it, so that workers run launches that are too short for it. */
export const sharingPolicy = {
  /** The time in milliseconds for which launches run on the main thread before the workers are started. */
  patienceMilliseconds: 40,
  /** The time in milliseconds for which the main thread runs a launch before workers run the rest. */
  firstSliceMilliseconds: 0.1,
};
/** At least the number of descriptors that a runtime keeps open for a worker: 10 in Deno 2.9, fewer in Bun and Node. */
const descriptorsPerWorker = 12;
/** The number of launches, each done by one call of its kernel, of which one is measured. */
const launchesPerMeasurement = 16;
/** The size of the memory for a job's packed parameters: the most that a kernel can have. */
const parameterBytes: number = scratch.parameters.byteLength;
/** The minimum size of a worker's scratch ranges, so that most launches can use the same. */
const leastScratchBytes = 0x4_0000;
/** The number of jobs up to which their order does not matter. */
const fewJobs = 64;
/** The maximum total size of all workers' scratch ranges. */
const mostScratchBytes = 2 ** 30;

/** A launch whose remaining blocks workers can run. */
export interface SharableLaunch {
  readonly launch: LaunchRecord<SoftwareKernel>;
  readonly gang: GangFunctions | undefined;
  /** The size in bytes of the local memory and saved registers of all threads of a block that run without gangs. */
  readonly localBytes: number;
  /** Whether blocks may wait for each other. */
  readonly mayWait: boolean;
}

/** Options for opening a job. */
interface JobOptions extends Pick<JobFields, "threads" | "heap" | "conditions" | "printLimit"> {
  /** The number of the first block. */
  readonly first: number;
  /** The jobs after which the blocks may run. */
  readonly after: readonly Job[];
  /** The number of workers to wake. */
  readonly workers: number;
}

/** The parameters of all jobs, and the scratch ranges of all workers, which have `byteLength` bytes each. */
interface WorkerScratch {
  readonly begin: number;
  readonly byteLength: number;
  readonly totalBytes: number;
}

/** A number of workers, and how many of them have started. */
export interface WorkerCounts {
  readonly all: number;
  readonly started: number;
}

/** A range of linear memory for blocks that wait for each other, of which at most `blocks` are on the device at once. */
interface Places {
  readonly begin: number;
  readonly byteLength: number;
  readonly blocks: number;
}

const noPlaces: Places = { begin: 0, byteLength: 0, blocks: 0 };

/** The worker threads of the process. */
export class Workers implements PageHolder {
  readonly #memory: LinearMemory;
  readonly #board = new JobBoard();
  /** The closed jobs, of which the last is opened next, and the number of all jobs so far. */
  readonly #closed: Job[] = [];
  #jobs = 0;
  readonly #ports: WorkerPort[] = [];
  readonly #numbers = new WeakMap<SoftwareKernel, Map<GangFunctions | undefined, number>>();
  /** Lets the workers forget versions of kernels whose modules were unloaded. */
  readonly #stale = new FinalizationRegistry<number>((number) => this.#send({ kind: "forget", number }));
  /** For each kernel that has been launched, whether its last launch took long, and whether its blocks did not. */
  readonly #lastLaunches = new WeakMap<SoftwareKernel, { tookLong: boolean; hasShortBlocks: boolean }>();
  /** The faults of open jobs, by the jobs' numbers. */
  readonly #faults = new Map<number, FromWorker[]>();
  /** The memory of each open launch for blocks that wait for each other. */
  readonly #places = new Map<Job, Places>();
  #threads: WorkerThreads | undefined;
  /** The number of workers, started or not yet. */
  #count = 0;
  #mayStart = true;
  #runMilliseconds = 0;
  /** The number of launches since the last one that was measured. */
  #unmeasured = 0;
  #scratch: WorkerScratch | undefined;
  /** Scratch ranges that were too small for a later launch, and that open launches may use. */
  readonly #outgrown: WorkerScratch[] = [];
  #lastNumber = 0;
  #lastKernel = 0;

  constructor(memory: LinearMemory) {
    this.#memory = memory;
    memory.addPageHolder(this);
  }

  /** Starts workers, and blocks until all of them have started. */
  startAll(count: number): void {
    this.#start(count);
    for (let seen; seen = workerProgress.value, this.#board.started < this.#count;) workerProgress.wait(seen, 1000);
  }

  /** Whether a worker has started. */
  get areReady(): boolean {
    return this.#count > 0 && this.#board.started > 0;
  }

  /** Wakes an idle worker. Returns false if no worker is idle. */
  wakeIdle(): boolean {
    return this.#board.wakeIdle();
  }

  /** Calls `run` while no worker accesses memory. */
  whilePaused<Result>(run: () => Result): Result {
    return this.#board.whilePaused(run);
  }

  /** The number of times that a worker has looked for another job, modulo 2^32. */
  get rounds(): number {
    return this.#board.rounds;
  }

  /** The number of workers, and how many of them have started. */
  get counts(): WorkerCounts {
    return { all: this.#count, started: this.#board.started };
  }

  /**
   * Whether workers run a launch of a kernel from its first block on: the kernel's last launch took so long that they ran
   * a part of it, or would have. A block cannot move to another thread once it has started, or once it waits for others,
   * so workers also run the first launch of a kernel whose blocks may take any time.
   */
  takeAtOnce(kernel: SoftwareKernel, mayWait: boolean): boolean {
    const { firstSliceMilliseconds } = sharingPolicy;
    return this.#lastLaunches.get(kernel)?.tookLong ??
      (mayWait || kernel.compiled.hasLoops || firstSliceMilliseconds < 0);
  }

  /**
   * Whether the time of a launch that one call of the kernel has finished is to be noted: of the first launch of each
   * kernel, and then of few.
   */
  measuresNext(kernel: SoftwareKernel): boolean {
    return ++this.#unmeasured >= launchesPerMeasurement || !this.#lastLaunches.has(kernel);
  }

  /** Notes for how long a launch has run on the main thread in a time slice. Starts the workers after some time. */
  note(kernel: SoftwareKernel, { milliseconds, blocks, threads }: {
    milliseconds: number;
    blocks: number;
    threads: () => number;
  }): void {
    this.#unmeasured = 0;
    this.noteLaunch(kernel, { milliseconds, blocks });
    this.#runMilliseconds += milliseconds;
    if (this.#runMilliseconds > sharingPolicy.patienceMilliseconds && this.#mayStart) this.#start(threads());
  }

  /** Notes for how long threads have run blocks of a launch. */
  noteLaunch(kernel: SoftwareKernel, { milliseconds, blocks }: { milliseconds: number; blocks: number }): void {
    const tookLong = milliseconds > sharingPolicy.firstSliceMilliseconds;
    const hasShortBlocks = milliseconds < sliceMilliseconds * blocks;
    const last = this.#lastLaunches.get(kernel);
    if (last?.tookLong === tookLong && last.hasShortBlocks === hasShortBlocks) return;
    this.#lastLaunches.set(kernel, { tookLong, hasShortBlocks });
  }

  /** Whether a block of a kernel takes less than a time slice, as far as is known. */
  hasShortBlocks(kernel: SoftwareKernel): boolean {
    return this.#lastLaunches.get(kernel)?.hasShortBlocks ?? false;
  }

  /**
   * Starts workers, so that there are `threads` of them, or fewer that together take half of the descriptors that are
   * left: Deno ends the process if it cannot open those of a worker. Does nothing if the runtime or the program's
   * permissions refuse.
   */
  #start(threads: number): void {
    if (threads === 1 || !this.#mayStart) return;
    // Does not try again, because nothing will have changed.
    this.#mayStart = false;
    const count = Math.min(threads, Math.floor(descriptorsLeft() / 2 / descriptorsPerWorker));
    const runtime = this.#threads ??= workerThreads();
    if (runtime === undefined || count <= 1) return;
    this.#count = count;
    const ports = new Map<number, WorkerPort>();
    for (let index = 0; index < count; index++) {
      const { port1, port2 } = new runtime.MessageChannel();
      port1.unref?.();
      this.#ports.push(port1);
      ports.set(index, port2);
    }
    const workerData = {
      source: workerProgram,
      index: 0,
      ports,
      board: this.#board.buffer,
      progress: workerProgress.word.buffer,
      memory: this.#memory.memory,
      addressSpace,
      timeOrigin: performance.timeOrigin,
    };
    try {
      const worker = new runtime.Worker(workerProgram, { eval: true, workerData, transferList: [...ports.values()] });
      worker.on("error", () => {});
      worker.unref();
    } catch {
      // The program may lack a permission for workers. It then runs on one thread.
    }
  }

  #send(message: ToWorker): void {
    for (const port of this.#ports) port.postMessage(message);
  }

  /** Opens a job for the blocks of a launch. Returns undefined if there is no room for it. */
  open(
    { launch, gang, localBytes, mayWait }: SharableLaunch,
    { first, after, workers, ...fields }: JobOptions,
  ): Job | undefined {
    const { kernel, geometry, place: { parameters, bounds, sharedMemoryBytes = 0 } } = launch;
    const { grid, block, cluster } = geometry;
    const blockThreads = block[0] * block[1] * block[2];
    // Reserving memory may release scratch ranges that no open job uses.
    const places = mayWait ? this.#placesOf(launch) : noPlaces;
    const ranges = this.#scratchOf(scratchBytesOf({
      shared: kernel.compiled.sharedBytes + sharedMemoryBytes,
      threads: blockThreads,
      local: Math.max(localBytes, gang === undefined ? 0 : gangMemoryBytes(gang.compiled, blockThreads)),
    }));
    const job = ranges && places && this.#takeClosed();
    if (job === undefined) {
      this.#releasePlaces(places);
      return undefined;
    }
    this.#places.set(job, places!);
    const copied = ranges!.begin + job.index * parameterBytes;
    this.#memory.bytes.set(parameters, copied);
    job.open({
      number: this.#lastNumber = (this.#lastNumber + 1) >>> 0,
      kernel: this.#numberOf(kernel, gang),
      gridX: grid[0],
      gridY: grid[1],
      gridZ: grid[2],
      blockX: block[0],
      blockY: block[1],
      blockZ: block[2],
      clusterX: cluster?.[0] ?? 0,
      clusterY: cluster?.[1] ?? 0,
      clusterZ: cluster?.[2] ?? 0,
      sharedMemoryBytes,
      parameters: copied,
      bounds,
      scratchBegin: ranges!.begin + jobCount * parameterBytes,
      scratchBytes: ranges!.byteLength,
      workspace: launch.place.workspace ?? 0,
      mayWait: mayWait ? 1 : 0,
      mostResidents: places!.blocks,
      places: places!.begin,
      placesBytes: places!.byteLength,
      ...fieldsOfBefore(after),
      ...fields,
    }, { first, end: grid[0] * grid[1] * grid[2] / (launch.hasClusters ? blocksPerCluster(geometry) : 1), workers });
    return job;
  }

  /** Opens a job for a copy, a fill, or a change of access. Returns undefined if there is no room for it. */
  openTransfer(
    transfer: Partial<JobFields>,
    { parts, after, threads, workers }: { parts: number; after: readonly Job[]; threads: number; workers: number },
  ): Job | undefined {
    const job = this.#takeClosed();
    job?.open({
      ...transfer,
      number: this.#lastNumber = (this.#lastNumber + 1) >>> 0,
      ...fieldsOfBefore(after),
      threads,
    }, { first: 0, end: parts, workers });
    return job;
  }

  /** Returns a closed job. Undefined if all are open. */
  #takeClosed(): Job | undefined {
    const closed = this.#closed.pop();
    return closed ?? (this.#jobs === jobCount ? undefined : new Job(this.#board, this.#jobs++));
  }

  /** Closes a job when no thread runs it. Returns the fault of its lowest block that faulted, if any. */
  close(job: Job): FromWorker | undefined {
    job.close();
    this.#closed.push(job);
    // The threads look at all jobs up to the one with the greatest index that is open.
    if (!this.#hasOpenJobs && this.#jobs > fewJobs) this.#closed.sort((a, b) => b.index - a.index);
    this.#releasePlaces(this.#places.get(job));
    this.#places.delete(job);
    const fault = job.hasFault ? this.#faultOf(job) : undefined;
    this.#faults.delete(job.number);
    return fault;
  }

  /**
   * Returns the fault of the lowest block of a job that faulted. If no block makes progress, that is the lowest of those
   * that wait. Blocks until the threads' messages have arrived.
   */
  #faultOf({ number, lowestFault, reports }: Job): FromWorker {
    for (;;) {
      const found = this.#faults.get(number) ?? [];
      if (found.length === reports) {
        const lowest = found.find(({ block, isBeside }) => block === lowestFault && !isBeside)!;
        return withOthers(lowest, found.filter((other) => other !== lowest));
      }
      if (!this.#receive()) pause();
    }
  }

  /** Receives the messages of all workers. Returns whether there were any. */
  #receive(): boolean {
    let hasReceived = false;
    for (const port of this.#ports) {
      for (let got; (got = this.#threads!.receiveMessageOnPort(port)) !== undefined;) {
        hasReceived = true;
        this.noteFault(got.message as FromWorker);
      }
    }
    return hasReceived;
  }

  /** Notes a fault of an open job. */
  noteFault(fault: FromWorker): void {
    this.#faults.set(fault.job, [...this.#faults.get(fault.job) ?? [], fault]);
  }

  /** Lets the workers forget a kernel that will not be launched again. */
  forget(kernel: SoftwareKernel): void {
    const numbers = this.#numbers.get(kernel);
    if (numbers === undefined) return;
    this.#numbers.delete(kernel);
    this.#stale.unregister(kernel);
    for (const number of numbers.values()) this.#send({ kind: "forget", number });
  }

  /** Returns the number of a kernel, which is sent to all workers when it is first needed. */
  #numberOf(kernel: SoftwareKernel, gang: GangFunctions | undefined): number {
    let numbers = this.#numbers.get(kernel);
    if (numbers === undefined) this.#numbers.set(kernel, numbers = new Map());
    let number = numbers.get(gang);
    if (number !== undefined) return number;
    number = ++this.#lastKernel;
    numbers.set(gang, number);
    this.#stale.register(kernel, number, kernel);
    const { name, sharedBytes, localBytes, savedBytes, productBytes, frameBytes, resumeLines, callSites, suspensions } =
      kernel.compiled;
    const sizes = { sharedBytes, localBytes, savedBytes, productBytes, frameBytes };
    const compiled = { name, ...sizes, resumeLines, callSites, suspensions };
    const { wasm: _, ...gangProperties } = gang?.compiled ?? {};
    const sentGang = gang && { code: gang.code, compiled: gangProperties as GangProperties };
    const { binding: { code, image }, steps: { limit: stepLimit } } = kernel;
    this.#send({ kind: "kernel", number, code, image, compiled, gang: sentGang, stepLimit });
    return number;
  }

  /**
   * Reserves memory for all blocks of a launch that are resident at once, twice: a worker reserves memory for as many
   * blocks as it runs already. Returns undefined if there is no room.
   */
  #placesOf(
    { kernel, geometry, place: { sharedMemoryBytes = 0 } }: LaunchRecord,
  ): Places | undefined {
    const { grid, block } = geometry;
    const clusterBlocks = blocksPerCluster(geometry);
    const threads = block[0] * block[1] * block[2];
    const sizes = blockMemorySizes(kernel.compiled, { threads, sharedMemoryBytes });
    const most = Math.max(clusterBlocks, fittingBlocks(threads, sizes.shared));
    const blocks = Math.min(most, grid[0] * grid[1] * grid[2]);
    // Each reservation is rounded up to whole pages.
    const reservations = this.#count * (Math.ceil(Math.log2(blocks)) + 1);
    // Each worker can run a cluster.
    const perWorker = clusterBlocks === 1 ? 1 : 2 * clusterBlocks;
    const byteLength = wholePages((2 * blocks + perWorker * this.#count) * placeBytes(sizes)) +
      reservations * pageByteLength;
    const begin = byteLength > mostScratchBytes ? undefined : this.#memory.reserve(byteLength);
    return begin === undefined ? undefined : { begin, byteLength, blocks: Math.floor(most / clusterBlocks) };
  }

  #releasePlaces(places: Places = noPlaces): void {
    if (places.byteLength > 0) this.#memory.discardAndRelease(places.begin, places.byteLength, { isShared: false });
  }

  /** Returns scratch ranges for all workers with at least `byteLength` bytes each. Undefined if there is no room. */
  #scratchOf(byteLength: number): WorkerScratch | undefined {
    const existing = this.#scratch;
    if (existing !== undefined && existing.byteLength >= byteLength) return existing;
    let wanted = leastScratchBytes;
    while (wanted < byteLength) wanted *= 2;
    const totalBytes = jobCount * parameterBytes + wanted * this.#count;
    this.releaseUnused();
    const begin = totalBytes > mostScratchBytes ? undefined : this.#memory.reserve(totalBytes);
    if (begin === undefined) return undefined;
    // Open launches use the ranges that were not released.
    if (this.#scratch !== undefined) this.#outgrown.push(this.#scratch);
    return this.#scratch = { begin, byteLength: wanted, totalBytes };
  }

  get #hasOpenJobs(): boolean {
    return this.#closed.length < this.#jobs;
  }

  /** The size of the scratch ranges, which count as free also while jobs use them. */
  get unusedBytes(): number {
    return this.#outgrown.reduce((sum, { totalBytes }) => sum + totalBytes, this.#scratch?.totalBytes ?? 0);
  }

  /** Releases the scratch ranges if no launch uses them. */
  releaseUnused(): void {
    if (this.#places.size > 0) return;
    const all = this.#outgrown.splice(0);
    if (this.#scratch !== undefined) all.push(this.#scratch);
    this.#scratch = undefined;
    for (const { begin, totalBytes } of all) this.#memory.discardAndRelease(begin, totalBytes, { isShared: false });
  }
}

/** Adds the blocks that other threads ran to the fault of a block, if all blocks only waited. */
function withOthers(fault: FromWorker, others: readonly FromWorker[]): FromWorker {
  if (typeof fault.fault === "string" || fault.fault.stuck === undefined) return fault;
  const all = [fault, ...others.filter(({ fault }) => typeof fault !== "string" && fault.stuck !== undefined)];
  const stuck = all.flatMap(({ fault }) => (fault as LocatedFault).stuck!);
  const lowest = all.reduce((lowest, other) => other.block < lowest.block ? other : lowest);
  return { ...lowest, fault: { ...lowest.fault as LocatedFault, what: fault.fault.what, stuck } };
}

let workers: Workers | undefined;

/** Returns the number of worker threads of the process, and how many of them have started. */
export function workerCounts(): WorkerCounts {
  return workers?.counts ?? { all: 0, started: 0 };
}

/** Lets the worker threads forget kernels that will not be launched again. */
export function forgetKernels(kernels: Iterable<SoftwareKernel>): void {
  if (workers === undefined) return;
  for (const kernel of kernels) workers.forget(kernel);
}

/** Calls `run` while no worker thread accesses memory. */
export function whileWorkersPause<Result>(run: () => Result): Result {
  return workers === undefined ? run() : workers.whilePaused(run);
}

/** Returns the worker threads of the process. */
export function processWorkers(memory: LinearMemory): Workers {
  return workers ??= new Workers(memory);
}
