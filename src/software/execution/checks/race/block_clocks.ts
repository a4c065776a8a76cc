/**
 * Logical clocks of the threads of the running block.
 *
 * The threads of the software device run one after another, so one clock per launch is enough, which advances by one at
 * each barrier, fence and release. A thread's epoch is the time of the last of these operations in which the thread
 * participated. All work of a thread at an epoch before the time of a barrier happened before that barrier.
 *
 * @module
 */
import { clockLayout } from "../../../abi/check_state.ts";
import type { LaunchCells } from "../../../memory/check_memory.ts";
import { FenceState, keyOf, Knowledge, knowsInLockstep, unknownLanes } from "./knowledge.ts";
import type { PendingCopies } from "./shadow_memory.ts";

/** The current time of a launch's logical clock. Advances at synchronization. */
export interface LaunchTime {
  now: number;
}

/** The epochs of the threads of a block, and each thread's happens-before state. */
export class BlockClocks {
  /** The index of the block within the grid. */
  block = 0;
  /** The time of the last barrier of each warp. */
  readonly warpTimes: Int32Array;
  /** The epoch of each thread. */
  readonly epochs: Int32Array;
  /** The sequentially consistent fences with scopes wider than the block. */
  readonly fences: BlockFences = new BlockFences();
  /**
   * The sequentially consistent fences with the scope of the block, since the last barrier of all threads of the block.
   */
  readonly narrowFences: BlockFences = new BlockFences();
  /** The time of each warp's last release, other than a barrier. */
  readonly #releaseTimes: number[] = [];
  readonly copies: (PendingCopies | undefined)[] = [];
  readonly warpsPerBlock: number;
  /** The offset of the clocks in linear memory; 0 if the clocks are not stored in linear memory. */
  readonly offset: number;
  /** The clocks, in the layout of `clockLayout`. */
  readonly #numbers: Int32Array;
  readonly #time: LaunchTime;
  readonly #count: number;
  readonly #known: (Knowledge | undefined)[] = [];
  readonly #orders: (FenceState | undefined)[] = [];
  /** For each barrier, the joined happens-before states of the threads that have arrived without waiting. */
  readonly #arrived = new Map<number, Knowledge>();
  #isInformed = false;
  /** The time of the last fence of a thread of the block between the generic and the asynchronous proxy. */
  lastProxyFence = -1;

  /** @param count the number of threads in a block */
  constructor(time: LaunchTime, count: number, memory: LaunchCells) {
    this.#time = time;
    this.#count = count;
    this.warpsPerBlock = Math.ceil(count / 32);
    const numbers = memory.allocate(clockLayout.byteLength);
    this.#numbers = numbers;
    this.offset = memory.offsetOf(numbers);
    const { warpTimes, epochs, threads } = clockLayout;
    this.warpTimes = numbers.subarray(warpTimes / 4, warpTimes / 4 + this.warpsPerBlock);
    this.epochs = numbers.subarray(epochs / 4, epochs / 4 + this.warpsPerBlock * 32);
    numbers[threads / 4] = this.epochs.length;
  }

  /** The time of the last barrier of the whole block. */
  get blockTime(): number {
    return this.#numbers[clockLayout.blockTime / 4]!;
  }

  /** The launch-wide number of the block's first thread, which is a multiple of the warp size. */
  get base(): number {
    return this.#numbers[clockLayout.base / 4]!;
  }

  /** Resets the clocks for a new block. */
  begin(block: number): void {
    this.block = block;
    this.#numbers[clockLayout.base / 4] = block * this.warpsPerBlock * 32;
    this.#numbers[clockLayout.blockTime / 4] = 0;
    this.warpTimes.fill(0);
    this.epochs.fill(0);
    this.copies.length = this.#known.length = this.#orders.length = 0;
    this.#arrived.clear();
    this.fences.clear();
    this.narrowFences.clear();
    this.#releaseTimes.length = 0;
    this.#isInformed = false;
    this.lastProxyFence = -1;
  }

  /**
   * Returns the state that tracks the messages (see `ReleasedKnowledge`) that a thread has read and released. Creates
   * the state if necessary.
   */
  orderOf(thread: number): FenceState {
    return this.#orders[thread] ??= new FenceState();
  }

  /**
   * Returns the state that tracks the messages (see `ReleasedKnowledge`) that a thread has read and released. Undefined
   * if the thread has neither read nor released a message.
   */
  orderIfAny(thread: number): FenceState | undefined {
    return this.#orders[thread];
  }

  /**
   * Records a release operation of a thread by starting a new epoch of the thread. Returns the happens-before state
   * that the thread releases.
   */
  release(thread: number): Knowledge {
    const now = ++this.#time.now;
    this.epochs[thread] = now;
    this.#releaseTimes[thread >> 5] = now;
    return this.#knowledgeOf(thread).and(this.#ownOf(thread, now));
  }

  /** Records a fence between the generic and the asynchronous proxy by starting a new epoch of the thread. */
  fenceProxies(thread: number): void {
    this.epochs[thread] = this.lastProxyFence = ++this.#time.now;
  }

  /** Records a sequentially consistent fence. Returns the happens-before state that the fence releases. */
  fence(thread: number, isWide: boolean): Knowledge {
    this.acquire(thread, this.narrowFences.observedBy(thread));
    if (isWide) this.acquire(thread, this.fences.observedBy(thread));
    const released = this.release(thread);
    (isWide ? this.fences : this.narrowFences).note(thread, released, this.epochs[thread]!);
    return released;
  }

  /** Returns the happens-before state that the last release in a thread's warp releases if the lanes run in lockstep. */
  releasedInLockstep(thread: number): Knowledge {
    const time = this.#releaseTimes[thread >> 5];
    if (time === undefined) return Knowledge.none;
    const own = new Map([[keyOf.lockstep((this.base + thread) >>> 5), time]]);
    return new Knowledge(own, own);
  }

  /** Adds an acquired happens-before state to the state of a thread. */
  acquire(thread: number, knowledge: Knowledge): void {
    if (knowledge === Knowledge.none) return;
    this.#known[thread] = this.#knowledgeOf(thread).and(knowledge);
    this.#isInformed = true;
  }

  /** Completes a barrier of the block: all threads have arrived or exited. */
  synchronizeAll(): void {
    const now = ++this.#time.now;
    this.#numbers[clockLayout.blockTime / 4] = now;
    this.epochs.fill(now);
    // After the barrier, all work before the fences with the scope of the block is ordered, so they are no longer
    // needed.
    this.narrowFences.clear();
    if (!this.#isInformed && !this.fences.isNew) return;
    const threads = Array.from({ length: this.#count }, (_, thread) => thread);
    if (this.fences.isNew) this.fences.shareAll({ threads, base: this.base, block: this.block, time: now });
    if (this.#isInformed) this.#share(threads);
  }

  /** Completes a barrier among some lanes of a warp. */
  synchronizeWarp(warp: number, { lanes, present }: { lanes: number; present: number }): void {
    const first = warp * 32;
    const threads = threadsOf(warp, lanes);
    this.#shareFences(threads);
    if ((present & ~lanes) !== 0) return this.#synchronize(threads, Knowledge.none);
    const now = ++this.#time.now;
    this.warpTimes[warp] = now;
    this.epochs.fill(now, first, first + 32);
    if (this.#isInformed) this.#share(threads);
  }

  /** Records the arrival of a thread that does not wait (`bar.arrive`). */
  arrive(thread: number, barrier: number): void {
    this.#arrived.set(barrier, (this.#arrived.get(barrier) ?? Knowledge.none).and(this.release(thread)));
  }

  /** Completes a barrier for only some of the block's threads. */
  synchronizeSome(barrier: number, threads: readonly number[]): void {
    this.#shareFences(threads);
    const arrived = this.#arrived.get(barrier) ?? Knowledge.none;
    this.#arrived.delete(barrier);
    this.#synchronize(threads, arrived);
  }

  /**
   * Orders the work of the threads that complete a barrier: joins their happens-before states and starts a new epoch.
   */
  #synchronize(threads: readonly number[], arrived: Knowledge): void {
    const now = ++this.#time.now;
    const own = new Map<number, number>();
    const lanesOfWarps = new Map<number, number>();
    let joined = arrived;
    for (const thread of threads) {
      const warp = thread >> 5;
      lanesOfWarps.set(warp, (lanesOfWarps.get(warp) ?? 0) | 1 << (thread & 31));
      joined = joined.and(this.#knowledgeOf(thread));
      this.epochs[thread] = now;
    }
    for (const [warp, lanes] of lanesOfWarps) {
      const number = this.base / 32 + warp;
      if (lanes === this.#allLanesOf(warp)) {
        own.set(keyOf.warp(number), now);
        continue;
      }
      for (const thread of threadsOf(warp, lanes)) own.set(keyOf.thread(this.base + thread), now);
      if (this.warpTimes[warp]! > 0) own.set(keyOf.warp(number), this.warpTimes[warp]!);
    }
    joined = joined.and(new Knowledge(own, own));
    for (const thread of threads) this.#known[thread] = joined;
    this.#isInformed = true;
  }

  #shareFences(threads: readonly number[]): void {
    if (this.fences.isNew) this.fences.share(threads);
    if (this.narrowFences.isNew) this.narrowFences.share(threads);
  }

  /**
   * Replaces the happens-before state of each thread that completes a barrier with the union of the states of all these
   * threads.
   */
  #share(threads: readonly number[]): void {
    let joined = Knowledge.none;
    let last = Knowledge.none;
    for (const thread of threads) {
      const known = this.#known[thread];
      if (known === undefined || known === last) continue;
      joined = joined.and(known);
      last = known;
    }
    if (joined === Knowledge.none) return;
    for (const thread of threads) this.#known[thread] = joined;
  }

  /**
   * Returns the happens-before state that covers a thread's own work, and the work of its warp and of its block before
   * their last barriers.
   */
  #ownOf(thread: number, now: number): Knowledge {
    const own = new Map([[keyOf.thread(this.base + thread), now]]);
    const warp = thread >> 5;
    if (this.warpTimes[warp]! > 0) own.set(keyOf.warp(this.base / 32 + warp), this.warpTimes[warp]!);
    if (this.blockTime > 0) own.set(keyOf.block(this.block), this.blockTime);
    return new Knowledge(own, own);
  }

  #knowledgeOf(thread: number): Knowledge {
    return this.#known[thread] ?? Knowledge.none;
  }

  /** Returns what is ordered before a thread's next work, except for what the block's own barriers order. */
  knowledgeOf(thread: number): Knowledge {
    return this.#knowledgeOf(thread);
  }

  /** Advances the clock of the launch. */
  nextTime(): number {
    return ++this.#time.now;
  }

  /**
   * Begins a new epoch of a thread at a time that has passed. If the thread's epoch is later already, begins it now and
   * returns the time.
   */
  beginEpoch(thread: number, time: number): number | undefined {
    if (this.epochs[thread]! < time) {
      this.epochs[thread] = time;
      return undefined;
    }
    return this.epochs[thread] = this.nextTime();
  }

  /** Adds an acquired happens-before state to the states of threads. */
  acquireAll(threads: readonly number[], knowledge: Knowledge): void {
    const joined = new Map<Knowledge, Knowledge>();
    for (const thread of threads) {
      const before = this.#knowledgeOf(thread);
      let after = joined.get(before);
      if (after === undefined) joined.set(before, after = before.and(knowledge));
      this.#known[thread] = after;
    }
    this.#isInformed = true;
  }

  /** Whether any thread of the block knows that work of a lane was done before. */
  knowsOf(warp: number, epoch: number, lane: number): boolean {
    const { warpsPerBlock } = this;
    return [...new Set(this.#known)].some((knowledge) =>
      knowledge !== undefined &&
      unknownLanes(knowledge.known, { warp, warpsPerBlock, epoch, lanes: 1 << lane, fences: knowledge.fences }) === 0
    );
  }

  /** Whether a thread knows anything of a block. */
  knowsBlock(thread: number, { block, base, warpsPerBlock }: BlockClocks): boolean {
    for (const key of this.#knowledgeOf(thread).known.keys()) {
      if (key === keyOf.everything || key === keyOf.block(block)) return true;
      const isWarp = key % 4 === keyOf.warp(0), number = isWarp ? (key >> 2) * 32 : key >> 2;
      const isThread = key % 4 === keyOf.thread(0);
      if ((isWarp || isThread) && number >= base && number < base + warpsPerBlock * 32) return true;
    }
    return false;
  }

  #allLanesOf(warp: number): number {
    const lanes = this.#count - warp * 32;
    return lanes >= 32 ? -1 : (1 << lanes) - 1;
  }

  /**
   * Returns whether the work of warp `warp` at `epoch` is ordered before the next work of the warp that contains
   * `thread`. Assumes that the lanes of each warp run in lockstep: a release or acquire by one lane then applies to the
   * whole warp.
   *
   * @param thread a thread of this block
   * @param warp the number of the other warp, which is also in this block, within the launch
   */
  isWarpOrdered(thread: number, warp: number, epoch: number): boolean {
    if (epoch < this.blockTime) return true;
    if (!this.#isInformed) return false;
    const other = { warp, warpsPerBlock: this.warpsPerBlock, epoch };
    const own = this.#knowledgeOf(thread);
    if (knowsInLockstep(own, other)) return true;
    let last = own;
    for (let lane = thread & ~31; lane <= (thread | 31); lane++) {
      const knowledge = this.#knowledgeOf(lane);
      if (knowledge === last || knowledge === own) continue;
      last = knowledge;
      if (knowsInLockstep(knowledge, other)) return true;
    }
    return false;
  }

  /**
   * Returns the part of the mask `lanes` with the lanes of `warp` whose work at `epoch` is not ordered before the next
   * work of `thread`. `thread` belongs to this block; `warp` may belong to another block.
   */
  unorderedLanes(
    thread: number,
    { warp, epoch, lanes, withoutScopes = false }: {
      warp: number;
      epoch: number;
      lanes: number;
      withoutScopes?: boolean;
    },
  ): number {
    const { warpsPerBlock } = this;
    const local = warp - this.base / 32;
    if (local >= 0 && local < warpsPerBlock) {
      if (epoch < this.blockTime || epoch < this.warpTimes[local]! && local === thread >> 5) return 0;
      if (local === thread >> 5) lanes &= ~(1 << (thread & 31));
      if (lanes === 0) return 0;
    }
    const knowledge = this.#known[thread];
    if (knowledge === undefined) return lanes;
    const known = withoutScopes ? knowledge.withoutScopes : knowledge.known;
    return unknownLanes(known, { warp, warpsPerBlock, epoch, lanes, fences: knowledge.fences });
  }
}

function threadsOf(warp: number, lanes: number): number[] {
  const threads: number[] = [];
  for (let rest = lanes; rest !== 0; rest &= rest - 1) threads.push(warp * 32 + 31 - Math.clz32(rest & -rest));
  return threads;
}

/**
 * The sequentially consistent fences of a block's threads with a kind of scope. PTX defines a single order of all
 * such fences, in which each fence synchronizes with the next. Fence B is known to follow fence A if a thread ordered
 * after A has written a value that a thread ordered before B has read. The writing and reading threads need not be
 * those that executed the fences: for example, all threads of a block may execute a fence and wait at a barrier, after
 * which one of the threads sets a flag.
 */
class BlockFences {
  /**
   * For each thread, the happens-before state released by the fences that are ordered before the thread's next work.
   */
  readonly #released: (Knowledge | undefined)[] = [];
  /** For each thread, the happens-before state that the thread's next fence acquires. */
  readonly #observed: (Knowledge | undefined)[] = [];
  /** For each thread, the time of the thread's last fence. */
  readonly #times: number[] = [];
  /**
   * Whether a thread has executed or observed a fence since the last barrier of the whole block, so that the next
   * barrier must pass the fence's ordering on to the other threads.
   */
  isNew = false;

  /** Removes all fences, for a new block. */
  clear(): void {
    this.#released.length = this.#observed.length = this.#times.length = 0;
    this.isNew = false;
  }

  /** Records a fence of a thread, which released the given happens-before state. */
  note(thread: number, released: Knowledge, time: number): void {
    this.#released[thread] = released;
    this.#observed[thread] = undefined;
    this.#times[thread] = time;
    this.isNew = true;
  }

  /**
   * Records that a thread has read a value that was written after fences that released the given happens-before state.
   */
  observe(thread: number, released: Knowledge): void {
    const before = this.observedBy(thread);
    const observed = before.and(released);
    if (observed === before) return;
    this.#observed[thread] = observed;
    this.isNew = true;
  }

  /** Returns the happens-before state released by the fences that are ordered before a thread's next work. */
  releasedBefore(thread: number): Knowledge {
    return this.#released[thread] ?? Knowledge.none;
  }

  /** Returns the happens-before state that the next fence of a thread acquires. */
  observedBy(thread: number): Knowledge {
    return this.#observed[thread] ?? Knowledge.none;
  }

  /**
   * Joins the fence states of the threads that complete a barrier: each thread is then ordered after all fences that
   * any of the threads was ordered after.
   */
  share(threads: readonly number[]): void {
    this.#set(threads, this.#joined(this.#released, threads), this.#joined(this.#observed, threads));
  }

  /**
   * Joins the fence states of all threads of the block at a barrier, as `share` does. Replaces the separate entries of
   * the threads with one array with the time of each thread's last fence.
   */
  shareAll(
    { threads, base, block, time }: { threads: readonly number[]; base: number; block: number; time: number },
  ): void {
    const isOwn = (key: number) =>
      key % 4 === 0 && key >= keyOf.thread(base) && key < keyOf.thread(base + threads.length);
    const times = Int32Array.from(threads, (thread) => this.#times[thread] ?? 0);
    const released = this.#joined(this.#released, threads, isOwn).withFences(block, { time, times });
    this.#set(threads, released, this.#joined(this.#observed, threads));
    this.isNew = false;
  }

  #joined(
    all: readonly (Knowledge | undefined)[],
    threads: readonly number[],
    isLeftOut: (key: number) => boolean = () => false,
  ): Knowledge {
    return Knowledge.joined(threads.map((thread) => all[thread]), isLeftOut);
  }

  #set(threads: readonly number[], released: Knowledge, observed: Knowledge): void {
    for (const thread of threads) {
      this.#released[thread] = released;
      this.#observed[thread] = observed;
    }
  }
}
