/**
 * Compares each access with the recorded accesses to the same cell of memory.
 *
 * @module
 */
import { bytesOfPlace, operationOfPlace } from "../../../abi/addresses.ts";
import {
  cellField,
  cellShift,
  mostNodes,
  nodeField,
  orderBits,
  orderCountShift,
  pendingEpoch,
} from "../../../abi/check_state.ts";
import type { LaunchCells } from "../../../memory/check_memory.ts";
import type { BlockClocks } from "./block_clocks.ts";
import type { ConflictKind, RaceConflict, RaceFindings } from "./race_findings.ts";
import { AccessNodes, type ShadowPage } from "./shadow_memory.ts";

const readOperation = 1;
const cellWords = 1 << cellShift;
/** The order bits that determine which strong accesses an access conflicts with. */
const kindBits = orderBits.wide | orderBits.volatile | orderBits.polls;

/**
 * A store that conflicts with an earlier store. The conflict is reported only if the later store turns out to change
 * the value.
 */
interface HeldStore {
  readonly offset: number;
  readonly before: Uint8Array;
  readonly report: () => void;
}

/** Compares each access with the earlier accesses to the same cells, one access at a time. */
export class CellAccesses {
  readonly nodes: AccessNodes;
  readonly #hasReleases: boolean;
  readonly #findings: RaceFindings;
  readonly #bytes: Uint8Array;
  /** The code locations of writes by the asynchronous proxy. */
  readonly #proxyWrites = new Set<number>();
  #held: HeldStore | undefined;
  #clocks!: BlockClocks;
  /** The index of the accessing thread within its block. */
  #local = 0;
  /** The launch-wide number of the accessing thread. */
  #thread = 0;
  /** The launch-wide number of the accessing thread's warp. */
  #warp = 0;
  /** A mask in which only the bit of the accessing thread's lane is set. */
  #lane = 0;
  #epoch = 0;
  #place = 0;
  #order = 0;
  #offset = 0;
  #sharedBegin = -1;
  #isLastUpdate = false;

  constructor(options: { hasReleases: boolean; findings: RaceFindings; bytes: Uint8Array; memory: LaunchCells }) {
    this.nodes = new AccessNodes(options.memory);
    this.#hasReleases = options.hasReleases;
    this.#findings = options.findings;
    this.#bytes = options.bytes;
  }

  /**
   * Sets the access that the following calls compare with earlier accesses.
   *
   * @param local the index of the accessing thread within its block
   * @param sharedBegin the offset of the accessed block's shared memory; negative for global memory
   */
  begin(
    clocks: BlockClocks,
    local: number,
    offset: number,
    place: number,
    order: number,
    sharedBegin: number,
  ): void {
    this.#sharedBegin = sharedBegin;
    this.#clocks = clocks;
    this.#local = local;
    const thread = clocks.base + local;
    this.#thread = thread;
    this.#warp = thread >>> 5;
    this.#lane = 1 << (thread & 31);
    this.#epoch = clocks.epochs[local]!;
    this.#place = place;
    this.#order = order;
    this.#offset = offset;
  }

  /**
   * Whether the last store conflicts with an earlier store, and it is not yet known whether the last store changed the
   * value.
   */
  get isHolding(): boolean {
    return this.#held !== undefined;
  }

  /** Reports the deferred conflict of the last store if that store has changed the value. */
  settle(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    if (held.before.some((byte, index) => this.#bytes[held.offset + index] !== byte)) held.report();
  }

  /**
   * Compares a weak read with earlier accesses, and records it.
   *
   * @param isLastUpdate whether the last strong write of these bytes was an atomic operation of the reading thread that
   * returned a result
   */
  read(page: ShadowPage, offset: number, bytes: number, isLastUpdate: boolean): void {
    this.#isLastUpdate = isLastUpdate;
    const first = this.#firstCell(page, offset, bytes);
    const end = first + (bytes >> page.granularity << cellShift);
    for (let at = first; at < end; at += cellWords) this.#readCell(page.cells, at);
  }

  /**
   * Compares a weak write with earlier accesses, and records it. Returns whether strong accesses to the written bytes
   * were recorded before.
   */
  write(page: ShadowPage, offset: number, bytes: number, isLastUpdate: boolean): boolean {
    this.#isLastUpdate = isLastUpdate;
    const first = this.#firstCell(page, offset, bytes);
    const end = first + (bytes >> page.granularity << cellShift);
    let wasStrong = false;
    for (let at = first; at < end; at += cellWords) {
      if (page.cells[at + cellField.strong] !== 0) wasStrong = true;
      this.#writeCell(page.cells, at);
    }
    return wasStrong;
  }

  /** Compares a strong access with earlier accesses, and records it. */
  strong(page: ShadowPage, offset: number, bytes: number): void {
    if ((this.#order & orderBits.polls) !== 0 && this.#sharedBegin >= 0) this.#findings.notePolled(offset, bytes);
    const first = this.#firstCell(page, offset, bytes);
    const end = first + (bytes >> page.granularity << cellShift);
    for (let at = first; at < end; at += cellWords) this.#strongCell(page.cells, at);
  }

  #firstCell(page: ShadowPage, offset: number, bytes: number): number {
    const at = offset - page.begin;
    if (page.granularity !== 0 && ((at | bytes) & 3) !== 0) page.divide(this.nodes);
    return at >> page.granularity << cellShift;
  }

  #readCell(cells: Int32Array, at: number): void {
    const reader = cells[at + cellField.reader]!;
    if (reader === this.#thread + 1 && cells[at + cellField.readEpoch] === this.#epoch) return;
    this.#compareWithWrite(cells, at);
    if (cells[at + cellField.strong] !== 0) this.#compareWithStrong(cells, at, false);
    const isFree = reader === 0 || reader === this.#thread + 1 ||
      this.#isOrdered(reader - 1, cells[at + cellField.readEpoch]!);
    if (isFree) {
      cells[at + cellField.reader] = this.#thread + 1;
      cells[at + cellField.readEpoch] = this.#epoch;
      cells[at + cellField.readPlace] = this.#place;
    } else if (cells[at + cellField.readers]! >= 0) {
      this.#addReader(cells, at, reader - 1);
    }
  }

  #writeCell(cells: Int32Array, at: number): void {
    this.#compareWithWrite(cells, at);
    const reader = cells[at + cellField.reader]!;
    if (reader !== 0) this.#compareWithReaders(cells, at, reader);
    if (cells[at + cellField.strong] !== 0) {
      this.#compareWithStrong(cells, at, true);
      this.nodes.removeAll(Math.abs(cells[at + cellField.strong]!));
      cells[at + cellField.strong] = 0;
    }
    if (reader !== 0) {
      if (cells[at + cellField.readers] !== 0) this.nodes.removeAll(Math.abs(cells[at + cellField.readers]!));
      cells[at + cellField.reader] = 0;
      cells[at + cellField.readers] = 0;
    }
    if ((this.#order & orderBits.proxy) !== 0) this.#proxyWrites.add(this.#place);
    cells[at + cellField.writer] = this.#thread + 1;
    cells[at + cellField.writeEpoch] = (this.#order & orderBits.asynchronous) === 0 ? this.#epoch : pendingEpoch;
    cells[at + cellField.writePlace] = this.#place;
  }

  #strongCell(cells: Int32Array, at: number): void {
    const writes = operationOfPlace(this.#place) !== readOperation;
    this.#compareWithWrite(cells, at);
    const reader = cells[at + cellField.reader]!;
    if (writes && reader !== 0) this.#compareWithReaders(cells, at, reader);
    const head = cells[at + cellField.strong]!;
    if (head < 0 && this.#isMorallyStrong(-head)) return;
    cells[at + cellField.strong] = this.#addStrong(Math.abs(head), writes, head < 0);
  }

  #compareWithWrite(cells: Int32Array, at: number): void {
    const writer = cells[at + cellField.writer]!;
    if (writer === 0) return;
    const epoch = cells[at + cellField.writeEpoch]!;
    const place = cells[at + cellField.writePlace]!;
    if (this.#isOrdered(writer - 1, epoch)) {
      const isOfTexels = (this.#order & orderBits.texels) !== 0;
      if ((this.#order & orderBits.notCoherent) !== 0) this.#report(isOfTexels ? "texels" : "cache", writer - 1, place);
      else if (this.#needsProxyFence(place, epoch)) this.#report("proxy", writer - 1, place);
      return;
    }
    // In a matrix store of a warp, several lanes may provide the address of the same row, which is not a race.
    const isOfMatrix = (this.#order & (orderBits.immediate | orderBits.strong | orderBits.asynchronous)) === 0;
    if (isOfMatrix && place === this.#place && writer - 1 >>> 5 === this.#warp) return;
    const kind = epoch === pendingEpoch ? "copy" : this.#kindOf(writer - 1, epoch);
    const isImmediate = (this.#order & (orderBits.immediate | orderBits.strong)) === orderBits.immediate;
    if (isImmediate && kind !== "copy") this.#hold(kind, writer - 1, place);
    else this.#report(kind, writer - 1, place);
  }

  /**
   * Returns whether the access is a read of shared memory by the asynchronous proxy, and no thread of the block has
   * executed a fence between the proxies since an earlier write, which was not made by that proxy.
   */
  #needsProxyFence(place: number, epoch: number): boolean {
    const isRead = (this.#order & orderBits.proxy) !== 0 && operationOfPlace(this.#place) === readOperation;
    return isRead && this.#sharedBegin >= 0 && !this.#proxyWrites.has(place) && epoch >= this.#clocks.lastProxyFence;
  }

  /** Holds back the report of a conflict of two stores until it is known whether the later store changes the value. */
  #hold(kind: ConflictKind, thread: number, place: number): void {
    const conflict = this.#conflict(kind, thread, place);
    const before = this.#held;
    const report = () => this.#findings.add(conflict);
    this.#held = {
      offset: this.#offset,
      before: before?.before ?? this.#bytes.slice(this.#offset, this.#offset + bytesOfPlace(this.#place)),
      report: before === undefined ? report : () => {
        before.report();
        report();
      },
    };
  }

  #compareWithReaders(cells: Int32Array, at: number, reader: number): void {
    if (reader !== this.#thread + 1 && !this.#isOrdered(reader - 1, cells[at + cellField.readEpoch]!)) {
      const kind = this.#kindOf(reader - 1, cells[at + cellField.readEpoch]!);
      this.#report(kind, reader - 1, cells[at + cellField.readPlace]!);
    }
    for (let node = Math.abs(cells[at + cellField.readers]!); node !== 0; node = this.nodes.numbers[node]!) {
      this.#compareWithNode(node);
    }
  }

  #compareWithStrong(cells: Int32Array, at: number, writes: boolean): void {
    const { numbers } = this.nodes;
    for (let node = Math.abs(cells[at + cellField.strong]!); node !== 0; node = numbers[node]!) {
      const isRead = operationOfPlace(numbers[node + nodeField.place]!) === readOperation;
      if (isRead ? writes : !this.#isLastUpdate) this.#compareWithNode(node);
    }
  }

  #compareWithNode(node: number, kind?: ConflictKind): void {
    const lanes = this.#unorderedLanesOf(node);
    if (lanes === 0) return;
    const { numbers } = this.nodes;
    const thread = numbers[node + nodeField.warp]! * 32 + 31 - Math.clz32(lanes & -lanes);
    const found = kind ?? this.#kindOf(thread, numbers[node + nodeField.epoch]!);
    this.#report(found, thread, numbers[node + nodeField.place]!);
  }

  /** Adds the accessing thread to the cell's list of readers, and removes readers that are ordered before it. */
  #addReader(cells: Int32Array, at: number, other: number): void {
    const { numbers } = this.nodes;
    let isOfSeveral = this.#isOfOtherBlock(other >>> 5);
    let before = 0;
    let count = 0;
    const first = cells[at + cellField.readers]!;
    for (let node = first; node !== 0;) {
      const warp = numbers[node + nodeField.warp]!;
      if (warp === this.#warp && numbers[node + nodeField.epoch] === this.#epoch) {
        numbers[node + nodeField.lanes]! |= this.#lane;
        return;
      }
      if (this.#isOfOtherBlock(warp)) isOfSeveral = true;
      else if (this.#unorderedLanesOf(node) === 0) {
        node = this.nodes.remove(node);
        if (before === 0) cells[at + cellField.readers] = node;
        else numbers[before] = node;
        continue;
      }
      before = node;
      node = numbers[node]!;
      count++;
    }
    if (count >= mostNodes) return;
    const head = this.#newNode(cells[at + cellField.readers]!);
    // With readers in several blocks and no release operations, every later write conflicts with one of the readers, so
    // no further readers have to be recorded.
    cells[at + cellField.readers] = isOfSeveral && !this.#hasReleases ? -head : head;
  }

  /**
   * Adds the current strong access to a list, unless the list already includes it. Returns the first node of the list,
   * negated if no further accesses have to be recorded.
   */
  #addStrong(first: number, writes: boolean, isComplete: boolean): number {
    const { nodes } = this;
    let head = first;
    let before = 0;
    let count = 0;
    let isOfSeveral = false;
    for (let node = first; node !== 0;) {
      const { numbers } = nodes;
      const place = numbers[node + nodeField.place]!;
      const isSame = numbers[node + nodeField.warp] === this.#warp && place === this.#place &&
        numbers[node + nodeField.epoch] === this.#epoch && numbers[node + nodeField.order] === this.#order;
      if (isSame) {
        numbers[node + nodeField.lanes]! |= this.#lane;
        return isComplete ? -head : head;
      }
      const nodeWrites = operationOfPlace(place) !== readOperation;
      if ((writes || nodeWrites) && !this.#isMorallyStrong(node)) {
        this.#compareWithNode(
          node,
          this.#bytesOfElement(place, numbers[node + nodeField.order]!) ===
              this.#bytesOfElement(this.#place, this.#order)
            ? "scope"
            : "size",
        );
      } else if (writes !== nodeWrites && this.#isUnsynchronized(node)) this.#compareWithNode(node, "volatile");
      if (writes && nodeWrites && this.#isOfOtherBlock(numbers[node + nodeField.warp]!)) isOfSeveral = true;
      else if ((writes || !nodeWrites) && this.#isAlike(node) && this.#unorderedLanesOf(node) === 0) {
        node = nodes.remove(node);
        if (before === 0) head = node;
        else numbers[before] = node;
        continue;
      }
      before = node;
      node = numbers[node]!;
      count++;
    }
    if (count < mostNodes) head = this.#newNode(head);
    return isComplete || isOfSeveral && !this.#hasReleases ? -head : head;
  }

  #newNode(next: number): number {
    return this.nodes.add(next, {
      warp: this.#warp,
      epoch: this.#epoch,
      lanes: this.#lane,
      place: this.#place,
      order: this.#order,
    });
  }

  /**
   * Returns whether a node's strong access and the current access are morally strong, and so do not race: they have the
   * same size, and their scopes include each other's threads.
   */
  #isMorallyStrong(node: number): boolean {
    const { numbers } = this.nodes;
    const place = numbers[node + nodeField.place]!, order = numbers[node + nodeField.order]!;
    if (this.#bytesOfElement(place, order) !== this.#bytesOfElement(this.#place, this.#order)) return false;
    return (order & this.#order & orderBits.wide) !== 0 || !this.#isOfOtherBlock(numbers[node + nodeField.warp]!);
  }

  /**
   * Returns whether a node's access and the current one are unsynchronized volatile accesses by two warps to shared
   * memory: nothing orders them, not even if the lanes of each warp run in lockstep. A load that polls needs no order.
   * The caller ensures that one of the accesses reads and the other one writes.
   */
  #isUnsynchronized(node: number): boolean {
    const { numbers } = this.nodes;
    const order = numbers[node + nodeField.order]!, warp = numbers[node + nodeField.warp]!;
    if ((order & this.#order & orderBits.volatile) === 0 || ((order | this.#order) & orderBits.polls) !== 0) {
      return false;
    }
    if (this.#sharedBegin < 0 || warp === this.#warp) return false;
    return !this.#clocks.isWarpOrdered(this.#local, warp, numbers[node + nodeField.epoch]!);
  }

  /**
   * Returns whether a node's strong access and the current access are interchangeable: every later access conflicts
   * with both or with neither. They are if they have the same size and the same `kindBits`.
   */
  #isAlike(node: number): boolean {
    const { numbers } = this.nodes;
    const order = numbers[node + nodeField.order]!;
    return (order & kindBits) === (this.#order & kindBits) &&
      this.#bytesOfElement(numbers[node + nodeField.place]!, order) === this.#bytesOfElement(this.#place, this.#order);
  }

  #bytesOfElement(place: number, order: number): number {
    return bytesOfPlace(place) >> (order >> orderCountShift);
  }

  #isOfOtherBlock(warp: number): boolean {
    const local = warp * 32 - this.#clocks.base;
    return local < 0 || local >= this.#clocks.epochs.length;
  }

  #unorderedLanesOf(node: number): number {
    const { numbers } = this.nodes;
    return this.#clocks.unorderedLanes(this.#local, {
      warp: numbers[node + nodeField.warp]!,
      epoch: numbers[node + nodeField.epoch]!,
      lanes: numbers[node + nodeField.lanes]!,
    });
  }

  /** Returns whether a thread's work at an epoch is ordered before the current access. */
  #isOrdered(thread: number, epoch: number): boolean {
    const clocks = this.#clocks;
    const local = thread - clocks.base;
    if (local >= 0 && local < clocks.epochs.length && epoch < clocks.blockTime) return true;
    if (epoch === pendingEpoch) return false;
    if (thread === this.#thread) return true;
    return clocks.unorderedLanes(this.#local, { warp: thread >>> 5, epoch, lanes: 1 << (thread & 31) }) === 0;
  }

  #kindOf(thread: number, epoch: number): ConflictKind {
    const lanes = 1 << (thread & 31);
    const other = { warp: thread >>> 5, epoch, lanes, withoutScopes: true };
    return this.#clocks.unorderedLanes(this.#local, other) === 0 ? "scope" : "race";
  }

  #report(kind: ConflictKind, thread: number, place: number): void {
    this.#findings.add(this.#conflict(kind, thread, place));
  }

  #conflict(kind: ConflictKind, thread: number, place: number): RaceConflict {
    return {
      kind,
      later: { thread: this.#thread, place: this.#place },
      earlier: { thread, place },
      offset: this.#offset,
      sharedBegin: this.#sharedBegin < 0 ? undefined : this.#sharedBegin,
    };
  }
}
