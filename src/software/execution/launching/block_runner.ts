/**
 * Runs blocks of a launch on the calling thread: many blocks in one call of the kernel if threads never wait, in gangs
 * of threads, or block by block.
 *
 * @module
 */
import { type Coordinates, type LaunchRecord, schedulerOf, stopIfDeadlocked } from "./launch_state.ts";
import type { BlockScheduler } from "../scheduling/block_scheduler.ts";
import type { RunnableGangs } from "../modules/kernel_versions.ts";

/** Runs blocks of a launch on the calling thread. */
export interface BlockRunner {
  /** Writes the launch record. Must be called before `run` if other launches may have used the scratch ranges since. */
  prepare(): void;
  /**
   * Runs the blocks of a row from `first` to `last` (exclusive). Returns `last`, or the x index of a block that waits
   * for other blocks. Throws a `KernelStop` if a block faults.
   */
  run(first: Coordinates, last: number): number;
}

/** Returns the runner of a launch's blocks, which run in gangs if `gang` is given. */
export function blockRunner(launch: LaunchRecord, gang: RunnableGangs | undefined): BlockRunner {
  return gang === undefined ? singleRunner(launch) : gangRunner(launch, gang);
}

function singleRunner(launch: LaunchRecord): BlockRunner {
  return launch.kernel.compiled.suspensions === undefined ? rowRunner(launch) : turnRunner(launch);
}

/** Runs blocks whose threads never wait. A call of the kernel runs all blocks of a range. */
function rowRunner(launch: LaunchRecord): BlockRunner {
  const { run, steps } = launch.kernel;
  const record = launch.ranges.launch.begin;
  return {
    prepare: () => launch.write(),
    run({ x, y, z }, last) {
      // The blocks of a row differ in their ranks in their clusters.
      const step = launch.geometry.cluster === undefined ? last - x : 1;
      for (; x < last; x += step) {
        launch.setRow({ x, y, z }, x + step);
        launch.freshenShared();
        steps.restart();
        run(record);
      }
      return last;
    },
  };
}

/** Runs blocks whose threads may wait, one after another. */
function turnRunner(launch: LaunchRecord): BlockRunner {
  const { kernel: { compiled, run, steps } } = launch;
  const suspensions = compiled.suspensions!;
  const scheduler = schedulerOf(launch, { kernel: { ...compiled, suspensions }, ...launch.scratchPlace, run });
  const runBlock = () => {
    scheduler.start();
    return scheduler.takeTurn();
  };
  return {
    prepare() {
      // Blocks that waited for each other may have left the scheduler of one of them.
      launch.scheduler = scheduler;
      launch.write();
    },
    run({ x, y, z }, last) {
      for (; x < last; x++) {
        launch.setBlock({ x, y, z });
        launch.freshenShared();
        steps.restart();
        if (stopIfDeadlocked(runBlock) !== "ended") return x;
      }
      return last;
    },
  };
}

/** The maximum fraction of a launch's gangs that may diverge before the remaining blocks are run thread by thread. */
const divergedShare = 1 / 8;

/** Runs threads in gangs as long as few gangs diverge. */
function gangRunner(launch: LaunchRecord, { compiled, gangs, threads }: RunnableGangs): BlockRunner {
  const { geometry: { block }, kernel: { steps } } = launch;
  const record = launch.ranges.launch.begin;
  const gangsPerBlock = block[0] * block[1] * block[2] / compiled.width;
  const { local, saved } = launch.gangMemory(compiled);
  // Created when a gang first diverges at a barrier, because that takes as long as many short blocks.
  let scheduler: BlockScheduler | undefined;
  const createScheduler = () =>
    schedulerOf(launch, {
      kernel: compiled,
      shared: launch.ranges.shared.begin,
      threads: launch.ranges.threads.begin,
      saved,
      local,
      run: threads,
    });
  launch.resumeLines = compiled.resumeLines;
  let begun = 0;
  let diverged = 0;
  let rest: BlockRunner | undefined;
  /** Runs blocks until a gang diverges at a barrier. Returns the x index of the next block. */
  const runGangs = (first: Coordinates, last: number): number => {
    launch.setRow(first, last);
    launch.freshenShared();
    launch.set("divergences", 0);
    launch.set("rounds", 0);
    steps.restart();
    const stopped = gangs(record);
    const rounds = compiled.hasBarriers ? launch.get("rounds") : last - first.x;
    begun += rounds * gangsPerBlock;
    diverged += launch.get("divergences");
    if (stopped === last) return last;
    const created = scheduler ??= createScheduler();
    stopIfDeadlocked(() => created.finishBlock());
    return stopped + 1;
  };
  return {
    prepare() {
      if (rest !== undefined) return rest.prepare();
      launch.write();
      launch.writeForGangs(compiled);
    },
    run({ x, y, z }, last) {
      while (x < last) {
        if (rest !== undefined) return rest.run({ x, y, z }, last);
        x = runGangs({ x, y, z }, last);
        if (diverged > begun * divergedShare && begun > 64) {
          launch.resumeLines = launch.kernel.compiled.resumeLines;
          rest = singleRunner(launch);
          rest.prepare();
        }
      }
      return last;
    },
  };
}
