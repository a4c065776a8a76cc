/**
 * Runs the threads of a block that may wait for each other. Warp by warp, the scheduler runs each thread until it is
 * suspended or exits, and answers complete requests, until all threads have exited.
 *
 * @module
 */
import {
  BlockBarriers,
  type CompletedBarrier,
  DeadlockError,
  formatRanges,
  type WaitingThreads,
} from "./block_barriers.ts";
import { BlockRecords, type BlockThreads, clusterBarrier, ThreadPositions } from "./block_records.ts";
import { ClusterBarrier } from "./cluster_barrier.ts";
import { exited, type Suspension, type SuspensionRequest, threadRecord, warpSize } from "../../abi/launch_record.ts";
import { inOrder, type ThreadOrder } from "../../schedule.ts";
import { type ActiveGroup, isOfWarp, LockstepTurns, WarpGroups } from "./warp_groups.ts";
import { answerGroup, forEachLane, readerOfAbsentLane } from "./warp_operations.ts";

/** The result of a turn, in which a scheduler runs a block for some time. */
export type TurnResult =
  /** All threads have exited. */
  | "ended"
  /** Some threads made progress, and now all threads wait or spin. */
  | "waiting"
  /** No thread made progress: all threads wait or spin at the same suspend points as before the turn. */
  | "stuck"
  /**
   * The turn ended because it reached the maximum length. Some threads can still run, but they may only be spinning in
   * a loop with barriers, waiting for another block to make progress.
   */
  | "busy";

/** The number of steps that are counted each time a thread yields. */
const stepsOfYield = 64;
/**
 * For kernels that may wait for other blocks: a turn ends after this number of rounds in which no thread has exited. In
 * each round, every runnable warp runs. Turns of observed blocks are shorter, because a block that runs far ahead of
 * the others would hide the early accesses of the others from the checks.
 */
const roundsPerTurn = { usual: 8, observed: 1 } as const;
/**
 * For kernels whose threads may wait for each other, the maximum number of times in a row that a warp's requests are
 * completed and the warp resumes before other warps run.
 */
const answersPerRound = 4;

/** Runs the blocks of a launch, one after another. */
export class BlockScheduler {
  readonly #options: BlockThreads;
  readonly #records: BlockRecords;
  readonly #count: number;
  readonly #barriers: BlockBarriers;
  /** For each thread, the last request that the scheduler has examined. */
  readonly #seen: Int32Array;
  /**
   * For each warp, the number of threads that wait or have exited. 0 while the requests of the warp are handled for all
   * of its threads at once.
   */
  readonly #waiting: Int32Array;
  /** For each warp, whether any of its threads can run. */
  readonly #isReady: boolean[];
  readonly #groups: WarpGroups;
  /** Whether threads may spin, that is, repeat a loop while they wait for another block. */
  readonly #maySpin: boolean;
  /** For each thread, the request with which the thread last yielded. */
  readonly #yielded: Int32Array;
  readonly #turns: LockstepTurns;
  readonly #positions: ThreadPositions;
  readonly #roundsPerTurn: number;
  /** The barrier of the cluster. Undefined if the kernel does not use it. */
  #cluster: ClusterBarrier | undefined;
  /** For each thread, the phase of the cluster's barrier in which the thread last arrived. -1 before that. */
  readonly #arrivals: Int32Array;
  /** The threads that wait for a phase of the cluster's barrier. */
  #atCluster: number[] = [];
  /** The phase of the cluster's barrier that the observer knows. */
  #observedPhase = 0;
  #live = 0;
  /** The number of requests and exits of threads so far, except for yields. An increase shows progress. */
  #events = 0;
  /**
   * The number of times that a thread yielded at a different suspend point than at its previous yield. An increase
   * shows progress.
   */
  #moves = 0;

  constructor(options: BlockThreads) {
    this.#options = options;
    this.#records = new BlockRecords(options);
    this.#count = this.#records.count;
    const warpCount = this.#records.warps.length;
    this.#barriers = new BlockBarriers((thread) => {
      return thread < this.#count && this.#records.requestOf(thread) !== exited;
    });
    this.#seen = new Int32Array(this.#count);
    this.#waiting = new Int32Array(warpCount);
    this.#isReady = new Array(warpCount).fill(false);
    this.#groups = new WarpGroups(this.#records, options.kernel.suspensions);
    this.#maySpin = maySpin(options.kernel.suspensions);
    this.#yielded = new Int32Array(this.#maySpin ? this.#count : 0);
    const usesCluster = options.kernel.suspensions.some(({ request }) => request.kind === "clusterBarrier");
    this.#arrivals = new Int32Array(usesCluster ? this.#count : 0);
    this.#turns = new LockstepTurns(options.kernel.suspensions, { warps: warpCount, threads: this.#count });
    this.#positions = new ThreadPositions(options);
    this.#roundsPerTurn = roundsPerTurn[options.observer === undefined ? "usual" : "observed"];
  }

  /** Runs a block to completion. Throws {@linkcode DeadlockError} if its threads wait for each other forever. */
  runBlock(): void {
    this.start();
    while (this.takeTurn() !== "ended");
  }

  /**
   * Runs the rest of a block whose state is in the thread records. Every thread must wait at a suspend point or have
   * exited.
   */
  finishBlock(): void {
    this.#forget();
    for (let warp = 0; warp < this.#isReady.length; warp++) this.#answerWarp(warp);
    while (this.takeTurn() !== "ended");
  }

  /**
   * Runs the threads of a block until all have exited or, in a kernel whose threads may spin, until other blocks should
   * run. Throws {@linkcode DeadlockError} if the threads wait for each other forever.
   */
  takeTurn(): TurnResult {
    this.#options.observer?.resume();
    const [eventsAtStart, movesAtStart] = [this.#events, this.#moves];
    const mostAnswers = this.#maySpin ? answersPerRound : Infinity;
    let live = this.#live;
    for (let rounds = 1; this.#live > 0; rounds++) {
      const { length } = this.#isReady;
      const events = this.#events;
      let isGoingOn = false;
      const order = this.#options.order?.warps(length);
      for (let place = 0; place < length; place++) {
        const warp = order?.[place] ?? place;
        if (!this.#isReady[warp]) continue;
        isGoingOn = true;
        let answers = 0;
        do this.#runWarp(warp); while (this.#answerWarp(warp) && ++answers < mostAnswers);
      }
      const isReleased = this.#live > 0 && this.#completeBarriers();
      if (!isGoingOn && !isReleased && this.#live > 0) {
        if (!this.#waitsForOtherBlocks()) throw this.#deadlock();
        return events === eventsAtStart && this.#moves === movesAtStart ? "stuck" : "waiting";
      }
      if (!this.#maySpin || this.#live === 0) continue;
      if (this.#events === events && !isReleased) {
        return events === eventsAtStart && this.#moves === movesAtStart ? "stuck" : "waiting";
      }
      if (this.#live < live) {
        live = this.#live;
        rounds = 0;
      }
      if (rounds >= this.#roundsPerTurn) return "busy";
    }
    this.#options.observer?.end?.();
    this.#cluster?.leave(this);
    return "ended";
  }

  /** Whether threads wait for a barrier of the cluster that threads of other blocks can still reach. */
  #waitsForOtherBlocks(): boolean {
    return this.#atCluster.length > 0 && this.#cluster!.isShared && !this.#cluster!.block(this);
  }

  /**
   * Starts a block: every thread is at the beginning of the kernel.
   *
   * @param cluster the barrier of the block's cluster. Undefined if the block is a cluster of its own
   */
  start(cluster?: ClusterBarrier): void {
    this.#cluster = cluster;
    this.#records.start();
    this.#forget();
    this.#options.observer?.start(this.#cluster);
    this.#yielded.fill(0);
    this.#isReady.fill(true);
  }

  /** Resets the scheduler's state, so that it examines the requests of all threads again. */
  #forget(): void {
    this.#seen.fill(0);
    this.#waiting.fill(0);
    this.#isReady.fill(false);
    this.#barriers.clear();
    this.#turns.restart();
    this.#live = this.#count;
    if (this.#arrivals.length === 0) return;
    if (this.#cluster?.isShared !== true) this.#cluster = new ClusterBarrier({ isShared: false });
    this.#cluster.join(this, this.#count);
    this.#arrivals.fill(-1);
    this.#atCluster.length = this.#observedPhase = 0;
  }

  #runWarp(warp: number): void {
    this.#isReady[warp] = false;
    const first = warp * warpSize;
    const last = Math.min(first + warpSize, this.#count);
    this.#options.countSteps(last - first, first);
    const order = this.#options.order?.threads(last - first);
    if (order === undefined) this.#options.run(first, last);
    else this.#runInOrder(first, last, order);
  }

  /** Runs the threads of a warp in the given cyclic order. */
  #runInOrder(first: number, last: number, order: ThreadOrder): void {
    const middle = first + order.start;
    if (order.isReversed) {
      for (const lane of inOrder(last - first, order)) this.#options.run(first + lane, first + lane + 1);
    } else {
      this.#options.run(middle, last);
      if (middle > first) this.#options.run(first, middle);
    }
  }

  /** Examines the requests of a warp's threads. Returns whether any of the threads can run immediately. */
  #answerWarp(warp: number): boolean {
    const asked = this.#waiting[warp] === 0 ? this.#records.commonRequestOf(warp) : 0;
    if (asked > 0) {
      const { request } = this.#options.kernel.suspensions[asked - 1]!;
      if (request.kind === "barrier" && request.operation === "sync" && this.#arriveTogether(warp)) return false;
      if (request.kind === "lockstep" && !this.#positions.mayDiffer) {
        if (request.spins) this.#noteSpin(warp * warpSize, asked);
        else this.#events++;
        this.#resumeWarp(warp);
        return this.#turns.resume(warp);
      }
      if (isOfWarp(request) && request.kind !== "lockstep" && this.#answerTogether(warp, request)) return true;
    }
    return this.#answerThreads(warp);
  }

  /**
   * Records that all threads of a warp have arrived at a barrier for the whole block. Returns false if they have
   * arrived at different barriers.
   */
  #arriveTogether(warp: number): boolean {
    const barrier = this.#records.commonBarrierOf(warp);
    if (barrier === undefined) return false;
    this.#barriers.arriveTogether(warp, { barrier, threads: this.#records.lanesOf(warp) });
    this.#observeArrival(warp * warpSize);
    this.#events++;
    return true;
  }

  /**
   * Completes an operation that all threads of a warp request. Returns false if their mask operands do not include all
   * lanes.
   */
  #answerTogether(warp: number, request: SuspensionRequest): boolean {
    if (request.kind !== "activeMask" && !this.#records.nameAll(warp)) return false;
    const lanes = this.#records.allLanesOf(warp);
    answerGroup(this.#records.warps[warp]!, lanes, request);
    this.#observeMeeting(warp, lanes);
    this.#events++;
    this.#resumeWarp(warp);
    return true;
  }

  #resumeLanes(warp: number, group: number): void {
    forEachLane(group, (lane) => this.#resume(warp * warpSize + lane));
  }

  #resumeWarp(warp: number): void {
    this.#records.clearRequestsOf(warp);
    this.#isReady[warp] = true;
  }

  /** Examines the request of each thread of a warp. Returns whether any of the threads can run immediately. */
  #answerThreads(warp: number): boolean {
    const { suspensions } = this.#options.kernel;
    const first = warp * warpSize;
    const last = Math.min(first + warpSize, this.#count);
    let waitsInWarp = false;
    let yielded = 0;
    for (let thread = first; thread < last; thread++) {
      const request = this.#records.requestOf(thread);
      if (request === this.#seen[thread]) {
        waitsInWarp ||= request > 0 && isOfWarp(suspensions[request - 1]!.request);
        continue;
      }
      this.#seen[thread] = request;
      this.#waiting[warp]!++;
      if (request === exited) {
        this.#live--;
        this.#events++;
        this.#cluster?.exit({ hasArrived: this.#arrivals[thread] === this.#cluster.phase });
        continue;
      }
      const asked = suspensions[request - 1]!.request;
      if (asked.kind === "yield") {
        this.#yield(thread, request);
        yielded |= 1 << thread - first;
        continue;
      }
      if (asked.kind === "lockstep" && asked.spins) this.#noteSpin(thread, request);
      else this.#events++;
      if (asked.kind === "barrier") this.#arrive(thread, asked.operation);
      else if (asked.kind === "clusterBarrier") this.#arriveAtCluster(thread, asked);
      else waitsInWarp = true;
    }
    return waitsInWarp && this.#answerGroups(warp, yielded);
  }

  #arrive(thread: number, operation: "sync" | "arrive" | "popc" | "and" | "or"): void {
    this.#observeArrival(thread);
    const completed = this.#barriers.arrive(thread, {
      barrier: this.#records.get(thread, threadRecord.first),
      count: this.#records.get(thread, threadRecord.second),
      waits: operation !== "arrive",
      predicate: operation === "sync" || operation === "arrive"
        ? undefined
        : this.#records.get(thread, threadRecord.value) !== 0,
    });
    if (operation === "arrive") this.#resume(thread);
    if (completed !== undefined) this.#release(completed);
  }

  #arriveAtCluster(
    thread: number,
    { operation, isRelaxed }: Extract<SuspensionRequest, { kind: "clusterBarrier" }>,
  ): void {
    const cluster = this.#cluster!;
    const { observer } = this.#options;
    if (operation === "arrive") {
      observer?.arriveAtCluster?.(thread, { phase: cluster.phase, isRelaxed });
      this.#arrivals[thread] = cluster.arrive();
    } else if (observer !== undefined || this.#arrivals[thread]! >= cluster.phase) {
      // Observed threads go on together, so that the observer learns of the barrier before any of them.
      this.#atCluster.push(thread);
      return;
    }
    this.#resume(thread);
  }

  /** Resumes the threads for which the phase of the cluster's barrier has completed. Returns whether there are any. */
  #resumeFromCluster(): boolean {
    const cluster = this.#cluster;
    const { observer } = this.#options;
    if (cluster === undefined || observer === undefined && this.#observedPhase === cluster.phase) return false;
    const isDone = (thread: number) => this.#arrivals[thread]! < cluster.phase;
    const threads = this.#atCluster.filter(isDone);
    if (threads.length > 0) this.#atCluster = this.#atCluster.filter((thread) => !isDone(thread));
    if (this.#observedPhase !== cluster.phase) this.#observeCluster();
    this.#observedPhase = cluster.phase;
    if (threads.length === 0) return false;
    observer?.leaveCluster?.(threads, { phase: cluster.phase - 1 });
    for (const thread of threads) this.#resume(thread);
    return true;
  }

  /** Notifies the observer that a phase of the cluster's barrier is complete. */
  #observeCluster(): void {
    this.#observe({
      barrier: clusterBarrier,
      count: 0,
      threads: Array.from({ length: this.#count }, (_, thread) => thread),
      warps: [],
      held: 0,
      allHeld: false,
    });
  }

  #yield(thread: number, request: number): void {
    this.#options.countSteps(stepsOfYield, thread);
    this.#noteSpin(thread, request);
    this.#resume(thread);
  }

  /** Records the suspend point of a thread that yields in a loop, where it may be waiting for other threads. */
  #noteSpin(thread: number, request: number): void {
    if (this.#yielded[thread] !== request) this.#moves++;
    this.#yielded[thread] = request;
  }

  #resume(thread: number): void {
    const warp = Math.floor(thread / warpSize);
    this.#records.set(thread, threadRecord.request, 0);
    this.#seen[thread] = 0;
    this.#waiting[warp]!--;
    this.#isReady[warp] = true;
  }

  /**
   * Completes the operations of a warp for which all lanes have arrived. Only if there are none, resumes lanes at a
   * lockstep point or completes an `activemask` operation, because lanes that resume from other operations may still
   * reach the same point. `yielded` is the mask of the lanes that resume after a yield.
   */
  #answerGroups(warp: number, yielded: number): boolean {
    const { complete, active, atLockstepPoints } = this.#groups.of(warp);
    for (const { group, request } of complete) this.#answer(warp, group, request);
    if (complete.length > 0) return true;
    if (atLockstepPoints) return this.#resumeAtLockstepPoint(warp, { yielded, active });
    if (active === undefined) return false;
    this.#answer(warp, active.group, active.request);
    return true;
  }

  /**
   * Resumes the lanes at one lockstep point of a warp. Completes an `activemask` operation instead if its instruction
   * precedes the lockstep point.
   */
  #resumeAtLockstepPoint(
    warp: number,
    { yielded, active }: { yielded: number; active: ActiveGroup | undefined },
  ): boolean {
    const first = warp * warpSize;
    const requestOf = (lane: number) => this.#records.requestOf(first + lane);
    const lanes = this.#records.lanesOf(warp);
    const positionOf = (lane: number) => this.#positions.of(first + lane);
    const group = this.#turns.next(warp, { requestOf, positionOf, lanes, yielded, active: active?.lane });
    if (group === "active") this.#answer(warp, active!.group, active!.request);
    else this.#resumeLanes(warp, group);
    return this.#turns.resume(warp);
  }

  #answer(warp: number, group: number, request: SuspensionRequest): void {
    answerGroup(this.#records.warps[warp]!, group, request);
    this.#observeMeeting(warp, group);
    this.#resumeLanes(warp, group);
  }

  #completeBarriers(): boolean {
    const completed = this.#barriers.complete(this.#live);
    for (const barrier of completed) this.#release(barrier);
    return this.#resumeFromCluster() || completed.length > 0;
  }

  #release(completed: CompletedBarrier): void {
    const { threads, warps, held, allHeld } = completed;
    this.#observe(completed);
    const { suspensions } = this.#options.kernel;
    for (const warp of warps) this.#resumeWarp(warp);
    for (const thread of threads) {
      const { request } = suspensions[this.#records.requestOf(thread) - 1]!;
      if (request.kind === "barrier" && request.operation !== "sync") {
        const results: Readonly<Record<string, number>> = { popc: held, and: Number(allHeld), or: Number(held > 0) };
        this.#records.set(thread, threadRecord.result, results[request.operation]!);
      }
      this.#resume(thread);
    }
  }

  /** Notifies the observer of a completed barrier whose threads are about to resume. */
  #observe({ barrier, count, threads, warps }: CompletedBarrier): void {
    this.#options.observer?.complete({
      barrier,
      isOfAll: count === 0 || threads.length === this.#count,
      isOfWholeWarps: threads.length === 0,
      threads: () => [...warps.flatMap((warp) => this.#records.threadsOf(warp)), ...threads],
      suspensionOf: (thread) => this.#suspensionOf(thread),
      hasExited: (thread) => thread >= this.#count || this.#records.requestOf(thread) === exited,
    });
  }

  #observeArrival(thread: number): void {
    const { observer } = this.#options;
    if (observer === undefined) return;
    const [barrier, count] = [threadRecord.first, threadRecord.second].map((field) => this.#records.get(thread, field));
    observer.arrive(thread, { barrier: barrier!, count: count!, suspension: this.#suspensionOf(thread)! });
  }

  #observeMeeting(warp: number, lanes: number): void {
    const { observer } = this.#options;
    if (observer === undefined) return;
    const first = warp * warpSize;
    const suspension = this.#suspensionOf(first + 31 - Math.clz32(lanes & -lanes))!;
    observer.meet(warp, {
      lanes,
      present: this.#records.presentLanesOf(warp),
      suspension,
      maskOf: (lane) => this.#records.get(first + lane, threadRecord.mask),
      readerOfAbsentLane: () => {
        const { request } = suspension;
        if (request.kind !== "shuffle") return undefined;
        return readerOfAbsentLane(this.#records.warps[warp]!, { group: lanes, mode: request.mode });
      },
    });
  }

  /** Returns the suspend point where a thread waits, or undefined if the thread does not wait. */
  #suspensionOf(thread: number): Suspension | undefined {
    return this.#options.kernel.suspensions[this.#records.requestOf(thread) - 1];
  }

  #deadlock(): DeadlockError {
    return new DeadlockError(this.waitingThreads());
  }

  /** Returns the waiting threads, grouped by suspend point. With `spinning`, includes the threads that spin. */
  waitingThreads({ spinning = false }: { spinning?: boolean } = {}): WaitingThreads[] {
    const { suspensions } = this.#options.kernel;
    const places = new Map<number, number[]>();
    for (let thread = 0; thread < this.#count; thread++) {
      const asked = this.#records.requestOf(thread);
      const request = asked === 0 && spinning ? this.#yielded[thread]! : asked;
      if (request > 0 && (spinning || waitsForOthers(suspensions[request - 1]!.request))) {
        places.set(request - 1, [...places.get(request - 1) ?? [], thread]);
      }
    }
    return [...places].map(([place, threads]) => {
      return {
        threads: formatRanges(threads),
        isOne: threads.length === 1,
        first: threads[0]!,
        suspension: suspensions[place]!,
      };
    });
  }
}

/** Returns whether a kernel with these suspensions has threads that may spin while they wait for another block. */
export function maySpin(suspensions: readonly Suspension[]): boolean {
  return suspensions.some(({ request }) => request.kind === "yield");
}

/**
 * Returns whether a thread with this request resumes only when other threads act, for example when they arrive at a
 * barrier.
 */
function waitsForOthers({ kind }: SuspensionRequest): boolean {
  return kind !== "yield" && kind !== "lockstep";
}
