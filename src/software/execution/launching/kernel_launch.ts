/**
 * Kernel launches as work of a stream, run in time slices, with or without checks.
 *
 * @module
 */
import { maySpin } from "../scheduling/block_scheduler.ts";
import type { CompiledKernel } from "../../compiler/compile.ts";
import { BlockIndex, type LaunchPlace, LaunchRecord, schedulerOf, stopIfDeadlocked } from "./launch_state.ts";
import type { GangFunctions, LaunchGeometry } from "../modules/kernel_versions.ts";
import type { SoftwareKernel } from "../modules/module_loader.ts";
import { KernelStop } from "../faults/kernel_fault.ts";
import { ResidentBlocks } from "../residency/resident_blocks.ts";
import { scratch } from "../../memory/memory_layout.ts";
import type { LaunchAccess, LaunchObservation } from "../../../kernel_checker.ts";
import type { LaunchChecks, RunningChecks } from "../checks/launch_checks.ts";

const sliceMilliseconds = 4;

/** Returns the size in bytes of the memory for the local memory and saved registers of all threads of a block. */
export function threadMemoryBytes(
  { suspensions, localBytes, savedBytes }: CompiledKernel,
  threadsPerBlock: number,
): number {
  return suspensions === undefined ? localBytes : threadsPerBlock * (localBytes + savedBytes);
}

/** A launch, as an item of work that a stream runs. */
export interface LaunchWork {
  /** Runs a time slice of the launch, and returns whether all blocks are done. */
  readonly run: () => boolean;
  /** Releases the launch's memory. `run` must not be called afterwards. */
  readonly release?: () => void;
}

/** Creates the work of a launch, which runs in time slices. */
export function launchInSlices(kernel: SoftwareKernel, geometry: LaunchGeometry, place: LaunchPlace): LaunchWork {
  const launch = new LaunchRecord(kernel, geometry, place);
  const gang = kernel.gang.for(geometry);
  const index = new BlockIndex(geometry.grid, place.order);
  const work: LaunchWork = gang !== undefined ? { run: runInGangs(launch, index, gang) } : runSingly(launch, index);
  const run = () => {
    try {
      return work.run();
    } catch (error) {
      throw error instanceof KernelStop ? launch.faultOf(error.report) : error;
    }
  };
  return work.release === undefined ? { run } : { run, release: work.release };
}

function runSingly(launch: LaunchRecord, index: BlockIndex): LaunchWork {
  return launch.kernel.compiled.suspensions === undefined
    ? { run: blocksAtOnce(launch, index) }
    : blockAfterBlock(launch, index);
}

/**
 * Chooses the number of blocks that one call of the kernel runs. The elapsed time is measured after each call, so one
 * call should only take a fraction of a time slice.
 */
class Pace {
  readonly #isDivided: boolean;
  #count = 1;
  #start = 0;

  /** @param place the launch's options. If `isDivided` is true, each time slice runs exactly one block */
  constructor({ isDivided = false }: Pick<LaunchPlace, "isDivided">) {
    this.#isDivided = isDivided;
  }

  /** Starts a time slice. */
  begin(): void {
    this.#start = performance.now();
  }

  /** Returns the exclusive end of the range of blocks to run next, starting at `x`. */
  lastFrom(x: number, gridX: number): number {
    return Math.min(x + this.#count, gridX);
  }

  /**
   * Returns whether the time slice is over. Increases the number of blocks per call if only a small part of the slice
   * has passed.
   */
  isOver(): boolean {
    if (this.#isDivided) return true;
    const elapsed = performance.now() - this.#start;
    if (elapsed < sliceMilliseconds / 4) {
      // Measuring the time takes about as long as running an empty block, so the number of blocks per call grows faster
      // if hardly any time has passed.
      const factor = elapsed < sliceMilliseconds / 32 ? 8 : 2;
      this.#count = Math.min(this.#count * factor, 2 ** 24);
    }
    return elapsed > sliceMilliseconds;
  }
}

/**
 * Returns a function that runs blocks whose threads never wait. A call of the kernel runs as many blocks of a row as
 * the time slice allows.
 */
function blocksAtOnce(launch: LaunchRecord, index: BlockIndex): () => boolean {
  const { run, steps } = launch.kernel;
  const pace = new Pace(launch.place);
  return () => {
    launch.write();
    pace.begin();
    while (!index.isPastEnd) {
      const last = pace.lastFrom(index.x, launch.geometry.grid[0]);
      launch.setRow(index, last);
      launch.freshenShared();
      steps.restart();
      run(scratch.launch.begin);
      index.advanceTo(last);
      if (index.isPastEnd || pace.isOver()) break;
    }
    return index.isPastEnd;
  };
}

/**
 * Creates the work of a launch whose threads may wait: runs one block after another until a block waits for other
 * blocks.
 */
function blockAfterBlock(launch: LaunchRecord, index: BlockIndex): LaunchWork {
  const { kernel: { compiled, run, steps } } = launch;
  const suspensions = compiled.suspensions!;
  const scheduler = schedulerOf(launch, { kernel: { ...compiled, suspensions }, ...launch.scratchPlace, run });
  launch.scheduler = scheduler;
  const runBlock = () => {
    scheduler.start();
    return scheduler.takeTurn();
  };
  let rest: ResidentBlocks | undefined;
  const runSlice = () => {
    if (rest !== undefined) return rest.run();
    launch.write();
    const start = performance.now();
    while (!index.isPastEnd && performance.now() - start < sliceMilliseconds) {
      launch.setBlock(index);
      launch.freshenShared();
      steps.restart();
      if (stopIfDeadlocked(runBlock) !== "ended") {
        rest = new ResidentBlocks(launch, index, scheduler);
        return false;
      }
      index.advanceTo(index.x + 1);
      if (launch.place.isDivided) break;
    }
    return index.isPastEnd;
  };
  return maySpin(suspensions) ? { run: runSlice, release: () => rest?.release() } : { run: runSlice };
}

/** The maximum fraction of a launch's gangs that may diverge before the remaining blocks are run thread by thread. */
const divergedShare = 1 / 8;

/**
 * Returns a function that runs threads in gangs as long as few gangs diverge. A call of the kernel runs as many blocks
 * of a row as the time slice allows.
 */
function runInGangs(
  launch: LaunchRecord,
  index: BlockIndex,
  { compiled, gangs, threads }: GangFunctions,
): () => boolean {
  const { geometry: { grid, block }, kernel: { steps } } = launch;
  const gangsPerBlock = block[0] * block[1] * block[2] / compiled.width;
  const { local, saved } = launch.gangMemory(compiled);
  const scheduler = schedulerOf(launch, {
    kernel: compiled,
    shared: scratch.shared.begin,
    threads: scratch.threads.begin,
    saved,
    local,
    run: threads,
  });
  const pace = new Pace(launch.place);
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
      launch.freshenShared();
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
        runRest = runSingly(launch, index).run;
        return index.isPastEnd;
      }
      if (index.isPastEnd || pace.isOver()) break;
    }
    return index.isPastEnd;
  };
}

/** The work of a launch, and the launch's checks. */
export interface CheckedWork {
  readonly work: LaunchWork;
  readonly checks: LaunchChecks;
}

/** Parameters of a checked launch other than its work. */
interface CheckedLaunch extends Pick<LaunchObservation, "onAccesses" | "onFindings"> {
  readonly running: RunningChecks;
  /** The accesses of the launch, if all of them are known before the launch runs. */
  readonly known?: PredictedAccesses | undefined;
}

/** The accesses of a launch that are known before it runs. They are only correct if the launch does not fail. */
export interface PredictedAccesses {
  readonly accesses: readonly LaunchAccess[];
  /** Returns whether the kernel may make these accesses. Called when the launch starts. */
  isAllowed(): boolean;
  /** Returns the work of the same launch, but with accesses that are observed while the launch runs. */
  observed(): CheckedWork;
}

/**
 * Wraps the work of a launch so that the accesses and findings are reported when the launch is complete, has failed, or
 * is dropped.
 */
export function checkedLaunch(
  launch: CheckedWork,
  { running, onAccesses, onFindings, known }: CheckedLaunch,
): LaunchWork {
  let current = launch, hasBegun = false, isKnown = false;
  const begin = () => {
    hasBegun = true;
    isKnown = known?.isAllowed() ?? false;
    if (known === undefined || isKnown) return;
    current = known.observed();
    launch.work.release?.();
    launch.checks.close();
  };
  return {
    run() {
      if (!hasBegun) begin();
      return running.during(current.checks, current.work.run);
    },
    release() {
      const { work, checks } = current;
      try {
        work.release?.();
        onFindings?.(checks.mistakes());
        onAccesses?.(isKnown ? known!.accesses : checks.accesses());
      } finally {
        checks.close();
      }
    },
  };
}
