/**
 * The function with which compiled kernels compare their accesses with those before, to find races.
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

/** The name of this function. */
export type RaceHelper = "compareAccess";

/** The function, by name. */
export const raceHelpers: Readonly<Record<RaceHelper, HelperBuilder>> = { compareAccess };

/**
 * The locals of `compareAccess`. The first four are its parameters: the offset of the access in linear memory, its place,
 * the thread, and the bits of its order.
 */
const local = {
  offset: 0,
  place: 1,
  thread: 2,
  order: 3,
  /** The clocks of the block. */
  clocks: 4,
  /** The number of the thread in its block. */
  inBlock: 5,
  /** The entry of the access's page: where its cells are, and the binary logarithm of the bytes of a cell. */
  entry: 6,
  /** The cell of some bytes of the access, and the end of its cells. */
  cell: 7,
  end: 8,
  /** The number of the block's first thread in the launch. */
  base: 9,
  /** The thread's epoch, and the thread as cells name it: by one more than its number. */
  epoch: 10,
  own: 11,
  /** A thread that a cell names, an index in the lists of accesses, or an entry of the table of signals. */
  other: 12,
  /** A node of a list, and before there is one, the binary logarithm of the bytes of a cell. */
  node: 13,
  shift: 13,
  /** The nodes that were compared, and while a list is removed, the next node and its last one. */
  count: 14,
  next: 14,
  last: 15,
} as const;

const warpShift = 5;

/** Writes the parts of `compareAccess` that its steps have in common. */
class ComparisonWriter extends CheckWriter {
  /** Leaves the access to `device.orderedAccess`, and returns. */
  leaveAccess(): this {
    return this.leave("orderedAccess", [local.offset, local.place, local.thread, local.order]);
  }

  /** Pops a condition. If it holds, the access is not usual: leaves it. */
  leaveIf(): this {
    return this.ifUnlikely().leaveAccess().end();
  }

  /** Pushes a field of the cell. */
  cellField(name: keyof typeof cellField): this {
    return this.load(local.cell, cellField[name] * 4);
  }

  setCellField(name: keyof typeof cellField, push: () => unknown): this {
    this.get(local.cell);
    push();
    return this.memory("i32Store", cellField[name] * 4);
  }

  /** Pushes the thread's number in the launch. */
  ownNumber(): this {
    return this.get(local.own).i32(1).ops("i32Sub");
  }

  ownWarp(): this {
    return this.ownNumber().i32(warpShift).ops("i32ShrU");
  }

  /** Pushes the bit of the thread among the lanes of its warp. */
  ownLane(): this {
    return this.i32(1).ownNumber().ops("i32Shl");
  }

  /** Pops the number of a thread in the launch, and pushes whether it is of another block. */
  isOfOtherBlock(): this {
    return this.get(local.base).ops("i32Sub").load(local.clocks, clockLayout.threads).ops("i32GeU");
  }

  /** Sets the node. Pushes its index by `push`. Leaves if the lists are not in linear memory. */
  setNode(push: () => unknown): this {
    this.state("nodes").tee(local.node).ops("i32Eqz").leaveIf();
    this.get(local.node);
    push();
    return this.i32(wordShift).ops("i32Shl", "i32Add").set(local.node);
  }

  /** Pushes a field of the node. */
  nodeField(name: keyof typeof nodeField): this {
    return this.load(local.node, nodeField[name] * 4);
  }

  setNodeField(name: keyof typeof nodeField, push: () => unknown): this {
    this.get(local.node);
    push();
    return this.memory("i32Store", nodeField[name] * 4);
  }

  /** Pushes whether the node is of the thread's warp at the thread's epoch. */
  isOwnNode(): this {
    this.nodeField("warp").ownWarp().ops("i32Eq");
    return this.nodeField("epoch").get(local.epoch).ops("i32Eq", "i32And");
  }

  /** Adds the thread to the lanes of the node. */
  addOwnLane(): this {
    return this.setNodeField("lanes", () => this.nodeField("lanes").ownLane().ops("i32Or"));
  }

  /** Pushes the number of the first thread of the node's warp. */
  nodeThread(): this {
    return this.nodeField("warp").i32(warpShift).ops("i32Shl");
  }
}

/**
 * Compares an access with those before it, to find races. Takes the offset in linear memory, the place, the thread and
 * the bits of its order, as `device.orderedAccess` does.
 *
 * Each cell has the last weak write of its bytes and who has read them since. An access that comes after these by the
 * block's barriers is entered in the cell; all others are left to `device.orderedAccess`.
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

/** Sets the clocks and the number of the thread in its block. Leaves if the clocks are not those of the block. */
function findThread(code: ComparisonWriter): void {
  const { place, thread, order, clocks, inBlock, entry } = local;
  code.state("races").table(entry, "orderedAccess", [local.offset, place, thread, order]);
  code.bits(order, orderBits.asynchronous | orderBits.phased).state("isBusy").ops("i32Or").leaveIf();
  code.state("clocks").tee(clocks).ops("i32Eqz").leaveIf();
  code.bits(place, isIndexBit).if();
  for (const axis of ["blockX", "blockY", "blockZ"] as const) {
    code.launch(axis).state(axis).ops("i32Xor");
    if (axis !== "blockX") code.ops("i32Or");
  }
  code.leaveIf().end();
  code.row(place).get(thread).ops("i32Add").set(inBlock);
}

/** Sets the locals for the cells of the access and for the thread. Returns if the memory has no cells. */
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
  // An access of fewer bytes than a cell is not usual.
  code.i32(1).get(place).i32(placeBytesShift).ops("i32ShrU", "i32Shl").get(shift).ops("i32ShrU");
  code.tee(end).ops("i32Eqz").leaveIf();
  code.get(cell).get(end).i32(cellShift + 2).ops("i32Shl", "i32Add").set(end);
  code.load(clocks, clockLayout.base).tee(base).get(inBlock).ops("i32Add").i32(1).ops("i32Add").set(own);
  code.get(clocks).get(inBlock).i32(2).ops("i32Shl", "i32Add").memory("i32Load", clockLayout.epochs).set(epoch);
}

/** Compares a strong access with the cell: it races with weak ones only. Branches to `done`. */
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
    // No more are recorded. Each is compared with one of those before it.
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

/** Leaves if a strong access to global memory may be the block's first signal to another block. */
function leaveSignal(code: ComparisonWriter): void {
  const { offset, other, base } = local;
  code.get(offset).state("sharedBegin").ops("i32Sub").state("sharedBytes").ops("i32GeU");
  code.state("knowsSignals").ops("i32Eqz", "i32And").if();
  code.get(offset).i32(2).ops("i32ShrU").i32(signalTable.entries - 1).ops("i32And").i32(signalTable.entryBytes);
  code.ops("i32Mul").tee(other).memory("i32Load", checkStateBegin + checkState.signals).get(offset).ops("i32Ne");
  code.load(other, checkStateBegin + checkState.signals + 4).get(base).i32(1).ops("i32Add", "i32Ne", "i32Or");
  code.leaveIf().end();
}

/** Leaves unless the last weak write comes before this access. */
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
 * Pushes whether what `other` did comes before this access: it did it before the last barrier of the block or, if it is of
 * the same warp, of the warp. Sets `other` to its number in the block.
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

/** Compares a weak read with the cell, and enters it. Branches to `done`. */
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
      // The reader of the cell may still read: this one is another.
      code.cellField("readers").i32(0).ops("i32LtS").branchIf(done);
      // A reader of another block is rarer.
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

/** Adds the thread to a node of other readers that is of its warp and epoch, and branches to `done` if there is one. */
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
  // Leaves a long list, and one that has readers of other blocks or before the last barrier of this one.
  code.get(count).i32(1).ops("i32Add").tee(count).i32(mostNodes).ops("i32GeS");
  code.nodeThread().isOfOtherBlock();
  code.nodeField("epoch").load(clocks, clockLayout.blockTime).ops("i32LtS", "i32Or");
  code.ops("i32Or").leaveIf();
  code.nodeField("next").set(other).branch(nextNode);
  code.end().end();
}

/** Adds a node with the thread in front of the other readers: a free one, or one that was never in use. */
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

/** Compares a weak write with the cell, and enters it in place of all readers. */
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

/** Removes all other readers: their nodes become the first free ones. Leaves if some of them may still read. */
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
