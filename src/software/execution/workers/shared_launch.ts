/**
 * A launch whose remaining blocks worker threads run, and the main thread too while it waits.
 *
 * @module
 */
import { InVainError, KernelStop } from "../faults/kernel_fault.ts";
import { kernelFault } from "../faults/launch_fault.ts";
import type { BlockRunner } from "../launching/block_runner.ts";
import { Pace, sliceMilliseconds } from "../launching/pace.ts";
import type { Delegated } from "../streams.ts";
import type { LinearMemory } from "../../memory/linear_memory.ts";
import type { Job } from "./job_board.ts";
import type { FromWorker } from "./messages.ts";
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
export class SharedLaunch implements Delegated {
  readonly #workers: Workers;
  readonly #shared: LaunchOfMain;
  readonly #threads: number;
  readonly #pace = new Pace(sliceMilliseconds / 8);
  readonly #heap: Disposable | undefined;
  #job: Job | undefined;
  /** The time at which the job was last seen not to be starved, or else at which it was opened. */
  #lastSeenRunning: number = performance.now();

  private constructor(
    workers: Workers,
    shared: LaunchOfMain,
    { job, threads, heap }: { job: Job; threads: number; heap: Disposable | undefined },
  ) {
    this.#workers = workers;
    this.#job = job;
    this.#heap = heap;
    this.#shared = shared;
    this.#threads = threads;
  }

  /** Shares the blocks of a launch from the one with a number on. Returns undefined if there is no room for it. */
  static begin(
    shared: LaunchOfMain,
    first: number,
    { workers, threads, isAwaited, linearMemory }: LaunchSharing,
  ): SharedLaunch | undefined {
    const { kernel: { compiled: { usesHeap } }, place: { bounds } } = shared.launch;
    const heap = usesHeap ? linearMemory.heapAt(bounds).prepare() : undefined;
    if (usesHeap && heap === undefined) return undefined;
    const job = workers.open(shared, {
      first,
      threads,
      workers: isAwaited ? threads - 1 : threads,
      heap: heap?.state ?? 0,
      conditions: linearMemory.conditions?.begin ?? 0,
      printLimit: linearMemory.printLimitAt(bounds) ?? 0,
    });
    if (job !== undefined) return new SharedLaunch(workers, shared, { job, threads, heap });
    heap?.[Symbol.dispose]();
    return undefined;
  }

  get isDone(): boolean {
    return this.#job === undefined || this.#job.isOver;
  }

  get isStarved(): boolean {
    const { running, hasBlocks } = this.#job!;
    // An idle worker will run it, at the latest when the operating system next lets it run.
    const isTaken = running > 0 || !hasBlocks || this.#workers.wakeIdle();
    if (isTaken) this.#lastSeenRunning = performance.now();
    return performance.now() - this.#lastSeenRunning > sliceMilliseconds;
  }

  /** Runs blocks for a time slice, if fewer threads than allowed do. Returns whether it has run any. */
  help(): boolean {
    const job = this.#job!;
    const start = performance.now();
    // Blocks that wait for each other stay on the thread where they started, and this one may have to go.
    if (this.#shared.mayWait || job.isFull || !job.join()) return false;
    const { launch, runner } = this.#shared;
    const { steps } = launch.kernel;
    runner.prepare();
    steps.isInVain = () => job.isInVain(job.first);
    let hasRun = false;
    do {
      this.#pace.begin();
      if (!job.claim(this.#pace.count, this.#threads)) break;
      hasRun = true;
      try {
        runBlocks(runner, job, launch.geometry.grid);
      } catch (error) {
        if (error instanceof InVainError) break;
        const fault = error instanceof KernelStop ? launch.locateFault(error.report) : String(error);
        const { blockNumber: block } = launch;
        if (job.fail(block)) {
          job.noteReport();
          this.#workers.noteFault({ job: job.number, block, fault });
        }
        break;
      }
      this.#pace.isOver();
    } while (performance.now() - start < sliceMilliseconds);
    steps.isInVain = undefined;
    job.noteBusy(performance.now() - start);
    job.leave();
    return hasRun;
  }

  /** Ends the launch, which is done. Throws the fault of the lowest block that faulted. */
  end(): void {
    const { kernel, place } = this.#shared.launch;
    const { fault } = this.#close() ?? {};
    if (fault === undefined) return;
    throw typeof fault === "string" ? new Error(fault) : kernelFault(fault, kernel, place);
  }

  /** Ends the launch, whether or not it is done. Blocks until no thread runs it. */
  cancel(): void {
    if (this.#job !== undefined) this.#close();
  }

  #close(): FromWorker | undefined {
    const job = this.#job!;
    this.#job = undefined;
    try {
      return this.#workers.close(job, this.#shared.launch.kernel);
    } finally {
      this.#heap?.[Symbol.dispose]();
    }
  }
}
