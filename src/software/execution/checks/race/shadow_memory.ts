/**
 * The last accesses to memory, recorded for each word of 4 bytes or, where smaller accesses are made, for each byte;
 * and the writes of asynchronous copies that are not complete.
 *
 * @module
 */
import {
  cellField,
  cellShift,
  checkState,
  checkTable,
  nodeField,
  nodeLists,
  nodeWords,
  pendingEpoch,
} from "../../../abi/check_state.ts";
import type { LaunchCells } from "../../../memory/check_memory.ts";

/** The initial number of nodes in the array. */
const firstNodes = 1024;

/**
 * The nodes of the access lists of all cells of a launch, as an array of numbers. A node is identified by the index of
 * its first number; 0 means no node.
 */
export class AccessNodes {
  numbers: Int32Array;
  readonly #memory: LaunchCells;

  constructor(memory: LaunchCells) {
    this.#memory = memory;
    this.numbers = memory.allocate(firstNodes * nodeWords * 4);
    this.numbers[nodeLists.end] = nodeWords;
    this.numbers[nodeLists.length] = this.numbers.length;
  }

  /** Writes the location of the nodes to the memory where compiled code reads it. */
  publish(): void {
    this.#memory.state[checkState.nodes / 4] = this.#memory.offsetOf(this.numbers);
  }

  /** Creates a node that is followed by `next`. */
  add(next: number, { warp, epoch, lanes, place, order }: NewNode): number {
    const at = this.#take();
    const { numbers } = this;
    numbers[at + nodeField.next] = next;
    numbers[at + nodeField.warp] = warp;
    numbers[at + nodeField.epoch] = epoch;
    numbers[at + nodeField.lanes] = lanes;
    numbers[at + nodeField.place] = place;
    numbers[at + nodeField.order] = order;
    return at;
  }

  #take(): number {
    const { numbers } = this;
    const free = numbers[nodeLists.free]!;
    if (free !== 0) {
      numbers[nodeLists.free] = numbers[free]!;
      return free;
    }
    const at = numbers[nodeLists.end]!;
    const end = numbers[nodeLists.end] = at + nodeWords;
    if (end > numbers.length) {
      const larger = this.#memory.allocate(this.numbers.byteLength * 2);
      larger.set(numbers);
      larger[nodeLists.length] = larger.length;
      this.numbers = larger;
      this.publish();
    }
    return at;
  }

  /** Frees a node, and returns the next one. */
  remove(at: number): number {
    const next = this.numbers[at]!;
    this.numbers[at] = this.numbers[nodeLists.free]!;
    this.numbers[nodeLists.free] = at;
    return next;
  }

  /** Frees a node and all nodes that follow it in the list. */
  removeAll(first: number): void {
    for (let at = first; at !== 0;) at = this.remove(at);
  }

  /** Copies a node and all nodes that follow it in the list. */
  copy(first: number): number {
    if (first === 0) return 0;
    const next = this.copy(this.numbers[first]!);
    const [, warp, epoch, lanes, place, order] = this.numbers.subarray(first, first + nodeWords) as unknown as number[];
    return this.add(next, { warp: warp!, epoch: epoch!, lanes: lanes!, place: place!, order: order! });
  }
}

interface NewNode {
  readonly warp: number;
  readonly epoch: number;
  readonly lanes: number;
  readonly place: number;
  readonly order: number;
}

/** The cells of a page of global memory, or of a block's shared memory. */
export class ShadowPage {
  /** The offset of the memory in linear memory. */
  readonly begin: number;
  cells: Int32Array;
  /** The binary logarithm of the number of bytes per cell: 2, or 0 once a part of a word has been accessed. */
  granularity: 0 | 2 = 2;
  readonly #memory: LaunchCells;
  readonly #publish: (entry: number) => void;

  /** @param publish stores the entry for the cells in the table that compiled code reads */
  constructor(
    { begin, byteLength }: { readonly begin: number; readonly byteLength: number },
    memory: LaunchCells,
    publish: (entry: number) => void,
  ) {
    this.begin = begin;
    this.#memory = memory;
    this.#publish = publish;
    this.cells = memory.allocate(Math.ceil(byteLength / 4) * 4 << cellShift);
    this.publish();
  }

  /** Stores the entry for the cells in the table that compiled code reads. */
  publish(): void {
    const offset = this.#memory.offsetOf(this.cells);
    this.#publish(offset === 0 ? 0 : offset + this.granularity);
  }

  /** Splits each cell of a word into cells of single bytes. */
  divide(nodes: AccessNodes): void {
    const words = this.cells;
    this.cells = this.#memory.allocate(words.byteLength * 4);
    this.granularity = 0;
    for (let word = 0; word < words.length; word += 1 << cellShift) {
      for (let byte = 0; byte < 4; byte++) {
        const at = word * 4 + (byte << cellShift);
        this.cells.set(words.subarray(word, word + (1 << cellShift)), at);
        if (byte === 0) continue;
        for (const field of [cellField.readers, cellField.strong]) {
          const first = this.cells[at + field]!;
          this.cells[at + field] = first < 0 ? -nodes.copy(-first) : nodes.copy(first);
        }
      }
    }
    this.publish();
  }

  /** Calls `visit` with each recorded access: the thread's number in the launch, and where the accessed cell begins. */
  forEachAccess(
    { numbers }: AccessNodes,
    visit: (access: { thread: number; epoch: number; place: number; at: number }) => void,
  ): void {
    const { cells } = this;
    for (let cell = 0; cell < cells.length; cell += 1 << cellShift) {
      const at = cell >> cellShift << this.granularity;
      const { writer, writeEpoch, writePlace, reader, readEpoch, readPlace, readers, strong } = cellField;
      const [wrote, read] = [cells[cell + writer]!, cells[cell + reader]!];
      if (wrote !== 0) {
        visit({ thread: wrote - 1, epoch: cells[cell + writeEpoch]!, place: cells[cell + writePlace]!, at });
      }
      if (read !== 0) visit({ thread: read - 1, epoch: cells[cell + readEpoch]!, place: cells[cell + readPlace]!, at });
      for (const list of [readers, strong]) {
        for (let node = Math.abs(cells[cell + list]!); node !== 0; node = numbers[node]!) {
          const [, warp, epoch, lanes, place] = numbers.subarray(node, node + nodeWords);
          for (let rest = lanes!; rest !== 0; rest &= rest - 1) {
            const thread = warp! * 32 + 31 - Math.clz32(rest & -rest);
            visit({ thread, epoch: epoch!, place: place!, at });
          }
        }
      }
    }
  }

  /** Removes the recorded accesses to a range of bytes. By default, removes all recorded accesses. */
  clear(nodes: AccessNodes, begin = 0, end: number = this.cells.length >> cellShift << this.granularity): void {
    const first = begin >> this.granularity << cellShift, last = end >> this.granularity << cellShift;
    const { cells } = this;
    for (let at = first; at < last; at += 1 << cellShift) {
      const readers = cells[at + cellField.readers]!, strong = cells[at + cellField.strong]!;
      if (readers !== 0) nodes.removeAll(Math.abs(readers));
      if (strong !== 0) nodes.removeAll(Math.abs(strong));
    }
    cells.fill(0, first, last);
  }
}

const { pageShift } = checkTable;
const pageBytes = 1 << pageShift;
const cachedPages = 16;

/** The cells of all pages of linear memory that a launch has accessed. */
export class ShadowMemory {
  readonly #pages = new Map<number, ShadowPage>();
  /** The indices of the pages in `#cached`, a direct-mapped cache. Consecutive accesses are usually near each other. */
  readonly #cachedIndices = new Int32Array(cachedPages).fill(-1);
  readonly #cached: ShadowPage[] = [];
  readonly #memory: LaunchCells;

  constructor(memory: LaunchCells) {
    this.#memory = memory;
  }

  /** Excludes a page from the check, so that compiled code skips accesses to the page. */
  ignore(offset: number): void {
    this.#memory.setRaces(offset >>> pageShift, checkTable.ignored);
  }

  /** Returns the cells of the page that contains an offset. */
  at(offset: number): ShadowPage {
    const index = offset >>> pageShift;
    const slot = index & cachedPages - 1;
    if (this.#cachedIndices[slot] === index) return this.#cached[slot]!;
    let page = this.#pages.get(index);
    if (page === undefined) this.#pages.set(index, page = this.#newPage(index));
    this.#cachedIndices[slot] = index;
    this.#cached[slot] = page;
    return page;
  }

  #newPage(index: number): ShadowPage {
    const range = { begin: index * pageBytes, byteLength: pageBytes };
    return new ShadowPage(range, this.#memory, (entry) => this.#memory.setRaces(index, entry));
  }

  /** Removes the recorded accesses to a range of bytes. */
  clear(nodes: AccessNodes, begin: number, byteLength: number): void {
    const end = begin + byteLength;
    for (let at = begin; at < end;) {
      const index = at >>> pageShift;
      const first = index * pageBytes;
      const last = Math.min(end, first + pageBytes);
      this.#pages.get(index)?.clear(nodes, at - first, last - first);
      at = last;
    }
  }
}

/** The range of memory that an asynchronous copy writes. */
interface Copy {
  readonly page: ShadowPage;
  /** The start of the range, relative to the start of the page. */
  readonly begin: number;
  /** The end of the range, relative to the start of the page. */
  readonly end: number;
}

/** The asynchronous copies that a thread has started and has not yet waited for. */
export class PendingCopies {
  /** The value of the cells' field `writer` for the thread: the thread's number in the launch plus 1. */
  readonly #writer: number;
  readonly #groups: Copy[][] = [];
  #current: Copy[] = [];

  constructor(writer: number) {
    this.#writer = writer;
  }

  /** Records an asynchronous copy. */
  add(copy: Copy): void {
    this.#current.push(copy);
  }

  /** Commits the copies that the thread has started so far as a group. */
  commit(): void {
    this.#groups.push(this.#current);
    this.#current = [];
  }

  /**
   * Records that the thread has waited until at most `groups` groups of copies are pending; 0 waits for all copies. The
   * completed copies then count as stores of the thread.
   */
  wait(groups: number, epoch: number): void {
    if (groups === 0) this.commit();
    while (this.#groups.length > groups) for (const copy of this.#groups.shift()!) this.#finish(copy, epoch);
  }

  #finish({ page: { cells, granularity }, begin, end }: Copy, epoch: number): void {
    for (let at = begin >> granularity << cellShift; at < end >> granularity << cellShift; at += 1 << cellShift) {
      const isPending = cells[at + cellField.writer] === this.#writer &&
        cells[at + cellField.writeEpoch] === pendingEpoch;
      if (isPending) cells[at + cellField.writeEpoch] = epoch;
    }
  }
}
