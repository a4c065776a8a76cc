/**
 * The helper that detects races: compiled kernels call it to compare an access with earlier accesses.
 *
 * @module
 */
import { placeBytesShift } from "../../abi/addresses.ts";
import {
  cellField,
  cellShift,
  checkState,
  checkStateBegin,
  checkTable,
  clockLayout,
  entryFlags,
  mostNodes,
  nodeField,
  nodeLists,
  nodeWords,
  orderBits,
  orderCountShift,
  pendingEpoch,
  signalTable,
} from "../../abi/check_state.ts";
import {
  type BranchTarget,
  CheckWriter,
  isIndexBit,
  readOperation,
  wordShift,
  writeOperation,
} from "./check_helpers.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";

/** The name of the helper that finds races. */
export type RaceHelper = "compareAccess";

/** Maps the name of the helper to its builder. */
export const raceHelpers: Readonly<Record<RaceHelper, HelperBuilder>> = { compareAccess };

/**
 * The locals of `compareAccess`. The first four are its parameters: the offset of the access in linear memory, its
 * encoded source location, the thread, and the bits of its memory order.
 */
const local = {
  offset: 0,
  place: 1,
  thread: 2,
  order: 3,
  /** The offset in linear memory of the block's clocks. */
  clocks: 4,
  /** The thread's number in its block. */
  inBlock: 5,
  /**
   * The page table entry for the access: the offset of the page's cells and, in its low bits, the binary logarithm of
   * the number of bytes that a cell covers.
   */
  entry: 6,
  /** The offset in linear memory of the cell that is being compared. */
  cell: 7,
  /** The offset in linear memory past the last cell of the access. */
  end: 8,
  /** The block's first thread, as a thread number in the launch. */
  base: 9,
  /** The epoch of the accessing thread. */
  epoch: 10,
  /** The accessing thread, as its number in the launch plus 1. Cells store thread numbers in this form. */
  own: 11,
  /**
   * Reused for several values: a thread that a cell names, an index of a node in a list of accesses, or an entry of the
   * table of signals.
   */
  other: 12,
  /** The offset in linear memory of a node of a list of accesses. */
  node: 13,
  /** Before any node is visited: the binary logarithm of the number of bytes that a cell covers. */
  shift: 13,
  /** The number of nodes that have been compared so far. */
  count: 14,
  /** While a list of accesses is removed: the index of the next node. */
  next: 14,
  /** While a list of accesses is removed: the index of its last node. */
  last: 15,
} as const;

const warpShift = 5;

/** A code writer with methods for code that several steps of `compareAccess` need. */
class ComparisonWriter extends CheckWriter {
  /**
   * Emits code that calls `device.orderedAccess`, which handles the uncommon cases, and then returns from the helper.
   */
  leaveAccess(): this {
    return this.leave("orderedAccess", [local.offset, local.place, local.thread, local.order]);
  }

  /** Emits code that pops a condition and, if it is true, calls `device.orderedAccess` and returns from the helper. */
  leaveIf(): this {
    return this.ifUnlikely().leaveAccess().end();
  }

  /** Emits code that pushes a field of the current cell. */
  cellField(name: keyof typeof cellField): this {
    return this.load(local.cell, cellField[name] * 4);
  }

  /** Emits code that sets a field of the current cell. `push` emits the code that pushes the value. */
  setCellField(name: keyof typeof cellField, push: () => unknown): this {
    this.get(local.cell);
    push();
    return this.memory("i32Store", cellField[name] * 4);
  }

  /** Emits code that pushes the number of the accessing thread in the launch. */
  ownNumber(): this {
    return this.get(local.own).i32(1).ops("i32Sub");
  }

  /** Emits code that pushes the number of the accessing thread's warp. Warps are numbered throughout the launch. */
  ownWarp(): this {
    return this.ownNumber().i32(warpShift).ops("i32ShrU");
  }

  /** Emits code that pushes a mask in which only the bit of the accessing thread's lane is set. */
  ownLane(): this {
    return this.i32(1).ownNumber().ops("i32Shl");
  }

  /**
   * Emits code that pops the number of a thread in the launch, and pushes whether that thread is outside of the current
   * block.
   */
  isOfOtherBlock(): this {
    return this.get(local.base).ops("i32Sub").load(local.clocks, clockLayout.threads).ops("i32GeU");
  }

  /**
   * Emits code that sets the local `node` to the offset of a node. `push` emits the code that pushes the node's index.
   * If the lists of accesses are not in linear memory, the emitted code calls `device.orderedAccess` and returns from
   * the helper.
   */
  setNode(push: () => unknown): this {
    this.state("nodes").tee(local.node).ops("i32Eqz").leaveIf();
    this.get(local.node);
    push();
    return this.i32(wordShift).ops("i32Shl", "i32Add").set(local.node);
  }

  /** Emits code that pushes a field of the current node. */
  nodeField(name: keyof typeof nodeField): this {
    return this.load(local.node, nodeField[name] * 4);
  }

  /** Emits code that sets a field of the current node. `push` emits the code that pushes the value. */
  setNodeField(name: keyof typeof nodeField, push: () => unknown): this {
    this.get(local.node);
    push();
    return this.memory("i32Store", nodeField[name] * 4);
  }

  /**
   * Emits code that pushes whether the current node records accesses by the accessing thread's warp in the thread's
   * current epoch.
   */
  isOwnNode(): this {
    this.nodeField("warp").ownWarp().ops("i32Eq");
    return this.nodeField("epoch").get(local.epoch).ops("i32Eq", "i32And");
  }

  /** Emits code that adds the accessing thread's lane to the lanes of the current node. */
  addOwnLane(): this {
    return this.setNodeField("lanes", () => this.nodeField("lanes").ownLane().ops("i32Or"));
  }

  /** Emits code that pushes the number of the first thread of the current node's warp. */
  nodeThread(): this {
    return this.nodeField("warp").i32(warpShift).ops("i32Shl");
  }
}

/**
 * Builds the helper that compares an access with earlier accesses to the same memory, to find races. The helper's
 * parameters are those of `device.orderedAccess`: the offset in linear memory, the encoded source location, the thread,
 * and the bits of its memory order.
 *
 * Each cell records the last weak write of its bytes, and the reads since that write. If the block's barriers order
 * this write and these reads before the new access, the helper records the access in the cell. In all other cases, the
 * helper calls `device.orderedAccess`.
 */
function compareAccess(): HelperFunction {
  const { place, order, cell, end } = local;
  const code = new ComparisonWriter();
  findThread(code);
  findCells(code);
  code.loop();
  const nextCell = code.target;
  code.block();
  const done = code.target;
  code.bits(order, orderBits.strong).if();
  compareStrongAccess(code, done);
  code.end();
  code.operation(place).i32(readOperation).ops("i32Eq").if();
  compareWeakRead(code, done);
  code.end();
  compareWeakWrite(code);
  code.end();
  code.get(cell).i32(4 << cellShift).ops("i32Add").tee(cell).get(end).ops("i32LtU").branchIf(nextCell).end();
  return {
    type: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
    locals: Array.from({ length: 12 }, () => "i32" as const),
    code: code.finish(),
  };
}

/**
 * Emits code that sets the locals `clocks` and `inBlock`. If the clocks are not those of the thread's block, the
 * emitted code calls `device.orderedAccess` and returns.
 */
function findThread(code: ComparisonWriter): void {
  const { place, thread, order, clocks, inBlock, entry } = local;
  code.state("races").table(entry, "orderedAccess", [local.offset, place, thread, order]);
  code.bits(order, orderBits.asynchronous | orderBits.phased | orderBits.proxy).state("isBusy").ops("i32Or").leaveIf();
  code.state("clocks").tee(clocks).ops("i32Eqz").leaveIf();
  code.bits(place, isIndexBit).if();
  for (const axis of ["blockX", "blockY", "blockZ"] as const) {
    code.launch(axis).state(axis).ops("i32Xor");
    if (axis !== "blockX") code.ops("i32Or");
  }
  code.leaveIf().end();
  code.row(place).get(thread).ops("i32Add").set(inBlock);
}

/**
 * Emits code that sets the locals for the cells of the access and for the thread. If the accessed memory is not checked
 * for races, the emitted code returns from the helper.
 */
function findCells(code: ComparisonWriter): void {
  const { offset, place, clocks, inBlock, entry, cell, end, base, epoch, own, shift } = local;
  code.get(offset).state("sharedBegin").ops("i32Sub").tee(cell).state("sharedBytes").ops("i32LtU").if();
  code.state("sharedCells").set(entry);
  code.else();
  code.get(entry).get(offset).i32(checkTable.pageShift).ops("i32ShrU").i32(2).ops("i32Shl", "i32Add");
  code.memory("i32Load").set(entry);
  code.bits(offset, (1 << checkTable.pageShift) - 1).set(cell);
  code.end();
  code.get(entry).i32(entryFlags).ops("i32LeU").ifUnlikely();
  code.get(entry).i32(checkTable.ignored).ops("i32Eq").if().ops("return").end();
  code.leaveAccess().end();
  code.bits(entry, entryFlags).set(shift);
  code.get(cell).get(shift).ops("i32ShrU").i32(cellShift + 2).ops("i32Shl");
  code.bits(entry, ~entryFlags).ops("i32Add").set(cell);
  // The host handles accesses that are smaller than a cell, which are uncommon.
  code.i32(1).get(place).i32(placeBytesShift).ops("i32ShrU", "i32Shl").get(shift).ops("i32ShrU");
  code.tee(end).ops("i32Eqz").leaveIf();
  code.get(cell).get(end).i32(cellShift + 2).ops("i32Shl", "i32Add").set(end);
  code.load(clocks, clockLayout.base).tee(base).get(inBlock).ops("i32Add").i32(1).ops("i32Add").set(own);
  code.get(clocks).get(inBlock).i32(2).ops("i32Shl", "i32Add").memory("i32Load", clockLayout.epochs).set(epoch);
}

/**
 * Emits code that compares a strong access with the current cell, and branches to `done`. Strong accesses can race only
 * with weak ones.
 */
function compareStrongAccess(code: ComparisonWriter, done: BranchTarget): void {
  const { place, order, other } = local;
  code.state("hasReleases").leaveIf();
  leaveSignal(code);
  compareWithWriter(code);
  code.operation(place).i32(readOperation).ops("i32Ne");
  code.cellField("reader").i32(0).ops("i32Ne", "i32And").leaveIf();
  code.cellField("strong").tee(other).ops("i32Eqz").leaveIf();
  code.get(other).i32(0).ops("i32LtS").if();
  {
    // The cell's list of strong accesses is closed: no accesses are added to it. Compare this access with the first one
    // in the list.
    code.setNode(() => code.i32(0).get(other).ops("i32Sub"));
    const pushElement = (place: () => unknown, order: () => unknown) => {
      place();
      code.i32(placeBytesShift).ops("i32ShrU");
      order();
      code.i32(orderCountShift).ops("i32ShrS", "i32Sub");
    };
    pushElement(() => code.nodeField("place"), () => code.nodeField("order"));
    pushElement(() => code.get(place), () => code.get(order));
    code.ops("i32Eq");
    code.nodeField("order").get(order).ops("i32And").i32(orderBits.wide).ops("i32And").i32(0).ops("i32Ne", "i32And");
    code.branchIf(done);
    code.leaveAccess();
  }
  code.end();
  code.setNode(() => code.get(other));
  code.isOwnNode();
  code.nodeField("place").get(place).ops("i32Eq", "i32And");
  code.nodeField("order").get(order).ops("i32Eq", "i32And", "i32Eqz").leaveIf();
  code.addOwnLane();
  code.branch(done);
}

/**
 * Emits code that calls `device.orderedAccess` for a strong access to global memory that may be a signal between
 * blocks. The call is skipped if the signal table shows that this block made the last strong write to the word.
 */
function leaveSignal(code: ComparisonWriter): void {
  const { offset, other, base } = local;
  code.get(offset).state("sharedBegin").ops("i32Sub").state("sharedBytes").ops("i32GeU");
  code.state("knowsSignals").ops("i32Eqz", "i32And").if();
  code.get(offset).i32(2).ops("i32ShrU").i32(signalTable.entries - 1).ops("i32And").i32(signalTable.entryBytes);
  code.ops("i32Mul").tee(other).memory("i32Load", checkStateBegin + checkState.signals).get(offset).ops("i32Ne");
  code.load(other, checkStateBegin + checkState.signals + 4).get(base).i32(1).ops("i32Add", "i32Ne", "i32Or");
  code.leaveIf().end();
}

/**
 * Emits code that calls `device.orderedAccess` unless the cell's last weak write is ordered before the current access.
 */
function compareWithWriter(code: ComparisonWriter): void {
  const { order, other, own } = local;
  code.cellField("writer").tee(other).if();
  code.bits(order, orderBits.notCoherent).leaveIf();
  code.get(other).get(own).ops("i32Eq");
  code.cellField("writeEpoch").i32(pendingEpoch).ops("i32Ne", "i32And", "i32Eqz").if();
  pushIsOrdered(code, "writeEpoch");
  code.ops("i32Eqz").leaveIf();
  code.end();
  code.end();
}

/**
 * Emits code that pushes whether the recorded access of the thread `other` is ordered before the current access: if it
 * was made before the last barrier of the block or, for threads of one warp, the last barrier of the warp. Sets `other`
 * to that thread's number in the block. `did` is the cell's field with the epoch of the recorded access.
 */
function pushIsOrdered(code: ComparisonWriter, did: "readEpoch" | "writeEpoch"): void {
  const { clocks, inBlock, base, other } = local;
  code.get(other).i32(1).ops("i32Sub").get(base).ops("i32Sub").tee(other);
  code.load(clocks, clockLayout.threads).ops("i32LtU");
  code.cellField(did).load(clocks, clockLayout.blockTime).ops("i32LtS");
  code.get(other).i32(warpShift).ops("i32ShrU").get(inBlock).i32(warpShift).ops("i32ShrU", "i32Eq");
  code.cellField(did).get(clocks).get(inBlock).i32(warpShift).ops("i32ShrU").i32(2).ops("i32Shl", "i32Add");
  code.memory("i32Load", clockLayout.warpTimes).ops("i32LtS", "i32And", "i32Or", "i32And");
}

/** Emits code that compares a weak read with the current cell, records the read in the cell, and branches to `done`. */
function compareWeakRead(code: ComparisonWriter, done: BranchTarget): void {
  const { clocks, epoch, own, other, place } = local;
  code.cellField("reader").get(own).ops("i32Eq");
  code.cellField("readEpoch").get(epoch).ops("i32Eq", "i32And").branchIf(done);
  compareWithWriter(code);
  code.cellField("strong").leaveIf();
  code.cellField("reader").tee(other).ops("i32Eqz").get(other).get(own).ops("i32Eq", "i32Or", "i32Eqz").if();
  {
    pushIsOrdered(code, "readEpoch");
    code.ops("i32Eqz").if();
    {
      // The read that the cell records is not ordered before this access, so this thread is an additional reader.
      code.cellField("readers").i32(0).ops("i32LtS").branchIf(done);
      // The host handles reads of one cell by threads of different blocks, which are uncommon.
      code.get(other).load(clocks, clockLayout.threads).ops("i32GeU").leaveIf();
      findOwnReader(code, done);
      addReader(code);
      code.branch(done);
    }
    code.end();
  }
  code.end();
  code.setCellField("reader", () => code.get(own));
  code.setCellField("readEpoch", () => code.get(epoch));
  code.setCellField("readPlace", () => code.get(place));
  code.branch(done);
}

/**
 * Emits code that searches the additional readers for a node of the thread's warp and epoch. If there is one, the
 * emitted code adds the thread to the node and branches to `done`.
 */
function findOwnReader(code: ComparisonWriter, done: BranchTarget): void {
  const { clocks, other, count } = local;
  code.cellField("readers").set(other);
  code.i32(0).set(count);
  code.block();
  const notFound = code.target;
  code.loop();
  const nextNode = code.target;
  code.get(other).ops("i32Eqz").branchIf(notFound);
  code.setNode(() => code.get(other));
  code.isOwnNode().if();
  code.addOwnLane();
  code.branch(done).end();
  // The host handles the uncommon cases: a long list, readers in other blocks, and reads from before this block's last
  // barrier.
  code.get(count).i32(1).ops("i32Add").tee(count).i32(mostNodes).ops("i32GeS");
  code.nodeThread().isOfOtherBlock();
  code.nodeField("epoch").load(clocks, clockLayout.blockTime).ops("i32LtS", "i32Or");
  code.ops("i32Or").leaveIf();
  code.nodeField("next").set(other).branch(nextNode);
  code.end().end();
}

/**
 * Emits code that inserts a node for the thread at the front of the list of additional readers. The node comes from the
 * free list or, if that is empty, from the nodes that have never been used.
 */
function addReader(code: ComparisonWriter): void {
  const { node, other, epoch, place, order } = local;
  code.state("nodes").tee(node).ops("i32Eqz").leaveIf();
  const list = (name: keyof typeof nodeLists) => code.load(node, nodeLists[name] * 4);
  list("free").tee(other).if();
  code.get(node).get(node).get(other).i32(2).ops("i32Shl", "i32Add").memory("i32Load");
  code.memory("i32Store", nodeLists.free * 4);
  code.else();
  list("end").tee(other).i32(nodeWords).ops("i32Add");
  list("length").ops("i32GtU");
  code.leaveIf();
  code.get(node).get(other).i32(nodeWords).ops("i32Add").memory("i32Store", nodeLists.end * 4);
  code.end();
  code.get(node).get(other).i32(2).ops("i32Shl", "i32Add").set(node);
  code.setNodeField("next", () => code.cellField("readers"));
  code.setNodeField("warp", () => code.ownWarp());
  code.setNodeField("epoch", () => code.get(epoch));
  code.setNodeField("lanes", () => code.ownLane());
  code.setNodeField("place", () => code.get(place));
  code.setNodeField("order", () => code.get(order));
  code.setCellField("readers", () => code.get(other));
}

/** Emits code that compares a weak write with the current cell, and records the write in place of all reads. */
function compareWeakWrite(code: ComparisonWriter): void {
  const { place, own, other, epoch } = local;
  code.operation(place).i32(writeOperation).ops("i32Ne");
  code.cellField("strong").ops("i32Or").leaveIf();
  compareWithWriter(code);
  code.cellField("reader").tee(other).if();
  code.get(other).get(own).ops("i32Ne").if();
  pushIsOrdered(code, "readEpoch");
  code.ops("i32Eqz").leaveIf();
  code.end();
  removeReaders(code);
  code.end();
  code.setCellField("reader", () => code.i32(0));
  code.setCellField("writer", () => code.get(own));
  code.setCellField("writeEpoch", () => code.get(epoch));
  code.setCellField("writePlace", () => code.get(place));
}

/**
 * Emits code that removes the list of additional readers and moves its nodes to the free list. If a recorded read is
 * not ordered before the current write, the emitted code calls `device.orderedAccess` and returns.
 */
function removeReaders(code: ComparisonWriter): void {
  const { clocks, other, node, next, last } = local;
  code.cellField("readers").tee(other).if();
  code.get(other).i32(0).ops("i32LtS").leaveIf();
  code.get(other).set(last);
  code.loop();
  const nextNode = code.target;
  code.setNode(() => code.get(last));
  code.nodeThread().isOfOtherBlock();
  code.nodeField("epoch").load(clocks, clockLayout.blockTime).ops("i32GeS", "i32Or").leaveIf();
  code.nodeField("next").tee(next).if().get(next).set(last).branch(nextNode).end();
  code.end();
  code.get(node).state("nodes").memory("i32Load", nodeLists.free * 4).memory("i32Store", nodeField.next * 4);
  code.state("nodes").get(other).memory("i32Store", nodeLists.free * 4);
  code.setCellField("readers", () => code.i32(0));
  code.end();
}
