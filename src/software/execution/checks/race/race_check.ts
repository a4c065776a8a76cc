/**
 * The check `race`: finds pairs of unordered accesses by different threads, of which at least one is a write, and which
 * are not both strong.
 *
 * For each word, the check records the last weak write, the weak readers since then, and the strong accesses. The
 * threads of the software device run one after another, so each access is only compared with the preceding ones.
 *
 * @module
 */
import { checkState, orderBits, orderCountShift, pendingEpoch, signalTable } from "../../../abi/check_state.ts";
import { type LaunchCells, pageIsAllocated } from "../../../memory/check_memory.ts";
import { BlockClocks, type LaunchTime } from "./block_clocks.ts";
import { recordFence, Releases } from "./releases.ts";
import { type AccessNodes, PendingCopies, ShadowMemory, ShadowPage } from "./shadow_memory.ts";
import {
  boundsGranuleShift,
  bytesOfPlace,
  decodePlace,
  encodePlace,
  operationOfPlace,
  sharedSpan,
} from "../../../abi/addresses.ts";
import { launchFieldOffset, memoryBarrierFields } from "../../../abi/launch_record.ts";
import type { ClusterBarrier } from "../../scheduling/cluster_barrier.ts";
import { ClusterRaces } from "./cluster_races.ts";
import { type BlockObserver, clusterBarrier } from "../../scheduling/block_records.ts";
import type { LaunchGeometry } from "../../modules/kernel_versions.ts";
import { CellAccesses } from "./cell_accesses.ts";
import { RaceFindings } from "./race_findings.ts";
import type { CompiledKernel } from "../../../compiler/compile.ts";
import type { Findings, KernelVariables } from "../findings.ts";

/** The maximum number of memory locations for which the block of the last strong write is recorded. */
const mostPlaces = 256;
/** The maximum number of recorded pairs of a writing and a reading block. */
const mostPairs = 4096;
const blockShift = 2 ** 26;

/**
 * The pairs of blocks where one block has read a value that the other block wrote with a strong access, such as a flag.
 */
export class BlockSignals {
  /** For each memory offset, the block that made the last strong write. */
  readonly #writers = new Map<number, number>();
  readonly #pairs = new Set<number>();

  /** Whether the maximum number of pairs has been recorded. Further pairs are ignored. */
  get isFull(): boolean {
    return this.#pairs.size >= mostPairs;
  }

  /** Records a strong read by a block. */
  read(offset: number, block: number): void {
    const writer = this.#writers.get(offset);
    const isSeen = writer !== undefined && writer !== block && !this.isFull;
    if (isSeen) this.#pairs.add(writer * blockShift + block);
  }

  /** Records a strong write by a block. */
  write(offset: number, block: number): void {
    const writer = this.#writers.get(offset);
    if (writer === block || writer === undefined && this.#writers.size >= mostPlaces) return;
    this.#writers.set(offset, block);
  }

  /** Returns whether block `reader` has read a value that block `writer` wrote with a strong access. */
  has(writer: number, reader: number): boolean {
    return this.#pairs.has(writer * blockShift + reader);
  }
}

/**
 * The state of the check for a running block: the clocks of the block's threads, and the recorded accesses to its
 * shared memory.
 */
class BlockRaces {
  readonly clocks: BlockClocks;
  /** The offset of the block's shared memory in linear memory. */
  sharedBegin = 0;
  sharedBytes = 0;
  /** The recorded accesses to the block's shared memory. */
  shared: ShadowPage;
  /** The releases and acquires through the block's shared memory. */
  readonly releases: Releases = new Releases(true);
  /** The cluster, if the block is not one of its own or if the kernel uses the barrier of the cluster. */
  cluster: ClusterRaces<BlockRaces> | undefined;
  isStarted = false;
  hasEnded = false;
  /** Whether the threads know that all blocks of the cluster have started. */
  hasMet = false;
  /** Whether threads of other blocks have accessed the block's shared memory. */
  isShared = false;
  /** Whether threads of the block are running. */
  isRunning = false;
  readonly #nodes: AccessNodes;
  readonly #memory: LaunchCells;

  constructor(clocks: BlockClocks, nodes: AccessNodes, memory: LaunchCells) {
    this.clocks = clocks;
    this.#nodes = nodes;
    this.#memory = memory;
    this.shared = this.#newPage();
  }

  #newPage(): ShadowPage {
    const { state } = this.#memory;
    const range = { begin: this.sharedBegin, byteLength: this.sharedBytes };
    return new ShadowPage(range, this.#memory, (entry) => {
      if (this.isRunning) state[checkState.sharedCells / 4] = entry;
    });
  }

  /** Writes the block's state to the memory where compiled code reads it. Must be called before the block runs. */
  publish(): void {
    const { state } = this.#memory;
    state[checkState.sharedBegin / 4] = this.sharedBegin;
    state[checkState.sharedBytes / 4] = this.sharedBytes;
    state[checkState.clocks / 4] = this.clocks.offset;
    this.shared.publish();
  }

  /** Clears the state of the previous block, and starts another block. */
  begin(block: number): void {
    this.isStarted = true;
    this.hasEnded = this.hasMet = this.isShared = false;
    this.clocks.begin(block);
    this.shared.clear(this.#nodes);
    this.releases.clear();
  }

  /** Sets the range of the block's shared memory in linear memory. */
  place(begin: number, byteLength: number): void {
    if (begin !== this.sharedBegin || byteLength !== this.sharedBytes) {
      this.sharedBegin = begin;
      this.sharedBytes = byteLength;
      this.shared = this.#newPage();
    }
  }
}

/** Parameters of {@linkcode RaceCheck}. */
interface RaceCheckOptions {
  readonly geometry: LaunchGeometry;
  /** Whether threads may execute release operations other than barriers. */
  readonly hasReleases: boolean;
  /** The launch record. */
  readonly fields: Int32Array;
  /** All of linear memory. */
  readonly bytes: Uint8Array;
  /** The part of the device's bounds table that maps each granule to the start of its allocation. */
  readonly allocations: Uint32Array;
  readonly findings: RaceFindings;
  readonly signals: BlockSignals;
  readonly memory: LaunchCells;
}

const indexOf = {
  blockX: launchFieldOffset("blockX") / 4,
  blockY: launchFieldOffset("blockY") / 4,
  blockZ: launchFieldOffset("blockZ") / 4,
  rowY: launchFieldOffset("rowY") / 4,
  rowZ: launchFieldOffset("rowZ") / 4,
  shared: launchFieldOffset("shared") / 4,
  sharedBytes: launchFieldOffset("sharedBytes") / 4,
  clusterTable: launchFieldOffset("clusterTable") / 4,
} as const;

/** The bit of an encoded `FaultPlace` that is set if the thread is identified by its x index. */
const isIndexBit = 1 << 27;
/** The offset of the byte in an `mbarrier` object whose highest bit is the parity of the phase. */
const parityByte = Number(memoryBarrierFields.phase.first / 8n);
const readOperation = 1;
const writeOperation = 2;

/** Returns the index in `state` of the signal table's entry for an offset in linear memory. */
function signalEntry(offset: number): number {
  const { entries, entryBytes } = signalTable;
  return (checkState.signals + (offset >>> 2 & entries - 1) * entryBytes) / 4;
}

/** A weak access: one that is not strong. */
interface WeakAccess {
  readonly offset: number;
  readonly bytes: number;
  readonly operation: number;
  readonly thread: number;
}

/** The check `race` of one launch. */
export class RaceCheck {
  readonly #options: RaceCheckOptions;
  readonly #fields: Int32Array;
  readonly #time: LaunchTime = { now: 0 };
  readonly #memory: ShadowMemory;
  readonly #cells: CellAccesses;
  /** The releases and acquires through global memory. */
  readonly #releases = new Releases(false);
  readonly #threads: number;
  readonly #blockX: number;
  readonly #blockXY: number;
  /** The number of blocks of a cluster. */
  readonly #clusterBlocks: number;
  readonly #words: Uint32Array;
  readonly #clusters = new WeakMap<ClusterBarrier, ClusterRaces<BlockRaces>>();
  /** The state of the running block. */
  #current: BlockRaces;
  /** The block state of kernels that run many blocks in one call. It is reused for each block. */
  readonly #only: BlockRaces;
  /** The x index of the block to which `#only` belongs. */
  #x = -1;
  #y = -1;
  #z = -1;

  constructor(options: RaceCheckOptions) {
    const { geometry, fields, hasReleases, findings, bytes, memory } = options;
    const { block: [x, y, z] } = geometry;
    this.#options = options;
    this.#fields = fields;
    this.#threads = x * y * z;
    this.#blockX = x;
    this.#blockXY = x * y;
    const [clusterX, clusterY, clusterZ] = geometry.cluster ?? [1, 1, 1];
    this.#clusterBlocks = clusterX * clusterY * clusterZ;
    this.#words = new Uint32Array(bytes.buffer);
    this.#memory = new ShadowMemory(memory);
    this.#cells = new CellAccesses({ hasReleases, findings, bytes, memory });
    this.#only = this.#current = this.#newBlock();
  }

  #newBlock(): BlockRaces {
    const { memory } = this.#options;
    return new BlockRaces(new BlockClocks(this.#time, this.#threads, memory), this.#cells.nodes, memory);
  }

  /**
   * Writes the state to the memory where compiled code reads it, so that compiled code handles the common cases itself.
   * Must be called before the kernel runs.
   */
  enter(): void {
    const { memory: { state }, hasReleases } = this.#options;
    state[checkState.isBusy / 4] = 1;
    state[checkState.hasReleases / 4] = Number(hasReleases);
    state[checkState.blockX / 4] = this.#x;
    state[checkState.blockY / 4] = this.#y;
    state[checkState.blockZ / 4] = this.#z;
    state[checkState.knowsSignals / 4] = 0;
    state.fill(0, signalEntry(0), signalEntry(-4) + 2);
    this.#cells.nodes.publish();
    this.#current.publish();
  }

  /** Checks an access, before it is made. `order` has the `orderBits` of the access. */
  access(offset: number, place: number, thread: number, order: number): void {
    this.#compare(offset, place, thread, this.#widened(order));
    this.#options.memory.state[checkState.isBusy / 4] = Number(this.#cells.isHolding);
  }

  #compare(offset: number, place: number, thread: number, order: number): void {
    const cells = this.#cells;
    cells.settle();
    const local = this.#localOf(place, thread);
    const block = this.#current;
    const at = offset - block.sharedBegin;
    // Ignores accesses to the reserved shared memory, where compilers' runtime libraries synchronize. The libraries are
    // trusted.
    const isReserved = at < 0 && at >= -sharedSpan.reserved;
    const isOwn = at >= 0 && at < block.sharedBytes;
    const { allocations } = this.#options;
    // Arrays, which only textures and surfaces reach, are in no bounds table.
    const isGlobal = (order & orderBits.texels) !== 0 || allocations[offset >>> boundsGranuleShift] !== 0;
    const owner = isOwn ? block : isReserved || isGlobal ? undefined : this.#ownerOf(offset, place, local);
    if (owner === undefined && !isReserved && !isGlobal) {
      const isIgnored = this.#clusterBlocks === 1 && !pageIsAllocated(allocations, offset);
      if (isIgnored) this.#memory.ignore(offset);
      return;
    }
    if ((order & orderBits.divided) !== 0 && owner !== undefined && owner !== block) {
      order &= ~(orderBits.strong | orderBits.acquire | orderBits.release);
      this.#options.findings.noteDivided(place);
    }
    const isShared = owner !== undefined;
    const releases = isReserved ? block.releases : owner?.releases ?? this.#releases;
    const isStrong = (order & orderBits.strong) !== 0;
    const operation = operationOfPlace(place);
    if (isStrong && !isShared && !isReserved) this.#noteSignal(offset, operation);
    const isPhased = (order & orderBits.phased) !== 0;
    const releasesToo = isStrong && !isPhased && this.#options.hasReleases;
    // Must precede the comparison with earlier accesses, because a load that acquires is ordered after the work that
    // was released at the location.
    if (releasesToo && operation !== writeOperation) releases.read(block.clocks, local, offset, order);
    if (!isReserved) {
      const page = owner?.shared ?? this.#memory.at(offset);
      const bytes = bytesOfPlace(place);
      cells.begin(block.clocks, local, offset, place, order, owner?.sharedBegin ?? -1);
      if (isStrong) cells.strong(page, offset, bytes);
      else this.#compareWeak(page, releases, { offset, bytes, operation, thread: block.clocks.base + local });
      if ((order & orderBits.asynchronous) !== 0) this.#noteCopy(page, offset, bytes, local);
    }
    if (isPhased) {
      const parity = this.#options.bytes[offset + parityByte]! >> 7;
      releases.phased(block.clocks, local, { offset, order, arrives: operation !== readOperation, parity });
    }
    if (!releasesToo || operation === readOperation) return;
    const isUpdate = operation !== writeOperation;
    releases.write(block.clocks, local, { offset, bytes: bytesOfPlace(place), order, isUpdate });
  }

  /** Returns the order of an access, whose scope is wider than a block if it is that of a cluster of several blocks. */
  #widened(order: number): number {
    return (order & orderBits.cluster) !== 0 && this.#clusterBlocks > 1 ? order | orderBits.wide : order;
  }

  /**
   * Returns the other block of the cluster that an offset in shared memory belongs to. Reports the access if the block
   * may not have started, or has ended.
   */
  #ownerOf(offset: number, place: number, local: number): BlockRaces | undefined {
    const { cluster, sharedBytes, clocks } = this.#current;
    const table = this.#fields[indexOf.clusterTable]! >>> 0;
    if (cluster === undefined || table === 0) return undefined;
    for (let rank = 0; rank < this.#clusterBlocks; rank++) {
      const sharedBegin = this.#words[table / 4 + rank]!;
      if (offset < sharedBegin || offset >= sharedBegin + sharedBytes) continue;
      const owner = cluster.memberAt(sharedBegin);
      const hasStarted = owner !== undefined && (this.#current.hasMet || clocks.knowsBlock(local, owner.clocks));
      const kind = !hasStarted ? "unstarted" : owner.hasEnded ? "exited" : undefined;
      if (kind !== undefined) {
        this.#options.findings.addLifetime({ kind, thread: clocks.base + local, place, offset, sharedBegin });
      }
      if (owner !== undefined) owner.isShared = true;
      return owner;
    }
    return undefined;
  }

  /** Reports accesses of other blocks to a block's shared memory that are not ordered before its end. */
  #endBlock(block: BlockRaces): void {
    this.#cells.settle();
    block.hasEnded = true;
    if (!block.isShared) return;
    const { sharedBegin, clocks } = block;
    block.shared.forEachAccess(this.#cells.nodes, ({ thread, epoch, place, at }) => {
      const warp = thread >>> 5;
      const isOwn = thread >= clocks.base && thread < clocks.base + clocks.epochs.length;
      if (isOwn || epoch === pendingEpoch || clocks.knowsOf(warp, epoch, thread & 31)) return;
      this.#options.findings.addLifetime({ kind: "exited", thread, place, offset: sharedBegin + at, sharedBegin });
    });
  }

  #compareWeak(page: ShadowPage, releases: Releases, { offset, bytes, operation, thread }: WeakAccess): void {
    const isLastUpdate = releases.isLastUpdate(thread, offset, bytes);
    if (operation === readOperation) this.#cells.read(page, offset, bytes, isLastUpdate);
    else if (this.#cells.write(page, offset, bytes, isLastUpdate)) releases.overwrite(offset, bytes);
  }

  #noteSignal(offset: number, operation: number): void {
    const { signals, memory: { state } } = this.#options;
    const { block, base } = this.#current.clocks;
    if (operation !== writeOperation) signals.read(offset, block);
    state[checkState.knowsSignals / 4] = Number(signals.isFull);
    if (operation === readOperation) return;
    signals.write(offset, block);
    // Makes compiled code skip the reports of this block's further strong accesses to the word, until another block
    // writes the word.
    const at = signalEntry(offset);
    state[at] = offset;
    state[at + 1] = base + 1;
  }

  #noteCopy(page: ShadowPage, offset: number, bytes: number, local: number): void {
    const { copies, base } = this.#current.clocks;
    const begin = offset - page.begin;
    (copies[local] ??= new PendingCopies(base + local + 1)).add({ page, begin, end: begin + bytes });
  }

  /** Records a fence of a thread, or an operation that orders the thread's asynchronous copies. */
  order(place: number, thread: number, order: number): void {
    this.#cells.settle();
    const local = this.#localOf(place, thread);
    const { clocks } = this.#current;
    order = this.#widened(order);
    if ((order & orderBits.proxy) !== 0) clocks.fenceProxies(local);
    else if ((order & orderBits.commit) !== 0) clocks.copies[local]?.commit();
    else if ((order & orderBits.wait) !== 0) {
      clocks.copies[local]?.wait(order >> orderCountShift, clocks.epochs[local]!);
    } else recordFence(clocks, local, order);
  }

  /**
   * Records that the kernel allocated memory: discards the accesses that were recorded before the memory was last
   * freed.
   */
  allocated(offset: number, byteLength: number): void {
    this.#memory.clear(this.#cells.nodes, offset, byteLength);
  }

  /** Records that a thread frees memory that the kernel allocated. A free is checked like a write. */
  frees(offset: number, byteLength: number, place: number, thread: number): void {
    const write = encodePlace({ ...decodePlace(place), operation: "write", bytes: 4 });
    this.#options.findings.noteFree(write);
    for (let at = offset; at + 4 <= offset + byteLength; at += 4) this.access(at, write, thread, 0);
  }

  /**
   * Checks whether the last store changed the value, and completes the findings. Must be called at the end of the
   * launch.
   */
  finish(): void {
    this.#cells.settle();
    this.#options.findings.finish();
  }

  /**
   * Returns the index, within its block, of a thread that compiled code reports. Switches to the running block if
   * necessary.
   */
  #localOf(place: number, thread: number): number {
    if ((place & isIndexBit) === 0) return thread;
    const fields = this.#fields;
    const x = fields[indexOf.blockX]!, y = fields[indexOf.blockY]!, z = fields[indexOf.blockZ]!;
    if (x !== this.#x || y !== this.#y || z !== this.#z) {
      this.#x = x;
      this.#y = y;
      this.#z = z;
      const { state } = this.#options.memory;
      state[checkState.blockX / 4] = x;
      state[checkState.blockY / 4] = y;
      state[checkState.blockZ / 4] = z;
      this.#only.begin(this.#blockNumber());
      this.#turnTo(this.#only);
    }
    return thread + fields[indexOf.rowY]! * this.#blockX + fields[indexOf.rowZ]! * this.#blockXY;
  }

  #blockNumber(): number {
    const [gridX, gridY] = this.#options.geometry.grid;
    const fields = this.#fields;
    return fields[indexOf.blockX]! + gridX * (fields[indexOf.blockY]! + gridY * fields[indexOf.blockZ]!);
  }

  #turnTo(block: BlockRaces): void {
    this.#current.isRunning = false;
    block.isRunning = true;
    this.#current = block;
    block.place(this.#fields[indexOf.shared]!, this.#fields[indexOf.sharedBytes]!);
    block.publish();
  }

  #clusterOf(barrier: ClusterBarrier): ClusterRaces<BlockRaces> {
    let cluster = this.#clusters.get(barrier);
    if (cluster === undefined) this.#clusters.set(barrier, cluster = new ClusterRaces());
    return cluster;
  }

  /** Returns an observer that passes the barriers of blocks to the check. The blocks must run one after another. */
  observeBlock(): BlockObserver {
    const block = this.#newBlock();
    let isNew = true;
    return {
      start: (barrier) => {
        isNew = true;
        block.isStarted = false;
        block.cluster?.members.delete(block);
        block.cluster = barrier && this.#clusterOf(barrier);
        block.cluster?.members.add(block);
      },
      resume: () => {
        if (isNew) block.begin(this.#blockNumber());
        isNew = false;
        this.#turnTo(block);
      },
      arrive: (thread, { barrier, suspension: { request } }) => {
        this.#cells.settle();
        if (request.kind === "barrier" && request.operation === "arrive") block.clocks.arrive(thread, barrier);
      },
      complete: ({ barrier, threads, isOfAll }) => {
        this.#cells.settle();
        if (barrier === clusterBarrier) return;
        if (isOfAll) block.clocks.synchronizeAll();
        else block.clocks.synchronizeSome(barrier, threads());
      },
      arriveAtCluster: (thread, { phase: number, isRelaxed }) => {
        this.#cells.settle();
        const phase = block.cluster!.phase(number);
        if (isRelaxed) phase.arriveRelaxed(block.clocks, thread);
        else phase.arrive(block.clocks, thread);
      },
      leaveCluster: (threads, { phase }) => {
        this.#cells.settle();
        block.hasMet = true;
        block.clocks.acquireAll(threads, block.cluster!.phase(phase).released);
      },
      end: () => this.#endBlock(block),
      meet: (warp, meeting) => {
        this.#cells.settle();
        if (meeting.suspension.request.kind === "warpBarrier") block.clocks.synchronizeWarp(warp, meeting);
      },
    };
  }
}

/** A launch that is checked for races. */
export interface RacingLaunch {
  readonly kernel: { readonly compiled: KernelVariables & Pick<CompiledKernel, "hasReleases"> };
  readonly geometry: LaunchGeometry;
  /** The launch record. */
  readonly fields: Int32Array;
}

/** The parameters of the check `race`, except for the launch. */
interface RacePlace {
  /** All of linear memory. */
  readonly bytes: Uint8Array;
  /** The part of the device's bounds table that maps each granule to the start of its allocation. */
  readonly allocations: Uint32Array;
  /** The collection to which the check adds its findings. */
  readonly findings: Findings;
  readonly sourceOf: (place: number) => string;
  readonly nameOf: (offset: number, bytes: number) => string | undefined;
  readonly memory: LaunchCells;
}

/** Starts the check `race` of a launch. */
export function startRaceCheck(
  { kernel: { compiled }, geometry, fields }: RacingLaunch,
  { bytes, allocations, findings: all, sourceOf, nameOf, memory }: RacePlace,
): RaceCheck {
  const { hasReleases } = compiled;
  const signals = new BlockSignals();
  const isArray = (offset: number) => allocations[offset >>> boundsGranuleShift] === 0;
  const findings = new RaceFindings({
    isArray,
    findings: all,
    geometry,
    sourceOf,
    nameOf,
    signals,
    variables: compiled,
  });
  return new RaceCheck({ geometry, hasReleases, fields, bytes, allocations, findings, signals, memory });
}
