/**
 * The jobs that the main thread gives to worker threads, in memory that all of them share. A job is the rest of a
 * launch, a copy, a fill, or a change of the access to memory: threads claim ranges of its blocks until none is left. A job may begin only after another
 * one, so that the work of a stream goes on while the main thread is busy.
 *
 * @module
 */

import { pause } from "../../../support/waiting/timer.ts";

/** The maximum number of jobs that are open at once. */
export const jobCount = 512;

/**
 * The number of workers that a thread wakes at once. Each of them wakes others when it finds work, so that the thread
 * that opens a job continues sooner, and that no more are woken than can run the job.
 */
export const wokenAtOnce = 2;

/**
 * The time in milliseconds after which a thread looks again whether it still has to wait. Others wake it, so this only
 * matters if an engine loses a wake: that then costs time and nothing else. An idle worker may sleep longer, because the
 * main thread wakes it again when it waits for work.
 */
const longestWait = 50;

/** The words before the jobs. */
const header = {
  /** Increased whenever a job is opened. Idle workers wait for it to change. */
  opened: 0,
  /** The number of workers that have started. */
  started: 1,
  /** The number of open jobs. */
  openJobs: 2,
  /** The number of workers that wait for a job, or were woken and have not run since. */
  idle: 3,
  /** Increased when a worker looks for another job. */
  rounds: 4,
  /** 1 while workers must not access memory. */
  paused: 5,
  /** The number of workers that have noticed it, and wait for the end. */
  parked: 6,
  /** The number after the greatest index of an open job. */
  places: 7,
  words: 16,
} as const;

/** The fields of a job that the main thread sets before it opens the job, in 32-bit words. */
const jobFields = [
  /** What the job does, one of `jobKinds`. */
  "kind",
  /** The jobs after which this one begins: the index plus 1 of each, or 0, and its number. */
  "firstBefore",
  "firstBeforeNumber",
  "secondBefore",
  "secondBeforeNumber",
  /**
   * Of a copy or a fill, the offsets in linear memory, the sizes in bytes of the whole and of a value, and the value. Of a
   * change of access, the range, and whether access is allowed.
   */
  "from",
  "to",
  "byteLength",
  "elementBytes",
  "value",
  /**
   * Of a copy or a fill of rows, of which `byteLength` is the size of one: how many there are, and how many in a slice.
   * Of each end, the distance of rows in bytes, and that of slices in rows.
   */
  "rows",
  "height",
  "fromPitch",
  "fromRows",
  "toPitch",
  "toRows",
  /** The number of the job among all jobs, modulo 2^32. */
  "number",
  /** The kernel, by the number that the main thread has given it. */
  "kernel",
  "gridX",
  "gridY",
  "gridZ",
  "blockX",
  "blockY",
  "blockZ",
  /** The size of clusters in blocks, or 0 if each block is a cluster of its own. */
  "clusterX",
  "clusterY",
  "clusterZ",
  /** The size of the dynamic shared memory in bytes. */
  "sharedMemoryBytes",
  /** The offset of the packed parameters in linear memory. */
  "parameters",
  /** The offset of the device's bounds table. */
  "bounds",
  /** The offset of the workers' scratch ranges in linear memory, and the size of each worker's. */
  "scratchBegin",
  "scratchBytes",
  /** The maximum number of threads that run the job at once. */
  "threads",
  /** The offset of the workspace of a cooperative launch, or 0. */
  "workspace",
  /** 1 if blocks may wait for each other. */
  "mayWait",
  /** The maximum number of blocks that may wait for each other and are on the device at once. */
  "mostResidents",
  /** The offset and the size of the memory for blocks that wait for each other. */
  "places",
  "placesBytes",
  /** The offset of the state of the device's heap, or 0. */
  "heap",
  /** The offset of the table of conditions, or 0. */
  "conditions",
  /** The greatest number of characters that a kernel prints at once, or 0. */
  "printLimit",
] as const;

const threadsField = jobFields.indexOf("threads");
const numberField = jobFields.indexOf("number");
const firstBefore = jobFields.indexOf("firstBefore");

/** The maximum number of jobs after which a job begins. */
export const mostJobsBefore = 2;

/** Returns the fields that say after which jobs a job begins, at most two. */
export function fieldsOfBefore([first, second]: readonly Job[]): Partial<JobFields> {
  return {
    firstBefore: first === undefined ? 0 : first.index + 1,
    firstBeforeNumber: first?.number ?? 0,
    secondBefore: second === undefined ? 0 : second.index + 1,
    secondBeforeNumber: second?.number ?? 0,
  };
}

/** What jobs do. */
export const jobKinds = { launch: 0, copy: 1, fill: 2, access: 3, copyRows: 4, fillRows: 5 } as const;

/** The fields of a job. */
export type JobFields = Readonly<Record<typeof jobFields[number], number>>;

/** The words of a job that threads change while it is open. */
const state = {
  /** 1 while the job is open. */
  open: 0,
  /** The number of threads that are running the job. */
  running: 1,
  /** 1 if the job must stop. */
  stop: 2,
  /** The time in microseconds for which threads have run the job. */
  busy: 3,
  /** Increased when a block that may wait for others makes progress. */
  moves: 4,
  /** The number of blocks that may wait for others, and have started but not finished. */
  residents: 5,
  /** The number of faults that threads have reported. */
  reports: 6,
  /** How the job ended: 0 until then, 1 if all of it was done, 2 if not. */
  ended: 7,
  words: 8,
} as const;

/** The 64-bit counters of a job, in the order of their places. */
const counters = {
  /** The number of the next block that nobody has claimed. */
  next: 0,
  /** The number after the last block. */
  end: 1,
  /** The lowest number of a block that has faulted. */
  fault: 2,
  /** The number of bytes of the memory for blocks that wait which threads have reserved. */
  reserved: 3,
  /** The time in nanoseconds at which the last thread left the job. */
  endTime: 4,
  /** The time in nanoseconds at which the first thread began to run the job; 0 until a thread has run a part. */
  beginTime: 5,
  count: 6,
} as const;

const wordsPerJob = 2 * counters.count + state.words + jobFields.length + jobFields.length % 2;
const noBlock = 2n ** 63n - 1n;

/** The memory with all jobs. */
export class JobBoard {
  readonly words: Int32Array<SharedArrayBuffer>;
  readonly counters: BigInt64Array<SharedArrayBuffer>;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(4 * (header.words + jobCount * wordsPerJob))) {
    this.words = new Int32Array(buffer);
    this.counters = new BigInt64Array(buffer);
  }

  get buffer(): SharedArrayBuffer {
    return this.words.buffer;
  }

  /** The number of workers that have started. */
  get started(): number {
    return Atomics.load(this.words, header.started);
  }

  /** Must be called by each worker when it has started. */
  start(): void {
    Atomics.add(this.words, header.started, 1);
  }

  /** The number of jobs that have been opened, modulo 2^32. */
  get opened(): number {
    return Atomics.load(this.words, header.opened);
  }

  /** Blocks until another job is opened, but at most for some milliseconds. */
  waitForJob(opened: number, milliseconds?: number): void {
    Atomics.add(this.words, header.idle, 1);
    Atomics.wait(this.words, header.opened, opened, milliseconds);
    Atomics.sub(this.words, header.idle, 1);
  }

  /** Wakes idle workers. Returns false if no worker is idle. */
  wakeIdle(count = 1): boolean {
    if (Atomics.load(this.words, header.idle) === 0) return false;
    Atomics.notify(this.words, header.opened, count);
    return true;
  }

  /** Whether several jobs are open, between which workers take turns. */
  get hasSeveralJobs(): boolean {
    return Atomics.load(this.words, header.openJobs) > 1;
  }

  /** A number that is greater than the index of each open job. */
  get places(): number {
    return Atomics.load(this.words, header.places);
  }

  /** Counts a job that is opened, and wakes the first of the workers that are to run it. They wake the others. */
  noteOpened(index: number, workers: number): void {
    if (index >= this.places) Atomics.store(this.words, header.places, index + 1);
    Atomics.add(this.words, header.openJobs, 1);
    Atomics.add(this.words, header.opened, 1);
    Atomics.notify(this.words, header.opened, Math.min(workers, wokenAtOnce));
  }

  noteClosed(): void {
    if (Atomics.sub(this.words, header.openJobs, 1) === 1) Atomics.store(this.words, header.places, 0);
  }

  /** Wakes all idle workers if jobs may begin that had to wait for another one, which is done, and may be closed already. */
  wakeForNext(done: Job): void {
    const openJobs = Atomics.load(this.words, header.openJobs);
    if (openJobs === 0 || openJobs === 1 && done.isOpen) return;
    Atomics.add(this.words, header.opened, 1);
    Atomics.notify(this.words, header.opened);
  }

  /**
   * Wakes an idle worker for the blocks that are left of a job that no thread runs now. Others may have found the job
   * full when the calling thread only tried to join.
   */
  wakeForRest(): void {
    Atomics.add(this.words, header.opened, 1);
    Atomics.notify(this.words, header.opened, 1);
  }

  /** Blocks while workers must not access memory. Called by workers between parts of jobs, and now and then within them. */
  parkWhilePaused(): void {
    if (Atomics.load(this.words, header.paused) === 0) return;
    Atomics.add(this.words, header.parked, 1);
    while (Atomics.load(this.words, header.paused) === 1) Atomics.wait(this.words, header.paused, 1, longestWait);
    Atomics.sub(this.words, header.parked, 1);
  }

  /** Calls `run` while no worker accesses memory. */
  whilePaused<Result>(run: () => Result): Result {
    const { words } = this;
    Atomics.store(words, header.paused, 1);
    try {
      // An idle worker that is woken parks before it does anything else.
      while (Atomics.load(words, header.idle) + Atomics.load(words, header.parked) < this.started) pause();
      return run();
    } finally {
      Atomics.store(words, header.paused, 0);
      Atomics.notify(words, header.paused);
      while (Atomics.load(words, header.parked) > 0) pause();
    }
  }

  /** The number of times that a worker has looked for another job, modulo 2^32. */
  get rounds(): number {
    return Atomics.load(this.words, header.rounds);
  }

  noteRound(): void {
    Atomics.add(this.words, header.rounds, 1);
  }
}

/** A job of a board. Each thread has an object of its own for it. */
export class Job {
  readonly index: number;
  /** The range of blocks that was claimed last: from `first` to `last` (exclusive). */
  first = 0;
  last = 0;
  readonly #board: JobBoard;
  readonly #counters: number;
  readonly #state: number;
  readonly #fields: number;
  /** The jobs after which this one begins, or another one in its place did. */
  readonly #before: Job[] = [];

  constructor(board: JobBoard, index: number) {
    this.index = index;
    this.#board = board;
    const begin = header.words + index * wordsPerJob;
    this.#counters = begin / 2;
    this.#state = begin + 2 * counters.count;
    this.#fields = this.#state + state.words;
  }

  /**
   * Opens the job for workers, with the blocks from `first` to `end` (exclusive). Only the main thread may call this, and
   * only if the job is closed.
   *
   * @param workers the maximum number of workers to wake
   */
  open(fields: Partial<JobFields>, { first, end, workers }: { first: number; end: number; workers: number }): void {
    const { words } = this.#board;
    jobFields.forEach((name, index) => words[this.#fields + index] = fields[name] ?? 0);
    this.#set("next", BigInt(first));
    this.#set("end", BigInt(end));
    this.#set("fault", noBlock);
    this.#set("reserved", 0n);
    this.#set("beginTime", 0n);
    Atomics.store(words, this.#state + state.stop, 0);
    for (const word of ["busy", "residents", "reports", "ended"] as const) {
      Atomics.store(words, this.#state + state[word], 0);
    }
    Atomics.store(words, this.#state + state.open, 1);
    this.#board.noteOpened(this.index, Math.min(workers, end - first));
  }

  /** Lets all threads leave the job soon. */
  stop(): void {
    Atomics.store(this.#board.words, this.#state + state.stop, 1);
  }

  /** Closes the job, which must be done or stopped. Blocks until no worker runs it, which they then never do again. */
  close(): void {
    const { words } = this.#board;
    Atomics.store(words, this.#state + state.open, 0);
    for (let running; (running = this.running) > 0;) {
      Atomics.wait(words, this.#state + state.running, running, longestWait);
    }
    // Workers that find nothing to do also count as running the job for a moment. They must not make it seem unfinished.
    const isDone = !this.isUnclaimed && !this.hasFault && !this.isStopped;
    Atomics.store(words, this.#state + state.ended, isDone ? 1 : 2);
    this.#board.noteClosed();
  }

  /** Returns the fields. Must be called by a thread that has joined. */
  fields(): JobFields {
    const { words } = this.#board;
    const fields: Partial<Record<keyof JobFields, number>> = {};
    for (let index = 0; index < jobFields.length; index++) {
      fields[jobFields[index]!] = words[this.#fields + index]! >>> 0;
    }
    return fields as JobFields;
  }

  /** The number of the job among all jobs. */
  get number(): number {
    return this.#board.words[this.#fields + numberField]! >>> 0;
  }

  /** The number of threads that are running the job. */
  get running(): number {
    return Atomics.load(this.#board.words, this.#state + state.running);
  }

  get isOpen(): boolean {
    return Atomics.load(this.#board.words, this.#state + state.open) === 1;
  }

  /** Whether blocks are left that a thread can claim. */
  get hasBlocks(): boolean {
    return !this.isStopped && !this.hasFault && this.#get("next") < this.#get("end");
  }

  /**
   * Whether the job may begin: those before it are done. If one of them has failed, the main thread closes this one before
   * it opens another one in its place.
   */
  get isReady(): boolean {
    return this.#isDone(0) && this.#isDone(1);
  }

  /** Whether one of the jobs before this one is done, or there is none. */
  #isDone(place: number): boolean {
    const { words } = this.#board;
    const field = this.#fields + firstBefore + 2 * place;
    const index = words[field]!;
    if (index === 0) return true;
    let before = this.#before[place];
    if (before?.index !== index - 1) this.#before[place] = before = new Job(this.#board, index - 1);
    if (before.number !== words[field + 1]! >>> 0) return true;
    const ended = Atomics.load(words, before.#state + state.ended);
    return ended === 1 || ended === 0 && before.#isComplete;
  }

  /** Whether all of the job was done. */
  get #isComplete(): boolean {
    return this.isOver && !this.hasFault && !this.isStopped;
  }

  /** Whether a thread can begin to run the job. */
  get isRunnable(): boolean {
    return this.isOpen && this.hasBlocks && this.isReady;
  }

  /** The time at which the last thread left the job, in nanoseconds since the main thread's `performance.timeOrigin`. */
  get endTime(): bigint {
    return this.#get("endTime");
  }

  /** The time at which the first thread began to run the job, as `endTime`. Known when the job is over. */
  get beginTime(): bigint {
    return this.#get("beginTime");
  }

  /** Whether no thread runs the job, or will. */
  get isOver(): boolean {
    return !this.hasBlocks && this.running === 0;
  }

  /** Whether the job must stop. */
  get isStopped(): boolean {
    return Atomics.load(this.#board.words, this.#state + state.stop) === 1;
  }

  /** Whether a block has faulted. */
  get hasFault(): boolean {
    return this.#get("fault") !== noBlock;
  }

  /** The lowest number of a block that has faulted. */
  get lowestFault(): number {
    return Number(this.#get("fault"));
  }

  /** The time in milliseconds for which threads have run the job. */
  get busyMilliseconds(): number {
    return (Atomics.load(this.#board.words, this.#state + state.busy) >>> 0) / 1000;
  }

  /** Whether as many threads as may run the job are running it. */
  get isFull(): boolean {
    return this.running >= this.#threads;
  }

  get #threads(): number {
    return this.#board.words[this.#fields + threadsField]!;
  }

  /**
   * Counts the calling thread as one that runs the job, which only then may claim blocks. Returns false if the job is
   * closed or full.
   */
  join(): boolean {
    const before = Atomics.add(this.#board.words, this.#state + state.running, 1);
    if (this.isRunnable && before < this.#threads) return true;
    this.leave();
    return false;
  }

  /** The number of blocks that were claimed. */
  claimedFrom(first: number): number {
    return Math.min(Number(this.#get("next")), Number(this.#get("end"))) - first;
  }

  /**
   * Notes that the calling thread has run parts of the job, from `begin` to `end`, in milliseconds since the main
   * thread's `performance.timeOrigin`.
   */
  noteBusy(begin: number, end: number): void {
    Atomics.add(this.#board.words, this.#state + state.busy, Math.ceil((end - begin) * 1000));
    const time = BigInt(Math.round(begin * 1e6));
    for (;;) {
      const first = this.#get("beginTime");
      if (first !== 0n && first <= time || this.#exchange("beginTime", first, time) === first) return;
    }
  }

  /**
   * Must be called by a thread that has joined, or tried to. Returns whether it was the last. If so, wakes a worker for
   * the blocks that are left, or lets the jobs begin that come after this one.
   *
   * @param time the time in nanoseconds
   */
  leave(time: bigint = 0n): boolean {
    const { words } = this.#board;
    if (time > this.#get("endTime")) this.#set("endTime", time);
    const isLast = Atomics.sub(words, this.#state + state.running, 1) === 1;
    if (!this.isOpen) Atomics.notify(words, this.#state + state.running);
    if (isLast && this.hasBlocks) this.#board.wakeForRest();
    else if (isLast) this.#board.wakeForNext(this);
    return isLast;
  }

  /**
   * Claims the next blocks, at most `most`, and fewer if several threads would not get their share of what is left.
   * Returns false if no blocks are left.
   */
  claim(most: number, threads: number): boolean {
    if (!this.hasBlocks) return false;
    const end = Number(this.#get("end"));
    const left = end - Number(this.#get("next"));
    const count = Math.max(1, Math.min(most, Math.ceil(left / (2 * threads))));
    const first = Number(Atomics.add(this.#board.counters, this.#counters + counters.next, BigInt(count)));
    if (first >= end) return false;
    this.first = first;
    this.last = Math.min(first + count, end);
    return true;
  }

  /** Reserves a part of the memory for blocks that wait. Returns its offset there, or undefined if no room is left. */
  reserve(byteLength: number, totalBytes: number): number | undefined {
    const place = this.#counters + counters.reserved;
    if (Number(this.#get("reserved")) + byteLength > totalBytes) return undefined;
    const offset = Number(Atomics.add(this.#board.counters, place, BigInt(byteLength)));
    return offset + byteLength > totalBytes ? undefined : offset;
  }

  /** Claims the next block, which may wait for others, if fewer than `most` have started and not finished. */
  claimResident(most: number): boolean {
    const { words } = this.#board;
    const place = this.#state + state.residents;
    if (Atomics.add(words, place, 1) < most && this.claim(1, 1)) return true;
    Atomics.sub(words, place, 1);
    return false;
  }

  /** Must be called when a block has ended that `claimResident` has claimed. */
  endResident(): void {
    Atomics.sub(this.#board.words, this.#state + state.residents, 1);
  }

  /** The number of blocks that may wait for others, and have started but not finished. */
  get residents(): number {
    return Atomics.load(this.#board.words, this.#state + state.residents);
  }

  /** Counts a fault that the calling thread has reported. */
  noteReport(): void {
    Atomics.add(this.#board.words, this.#state + state.reports, 1);
  }

  /** The number of faults that threads have reported. */
  get reports(): number {
    return Atomics.load(this.#board.words, this.#state + state.reports);
  }

  /** Whether blocks are left that no thread has claimed, whether or not any may still do so. */
  get isUnclaimed(): boolean {
    return this.#get("next") < this.#get("end");
  }

  /** The number of times that a block that may wait for others has made progress, modulo 2^32. */
  get moves(): number {
    return Atomics.load(this.#board.words, this.#state + state.moves);
  }

  noteMove(): void {
    Atomics.add(this.#board.words, this.#state + state.moves, 1);
  }

  /** Reports that a block has faulted. Returns whether it is the lowest such block so far. */
  fail(block: number): boolean {
    const place = this.#counters + counters.fault;
    for (;;) {
      const lowest = this.#get("fault");
      if (lowest <= BigInt(block)) return false;
      if (Atomics.compareExchange(this.#board.counters, place, lowest, BigInt(block)) === lowest) return true;
    }
  }

  /** Whether a thread that runs a block must stop: because all must, or because a lower block has faulted. */
  isInVain(block: number): boolean {
    return this.isStopped || this.hasFault && this.#get("fault") < BigInt(block);
  }

  #get(counter: Exclude<keyof typeof counters, "count">): bigint {
    return Atomics.load(this.#board.counters, this.#counters + counters[counter]);
  }

  #exchange(counter: Exclude<keyof typeof counters, "count">, expected: bigint, value: bigint): bigint {
    return Atomics.compareExchange(this.#board.counters, this.#counters + counters[counter], expected, value);
  }

  #set(counter: Exclude<keyof typeof counters, "count">, value: bigint): void {
    Atomics.store(this.#board.counters, this.#counters + counters[counter], value);
  }
}
