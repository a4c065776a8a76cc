/**
 * Work that worker threads run, and the main thread too while it waits.
 *
 * @module
 */
import type { Delegated } from "../streams.ts";
import type { Job } from "./job_board.ts";
import type { FromWorker } from "./messages.ts";
import type { Workers } from "./workers.ts";

/** The time in milliseconds after which work is starved that no worker has begun, while none looks for work. */
const starvedMilliseconds = 200;

/** A job that threads share. */
export abstract class SharedJob implements Delegated {
  protected readonly workers: Workers;
  /** The number of threads that run the job at once. */
  protected readonly threads: number;
  #job: Job | undefined;
  #endTime: number | undefined;
  #beginTime: number | undefined;
  /** The number of rounds of the workers when the job was last seen not to be starved, and the time then. */
  #rounds = 0;
  #roundsSince: number = performance.now();

  constructor(workers: Workers, { job, threads }: { job: Job; threads: number }) {
    this.workers = workers;
    this.#job = job;
    this.threads = threads;
  }

  get jobs(): readonly Job[] {
    return this.#job === undefined ? [] : [this.#job];
  }

  get isDone(): boolean {
    return this.#job === undefined || this.#job.isOver;
  }

  get hasFailed(): boolean {
    return this.#job?.hasFault === true;
  }

  get endTime(): number | undefined {
    if (this.#job !== undefined && this.#job.isOver) this.#endTime = Number(this.#job.endTime) / 1e6;
    return this.#endTime;
  }

  get beginTime(): number | undefined {
    if (this.#job !== undefined && this.#job.isOver) this.#beginTime = Number(this.#job.beginTime) / 1e6;
    return this.#beginTime;
  }

  get isStarved(): boolean {
    const { running, isRunnable } = this.#job!;
    const { rounds } = this.workers;
    // A worker that is idle, or looks for work, will run it when the operating system next lets it run.
    if (running > 0 || !isRunnable || rounds !== this.#rounds || this.workers.wakeIdle()) {
      this.#rounds = rounds;
      this.#roundsSince = performance.now();
    }
    return performance.now() - this.#roundsSince > starvedMilliseconds;
  }

  /** Runs parts for a time slice, if fewer threads than allowed do. Returns whether it has run any, or all are done. */
  help({ isStarved = false }: { isStarved?: boolean } = {}): boolean {
    const job = this.#job!;
    if (!this.mayHelp(isStarved) || job.isFull) return false;
    // If this thread counted while the last worker left, nobody else says that the job is done.
    if (!job.join()) return job.isOver;
    const start = performance.now();
    const hasRun = this.runParts(job);
    job.noteBusy(start, performance.now());
    job.leave(BigInt(Math.round(performance.now() * 1e6)));
    return hasRun || job.isOver;
  }

  /** Whether the main thread may run parts. */
  protected abstract mayHelp(isStarved: boolean): boolean;

  /** Runs parts that the calling thread claims, for a time slice. Returns whether it has run any. */
  protected abstract runParts(job: Job): boolean;

  /** Called when the job is closed. */
  protected closed(_job: Job): void {}

  stop(): void {
    this.#job?.stop();
  }

  cancel(): void {
    if (this.#job === undefined) return;
    this.stop();
    this.close();
  }

  /** Ends the job, whether or not it is done. Blocks until no thread runs it. Returns its lowest fault, if any. */
  protected close(): FromWorker | undefined {
    const job = this.#job!;
    this.#endTime = Number(job.endTime) / 1e6;
    this.#beginTime = Number(job.beginTime) / 1e6;
    this.#job = undefined;
    try {
      return this.workers.close(job);
    } finally {
      this.closed(job);
    }
  }
}
