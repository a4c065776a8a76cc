/**
 * Jobs in all orders in which the main thread and workers can access them: no block is lost, and nobody waits for what has
 * happened. Timeouts never end a wait here, because each wait that only a timeout ends is a defect.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { pause } from "../../src/support/waiting/timer.ts";
import { fieldsOfBefore, Job, JobBoard } from "../../src/software/execution/workers/job_board.ts";
import { JobLoop } from "../../src/software/execution/workers/job_loop.ts";
import { workerProgress } from "../../src/software/execution/workers/progress.ts";
import { SharedJob } from "../../src/software/execution/workers/shared_job.ts";
import type { Workers } from "../../src/software/execution/workers/workers.ts";
import { type Delegated, Scheduler, Stream, type Work } from "../../src/software/execution/streams.ts";
import { type Exploration, explore, type ModelThread, observed } from "../support/interleavings.ts";
import { test } from "../support/test.ts";

/** The maximum number of jobs of a case. */
const mostJobs = 3;
/** The maximum number of threads that run a job at once. */
const threads = 2;
/** Returns the words of a board with statistics, on which no thread depends. */
function statistics(): number[] {
  const board = new JobBoard();
  board.noteRound();
  for (let index = 0; index < mostJobs; index++) new Job(board, index).noteBusy(1, 2);
  return [...board.words.entries()].filter(([, word]) => word !== 0).map(([index]) => index);
}

interface Case {
  /** The numbers of blocks of jobs, each of which begins after the one before. */
  readonly blocks: readonly number[];
  readonly workers: number;
  /** The number of jobs for which the main thread waits. It is busy then. */
  readonly awaited: number;
  /** Whether the main thread runs blocks while it waits. */
  readonly helps: boolean;
  readonly preemptions: number;
}

/** What the program of the thread that runs depends on, besides where it is. */
let localsOf: () => string;
/** See {@linkcode ModelThread.run}. */
let forget: (local: string) => void;

/** Says at a method's beginning that what the thread has seen before does not matter. */
function forgetBefore(prototype: object, name: string): Disposable {
  const method = Object.getOwnPropertyDescriptor(prototype, name)!;
  Object.defineProperty(prototype, name, {
    ...method,
    value(this: { readonly index?: number }, ...parameters: unknown[]) {
      forget(`${name} ${this.index} ${parameters} ${localsOf()}`);
      return (method.value as (...parameters: unknown[]) => unknown).apply(this, parameters);
    },
  });
  return { [Symbol.dispose]: () => void Object.defineProperty(prototype, name, method) };
}

/** The memory of a case. */
class Memory {
  readonly board = new JobBoard(new SharedArrayBuffer(4 * (16 + 72 * mostJobs)));
  /** The number of blocks that were run. */
  readonly ran = new Int32Array(new SharedArrayBuffer(4));

  constructor() {
    Object.defineProperty(this.board, "words", { value: observed(this.board.words) });
  }

  run(job: Job): void {
    Atomics.add(this.ran, 0, job.last - job.first);
    Atomics.notify(this.ran, 0);
  }
}

function workerOf(memory: Memory, worker: number): ModelThread {
  const { board } = memory;
  return {
    name: `worker ${worker}`,
    repeats: true,
    run(onForget) {
      let place = 0, hasRun = false, isInJob = false, opened = 0;
      forget = onForget;
      localsOf = () => `${place} ${hasRun} ${isInJob} ${opened}`;
      const ownBoard: JobBoard = Object.create(board, {
        opened: { get: () => opened = board.opened },
        places: {
          get() {
            isInJob = false;
            place++;
            forget(localsOf());
            return board.places;
          },
        },
      });
      // As for copies and fills.
      const runnerOf = (job: Job) => ({
        fields: { number: job.number },
        hasResidents: false,
        isStuck: false,
        run() {
          hasRun = isInJob = true;
          do {
            board.parkWhilePaused();
            if (!job.claim(1, threads)) return;
            memory.run(job);
          } while (!board.hasSeveralJobs);
        },
      });
      const onError = (error: unknown) => assertEquals(error, undefined);
      new JobLoop(ownBoard, workerProgress, { runnerOf, onError, onIdle() {}, now: () => 0 }).turn();
    },
  };
}

/** A job of which the main thread can run blocks. */
class TestJob extends SharedJob {
  readonly #memory: Memory;
  readonly #mayHelp: boolean;
  readonly #onRun: () => void;

  constructor(memory: Memory, job: Job, { helps, onRun }: { helps: boolean; onRun: () => void }) {
    const { board } = memory;
    const workers = { rounds: 0, wakeIdle: () => board.wakeIdle(), close: (job: Job) => job.close() };
    super(workers as unknown as Workers, { job, threads });
    this.#memory = memory;
    this.#mayHelp = helps;
    this.#onRun = onRun;
  }

  protected override mayHelp(): boolean {
    return this.#mayHelp;
  }

  protected override runParts(job: Job): boolean {
    let hasRun = false;
    while (job.claim(1, threads)) {
      this.#memory.run(job);
      this.#onRun();
      hasRun = true;
    }
    return hasRun;
  }

  end(): void {
    this.close();
  }
}

function mainOf(memory: Memory, { blocks, awaited, helps, workers }: Case): ModelThread {
  const { board, ran } = memory;
  return {
    name: "main",
    run(onForget) {
      let ended = 0, hasRun = false, progress = 0;
      forget = onForget;
      localsOf = () => `${ended} ${hasRun} ${progress}`;
      Object.defineProperty(workerProgress, "value", {
        configurable: true,
        get: () => progress = Atomics.load(workerProgress.word, 0),
      });
      const scheduler = new Scheduler((_, error) => assertEquals(error, undefined));
      const stream = new Stream(0, { isBlocking: false });
      scheduler.addStream(stream);
      let number = 0;
      const works: Work[] = [];
      for (const end of blocks) {
        const delegate = (after: Delegated) => {
          const job = new Job(board, number);
          job.open({ number: ++number, threads, ...fieldsOfBefore(after.jobs) }, { first: 0, end, workers });
          return new TestJob(memory, job, { helps, onRun: () => hasRun = true });
        };
        const options = { delegate, takesLong: () => true, release: () => ended++ };
        works.push(scheduler.enqueue(stream, () => {}, options));
      }
      // The main thread may do something else here.
      pause();
      scheduler.runUntil(() => {
        hasRun = false;
        forget(localsOf());
        return ended >= awaited;
      });
      const all = blocks.reduce((sum, count) => sum + count);
      for (let seen; (seen = Atomics.load(ran, 0)) < all;) Atomics.wait(ran, 0, seen);
    },
  };
}

function exploreCase(model: Case): Exploration {
  const memory = new Memory();
  const { board, ran } = memory;
  const { workers, preemptions } = model;
  using _join = forgetBefore(Job.prototype, "join");
  using _leave = forgetBefore(Job.prototype, "leave");
  using _claim = forgetBefore(Job.prototype, "claim");
  try {
    return explore({
      threads: [mainOf(memory, model), ...Array.from({ length: workers }, (_, worker) => workerOf(memory, worker))],
      memory: [board.buffer, workerProgress.word.buffer, ran.buffer as SharedArrayBuffer],
      ignored: statistics(),
      mostPreemptions: preemptions,
    });
  } finally {
    delete (workerProgress as { value?: number }).value;
  }
}

/** The cases in which defects were found are first. Few preemptions are enough for most. */
const cases: readonly Case[] = [
  { blocks: [1, 1], workers: 1, awaited: 1, helps: true, preemptions: 3 },
  { blocks: [1, 1], workers: 1, awaited: 2, helps: true, preemptions: 2 },
];
const longCases: readonly Case[] = [
  { blocks: [1, 1], workers: 2, awaited: 0, helps: false, preemptions: 3 },
  { blocks: [1, 1], workers: 2, awaited: 1, helps: false, preemptions: 3 },
  { blocks: [1, 1], workers: 2, awaited: 2, helps: false, preemptions: 2 },
  { blocks: [1, 1], workers: 2, awaited: 1, helps: true, preemptions: 2 },
  { blocks: [2, 1], workers: 2, awaited: 2, helps: true, preemptions: 2 },
  { blocks: [1, 1, 1], workers: 1, awaited: 2, helps: true, preemptions: 3 },
  { blocks: [1, 1], workers: 3, awaited: 1, helps: false, preemptions: 1 },
];

for (
  const [model, long] of [
    ...cases.map((model) => [model, false] as const),
    ...longCases.map((model) => [model, true] as const),
  ]
) {
  const { blocks, workers, awaited, helps, preemptions } = model;
  const main = `a main thread that ${helps ? "helps" : "sleeps"} until ${awaited} of them are done`;
  const name = `a chain of jobs of ${blocks} blocks, ${workers} workers, and ${main}, with ${preemptions} preemptions`;
  test(name, { long }, () => {
    const { failure } = exploreCase(model);
    assertEquals(failure, undefined);
  });
}

test("exploring finds a wait for what has happened, and none if the wait checks the word that changes", () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const failureWith = (waited: number) => {
    const waits = () => {
      if (Atomics.load(words, 0) === 0) Atomics.wait(words, waited, 0);
    };
    const wakes = () => {
      Atomics.store(words, 0, 1);
      Atomics.notify(words, waited);
    };
    const threads = [{ name: "one", run: waits }, { name: "other", run: wakes }];
    return explore({ threads, memory: [words.buffer], mostPreemptions: 1 }).failure;
  };
  assertEquals(failureWith(0), undefined);
  assertMatch(
    failureWith(1)!,
    /^one: load 0\nother: notify 1\none: wait 1, 0\none waits: wait 1, 0\nother has ended$/,
  );
});
