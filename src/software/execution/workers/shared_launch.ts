/**
 * A launch whose remaining blocks worker threads run, and the main thread too while it waits.
 *
 * @module
 */
import { InVainError, KernelStop } from "../faults/kernel_fault.ts";
import { kernelFault } from "../faults/launch_fault.ts";
import type { BlockRunner } from "../launching/block_runner.ts";
import { Pace, sliceMilliseconds } from "../launching/pace.ts";
import type { LinearMemory } from "../../memory/linear_memory.ts";
import type { Job } from "./job_board.ts";
import { SharedJob } from "./shared_job.ts";
import { runBlocks } from "./claimed_blocks.ts";
import type { SharableLaunch, Workers } from "./workers.ts";

/** How other threads can run blocks of a launch. */
export interface LaunchSharing {
  readonly workers: Workers;
  readonly linearMemory: LinearMemory;
  /** The number of threads that run the blocks at once. */
  readonly threads: number;
  /** Whether the main thread blocks until some work is done, so that it runs blocks, too. */
  readonly isAwaited: boolean;
}

/** A launch that can be shared, and how the main thread runs its blocks. */
interface LaunchOfMain extends SharableLaunch {
  readonly runner: BlockRunner;
}

/** A launch that threads share. */
export class SharedLaunch extends SharedJob {
  readonly #shared: LaunchOfMain;
  readonly #first: number;
  readonly #pace = new Pace(sliceMilliseconds / 8);
  readonly #heap: Disposable | undefined;

  private constructor(
    workers: Workers,
    shared: LaunchOfMain,
    { job, threads, heap, first }: { job: Job; threads: number; heap: Disposable | undefined; first: number },
  ) {
    super(workers, { job, threads });
    this.#heap = heap;
    this.#shared = shared;
    this.#first = first;
  }

  /**
   * Shares the blocks of a launch from the one with a number on. Returns undefined if there is no room for it.
   *
   * @param options.after the jobs after which the blocks may run
   */
  static begin(
    shared: LaunchOfMain,
    { first, after }: { first: number; after: readonly Job[] },
    { workers, threads, isAwaited, linearMemory }: LaunchSharing,
  ): SharedLaunch | undefined {
    const { kernel: { compiled: { usesHeap } }, place: { bounds } } = shared.launch;
    const heap = usesHeap ? linearMemory.heapAt(bounds).prepare() : undefined;
    if (usesHeap && heap === undefined) return undefined;
    const job = workers.open(shared, {
      first,
      after,
      threads,
      // The main thread does not run blocks that wait for each other.
      workers: isAwaited && !shared.mayWait ? threads - 1 : threads,
      heap: heap?.state ?? 0,
      conditions: linearMemory.conditions?.begin ?? 0,
      printLimit: linearMemory.printLimitAt(bounds) ?? 0,
    });
    if (job !== undefined) return new SharedLaunch(workers, shared, { job, threads, heap, first });
    heap?.[Symbol.dispose]();
    return undefined;
  }

  /**
   * Blocks that wait for each other stay on the thread where they started, and this one may have to go. Nor can it leave
   * a block that takes long, so it runs such blocks only if nobody else will.
   */
  protected override mayHelp(isStarved: boolean): boolean {
    const { mayWait, launch: { kernel } } = this.#shared;
    return !mayWait && (isStarved || this.workers.hasShortBlocks(kernel));
  }

  protected override runParts(job: Job): boolean {
    const start = performance.now();
    const { launch, runner } = this.#shared;
    const { steps } = launch.kernel;
    runner.prepare();
    steps.isInVain = () => job.isInVain(job.first);
    let hasRun = false;
    do {
      this.#pace.begin();
      if (!job.claim(this.#pace.count, this.threads)) break;
      hasRun = true;
      try {
        runBlocks(runner, job, launch.geometry.grid);
      } catch (error) {
        if (error instanceof InVainError) break;
        const fault = error instanceof KernelStop ? launch.locateFault(error.report) : String(error);
        const { blockNumber: block } = launch;
        if (job.fail(block)) {
          job.noteReport();
          this.workers.noteFault({ job: job.number, block, fault });
        }
        break;
      }
      this.#pace.isOver();
    } while (performance.now() - start < sliceMilliseconds);
    steps.isInVain = undefined;
    return hasRun;
  }

  /** Ends the launch, which is done. Throws the fault of the lowest block that faulted. */
  end(): void {
    const { kernel, place } = this.#shared.launch;
    const { fault } = this.close() ?? {};
    if (fault === undefined) return;
    throw typeof fault === "string" ? new Error(fault) : kernelFault(fault, kernel, place);
  }

  protected override closed(job: Job): void {
    this.workers.noteLaunch(this.#shared.launch.kernel, {
      milliseconds: job.busyMilliseconds,
      blocks: job.claimedFrom(this.#first),
    });
    this.#heap?.[Symbol.dispose]();
  }
}
