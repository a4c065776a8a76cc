/**
 * Launches of a kernel as work for a stream, in time slices.
 *
 * @module
 */
import type { LineInfo } from "../../ptx/line_info.ts";
import { BlockScheduler, type BlockThreads, DeadlockError, describeWaiting } from "./block_scheduler.ts";
import { type CompiledKernel, decodePlace, faultKind, type GangKernel } from "../compiler/compile.ts";
import {
  exited,
  type LaunchField,
  launchFieldOffset,
  launchFields,
  threadRecord,
  threadRecordByteLength,
} from "../compiler/launch_record.ts";
import { describeArguments } from "./describe_arguments.ts";
import { describeFault, genericAddress } from "./describe_fault.ts";
import { type FaultReport, type Index, KernelFault, KernelStop, nameOfLine } from "./kernel_fault.ts";
import type { MemoryNames } from "../memory/named_memory.ts";
import type { GangFunctions, GangVersions, Geometry, RunKernel } from "./gang_versions.ts";
import { type LinearMemory, scratch } from "../memory/linear_memory.ts";

/** A kernel of a loaded module. */
export interface SoftwareKernel {
  readonly compiled: CompiledKernel;
  readonly run: RunKernel;
  /** Counts the steps of the blocks that run. */
  readonly steps: StepCounter;
  /** The source that the module's PTX was compiled from. */
  readonly lineInfo: LineInfo;
  /** Its versions that run in gangs. */
  readonly gang: GangVersions;
}

/** Counts the steps of a block's threads, and stops them at the limit: most likely they never end. */
export class StepCounter {
  /** How many loop iterations a kernel may run before it asks for more fuel. */
  readonly fuelPerRefill: number = 2 ** 20;
  readonly #limit: number;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Begins the next block. */
  restart(): void {
    this.#count = 0;
  }

  /** Takes the place and the thread, as compiled code reports them. */
  refuel(place: number, thread: number): number {
    this.#count += this.fuelPerRefill;
    if (this.#count > this.#limit) this.#stop({ place: decodePlace(place), thread });
    return this.fuelPerRefill;
  }

  /** Counts the steps of a thread or, from that thread on, of its warp. `locate` finds the thread if it is stopped. */
  count(steps: number, thread: number, locate: (thread: number) => Pick<FaultReport, "thread">): void {
    this.#count += steps;
    if (this.#count > this.#limit) this.#stop(locate(thread));
  }

  #stop(report: Pick<FaultReport, "place" | "thread">): never {
    const steps = this.#count;
    throw new KernelStop({
      kind: faultKind.stepLimit,
      what: (_, waiting) => {
        const others = waiting === "" ? "" : `, while others wait: ${waiting}`;
        const advice = waiting.includes("(barrier)")
          ? "all threads of the block must reach the same barrier"
          : "check the loop's condition and the arguments that it depends on";
        return `stopped after ${steps} steps, perhaps in a loop that never ends${others}; ${advice}; ` +
          "POOLPASS_SOFTWARE_STEPS sets the limit for a block";
      },
      ...report,
    });
  }
}

const sliceMilliseconds = 4;

/** What a launch takes beside its geometry. */
export interface LaunchPlace {
  readonly linearMemory: LinearMemory;
  readonly parameters: Uint8Array;
  /** The offset of the bounds table of the device that runs it. */
  readonly bounds: number;
  /** The size of the dynamic shared memory. */
  readonly sharedMemoryBytes?: number;
  /** The offset of memory for the block's threads, of the size that `threadMemoryBytes` returns. */
  readonly threadMemory?: number;
  /** Names memory for the messages of faults. */
  readonly memoryNames?: MemoryNames;
}

/** The bytes of memory that the threads of a block need at once, for their variables and saved registers. */
export function threadMemoryBytes(
  { suspensions, localBytes, savedBytes }: CompiledKernel,
  threadsPerBlock: number,
): number {
  return suspensions === undefined ? localBytes : threadsPerBlock * (localBytes + savedBytes);
}

/** A launch as work for a stream. Each call runs some blocks, and returns whether all are done. */
export function launchInSlices(kernel: SoftwareKernel, geometry: Geometry, place: LaunchPlace): () => boolean {
  const launch = new LaunchRecord(kernel, geometry, place);
  const gang = kernel.gang.for(geometry);
  const index = new BlockIndex(geometry.grid);
  const run = gang !== undefined ? runInGangs(launch, index, gang) : runSingly(launch, index);
  return () => {
    try {
      return run();
    } catch (error) {
      throw error instanceof KernelStop ? launch.faultOf(error.report) : error;
    }
  };
}

function runSingly(launch: LaunchRecord, index: BlockIndex): () => boolean {
  return launch.kernel.compiled.suspensions === undefined
    ? blocksAtOnce(launch, index)
    : blockAfterBlock(launch, index);
}

/** The launch record. */
class LaunchRecord {
  readonly kernel: SoftwareKernel;
  readonly geometry: Geometry;
  readonly place: LaunchPlace;
  /** The lines where threads resume in the version of the kernel that runs. */
  resumeLines: readonly number[];
  /** The scheduler of the block's threads, if they do not run in gangs. */
  scheduler: BlockScheduler | undefined;
  readonly #fields: Int32Array;

  constructor(kernel: SoftwareKernel, geometry: Geometry, place: LaunchPlace) {
    this.kernel = kernel;
    this.geometry = geometry;
    this.place = place;
    this.resumeLines = kernel.compiled.resumeLines;
    this.#fields = new Int32Array(place.linearMemory.memory.buffer, scratch.launch.begin, launchFields.length);
  }

  /** The offset of the threads' saved registers, behind their local memory. */
  get savedRegisters(): number {
    const { block } = this.geometry;
    return this.localMemory + this.kernel.compiled.localBytes * block[0] * block[1] * block[2];
  }

  get localMemory(): number {
    return this.place.threadMemory ?? scratch.local.begin;
  }

  /** Writes the record to linear memory, which other launches use in the meantime. */
  write(): void {
    const { linearMemory, parameters, bounds, sharedMemoryBytes = 0 } = this.place;
    const { grid, block } = this.geometry;
    const { compiled, steps } = this.kernel;
    linearMemory.bytes.set(parameters, scratch.parameters.begin);
    this.set("gridX", grid[0]);
    this.set("gridY", grid[1]);
    this.set("gridZ", grid[2]);
    this.set("blockDimX", block[0]);
    this.set("blockDimY", block[1]);
    this.set("blockDimZ", block[2]);
    this.set("parameters", scratch.parameters.begin);
    this.set("shared", scratch.shared.begin);
    this.set("sharedBytes", compiled.sharedBytes + sharedMemoryBytes);
    this.set("localMemory", this.localMemory);
    this.set("savedRegisters", this.savedRegisters);
    this.set("threads", scratch.threads.begin);
    this.set("bounds", bounds);
    this.set("fuelLeft", steps.fuelPerRefill);
  }

  /** Explains where and why a block was stopped. */
  faultOf(report: FaultReport): KernelFault {
    const { compiled, lineInfo } = this.kernel;
    const { what } = report;
    const { parameters, memoryNames } = this.place;
    const line = this.#lineOf(report);
    const sharedBytes = this.get("sharedBytes");
    const nameLine = (line: number) => lineInfo.sourceOf(line) ?? nameOfLine(line);
    return new KernelFault({
      kind: report.kind,
      kernel: compiled.name,
      block: [this.get("blockX"), this.get("blockY"), this.get("blockZ")],
      thread: this.#threadOf(report),
      line,
      source: report.source ?? lineInfo.sourceOf(line),
      address: genericAddress(report),
      what: typeof what === "string"
        ? what
        : what?.(nameLine, describeWaiting(this.scheduler?.waitingThreads() ?? [], nameLine)) ?? describeFault(report, {
          staticShared: compiled.sharedBytes,
          shared: sharedBytes,
          local: compiled.accessibleLocalBytes,
          parameters: compiled.parameterBytes,
          memoryNames,
        }),
      launched: describeArguments(report.kind, compiled.parameters, parameters, memoryNames),
    });
  }

  #threadOf({ thread, index, place }: FaultReport): Index | undefined {
    if (thread === undefined) return index;
    if (place?.thread === "x") return [thread, this.get("rowY"), this.get("rowZ")];
    const packed = this.#recordOf(thread).getInt32(threadRecord.threadIndex, true);
    return [packed & 0x3ff, packed >> 10 & 0x3ff, packed >> 20];
  }

  /** The line of a fault or, if that is not known, where the thread has resumed last. */
  #lineOf({ thread, place }: FaultReport): number {
    const line = place?.line ?? 0;
    if (line > 0 || thread === undefined || place?.thread === "x") return line;
    return this.resumeLines[this.#recordOf(thread).getInt32(threadRecord.resumeIndex, true)] ?? 0;
  }

  /** The record of a thread of the block that runs. */
  #recordOf(thread: number): DataView {
    const { memory } = this.place.linearMemory;
    return new DataView(memory.buffer, scratch.threads.begin + thread * threadRecordByteLength, threadRecordByteLength);
  }

  /** Finds the first thread, from the given one on, that has not exited. */
  locate(first: number): Pick<FaultReport, "thread"> {
    let thread = first;
    while (this.#recordOf(thread).getInt32(threadRecord.request, true) === exited) thread++;
    return { thread };
  }

  /** The offsets of the save areas of gangs, and of the memory of threads that have left their gang. */
  gangMemory({ hasBarriers, width, localBytes, savedBytes }: GangKernel): GangMemory {
    const { block } = this.geometry;
    const threads = hasBarriers ? block[0] * block[1] * block[2] : width;
    const local = scratch.local.begin;
    const saved = local + threads * localBytes;
    return { local, saved, gangs: saved + threads * savedBytes };
  }

  /** Writes the fields that differ for gangs. */
  writeForGangs(kernel: GangKernel): void {
    const { local, saved, gangs } = this.gangMemory(kernel);
    this.set("localMemory", local);
    this.set("savedRegisters", saved);
    this.set("gangs", gangs);
  }

  /** Sets the blocks to run: those of a row, up to `last`, which is exclusive. */
  setRow({ x, y, z }: BlockIndex, last: number): void {
    this.set("firstBlockX", x);
    this.set("lastBlockX", last);
    this.set("blockY", y);
    this.set("blockZ", z);
  }

  set(field: LaunchField, value: number): void {
    this.#fields[launchFieldOffset(field) / 4] = value;
  }

  get(field: LaunchField): number {
    return this.#fields[launchFieldOffset(field) / 4]!;
  }
}

/** The offsets of the threads' local memory and saved registers, and of the save areas of gangs. */
interface GangMemory {
  readonly local: number;
  readonly saved: number;
  readonly gangs: number;
}

/** The blocks of a grid, in order. */
class BlockIndex {
  x = 0;
  y = 0;
  z = 0;
  readonly #grid: Geometry["grid"];

  constructor(grid: Geometry["grid"]) {
    this.#grid = grid;
  }

  get isPastEnd(): boolean {
    return this.z === this.#grid[2];
  }

  /** Advances to a block of the row, or to the next row. */
  advanceTo(x: number): void {
    this.x = x;
    if (this.x < this.#grid[0]) return;
    this.x = 0;
    if (++this.y < this.#grid[1]) return;
    this.y = 0;
    this.z++;
  }
}

/** How many blocks of a row to run before the time is checked: as many as fit in a part of a time slice. */
class Pace {
  #count = 1;
  #start = 0;

  /** Begins a time slice. */
  begin(): void {
    this.#start = performance.now();
  }

  /** The end, exclusive, of the blocks of the row to run now. */
  lastFrom(x: number, gridX: number): number {
    return Math.min(x + this.#count, gridX);
  }

  /** Whether the time slice is over. If little of it has passed, more blocks are run at once from now on. */
  isOver(): boolean {
    const elapsed = performance.now() - this.#start;
    if (elapsed < sliceMilliseconds / 4) {
      // Reading the clock takes as long as an empty block.
      const factor = elapsed < sliceMilliseconds / 32 ? 8 : 2;
      this.#count = Math.min(this.#count * factor, 2 ** 24);
    }
    return elapsed > sliceMilliseconds;
  }
}

/** The scheduler for a block whose threads wait for each other. */
function schedulerOf(
  launch: LaunchRecord,
  { run, ...threads }: Pick<BlockThreads, "kernel" | "saved" | "local"> & { run: RunKernel },
): BlockScheduler {
  const { geometry: { block }, kernel: { steps } } = launch;
  const locate = (thread: number) => launch.locate(thread);
  return new BlockScheduler({
    ...threads,
    memory: launch.place.linearMemory.memory,
    block,
    threads: scratch.threads.begin,
    run(firstThread, lastThread) {
      launch.set("firstThread", firstThread);
      launch.set("lastThread", lastThread);
      run(scratch.launch.begin);
    },
    countSteps: (count, thread) => steps.count(count, thread, locate),
  });
}

/** Runs blocks whose threads never wait, as many of a row at once as time allows. */
function blocksAtOnce(launch: LaunchRecord, index: BlockIndex): () => boolean {
  const { run, steps } = launch.kernel;
  const pace = new Pace();
  return () => {
    launch.write();
    pace.begin();
    while (!index.isPastEnd) {
      const last = pace.lastFrom(index.x, launch.geometry.grid[0]);
      launch.setRow(index, last);
      steps.restart();
      run(scratch.launch.begin);
      index.advanceTo(last);
      if (index.isPastEnd || pace.isOver()) break;
    }
    return index.isPastEnd;
  };
}

/** Runs blocks whose threads may wait, one at a time. */
function blockAfterBlock(launch: LaunchRecord, index: BlockIndex): () => boolean {
  const { kernel: { compiled, run, steps }, savedRegisters: saved, localMemory: local } = launch;
  const kernel = { ...compiled, suspensions: compiled.suspensions! };
  const scheduler = schedulerOf(launch, { kernel, saved, local, run });
  launch.scheduler = scheduler;
  return () => {
    launch.write();
    const start = performance.now();
    while (!index.isPastEnd && performance.now() - start < sliceMilliseconds) {
      launch.set("blockX", index.x);
      launch.set("blockY", index.y);
      launch.set("blockZ", index.z);
      steps.restart();
      stopIfDeadlocked(() => scheduler.runBlock());
      index.advanceTo(index.x + 1);
    }
    return index.isPastEnd;
  };
}

function stopIfDeadlocked(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof DeadlockError)) throw error;
    throw new KernelStop({
      kind: faultKind.deadlock,
      place: { line: error.line },
      what: (nameLine) => error.describe(nameLine),
    });
  }
}

/** The share of a launch's gangs that may diverge before the rest is run thread by thread. */
const divergedShare = 1 / 8;

/** Runs threads in gangs, as many blocks of a row at once as time allows, while few gangs diverge. */
function runInGangs(
  launch: LaunchRecord,
  index: BlockIndex,
  { compiled, gangs, threads }: GangFunctions,
): () => boolean {
  const { geometry: { grid, block }, kernel: { steps } } = launch;
  const gangsPerBlock = block[0] * block[1] * block[2] / compiled.width;
  const { local, saved } = launch.gangMemory(compiled);
  const scheduler = schedulerOf(launch, { kernel: compiled, saved, local, run: threads });
  const pace = new Pace();
  launch.resumeLines = compiled.resumeLines;
  let begun = 0;
  let diverged = 0;
  let runRest: (() => boolean) | undefined;
  return () => {
    if (runRest !== undefined) return runRest();
    launch.write();
    launch.writeForGangs(compiled);
    pace.begin();
    while (!index.isPastEnd) {
      const last = pace.lastFrom(index.x, grid[0]);
      launch.setRow(index, last);
      launch.set("divergences", 0);
      launch.set("rounds", 0);
      steps.restart();
      const stopped = gangs(scratch.launch.begin);
      const rounds = compiled.hasBarriers ? launch.get("rounds") : last - index.x;
      begun += rounds * gangsPerBlock;
      diverged += launch.get("divergences");
      index.advanceTo(stopped);
      if (stopped < last) {
        stopIfDeadlocked(() => scheduler.finishBlock());
        index.advanceTo(stopped + 1);
      }
      if (diverged > begun * divergedShare && begun > 64) {
        launch.resumeLines = launch.kernel.compiled.resumeLines;
        runRest = runSingly(launch, index);
        return index.isPastEnd;
      }
      if (index.isPastEnd || pace.isOver()) break;
    }
    return index.isPastEnd;
  };
}
