/**
 * Functions with which compiled kernels note their accesses for the checks: what is usual. The rest is looked at outside
 * of WebAssembly.
 *
 * @module
 */
import { lineBits, placeBytesShift } from "../../abi/addresses.ts";
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
  note,
  orderBits,
  orderCountShift,
  pendingEpoch,
  signalTable,
  tableOff,
  tableOutside,
} from "../../abi/check_state.ts";
import { type LaunchField, launchFieldOffset, launchRecordBegin } from "../../abi/launch_record.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";
import { type HostFunctionName, hostIndex } from "../../abi/host_functions.ts";

/** The names of these functions. */
export type CheckHelper = "noteAccess" | "compareAccess";

/** These functions, by name. */
export const checkHelpers: Readonly<Record<CheckHelper, HelperBuilder>> = { noteAccess, compareAccess };

const [readOperation, writeOperation] = [1, 2] as const;
const operationMask = 3;
const isIndexBit = 1 << 27;
const wordShift = 2;

/** Writes code that several functions have. */
class CheckWriter extends CodeWriter {
  state(field: keyof typeof checkState): this {
    return this.i32(0).memory("i32Load", checkStateBegin + checkState[field]);
  }

  launch(field: LaunchField): this {
    return this.i32(0).memory("i32Load", launchRecordBegin + launchFieldOffset(field));
  }

  /** Pushes a field of what a local points to. */
  load(local: number, offset: number): this {
    return this.get(local).memory("i32Load", offset);
  }

  bits(local: number, mask: number): this {
    return this.get(local).i32(mask).ops("i32And");
  }

  operation(place: number): this {
    return this.get(place).i32(lineBits).ops("i32ShrU").i32(operationMask).ops("i32And");
  }

  /** Pushes how many threads of the block come before the row of a thread that is given by its index in x. */
  row(place: number): this {
    this.bits(place, isIndexBit).if("i32");
    this.launch("rowY").state("threadsX").ops("i32Mul").launch("rowZ").state("threadsXY").ops("i32Mul", "i32Add");
    return this.else().i32(0).end();
  }

  /** Looks at the access outside of WebAssembly, and returns. */
  leave(name: HostFunctionName, parameters: readonly number[]): this {
    for (const parameter of parameters) this.get(parameter);
    return this.call(hostIndex(name)).ops("return");
  }

  /** Pops a table, and sets a local to it. Returns unless there is one. */
  table(table: number, name: HostFunctionName, parameters: readonly number[]): this {
    this.tee(table).i32(tableOutside).ops("i32LeU").ifUnlikely();
    this.get(table).i32(tableOff).ops("i32Eq").if().ops("return").end();
    return this.leave(name, parameters).end();
  }
}

/**
 * Notes the first access to each word. Takes the offset in linear memory, the place and the thread, as `device.access`
 * does.
 */
function noteAccess(): HelperFunction {
  const [offset, place, thread] = [0, 1, 2] as const;
  const [cell, end, bytes, noted, before, whole] = [3, 4, 5, 6, 7, 8] as const;
  const parameters = [offset, place, thread];
  const code = new CheckWriter();
  code.state("notes").table(cell, "access", parameters);
  // The entry of the page.
  code.get(cell).operation(place).i32(1).ops("i32Sub").i32(Math.log2(checkTable.byteLength)).ops("i32Shl", "i32Add");
  code.get(offset).i32(checkTable.pageShift).ops("i32ShrU").i32(2).ops("i32Shl", "i32Add").memory("i32Load");
  code.tee(cell).i32(entryFlags).ops("i32LeU").ifUnlikely();
  code.get(cell).i32(checkTable.ignored).ops("i32Eq").if().ops("return").end();
  code.leave("access", parameters).end();
  const inPage = (1 << checkTable.pageShift) - 4;
  code.get(cell).i32(entryFlags).i32(-1).ops("i32Xor", "i32And");
  code.bits(offset, inPage).i32(note.wordsShift).ops("i32Shl", "i32Add").set(cell);
  code.i32(1).get(place).i32(placeBytesShift).ops("i32ShrU", "i32Shl").set(bytes);
  code.bits(place, (1 << lineBits) - 1).i32(note.lineShift).ops("i32Shl").set(whole);
  // The bits of the bytes of the first word.
  code.get(bytes).i32(4).ops("i32GeU").if("i32").i32(15);
  code.else().i32(1).get(bytes).ops("i32Shl").i32(1).ops("i32Sub").bits(offset, 3).ops("i32Shl").end();
  code.set(noted);
  code.get(cell).get(bytes).i32(3).ops("i32Add").i32(wordShift).ops("i32ShrU");
  code.i32(wordShift + note.wordsShift).ops("i32Shl", "i32Add").set(end);
  code.loop();
  code.load(cell, 0).tee(before).get(noted).ops("i32And").get(noted).ops("i32Ne").if();
  {
    code.get(before).ops("i32Eqz").if();
    {
      // The number of the thread in the grid.
      code.get(cell);
      code.launch("blockX").launch("gridX").launch("blockY").launch("gridY").launch("blockZ");
      code.ops("i32Mul", "i32Add", "i32Mul", "i32Add").state("threadsXYZ").ops("i32Mul");
      code.row(place).ops("i32Add").get(thread).ops("i32Add").memory("i32Store", 4);
    }
    code.else();
    {
      // Other lines have accessed other bytes.
      code.get(before).i32(note.lineShift).ops("i32ShrU").get(whole).i32(note.lineShift).ops("i32ShrU", "i32Ne");
      code.ifUnlikely().leave("access", parameters).end();
    }
    code.end();
    code.get(cell).get(before).get(noted).ops("i32Or").get(whole).ops("i32Or").memory("i32Store");
  }
  code.end();
  code.get(cell).i32(4 << note.wordsShift).ops("i32Add").tee(cell).get(end).ops("i32LtU").brIf(0).end();
  return {
    type: { parameters: ["i32", "i32", "i32"], results: [] },
    locals: ["i32", "i32", "i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}

/**
 * Compares an access with those before it, to find races. Takes the offset in linear memory, the place, the thread and
 * the bits of its order, as `device.orderedAccess` does.
 */
function compareAccess(): HelperFunction {
  const [offset, place, thread, order] = [0, 1, 2, 3] as const;
  const [clocks, local, entry, cell, end, base, epoch, own, other, node] = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13] as const;
  const [count, last] = [14, 15] as const;
  const parameters = [offset, place, thread, order];
  const code = new CheckWriter();
  const leave = () => code.leave("orderedAccess", parameters);
  /** Pops a condition. If it holds, the access is not usual. */
  const leaveIf = () => {
    code.ifUnlikely();
    leave().end();
  };
  const field = (name: keyof typeof cellField) => code.load(cell, cellField[name] * 4);
  const setField = (name: keyof typeof cellField, push: () => unknown) => {
    code.get(cell);
    push();
    code.memory("i32Store", cellField[name] * 4);
  };
  /** Pushes whether what `other` did comes before this, because of the last barriers of the block or the warp. */
  const pushIsOrdered = (name: "readEpoch" | "writeEpoch") => {
    code.get(other).i32(1).ops("i32Sub").get(base).ops("i32Sub").tee(other);
    code.load(clocks, clockLayout.threads).ops("i32LtU");
    field(name).load(clocks, clockLayout.blockTime).ops("i32LtS");
    code.get(other).i32(5).ops("i32ShrU").get(local).i32(5).ops("i32ShrU", "i32Eq");
    field(name).get(clocks).get(local).i32(5).ops("i32ShrU").i32(2).ops("i32Shl", "i32Add");
    code.memory("i32Load", clockLayout.warpTimes).ops("i32LtS", "i32And", "i32Or", "i32And");
  };
  /** Leaves unless the last weak write comes before this access. */
  const compareWithWriter = () => {
    field("writer").tee(other).if();
    {
      code.bits(order, orderBits.notCoherent);
      leaveIf();
      code.get(other).get(own).ops("i32Eq");
      field("writeEpoch").i32(pendingEpoch).ops("i32Ne", "i32And", "i32Eqz").if();
      pushIsOrdered("writeEpoch");
      code.ops("i32Eqz");
      leaveIf();
      code.end();
    }
    code.end();
  };
  /** Sets the node at an offset in the lists. */
  const setNode = (push: () => unknown) => {
    code.state("nodes").tee(node).ops("i32Eqz");
    leaveIf();
    code.get(node);
    push();
    code.i32(2).ops("i32Shl", "i32Add").set(node);
  };
  const nodeFieldOf = (name: keyof typeof nodeField) => code.load(node, nodeField[name] * 4);
  const pushWarp = () => code.get(own).i32(1).ops("i32Sub").i32(5).ops("i32ShrU");
  const pushIsOfNode = () => {
    nodeFieldOf("warp");
    pushWarp().ops("i32Eq");
    nodeFieldOf("epoch").get(epoch).ops("i32Eq", "i32And");
  };
  const addLane = () => {
    code.get(node);
    nodeFieldOf("lanes").i32(1).get(own).i32(1).ops("i32Sub", "i32Shl", "i32Or");
    code.memory("i32Store", nodeField.lanes * 4);
  };

  /** Pushes whether the accesses of a node are not of the block, or come before its last barrier. */
  const pushIsNodeOrdered = () => {
    nodeFieldOf("warp").i32(5).ops("i32Shl").get(base).ops("i32Sub").load(clocks, clockLayout.threads).ops("i32GeU");
    nodeFieldOf("epoch").load(clocks, clockLayout.blockTime).ops("i32LtS", "i32Or");
  };
  /** Adds a node with the reader in front of the others. */
  const addReader = () => {
    code.state("nodes").tee(node).ops("i32Eqz");
    leaveIf();
    const list = (name: keyof typeof nodeLists) => code.load(node, nodeLists[name] * 4);
    list("free").tee(other).if();
    code.get(node).get(node).get(other).i32(2).ops("i32Shl", "i32Add").memory("i32Load");
    code.memory("i32Store", nodeLists.free * 4);
    code.else();
    list("end").tee(other).i32(nodeWords).ops("i32Add");
    list("length").ops("i32GtU");
    leaveIf();
    code.get(node).get(other).i32(nodeWords).ops("i32Add").memory("i32Store", nodeLists.end * 4);
    code.end();
    code.get(node).get(other).i32(2).ops("i32Shl", "i32Add").set(node);
    const set = (name: keyof typeof nodeField, push: () => unknown) => {
      code.get(node);
      push();
      code.memory("i32Store", nodeField[name] * 4);
    };
    set("next", () => field("readers"));
    set("warp", pushWarp);
    set("epoch", () => code.get(epoch));
    set("lanes", () => code.i32(1).get(own).i32(1).ops("i32Sub", "i32Shl"));
    set("place", () => code.get(place));
    set("order", () => code.get(order));
    setField("readers", () => code.get(other));
  };
  /** Removes all readers. Leaves if some of them may still read. */
  const removeReaders = () => {
    field("readers").tee(other).if();
    code.get(other).i32(0).ops("i32LtS");
    leaveIf();
    code.get(other).set(last);
    code.loop();
    setNode(() => code.get(last));
    nodeFieldOf("warp").i32(5).ops("i32Shl").get(base).ops("i32Sub").load(clocks, clockLayout.threads).ops("i32GeU");
    nodeFieldOf("epoch").load(clocks, clockLayout.blockTime).ops("i32GeS", "i32Or");
    leaveIf();
    nodeFieldOf("next").tee(count).if().get(count).set(last).br(1).end();
    code.end();
    // All of the list is free.
    code.get(node).state("nodes").memory("i32Load", nodeLists.free * 4).memory("i32Store", nodeField.next * 4);
    code.state("nodes").get(other).memory("i32Store", nodeLists.free * 4);
    setField("readers", () => code.i32(0));
    code.end();
  };

  /** Leaves if a strong access to global memory may be the first of the block that tells another one something. */
  const leaveForSignal = () => {
    code.get(offset).state("sharedBegin").ops("i32Sub").state("sharedBytes").ops("i32GeU");
    code.state("knowsSignals").ops("i32Eqz", "i32And").if();
    code.get(offset).i32(2).ops("i32ShrU").i32(signalTable.entries - 1).ops("i32And").i32(signalTable.entryBytes);
    code.ops("i32Mul").tee(other).memory("i32Load", checkStateBegin + checkState.signals).get(offset).ops("i32Ne");
    code.load(other, checkStateBegin + checkState.signals + 4).get(base).i32(1).ops("i32Add", "i32Ne", "i32Or");
    leaveIf();
    code.end();
  };

  code.state("races").table(entry, "orderedAccess", parameters);
  code.bits(order, orderBits.asynchronous | orderBits.phased).state("isBusy").ops("i32Or");
  leaveIf();
  code.state("clocks").tee(clocks).ops("i32Eqz");
  leaveIf();
  code.bits(place, isIndexBit).if();
  for (const axis of ["blockX", "blockY", "blockZ"] as const) {
    code.launch(axis).state(axis).ops("i32Xor");
    if (axis !== "blockX") code.ops("i32Or");
  }
  leaveIf();
  code.end();
  code.row(place).get(thread).ops("i32Add").set(local);
  // The cells of the page.
  code.get(offset).state("sharedBegin").ops("i32Sub").tee(cell).state("sharedBytes").ops("i32LtU").if();
  code.state("sharedCells").set(entry);
  code.else();
  code.get(entry).get(offset).i32(checkTable.pageShift).ops("i32ShrU").i32(2).ops("i32Shl", "i32Add");
  code.memory("i32Load").set(entry);
  code.bits(offset, (1 << checkTable.pageShift) - 1).set(cell);
  code.end();
  code.get(entry).i32(entryFlags).ops("i32LeU").ifUnlikely();
  code.get(entry).i32(checkTable.ignored).ops("i32Eq").if().ops("return").end();
  leave().end();
  code.bits(entry, entryFlags).set(node);
  code.get(cell).get(node).ops("i32ShrU").i32(cellShift + 2).ops("i32Shl");
  code.bits(entry, ~entryFlags).ops("i32Add").set(cell);
  code.i32(1).get(place).i32(placeBytesShift).ops("i32ShrU", "i32Shl").get(node).ops("i32ShrU").tee(end).ops("i32Eqz");
  leaveIf();
  code.get(cell).get(end).i32(cellShift + 2).ops("i32Shl", "i32Add").set(end);
  code.load(clocks, clockLayout.base).tee(base).get(local).ops("i32Add").i32(1).ops("i32Add").set(own);
  code.get(clocks).get(local).i32(2).ops("i32Shl", "i32Add").memory("i32Load", clockLayout.epochs).set(epoch);

  code.loop();
  code.block();
  code.bits(order, orderBits.strong).if();
  {
    code.state("hasReleases");
    leaveIf();
    leaveForSignal();
    compareWithWriter();
    code.operation(place).i32(readOperation).ops("i32Ne");
    field("reader").i32(0).ops("i32Ne", "i32And");
    leaveIf();
    field("strong").tee(other).ops("i32Eqz");
    leaveIf();
    code.get(other).i32(0).ops("i32LtS").if();
    {
      // No more are noted. Each is compared with one of those before it.
      setNode(() => code.i32(0).get(other).ops("i32Sub"));
      const pushElement = (place: () => unknown, order: () => unknown) => {
        place();
        code.i32(placeBytesShift).ops("i32ShrU");
        order();
        code.i32(orderCountShift).ops("i32ShrS", "i32Sub");
      };
      pushElement(() => nodeFieldOf("place"), () => nodeFieldOf("order"));
      pushElement(() => code.get(place), () => code.get(order));
      code.ops("i32Eq");
      nodeFieldOf("order").get(order).ops("i32And").i32(orderBits.wide).ops("i32And").i32(0).ops("i32Ne", "i32And");
      code.brIf(2);
      leave();
    }
    code.end();
    setNode(() => code.get(other));
    pushIsOfNode();
    nodeFieldOf("place").get(place).ops("i32Eq", "i32And");
    nodeFieldOf("order").get(order).ops("i32Eq", "i32And", "i32Eqz");
    leaveIf();
    addLane();
    code.br(1);
  }
  code.end();
  code.operation(place).i32(readOperation).ops("i32Eq").if();
  {
    field("reader").get(own).ops("i32Eq");
    field("readEpoch").get(epoch).ops("i32Eq", "i32And").brIf(1);
    compareWithWriter();
    field("strong");
    leaveIf();
    field("reader").tee(other).ops("i32Eqz").get(other).get(own).ops("i32Eq", "i32Or", "i32Eqz").if();
    {
      pushIsOrdered("readEpoch");
      code.ops("i32Eqz").if();
      {
        field("readers").i32(0).ops("i32LtS").brIf(3);
        // A reader of another block is rarer.
        code.get(other).load(clocks, clockLayout.threads).ops("i32GeU");
        leaveIf();
        field("readers").set(other);
        code.i32(0).set(count);
        code.block().loop();
        {
          code.get(other).ops("i32Eqz").brIf(1);
          setNode(() => code.get(other));
          pushIsOfNode();
          code.if();
          addLane();
          code.br(6).end();
          code.get(count).i32(1).ops("i32Add").tee(count).i32(mostNodes).ops("i32GeS");
          pushIsNodeOrdered();
          code.ops("i32Or");
          leaveIf();
          nodeFieldOf("next").set(other).br(0);
        }
        code.end().end();
        addReader();
        code.br(3);
      }
      code.end();
    }
    code.end();
    setField("reader", () => code.get(own));
    setField("readEpoch", () => code.get(epoch));
    setField("readPlace", () => code.get(place));
    code.br(1);
  }
  code.end();
  // A weak write.
  code.operation(place).i32(writeOperation).ops("i32Ne");
  field("strong").ops("i32Or");
  leaveIf();
  compareWithWriter();
  field("reader").tee(other).if();
  code.get(other).get(own).ops("i32Ne").if();
  pushIsOrdered("readEpoch");
  code.ops("i32Eqz");
  leaveIf();
  code.end();
  removeReaders();
  code.end();
  setField("reader", () => code.i32(0));
  setField("writer", () => code.get(own));
  setField("writeEpoch", () => code.get(epoch));
  setField("writePlace", () => code.get(place));
  code.end();
  code.get(cell).i32(4 << cellShift).ops("i32Add").tee(cell).get(end).ops("i32LtU").brIf(0).end();
  return {
    type: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
    locals: Array.from({ length: 12 }, () => "i32" as const),
    code: code.finish(),
  };
}
