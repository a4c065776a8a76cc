/**
 * A running launch: the launch record that the kernel reads, the remaining blocks, and the places of faults.
 *
 * @module
 */
import type { BlockThreads } from "../scheduling/block_records.ts";
import { BlockScheduler } from "../scheduling/block_scheduler.ts";
import type { ThreadIndex } from "../../../kernel_checker.ts";
import { addressBase, faultKind, reportsRows, sharedSpan } from "../../abi/addresses.ts";
import {
  exited,
  type LaunchField,
  launchFieldOffset,
  launchFields,
  multiProcessorCount,
  threadRecord,
  threadRecordByteLength,
  threadStarts,
} from "../../abi/launch_record.ts";
import { type FaultReport, type GridIndex, KernelStop, type LocatedFault, markLine } from "../faults/kernel_fault.ts";
import type { MemoryNames } from "../../memory/named_memory.ts";
import type { GangProperties, LaunchGeometry, RunKernel } from "../modules/kernel_versions.ts";
import type { MemoryShadow } from "../../memory/check_memory.ts";
import type { KernelOrder } from "../../schedule.ts";
import type { LaunchChecks } from "../checks/launch_checks.ts";
import type { RunnableKernel } from "../modules/module_loader.ts";
import type { LaunchMemory, LinearMemory, ScratchOwner } from "../../memory/linear_memory.ts";
import { freshByte, scratch, type ScratchRanges } from "../../memory/memory_layout.ts";
import { DeadlockError, describeWaiting } from "../scheduling/block_barriers.ts";

/** The options of a launch, except for the geometry. */
export interface LaunchPlace<Memory extends LaunchMemory = LinearMemory> {
  readonly linearMemory: Memory;
  /** The ranges for the data of the launch. By default, those of the main thread. */
  readonly ranges?: ScratchRanges;
  readonly parameters: Uint8Array;
  /** The offset of the device's bounds table. */
  readonly bounds: number;
  /** The size of the dynamic shared memory in bytes. */
  readonly sharedMemoryBytes?: number;
  /**
   * The offset of the memory for the threads of a block, with the size that `threadMemoryBytes` returns. Undefined if
   * the threads use the scratch range.
   */
  readonly threadMemory?: number | undefined;
  /** Names memory in the messages of faults. */
  readonly memoryNames?: MemoryNames | undefined;
  /** Whether each time slice runs a single block. By default, a slice runs as many blocks as time allows. */
  readonly isDivided?: boolean | undefined;
  /** The order in which blocks, warps and threads run, if each time slice runs a single block. Default: ascending. */
  readonly order?: KernelOrder | undefined;
  /** The checks of the launch. Undefined if nothing is checked. */
  readonly checks?: LaunchChecks | undefined;
  /** The ranges that the parameters point into, in the layout of the launch record's `argumentRanges`. */
  readonly argumentRanges?: Uint32Array | undefined;
  /** Tracks which memory is initialized. Undefined without the check `initialization`. */
  readonly shadow?: MemoryShadow | undefined;
  /** The offset of a cooperative launch's workspace. */
  readonly workspace?: number | undefined;
}

/** The indices, in 32-bit words, of the launch record's fields that are read often. */
const words = {
  blockX: launchFieldOffset("blockX") / 4,
  blockY: launchFieldOffset("blockY") / 4,
  blockZ: launchFieldOffset("blockZ") / 4,
  rowY: launchFieldOffset("rowY") / 4,
  rowZ: launchFieldOffset("rowZ") / 4,
} as const;

/** Returns the x, y and z index of the block or thread with a linear number. */
function indexIn(number: number, [x, y]: GridIndex): GridIndex {
  return [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))];
}

/** The upper 32 bits of all addresses of global memory, as a signed number. */
const addressHigh = Number(BigInt.asIntN(32, addressBase >> 32n));

/** A running launch and its launch record. */
export class LaunchRecord<Kernel extends RunnableKernel = RunnableKernel> {
  readonly kernel: Kernel;
  readonly geometry: LaunchGeometry;
  readonly place: LaunchPlace<LaunchMemory>;
  /** The PTX line of each resume point in the running version of the kernel. */
  resumeLines: readonly number[];
  /** The scheduler of the running block's threads. Undefined if the threads run in gangs or never wait. */
  scheduler: BlockScheduler | undefined;
  readonly ranges: ScratchRanges;
  /** The launch record in linear memory. */
  readonly fields: Int32Array;

  constructor(kernel: Kernel, geometry: LaunchGeometry, place: LaunchPlace<LaunchMemory>) {
    this.kernel = kernel;
    this.geometry = geometry;
    this.place = place;
    this.resumeLines = kernel.compiled.resumeLines;
    this.ranges = place.ranges ?? scratch;
    this.fields = new Int32Array(place.linearMemory.memory.buffer, this.ranges.launch.begin, launchFields.length);
  }

  /** Whether threads may wait for those of other blocks of their cluster, which must be resident at the same time. */
  get hasClusters(): boolean {
    return blocksPerCluster(this.geometry) > 1 && this.kernel.compiled.suspensions !== undefined;
  }

  /** The offset of the threads' saved registers, which follow the local memory. */
  get savedRegisters(): number {
    const { block } = this.geometry;
    return this.localMemory + this.kernel.compiled.localBytes * block[0] * block[1] * block[2];
  }

  /** The offsets of the parts of a block's memory, for a block that uses the scratch ranges. */
  get scratchPlace(): { shared: number; threads: number; local: number; saved: number } {
    const { shared, threads } = this.ranges;
    return { shared: shared.begin, threads: threads.begin, local: this.localMemory, saved: this.savedRegisters };
  }

  get localMemory(): number {
    return this.place.threadMemory ?? this.ranges.local.begin;
  }

  /**
   * Writes the launch record to linear memory, where other launches may have overwritten it.
   *
   * @param owner the launch, if its data in the scratch ranges must survive until its next time slice
   */
  write(owner?: ScratchOwner): void {
    this.place.linearMemory.takeScratch(owner);
    const { linearMemory, parameters, bounds, sharedMemoryBytes = 0, argumentRanges, order, workspace } = this.place;
    const { grid, block, cluster } = this.geometry;
    const { compiled, steps } = this.kernel;
    linearMemory.bytes.set(parameters, this.ranges.parameters.begin);
    this.set("gridX", grid[0]);
    this.set("gridY", grid[1]);
    this.set("gridZ", grid[2]);
    this.set("blockDimX", block[0]);
    this.set("blockDimY", block[1]);
    this.set("blockDimZ", block[2]);
    const [clusterX, clusterY, clusterZ] = cluster ?? [1, 1, 1];
    this.set("clusterDimX", clusterX);
    this.set("clusterDimY", clusterY);
    this.set("clusterDimZ", clusterZ);
    this.set("isCluster", cluster === undefined ? 0 : 1);
    this.set("clusterBase", 0);
    this.set("clusterTable", 0);
    this.set("parameters", this.ranges.parameters.begin);
    this.set("shared", this.ranges.shared.begin);
    this.set("sharedBytes", compiled.sharedBytes + sharedMemoryBytes);
    this.set("localMemory", this.localMemory);
    this.setSavedRegisters(this.savedRegisters);
    this.set("threads", this.ranges.threads.begin);
    this.set("workspaceHigh", workspace === undefined ? 0 : addressHigh);
    this.set("workspaceLow", workspace ?? 0);
    this.set("bounds", bounds);
    // Applies only if the threads of the kernel never wait; otherwise, a scheduler determines their order.
    if (order !== undefined && compiled.suspensions === undefined) this.#orderThreads(order);
    if (argumentRanges !== undefined) {
      const { begin } = scratch.argumentRanges;
      new Uint32Array(linearMemory.memory.buffer, begin, argumentRanges.length).set(argumentRanges);
      this.set("argumentRanges", begin);
    }
    this.set("fuelLeft", steps.fuelPerRefill);
  }

  /** Writes the order in which the threads of a block run to the launch record. */
  #orderThreads(order: KernelOrder): void {
    const { block } = this.geometry;
    let reversed = 0;
    threadStarts.forEach((field, axis) => {
      const { start, isReversed } = order.threads(block[axis]!);
      this.set(field, start);
      if (isReversed) reversed |= 1 << axis;
    });
    this.set("reversedThreads", reversed);
  }

  /** Finds where the running block faulted. Must be called before the record is overwritten. */
  locateFault({ what, stuck, ...report }: FaultReport): LocatedFault {
    const waiting = () => describeWaiting(this.scheduler?.waitingThreads() ?? [], markLine);
    return {
      report: { kind: report.kind, address: report.address, place: report.place, source: report.source },
      ...this.indicesOf(report),
      line: this.#lineOf(report),
      what: typeof what === "function" ? what(markLine, waiting()) : what,
      stuck: stuck?.blocks,
    };
  }

  /**
   * Returns the index of the running block, and the index, within that block, of the thread that the report identifies.
   */
  indicesOf(
    report: Pick<FaultReport, "thread" | "index" | "place">,
  ): { block: GridIndex; thread: GridIndex | undefined } {
    return { block: [this.get("blockX"), this.get("blockY"), this.get("blockZ")], thread: this.#threadOf(report) };
  }

  /**
   * Returns a thread's number in the grid, given the two values with which compiled code identifies the thread. Called
   * very often.
   */
  numberOf(place: number, thread: number): number {
    const { fields, geometry: { block } } = this;
    const row = reportsRows(place) ? block[0] * (fields[words.rowY]! + block[1] * fields[words.rowZ]!) : 0;
    return this.blockNumber * block[0] * block[1] * block[2] + row + thread;
  }

  /** The number of the running block in the grid. */
  get blockNumber(): number {
    const { fields, geometry: { grid } } = this;
    return fields[words.blockX]! + grid[0] * (fields[words.blockY]! + grid[1] * fields[words.blockZ]!);
  }

  /** Returns the number of a block in the grid. */
  numberOfBlock({ x, y, z }: Coordinates): number {
    const { grid } = this.geometry;
    return x + grid[0] * (y + grid[1] * z);
  }

  /** Returns the block index and thread index of a thread, given its number in the grid. */
  indexOf(number: number): ThreadIndex {
    const { grid, block: [x, y, z] } = this.geometry;
    const block = Math.floor(number / (x * y * z)), thread = number % (x * y * z);
    return { block: indexIn(block, grid), thread: indexIn(thread, [x, y, z]) };
  }

  #threadOf({ thread, index, place }: Pick<FaultReport, "thread" | "index" | "place">): GridIndex | undefined {
    if (thread === undefined) return index;
    if (place?.thread === "x") return [thread, this.get("rowY"), this.get("rowZ")];
    const packed = this.#recordOf(thread).getInt32(threadRecord.threadIndex, true);
    return [packed & 0x3ff, packed >> 10 & 0x3ff, packed >> 20];
  }

  /** Returns the line of a fault. If the line is unknown, returns the line where the thread last resumed. */
  #lineOf({ thread, place }: FaultReport): number {
    const line = place?.line ?? 0;
    if (line > 0 || thread === undefined || place?.thread === "x") return line;
    return this.resumeLines[this.#recordOf(thread).getInt32(threadRecord.resumeIndex, true)] ?? 0;
  }

  /** Returns the thread record of a thread of the running block. */
  #recordOf(thread: number): DataView {
    const { memory } = this.place.linearMemory;
    const begin = this.get("threads") + thread * threadRecordByteLength;
    return new DataView(memory.buffer, begin, threadRecordByteLength);
  }

  /** Returns the first thread with a number of at least `first` that has not exited. */
  locate(first: number): Pick<FaultReport, "thread"> {
    let thread = first;
    while (this.#recordOf(thread).getInt32(threadRecord.request, true) === exited) thread++;
    return { thread };
  }

  /**
   * Returns the offsets of the gangs' save areas, and of the local memory and saved registers of threads that have left
   * their gang.
   */
  gangMemory({ hasBarriers, width, localBytes, savedBytes }: GangProperties): GangMemory {
    const { block } = this.geometry;
    const threads = hasBarriers ? block[0] * block[1] * block[2] : width;
    const local = this.ranges.local.begin;
    const saved = local + threads * localBytes;
    return { local, saved, gangs: saved + threads * savedBytes };
  }

  /** Sets the fields of the launch record whose values are different for threads that run in gangs. */
  writeForGangs(kernel: GangProperties): void {
    const { local, saved, gangs } = this.gangMemory(kernel);
    this.set("localMemory", local);
    this.set("savedRegisters", saved);
    this.set("gangs", gangs);
  }

  /** Sets the offset of the threads' saved registers, which the memory for products of matrices follows. */
  setSavedRegisters(saved: number): void {
    const { geometry: { block }, kernel: { compiled } } = this;
    this.set("savedRegisters", saved);
    if (compiled.productBytes > 0) {
      this.set("warpWorkspace", saved + block[0] * block[1] * block[2] * compiled.savedBytes);
    }
  }

  /**
   * If each time slice runs a single block, overwrites the shared memory with a pattern, so that a block cannot see
   * data of the previous block.
   */
  freshenShared(begin: number = this.ranges.shared.begin): void {
    const { isDivided, linearMemory } = this.place;
    if (isDivided) linearMemory.bytes.fill(freshByte, begin, begin + this.get("sharedBytes"));
  }

  /** Sets the blocks to run next: from the given block to `last` (exclusive) in the same row. */
  setRow({ x, y, z }: Coordinates, last: number): void {
    if (this.geometry.cluster !== undefined) this.#setClusterBase({ x, y, z });
    this.set("firstBlockX", x);
    this.set("lastBlockX", last);
    this.set("blockY", y);
    this.set("blockZ", z);
    this.#setMultiprocessor({ y, z });
  }

  /**
   * Sets the single block to run next, and its multiprocessor. By default, blocks are assigned to multiprocessors
   * round-robin.
   */
  setBlock({ x, y, z }: Readonly<Coordinates>, multiprocessor?: number): void {
    this.set("blockX", x);
    this.set("blockY", y);
    this.set("blockZ", z);
    if (this.geometry.cluster !== undefined) this.#setClusterBase({ x, y, z });
    if (multiprocessor === undefined) this.#setMultiprocessor({ y, z });
    else this.set("multiprocessor", modulo(multiprocessor - x, multiProcessorCount));
  }

  /** Sets the first address in `.shared` of a block by its rank in its cluster. */
  #setClusterBase({ x, y, z }: Readonly<Coordinates>): void {
    const [sizeX, sizeY, sizeZ] = this.geometry.cluster!;
    this.set("clusterBase", (x % sizeX + sizeX * (y % sizeY + sizeY * (z % sizeZ))) * sharedSpan.byteLength);
  }

  /** The multiprocessor of the single block to run next. */
  get multiprocessor(): number {
    return (this.get("blockX") + this.get("multiprocessor")) % multiProcessorCount;
  }

  /** Assigns the blocks of a row to multiprocessors round-robin, continuing from the previous row. */
  #setMultiprocessor({ y, z }: Pick<Coordinates, "y" | "z">): void {
    const [gridX, gridY] = this.geometry.grid;
    const row = (y + gridY * z) % multiProcessorCount;
    this.set("multiprocessor", gridX % multiProcessorCount * row % multiProcessorCount);
  }

  set(field: LaunchField, value: number): void {
    this.fields[launchFieldOffset(field) / 4] = value;
  }

  get(field: LaunchField): number {
    return this.fields[launchFieldOffset(field) / 4]!;
  }
}

/** The offsets of the threads' local memory and saved registers, and of the save areas of gangs. */
interface GangMemory {
  readonly local: number;
  readonly saved: number;
  readonly gangs: number;
}

/** The index of a block. */
export interface Coordinates {
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

function modulo(dividend: number, divisor: number): number {
  return (dividend % divisor + divisor) % divisor;
}

/** The blocks of a launch that have not started. */
export interface BlockSource {
  readonly isPastEnd: boolean;
  /** Returns a block that is started then, or the first block of a cluster. Undefined if all have started. */
  take(): Coordinates | undefined;
  /** The number of blocks that have started but not finished, if other threads run blocks, too. */
  readonly residents?: number;
  /** Called when a block that has started has ended, or makes progress, if other threads run blocks, too. */
  noteEnd?(): void;
  noteProgress?(): void;
  /** Returns whether blocks that other threads run have made progress since the last call. */
  hasProgressElsewhere?(): boolean;
}

/** Iterates over the blocks of a grid. `x`, `y` and `z` are the index of the current block. */
export class BlockIndex implements BlockSource {
  x = 0;
  y = 0;
  z = 0;
  readonly #grid: LaunchGeometry["grid"];
  readonly #order: KernelOrder | undefined;
  readonly #count: number;
  /** The number of completed blocks. Only used if blocks run in a permuted order. */
  #position = 0;

  constructor(grid: LaunchGeometry["grid"], order?: KernelOrder) {
    this.#grid = grid;
    this.#order = order;
    this.#count = grid[0] * grid[1] * grid[2];
    this.#choose();
  }

  get isPastEnd(): boolean {
    return this.z === this.#grid[2];
  }

  /** Sets `x`, `y` and `z` to the index of the block at the current position in the permuted order. */
  #choose(): void {
    if (this.#order === undefined) return;
    const [x, y, z] = this.#grid;
    const isPastEnd = this.#position === this.#count;
    const block = isPastEnd ? 0 : this.#order.blockAt(this.#position, this.#count);
    this.x = block % x;
    this.y = Math.floor(block / x) % y;
    this.z = isPastEnd ? z : Math.floor(block / (x * y));
  }

  take(): Coordinates | undefined {
    if (this.isPastEnd) return undefined;
    const { x, y, z } = this;
    this.advanceTo(x + 1);
    return { x, y, z };
  }

  /**
   * Advances to block `x` of the current row, or to the next row if `x` is past the end. In a permuted order, advances
   * to the next block if `x` is past the current one.
   */
  advanceTo(x: number): void {
    if (this.#order !== undefined) {
      if (x > this.x) this.#position++;
      this.#choose();
      return;
    }
    this.x = x;
    if (this.x < this.#grid[0]) return;
    this.x = 0;
    if (++this.y < this.#grid[1]) return;
    this.y = 0;
    this.z++;
  }
}

/** Iterates over the clusters of a grid. `take` returns the block of a cluster with the lowest indices. */
export class ClusterIndex implements BlockSource {
  readonly #clusters: BlockIndex;
  readonly #size: LaunchGeometry["grid"];

  constructor({ grid, cluster = [1, 1, 1] }: LaunchGeometry, order?: KernelOrder) {
    this.#size = cluster;
    this.#clusters = new BlockIndex([grid[0] / cluster[0], grid[1] / cluster[1], grid[2] / cluster[2]], order);
  }

  get isPastEnd(): boolean {
    return this.#clusters.isPastEnd;
  }

  take(): Coordinates | undefined {
    const cluster = this.#clusters.take();
    const [x, y, z] = this.#size;
    return cluster && { x: cluster.x * x, y: cluster.y * y, z: cluster.z * z };
  }
}

/** Returns the number of blocks of a launch's clusters. */
export function blocksPerCluster({ cluster: [x, y, z] = [1, 1, 1] }: Pick<LaunchGeometry, "cluster">): number {
  return x * y * z;
}

/** Returns the blocks of a cluster in the order of their ranks, given the block with the lowest indices. */
export function blocksOfCluster(
  { x, y, z }: Coordinates,
  { cluster: [sizeX, sizeY, sizeZ] = [1, 1, 1] }: Pick<LaunchGeometry, "cluster">,
): Coordinates[] {
  return Array.from({ length: sizeX * sizeY * sizeZ }, (_, rank) => {
    const row = Math.floor(rank / sizeX);
    return { x: x + rank % sizeX, y: y + row % sizeY, z: z + Math.floor(row / sizeY) };
  });
}

/** Creates the scheduler for blocks whose threads wait for each other. */
export function schedulerOf(
  launch: LaunchRecord,
  { run, shared, ...memory }: Pick<BlockThreads, "kernel" | "threads" | "saved" | "local"> & {
    readonly run: RunKernel;
    readonly shared: number;
  },
): BlockScheduler {
  const { shadow } = launch.place;
  const { geometry: { block }, kernel: { steps } } = launch;
  const locate = (thread: number) => launch.locate(thread);
  return new BlockScheduler({
    ...memory,
    memory: launch.place.linearMemory.memory,
    block,
    hasShadows: shadow !== undefined,
    onStart: shadow && (() => shadow.markUninitialized(shared, launch.get("sharedBytes"))),
    run(firstThread, lastThread) {
      launch.set("firstThread", firstThread);
      launch.set("lastThread", lastThread);
      run(launch.ranges.launch.begin);
    },
    countSteps: (count, thread) => steps.add(count, thread, locate),
    observer: launch.place.checks?.observeBlock(),
    order: launch.place.order,
  });
}

/** Calls `run`, which runs threads of a block. Converts a deadlock to a {@linkcode KernelStop}. */
export function stopIfDeadlocked<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof DeadlockError)) throw error;
    throw new KernelStop({
      kind: faultKind.deadlock,
      place: { line: error.line },
      what: (nameLine) => error.describe(nameLine),
    });
  }
}
