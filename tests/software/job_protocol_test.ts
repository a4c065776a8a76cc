/**
 * Jobs in all orders in which the main thread and workers can access them: no block is lost, and nobody waits for what has
 * happened. Timeouts never end a wait here, because each wait that only a timeout ends is a defect.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { pause } from "../../src/support/waiting/timer.ts";
import { fieldsOfBefore, Job, JobBoard } from "../../src/software/execution/workers/job_board.ts";
import { JobLoop } from "../../src/software/execution/workers/job_loop.ts";
import { workerProgress } from "../../src/software/execution/workers/progress.ts";
import { SharedJob } from "../../src/software/execution/workers/shared_job.ts";
import type { Workers } from "../../src/software/execution/workers/workers.ts";
import { type Delegated, Scheduler, Stream } from "../../src/software/execution/streams.ts";
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
  /** The number of jobs for which the main thread waits. */
  readonly awaited: number;
  /** Whether the main thread runs blocks while it waits, all that are left or one at once. */
  readonly helps?: "long" | "shortly" | "once";
  /** What the main thread does then, before it is busy. */
  readonly then?: "open" | "pause" | "cancel";
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

/** Returns a program that depends on all that it has seen, except before pauses. */
function remembering(program: () => void): Pick<ModelThread, "run" | "onPause"> {
  let forgetAll: typeof forget;
  return {
    run(onForget) {
      forgetAll = onForget;
      forget = () => {};
      localsOf = () => "";
      program();
    },
    onPause: () => forgetAll("paused"),
  };
}

/** The memory of a case. */
class Memory {
  readonly board = new JobBoard(new SharedArrayBuffer(4 * (16 + 72 * mostJobs)));
  /** The number of blocks of each job that were run, by the jobs' numbers. The first word is the number that is running. */
  readonly ran = new Int32Array(new SharedArrayBuffer(4 * (2 + mostJobs)));

  /** The number of blocks of each job, if each begins after the one before. */
  readonly #blocks: readonly number[];

  constructor({ workers, blocks, then }: Case, prepare: (board: JobBoard) => number = () => 0) {
    this.#blocks = then === "cancel" ? [] : blocks;
    for (let worker = 0; worker < workers; worker++) this.board.start();
    this.ran[1] = prepare(this.board);
    Object.defineProperty(this.board, "words", { value: observed(this.board.words) });
  }

  /** Runs the blocks that the calling thread has claimed. */
  run(job: Job): void {
    const { number } = job;
    const before = number === 1 ? undefined : this.#blocks[number - 2];
    if (before !== undefined) assertEquals(Atomics.load(this.ran, number - 1), before);
    Atomics.add(this.ran, 0, 1);
    Atomics.add(this.ran, number, job.last - job.first);
    Atomics.notify(this.ran, number);
    Atomics.sub(this.ran, 0, 1);
  }
}

/** Returns a worker, which may do something else first. */
function workerOf(memory: Memory, worker: number, first?: Pick<ModelThread, "run">): ModelThread {
  const { board } = memory;
  return {
    first: first?.run,
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
      // Like "TransferRunner" of worker.ts, which copies and fills.
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
  readonly #helps: Case["helps"];
  readonly #onRun: () => void;

  constructor(memory: Memory, job: Job, { helps, onRun, onClose }: {
    helps: Case["helps"];
    onRun: () => void;
    onClose: () => void;
  }) {
    const { board } = memory;
    const workers = { rounds: 0, wakeIdle: () => board.wakeIdle(), close: (job: Job) => (job.close(), onClose()) };
    super(workers as unknown as Workers, { job, threads });
    this.#memory = memory;
    this.#helps = helps;
    this.#onRun = onRun;
  }

  protected override mayHelp(): boolean {
    return this.#helps !== undefined;
  }

  protected override runParts(job: Job): boolean {
    let hasRun = false;
    while (job.claim(1, threads)) {
      this.#memory.run(job);
      this.#onRun();
      hasRun = true;
      if (this.#helps !== "long") break;
    }
    return hasRun;
  }

  end(): void {
    this.close();
  }
}

function mainOf(memory: Memory, { blocks, awaited, helps, workers, then }: Case): ModelThread {
  const { board, ran } = memory;
  return {
    name: "main",
    onPause: () => forget(`paused ${localsOf()}`),
    run(onForget) {
      let ended = 0, hasRun = false, progress = 0, phase = 0;
      forget = onForget;
      localsOf = () => `${phase} ${ended} ${hasRun} ${progress}`;
      Object.defineProperty(workerProgress, "value", {
        configurable: true,
        get: () => progress = Atomics.load(workerProgress.word, 0),
      });
      const scheduler = new Scheduler((_, error) => assertEquals(error, undefined));
      const stream = new Stream(0, { isBlocking: false });
      scheduler.addStream(stream);
      const closed: number[] = [];
      let places = 0, number = 0;
      const enqueue = (end: number) => {
        const delegate = (after: Delegated) => {
          const index = closed.pop() ?? places++;
          const job = new Job(board, index);
          job.open({ number: ++number, threads, ...fieldsOfBefore(after.jobs) }, { first: 0, end, workers });
          return new TestJob(memory, job, { helps, onRun: () => hasRun = true, onClose: () => closed.push(index) });
        };
        scheduler.enqueue(stream, () => {}, { delegate, takesLong: () => true, release: () => ended++ });
      };
      const first = then === "open" || then === "cancel" ? blocks.slice(0, -1) : blocks;
      first.forEach(enqueue);
      // The main thread may do something else here.
      pause();
      phase++;
      scheduler.runUntil(() => {
        if (helps === "once" && hasRun) return true;
        hasRun = false;
        forget(localsOf());
        return ended >= awaited;
      });
      phase++;
      if (then === "pause") {
        board.whilePaused(() => {
          phase++;
          assertEquals(Atomics.load(ran, 0), 0);
        });
      } else if (then !== undefined) {
        if (then === "cancel") scheduler.close();
        enqueue(blocks.at(-1)!);
      }
      phase++;
      for (const [index, count] of blocks.entries()) {
        if (then === "cancel" && index < blocks.length - 1) continue;
        for (let seen; (seen = Atomics.load(ran, 1 + index)) < count;) Atomics.wait(ran, 1 + index, seen);
        forget(`ran ${index}`);
      }
    },
  };
}

function exploreCase(model: Case): Exploration {
  const { workers, preemptions } = model;
  const memory = new Memory(model);
  const threads = [mainOf(memory, model), ...Array.from({ length: workers }, (_, worker) => workerOf(memory, worker))];
  return exploreThreads(memory, threads, preemptions);
}

function exploreThreads(
  { board, ran }: Memory,
  threads: readonly ModelThread[],
  mostPreemptions: number,
): Exploration {
  using _join = forgetBefore(Job.prototype, "join");
  using _leave = forgetBefore(Job.prototype, "leave");
  using _claim = forgetBefore(Job.prototype, "claim");
  try {
    return explore({
      threads,
      memory: [board.buffer, workerProgress.word.buffer, ran.buffer as SharedArrayBuffer],
      ignored: statistics(),
      mostPreemptions,
    });
  } finally {
    delete (workerProgress as { value?: number }).value;
  }
}

/** The cases in which defects were found are the first two. Few preemptions are enough for most. */
const cases: readonly Case[] = [
  { blocks: [1, 1], workers: 1, awaited: 1, helps: "long", preemptions: 3 },
  { blocks: [1, 1], workers: 1, awaited: 2, helps: "long", preemptions: 2 },
  { blocks: [1, 1], workers: 1, awaited: 0, then: "pause", preemptions: Infinity },
  { blocks: [2, 1], workers: 1, awaited: 0, then: "cancel", preemptions: 2 },
];
const longCases: readonly Case[] = [
  { blocks: [1, 1], workers: 1, awaited: 1, helps: "long", preemptions: Infinity },
  { blocks: [1, 1, 1], workers: 1, awaited: 1, helps: "long", then: "open", preemptions: 3 },
  { blocks: [1, 1], workers: 2, awaited: 0, preemptions: 3 },
  { blocks: [1, 1], workers: 2, awaited: 1, preemptions: 2 },
  { blocks: [1, 1], workers: 2, awaited: 2, preemptions: 2 },
  { blocks: [1, 1], workers: 2, awaited: 1, helps: "long", preemptions: 2 },
  { blocks: [2, 2], workers: 2, awaited: 2, helps: "shortly", preemptions: 1 },
  { blocks: [3], workers: 2, awaited: 1, helps: "once", preemptions: 2 },
  { blocks: [1, 1], workers: 2, awaited: 0, then: "pause", preemptions: 2 },
  { blocks: [1, 1], workers: 2, awaited: 0, then: "cancel", preemptions: 2 },
  { blocks: [1, 1], workers: 3, awaited: 1, preemptions: 1 },
];
for (const [index, model] of [...cases, ...longCases].entries()) {
  const { blocks, workers, awaited, helps, then, preemptions } = model;
  const main = [
    helps === undefined ? "sleeps" : helps === "once" ? "runs a block or sleeps" : `runs blocks ${helps}`,
    `until ${awaited} of them ${awaited === 1 ? "is" : "are"} done`,
    {
      open: ", opens another",
      pause: ", lets the workers pause",
      cancel: ", cancels and opens another",
      none: "",
    }[then ?? "none"],
  ];
  const name = `a chain of jobs of ${blocks.join(" and ")} blocks, ${workers} workers, and a main thread that ${
    main.join(" ").replace(" ,", ",").trim()
  }: ${preemptions} preemptions`;
  test(name, { long: index >= cases.length }, () => {
    assertEquals(exploreCase(model).failure, undefined);
  });
}

test("a worker runs the blocks that are left when all others found the job full", () => {
  const memory = new Memory({ blocks: [3], workers: 2, awaited: 0, preemptions: 0 }, (board) => {
    const job = new Job(board, 0);
    job.open({ number: 1, threads }, { first: 0, end: 3, workers: 0 });
    // The main thread and the first worker have run a block each.
    for (let count = 0; count < threads; count++) job.join() && job.claim(1, threads);
    return 2;
  });
  const { board, ran } = memory;
  const { opened } = new JobBoard(board.buffer);
  const job = new Job(board, 0);
  const main = remembering(() => {
    job.leave();
    for (let seen; (seen = Atomics.load(ran, 1)) < 3;) Atomics.wait(ran, 1, seen);
  });
  // The second worker has found before that the job was not full. The first one may find so when it comes back.
  const first = remembering(() => void job.leave());
  const second = remembering(() => {
    if (!job.join()) return board.waitForJob(opened);
    if (job.claim(1, threads)) memory.run(job);
    job.leave();
  });
  const { failure } = exploreThreads(
    memory,
    [{ name: "main", ...main }, workerOf(memory, 0, first), workerOf(memory, 1, second)],
    1,
  );
  assertEquals(failure, undefined);
});

test("a worker that leaves a job last when it is closed already wakes others for the next", () => {
  const memory = new Memory({ blocks: [1, 1], workers: 2, awaited: 1, preemptions: 0 }, (board) => {
    const [next, job] = [new Job(board, 0), new Job(board, 1)];
    job.open({ number: 1, threads }, { first: 0, end: 1, workers: 0 });
    next.open({ number: 2, threads, ...fieldsOfBefore([job]) }, { first: 0, end: 1, workers: 0 });
    // The first worker has run the block.
    assert(job.join() && job.claim(1, threads));
    return 1;
  });
  const { board, ran } = memory;
  const { opened } = new JobBoard(board.buffer);
  const job = new Job(board, 1);
  const main = remembering(() => {
    while (!job.isOver) pause();
    job.close();
    for (let seen; (seen = Atomics.load(ran, 2)) < 1;) Atomics.wait(ran, 2, seen);
  });
  const first = remembering(() => void job.leave());
  // The second worker has found before that the job had blocks, and that the next one might not begin.
  const second = remembering(() => {
    assertEquals(job.join(), false);
    board.waitForJob(opened);
  });
  const { failure } = exploreThreads(
    memory,
    [{ name: "main", ...main }, workerOf(memory, 0, first), workerOf(memory, 1, second)],
    1,
  );
  assertEquals(failure, undefined);
});

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
