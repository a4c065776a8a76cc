/**
 * Launches of a kernel as work for a stream, in time slices.
 *
 * @module
 */
import { BlockScheduler, type BlockThreads, DeadlockError } from "./block_scheduler.ts";
import { type CompiledKernel, faultKind, type GangKernel } from "../compiler/compile.ts";
import { type LaunchField, launchFieldOffset, launchFields } from "../compiler/launch_record.ts";
import { KernelFault } from "./kernel_fault.ts";
import type { GangFunctions, GangVersions, Geometry, RunKernel } from "./gang_versions.ts";
import { type LinearMemory, scratch } from "../memory/linear_memory.ts";

/** A kernel of a loaded module. */
export interface SoftwareKernel {
  readonly compiled: CompiledKernel;
  readonly run: RunKernel;
  /** Counts the steps of the blocks that run. */
  readonly steps: StepCounter;
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

  refuel(): number {
    this.count(this.fuelPerRefill);
    return this.fuelPerRefill;
  }

  count(steps: number): void {
    this.#count += steps;
    if (this.#count <= this.#limit) return;
    throw new KernelFault(faultKind.stepLimit, {
      line: 0,
      detail: `it was stopped after ${this.#count} steps: POOLPASS_SOFTWARE_STEPS sets the limit for a block`,
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
  if (gang !== undefined) return runInGangs(launch, index, gang);
  return runSingly(launch, index);
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
  readonly #fields: Int32Array;

  constructor(kernel: SoftwareKernel, geometry: Geometry, place: LaunchPlace) {
    this.kernel = kernel;
    this.geometry = geometry;
    this.place = place;
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
    if (elapsed < sliceMilliseconds / 4) this.#count = Math.min(this.#count * 2, 2 ** 24);
    return elapsed > sliceMilliseconds;
  }
}

/** The scheduler for a block whose threads wait for each other. */
function schedulerOf(
  launch: LaunchRecord,
  { run, ...threads }: Pick<BlockThreads, "kernel" | "saved" | "local"> & { run: RunKernel },
): BlockScheduler {
  const { geometry: { block }, kernel: { steps } } = launch;
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
    countSteps: (count) => steps.count(count),
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
      if (pace.isOver()) break;
    }
    return index.isPastEnd;
  };
}

/** Runs blocks whose threads may wait, one at a time. */
function blockAfterBlock(launch: LaunchRecord, index: BlockIndex): () => boolean {
  const { kernel: { compiled, run, steps }, savedRegisters: saved, localMemory: local } = launch;
  const kernel = { ...compiled, suspensions: compiled.suspensions! };
  const scheduler = schedulerOf(launch, { kernel, saved, local, run });
  return () => {
    launch.write();
    const start = performance.now();
    while (!index.isPastEnd && performance.now() - start < sliceMilliseconds) {
      launch.set("blockX", index.x);
      launch.set("blockY", index.y);
      launch.set("blockZ", index.z);
      steps.restart();
      withPlaceOfDeadlock(index, () => scheduler.runBlock());
      index.advanceTo(index.x + 1);
    }
    return index.isPastEnd;
  };
}

function withPlaceOfDeadlock({ x, y, z }: BlockIndex, run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof DeadlockError)) throw error;
    throw new KernelFault(faultKind.deadlock, { line: error.line, detail: `block ${x}, ${y}, ${z}: ${error.message}` });
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
        withPlaceOfDeadlock(index, () => scheduler.finishBlock());
        index.advanceTo(stopped + 1);
      }
      if (diverged > begun * divergedShare && begun > 64) {
        runRest = runSingly(launch, index);
        return index.isPastEnd;
      }
      if (pace.isOver()) break;
    }
    return index.isPastEnd;
  };
}
