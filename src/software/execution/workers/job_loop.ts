/**
 * How a worker thread takes jobs from the board, and sleeps while there are none.
 *
 * @module
 */
import { Job, type JobBoard, type JobFields, wokenAtOnce } from "./job_board.ts";
import type { Progress } from "./progress.ts";

/** What runs a job that a thread has joined. */
export interface JobRunner {
  readonly fields: Pick<JobFields, "number">;
  /** Whether blocks that the thread has started wait for others, so that it must not leave the job. */
  readonly hasResidents: boolean;
  /** Whether the blocks only wait for other threads, or to start. */
  readonly isStuck: boolean;
  /** Runs blocks until none is left, or until workers take turns with other jobs. */
  run(): void;
}

/** What a worker thread does besides taking jobs. */
export interface JobLoopOptions<Runner> {
  /** Returns what runs a job that the thread has joined. */
  readonly runnerOf: (job: Job) => Runner;
  /** Called when a job could not be run. */
  readonly onError: (error: unknown, job: Job) => void;
  /** Called when there is nothing to run. */
  readonly onIdle: () => void;
  /** Returns the time in milliseconds since the main thread's `performance.timeOrigin`. */
  readonly now: () => number;
}

/** The number of times in a row that a thread finds only blocks that wait for other threads before it pauses. */
const mostStuck = 100;
/** The length of the pause in milliseconds, after which the thread looks at the blocks again. */
const stuckMilliseconds = 0.05;

/** Takes jobs from the board. */
export class JobLoop<Runner extends JobRunner> {
  readonly #board: JobBoard;
  readonly #progress: Progress;
  readonly #options: JobLoopOptions<Runner>;
  readonly #jobs: Job[] = [];
  /** What runs each job that this thread has begun and that has blocks left. */
  readonly #runners: (Runner | undefined)[] = [];
  /** The number of times in a row that all blocks only waited for other threads. */
  #stuck = 0;

  constructor(board: JobBoard, progress: Progress, options: JobLoopOptions<Runner>) {
    this.#board = board;
    this.#progress = progress;
    this.#options = options;
  }

  /** Runs a part of each open job. If there is nothing to run, blocks until there may be. */
  turn(): void {
    const { opened } = this.#board;
    const ran = this.#runJobs();
    this.#stuck = ran === "stuck" ? this.#stuck + 1 : 0;
    if (this.#stuck > mostStuck) this.#board.waitForJob(opened, stuckMilliseconds);
    if (ran !== "none") return;
    this.#options.onIdle();
    this.#board.waitForJob(opened);
  }

  /** Runs a part of each open job. Returns whether there was one, and whether all blocks only wait for other threads. */
  #runJobs(): "none" | "some" | "stuck" {
    const board = this.#board, jobs = this.#jobs, runners = this.#runners;
    const { runnerOf, onError, now } = this.#options;
    let hasRun = false, isStuck = true;
    board.noteRound();
    board.parkWhilePaused();
    for (let index = 0; index < board.places; index++) {
      const job = jobs[index] ??= new Job(board, index);
      let runner = runners[index];
      // A thread stays in a job while blocks that it has started wait for others.
      if (runner?.hasResidents !== true) {
        if (!job.isRunnable || job.isFull) continue;
        if (!job.join()) {
          // This thread counted while the last one left.
          if (job.isOver) this.#progress.advance();
          continue;
        }
        if (!job.isFull) board.wakeIdle(wokenAtOnce);
      }
      hasRun = true;
      const start = now();
      try {
        if (runner?.fields.number !== job.number) runners[index] = runner = runnerOf(job);
        runner.run();
      } catch (error) {
        // The engine may be out of memory, for example.
        onError(error, job);
      }
      job.noteBusy(start, now());
      isStuck &&= runner?.isStuck === true;
      if (runner?.hasResidents) continue;
      if (!job.hasBlocks) runners[index] = undefined;
      const isLast = job.leave(BigInt(Math.round(now() * 1e6)));
      if (isLast && !job.hasBlocks) this.#progress.advance();
    }
    return !hasRun ? "none" : isStuck ? "stuck" : "some";
  }
}
