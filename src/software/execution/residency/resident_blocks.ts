/**
 * Runs blocks that may wait for each other. Blocks run one after another as long as each runs to completion. When a
 * block cannot continue, because all its threads wait or spin, the next block starts concurrently, until no more blocks
 * fit on the device. Resident blocks take turns.
 *
 * @module
 */
import { formatSeconds } from "../../../support/printing.ts";
import type { BlockScheduler, TurnResult } from "../scheduling/block_scheduler.ts";
import { describeWaiting } from "../scheduling/block_barriers.ts";
import { faultKind } from "../../abi/addresses.ts";
import { blockMemorySizes, type BlockPlace, BlockPlaces, clusterTableOf } from "./block_places.ts";
import { ClusterBarrier } from "../scheduling/cluster_barrier.ts";
import {
  blocksOfCluster,
  type BlockSource,
  blocksPerCluster,
  type Coordinates,
  type LaunchRecord,
  schedulerOf,
  stopIfDeadlocked,
} from "../launching/launch_state.ts";
import { type FaultReport, KernelStop, markLine, stuckMark, type WaitingBlocks } from "../faults/kernel_fault.ts";
import { sliceMilliseconds } from "../launching/pace.ts";
import { activeBlocks } from "../../software_device.ts";
import { mostClusterBlocks, multiProcessorCount } from "../../abi/launch_record.ts";
import type { ScratchOwner } from "../../memory/linear_memory.ts";

/** Blocks that are resident at the same time, and may access each other's shared memory. */
interface ResidentCluster {
  readonly barrier: ClusterBarrier;
  /** The memory of the blocks, in the order of their ranks. It is released when all of them have ended. */
  readonly places: readonly BlockPlace[];
  /** The number of blocks that have not ended. */
  live: number;
}

/** A block that has started but not finished. */
interface Resident {
  readonly block: Coordinates;
  readonly multiprocessor: number;
  readonly place: BlockPlace;
  readonly scheduler: BlockScheduler;
  /** Undefined if the block is a cluster of its own. */
  readonly cluster: ResidentCluster | undefined;
  /** The number of steps that the block's threads have run. */
  steps: number;
}

/** Returns the maximum number of blocks that are resident on a device at once. */
export function fittingBlocks(threadsPerBlock: number, sharedBytes: number): number {
  return multiProcessorCount * activeBlocks(threadsPerBlock, sharedBytes);
}

/**
 * The number of turns (see {@linkcode TurnResult}) of a lone block after which the next block starts. A block that
 * seems to wait for other blocks may only be waiting for its own threads.
 */
const patience = 64;
/**
 * The amount that a turn without progress adds to the count that is compared with `patience`. A turn with progress adds
 * 1.
 */
const weightOfStuckTurn = 4;
/**
 * The number of steps that are added to `#stuckSteps` for each turn without progress, to account for the time that the
 * turn itself takes: about as long as this many steps.
 */
const stepsOfTurn = 512;

/** Runs the blocks of a launch in time slices, starting with the first block that waits for other blocks. */
export class ResidentBlocks implements ScratchOwner {
  readonly #launch: LaunchRecord;
  readonly #source: BlockSource;
  readonly #places: BlockPlaces;
  readonly #schedulers = new Map<BlockPlace, BlockScheduler>();
  readonly #residents: Resident[] = [];
  /** The number of resident blocks on each multiprocessor. */
  readonly #loads: number[] = new Array(multiProcessorCount).fill(0);
  /** The index in `#residents` of the block that runs next. */
  #next = 0;
  /** The multiprocessor where a block last started. */
  #lastMultiprocessor = -1;
  /**
   * The number of turns that blocks have taken since a block last started or finished. A turn without progress may
   * count more than once, see `weightOfStuckTurn`.
   */
  #turnsSinceChange = 0;
  /** The number of turns that blocks have taken since any thread last made progress. */
  #stuckTurns = 0;
  /** The number of steps that blocks have run since any thread last made progress, plus `stepsOfTurn` for each turn. */
  #stuckSteps = 0;
  /** Whether blocks of this launch have waited for other blocks. */
  #waits: boolean;
  /** The time at which a block first waited for others, as `performance.now()`. */
  readonly #firstWait = performance.now();

  /**
   * @param first the block that waits for other blocks, and its scheduler. Undefined if blocks run in clusters, none of
   * which has started
   * @param source the blocks or clusters that have not started
   */
  constructor(
    launch: LaunchRecord,
    { first, source }: {
      first: { readonly block: Coordinates; readonly scheduler: BlockScheduler } | undefined;
      source: BlockSource;
    },
  ) {
    const { geometry: { block }, kernel: { compiled }, place } = launch;
    const threads = block[0] * block[1] * block[2];
    const sizes = blockMemorySizes(compiled, { threads, sharedMemoryBytes: place.sharedMemoryBytes ?? 0 });
    this.#launch = launch;
    this.#source = source;
    this.#waits = place.workspace !== undefined;
    this.#places = new BlockPlaces(place.linearMemory, {
      sizes,
      first: launch.scratchPlace,
      // At least one cluster fits on a device.
      most: Math.max(blocksPerCluster(launch.geometry), fittingBlocks(threads, sizes.shared)),
      ranges: launch.ranges,
    });
    if (first !== undefined) {
      const { multiprocessor } = launch;
      const firstPlace = this.#places.take()!;
      this.#schedulers.set(firstPlace, first.scheduler);
      this.#add(first.block, { place: firstPlace, multiprocessor }).steps = launch.kernel.steps.count;
    }
    place.linearMemory.takeScratch(this);
  }

  /** Whether the last time slice ended because no block made progress. */
  isStuck = false;

  /** Runs a time slice. Returns whether all blocks have finished. */
  run(): boolean {
    this.isStuck = false;
    const { linearMemory } = this.#launch.place;
    this.#launch.write(this);
    this.#places.restoreScratch();
    const start = performance.now();
    let turns = 0;
    do {
      if (this.#residents.length === 0 && !this.#begin()) {
        linearMemory.leaveScratch(this);
        this.#places.close();
        return true;
      }
      this.#takeTurn();
      turns++;
      // Ends the slice if no block makes progress, because the blocks may be waiting for a store by another stream's
      // work.
      this.isStuck = turns >= this.#residents.length && turns >= patience && this.#stuckTurns >= turns;
      if (this.isStuck) break;
    } while (performance.now() - start < sliceMilliseconds);
    return false;
  }

  saveScratch(): void {
    this.#places.saveScratch();
  }

  /** Releases the memory of the launch. The launch must not run again. */
  release(): void {
    this.#launch.place.linearMemory.leaveScratch(this);
    this.#places.close();
  }

  #takeTurn(): void {
    const residents = this.#residents;
    const resident = residents[this.#next]!;
    const turn = this.#run(resident);
    if (turn === "ended") {
      this.#end(resident);
      return;
    }
    if (turn === "stuck") this.#stuckTurns++;
    else this.#stuckTurns = this.#stuckSteps = 0;
    if (turn !== "stuck") this.#source.noteProgress?.();
    this.#turnsSinceChange += this.#waits || turn !== "stuck" ? 1 : weightOfStuckTurn;
    if (this.#turnsSinceChange >= (this.#waits ? residents.length : patience) && this.#begin()) return;
    this.#next = (this.#next + 1) % residents.length;
    this.#checkDeadlock();
  }

  #run(resident: Resident): TurnResult {
    const { block, multiprocessor, place, scheduler, cluster } = resident;
    const launch = this.#launch;
    const { steps } = launch.kernel;
    launch.setBlock(block, multiprocessor);
    launch.set("shared", place.shared);
    launch.set("threads", place.threads);
    launch.set("localMemory", place.local);
    launch.setSavedRegisters(place.saved);
    if (cluster !== undefined) launch.set("clusterTable", clusterTableOf(place));
    launch.scheduler = scheduler;
    steps.restart(resident.steps);
    const turn = stopIfDeadlocked(() => scheduler.takeTurn());
    if (turn === "stuck") this.#stuckSteps += steps.count - resident.steps + stepsOfTurn;
    resident.steps = steps.count;
    return turn;
  }

  /**
   * Starts the next block, which then gets the next turn. Returns false if all blocks have started or there is no
   * memory for another block.
   */
  #begin(): boolean {
    if (this.#source.isPastEnd) return false;
    const { geometry } = this.#launch;
    const places = this.#takePlaces(blocksPerCluster(geometry));
    const first = places && this.#source.take();
    if (places === undefined) return false;
    if (first === undefined) {
      for (const place of places) this.#places.release(place);
      return false;
    }
    // Blocks of a cluster that wait for each other need no other cluster.
    this.#waits ||= this.#residents.length > 0 && places.length === 1;
    this.#next = this.#residents.length;
    if (places.length === 1) this.#start(first, { place: places[0]! });
    else this.#startCluster(first, places);
    // If blocks of this launch wait for other blocks, sets the count so that one turn of the new block is enough for
    // the next block to start.
    this.#turnsSinceChange = this.#waits ? this.#next : 0;
    this.#stuckTurns = this.#stuckSteps = 0;
    return true;
  }

  /** Allocates memory for some blocks. Returns undefined if there is not enough for all of them. */
  #takePlaces(count: number): BlockPlace[] | undefined {
    const places: BlockPlace[] = [];
    while (places.length < count) {
      const place = this.#places.take();
      if (place === undefined) {
        for (const place of places) this.#places.release(place);
        return undefined;
      }
      places.push(place);
    }
    return places;
  }

  #start(block: Coordinates, { place, cluster }: { place: BlockPlace; cluster?: ResidentCluster }): void {
    this.#launch.freshenShared(place.shared);
    const multiprocessor = this.#freestMultiprocessor();
    this.#add(block, { place, cluster, multiprocessor }).scheduler.start(cluster?.barrier);
  }

  /** Starts the blocks of a cluster, given the block with the lowest indices. */
  #startCluster(first: Coordinates, places: readonly BlockPlace[]): void {
    const { geometry, place: { linearMemory } } = this.#launch;
    const barrier = new ClusterBarrier({ isShared: true });
    const cluster: ResidentCluster = { barrier, places, live: places.length };
    for (const [rank, block] of blocksOfCluster(first, geometry).entries()) {
      const place = places[rank]!;
      const table = new Uint32Array(linearMemory.memory.buffer, clusterTableOf(place), mostClusterBlocks).fill(0);
      table.set(places.map(({ shared }) => shared));
      this.#start(block, { place, cluster });
    }
  }

  /** Adds a block that has not started to the resident blocks. */
  #add(
    block: Coordinates,
    { place, multiprocessor, cluster }: {
      readonly place: BlockPlace;
      readonly multiprocessor: number;
      readonly cluster?: ResidentCluster | undefined;
    },
  ): Resident {
    this.#loads[multiprocessor]!++;
    this.#lastMultiprocessor = multiprocessor;
    const resident = { block, multiprocessor, place, cluster, scheduler: this.#schedulerAt(place), steps: 0 };
    this.#residents.push(resident);
    return resident;
  }

  #end({ place, multiprocessor, cluster }: Resident): void {
    this.#residents.splice(this.#next, 1);
    if (this.#next >= this.#residents.length) this.#next = 0;
    this.#loads[multiprocessor]!--;
    this.#turnsSinceChange = this.#stuckTurns = this.#stuckSteps = 0;
    if (cluster !== undefined && --cluster.live > 0) return;
    this.#source.noteEnd?.();
    for (const freed of cluster?.places ?? [place]) this.#places.release(freed);
  }

  /**
   * Returns the multiprocessor with the fewest blocks. If there are several, returns the next of them in round-robin
   * order.
   */
  #freestMultiprocessor(): number {
    let freest = (this.#lastMultiprocessor + 1) % multiProcessorCount;
    for (let step = 1; step < multiProcessorCount; step++) {
      const other = (this.#lastMultiprocessor + 1 + step) % multiProcessorCount;
      if (this.#loads[other]! < this.#loads[freest]!) freest = other;
    }
    return freest;
  }

  #schedulerAt(place: BlockPlace): BlockScheduler {
    let scheduler = this.#schedulers.get(place);
    if (scheduler === undefined) {
      const { compiled, run } = this.#launch.kernel;
      const kernel = { ...compiled, suspensions: compiled.suspensions! };
      scheduler = schedulerOf(this.#launch, { kernel, run, ...place });
      this.#schedulers.set(place, scheduler);
    }
    return scheduler;
  }

  /**
   * Stops the kernel because of a deadlock if it has exceeded the step limit since any of its blocks last made
   * progress.
   */
  #checkDeadlock(): void {
    if (this.#source.hasProgressElsewhere?.()) this.#stuckSteps = 0;
    if (this.#residentCount === 1 || this.#stuckSteps <= this.#launch.kernel.steps.limit) return;
    throw new KernelStop(this.stuckReport());
  }

  /** Returns the report of a fault: that no block makes progress. Sets the launch record to the lowest block. */
  stuckReport(): FaultReport {
    const steps = this.#stuckSteps;
    const duration = formatSeconds(performance.now() - this.#firstWait);
    const launch = this.#launch;
    const { block, place, scheduler } = this.#residents.reduce((lowest, resident) => {
      return launch.numberOfBlock(resident.block) < launch.numberOfBlock(lowest.block) ? resident : lowest;
    });
    launch.setBlock(block);
    launch.set("threads", place.threads);
    const waiting = scheduler.waitingThreads({ spinning: true });
    const [first] = waiting;
    const advice = this.#advice();
    return {
      kind: faultKind.stepLimit,
      place: { line: first?.suspension.line ?? 0 },
      thread: first?.first,
      what: `stopped after ${steps} steps, which took ${duration}, perhaps in a loop that never ends: ${stuckMark}; ` +
        `${advice}; POOLPASS_SOFTWARE_STEPS sets the limit`,
      stuck: { blocks: this.#waitingBlocks(), waiting, advice: this.#adviceToWaitLess() },
    };
  }

  #waitingBlocks(): WaitingBlocks[] {
    return this.#residents.map(({ block: { x, y, z }, scheduler }) => {
      return { where: describeWaiting(scheduler.waitingThreads({ spinning: true }), markLine), blocks: [[x, y, z]] };
    });
  }

  /** The number of blocks of the launch that have started but not finished. */
  get #residentCount(): number {
    return this.#source.residents ?? this.#residents.length;
  }

  #adviceToWaitLess(): string {
    return this.#source.isPastEnd
      ? "Find what each of these loops waits for, and what was to store it: a flag may be set behind the loop, or threads " +
        "may take locks in different orders"
      : `Launch at most ${this.#residentCount} blocks, which is how many fit on the device at once, or let no block ` +
        "wait for one with a higher number";
  }

  #advice(): string {
    if (this.#source.isPastEnd) return "check the loop's condition and the arguments that it depends on";
    const [x, y, z] = this.#launch.geometry.grid;
    return `only ${this.#residentCount} of the grid's ${x * y * z} blocks fit on the device at once, and the others ` +
      "begin when these end: launch fewer blocks, and let each do more";
  }
}
