/**
 * The helper by which compiled kernels record their accesses in the common cases, and code that it shares with the
 * detection of races. Uncommon cases are handled outside of WebAssembly.
 *
 * @module
 */
import { lineBits, placeBytesShift } from "../../abi/addresses.ts";
import {
  checkState,
  checkStateBegin,
  checkTable,
  entryFlags,
  note,
  tableOff,
  tableOutside,
} from "../../abi/check_state.ts";
import { type LaunchField, launchFieldOffset, launchRecordBegin } from "../../abi/launch_record.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { ValueType } from "../webassembly/opcodes.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";
import { type HostFunctionName, hostIndex } from "../../abi/host_functions.ts";

/** The name of the helper that records accesses. */
export type CheckHelper = "noteAccess";

/** Maps the name of the helper to its builder. */
export const checkHelpers: Readonly<Record<CheckHelper, HelperBuilder>> = { noteAccess };

/** In an encoded source location (`encodePlace`), the code of a read. */
export const readOperation = 1;
/** In an encoded source location, the code of a write. */
export const writeOperation = 2;
const operationMask = 3;
/** A bit of an encoded source location. If set, the thread is identified by its x index. */
export const isIndexBit: number = 1 << 27;
/** The binary logarithm of the size in bytes of a word, the unit in which accesses are recorded. */
export const wordShift = 2;

/**
 * The target of a branch, a block or loop, given by its nesting depth: the number of open blocks, loops and `if`s up to
 * and including the target.
 */
export type BranchTarget = number;

/** A code writer with methods for code that several of the checking helpers need. */
export class CheckWriter extends CodeWriter {
  #depth = 0;

  override block(): this {
    this.#depth++;
    return super.block();
  }

  override loop(): this {
    this.#depth++;
    return super.loop();
  }

  override if(result?: ValueType): this {
    this.#depth++;
    return super.if(result);
  }

  override end(): this {
    this.#depth--;
    return super.end();
  }

  /** The innermost open block, loop or `if`. */
  get target(): BranchTarget {
    return this.#depth;
  }

  /** Emits a branch to the end of a block, or to the start of a loop. */
  branch(target: BranchTarget): this {
    return this.br(this.#depth - target);
  }

  /** Emits a branch to `target` that pops a condition and is taken if it is true. */
  branchIf(target: BranchTarget): this {
    return this.brIf(this.#depth - target);
  }

  /** Emits code that pushes a field of the check state. */
  state(field: keyof typeof checkState): this {
    return this.i32(0).memory("i32Load", checkStateBegin + checkState[field]);
  }

  /** Emits code that pushes a field of the launch record. */
  launch(field: LaunchField): this {
    return this.i32(0).memory("i32Load", launchRecordBegin + launchFieldOffset(field));
  }

  /** Emits code that pushes a field of the record that a local points to. */
  load(local: number, offset: number): this {
    return this.get(local).memory("i32Load", offset);
  }

  /** Emits code that pushes the bitwise AND of a local and `mask`. */
  bits(local: number, mask: number): this {
    return this.get(local).i32(mask).ops("i32And");
  }

  /** Emits code that pushes the operation (read, write or atomic) in an encoded source location. */
  operation(place: number): this {
    return this.get(place).i32(lineBits).ops("i32ShrU").i32(operationMask).ops("i32And");
  }

  /**
   * Emits code that pushes the number of threads in the rows of the block before the current row. Pushes 0 if the
   * encoded source location does not identify the thread by its x index.
   */
  row(place: number): this {
    this.bits(place, isIndexBit).if("i32");
    this.launch("rowY").state("threadsX").ops("i32Mul").launch("rowZ").state("threadsXY").ops("i32Mul", "i32Add");
    return this.else().i32(0).end();
  }

  /**
   * Emits code that calls a host function, which checks the access outside of WebAssembly, and then returns from the
   * helper.
   */
  leave(name: HostFunctionName, parameters: readonly number[]): this {
    for (const parameter of parameters) this.get(parameter);
    return this.call(hostIndex(name)).ops("return");
  }

  /**
   * Emits code that pops the offset of a table into the local `table`. If the table is disabled, the emitted code
   * returns from the helper. If the table is kept outside of WebAssembly, the emitted code calls the host function
   * `name` and then returns.
   */
  table(table: number, name: HostFunctionName, parameters: readonly number[]): this {
    this.tee(table).i32(tableOutside).ops("i32LeU").ifUnlikely();
    this.get(table).i32(tableOff).ops("i32Eq").if().ops("return").end();
    return this.leave(name, parameters).end();
  }
}

/**
 * Builds the helper that records the first access to each word. The helper's parameters are those of `device.access`:
 * the offset in linear memory, the encoded source location and the thread.
 */
function noteAccess(): HelperFunction {
  const [offset, place, thread] = [0, 1, 2] as const;
  const [cell, end, bytes, noted, before, whole] = [3, 4, 5, 6, 7, 8] as const;
  const parameters = [offset, place, thread];
  const code = new CheckWriter();
  code.state("notes").table(cell, "access", parameters);
  // Load the page table's entry.
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
  // Push the mask of the accessed bytes of the first word.
  code.get(bytes).i32(4).ops("i32GeU").if("i32").i32(15);
  code.else().i32(1).get(bytes).ops("i32Shl").i32(1).ops("i32Sub").bits(offset, 3).ops("i32Shl").end();
  code.set(noted);
  code.get(cell).get(bytes).i32(3).ops("i32Add").i32(wordShift).ops("i32ShrU");
  code.i32(wordShift + note.wordsShift).ops("i32Shl", "i32Add").set(end);
  code.loop();
  const nextWord = code.target;
  code.load(cell, 0).tee(before).get(noted).ops("i32And").get(noted).ops("i32Ne").if();
  {
    code.get(before).ops("i32Eqz").if();
    {
      // Store the number of the thread in the grid.
      code.get(cell);
      code.launch("blockX").launch("gridX").launch("blockY").launch("gridY").launch("blockZ");
      code.ops("i32Mul", "i32Add", "i32Mul", "i32Add").state("threadsXYZ").ops("i32Mul");
      code.row(place).ops("i32Add").get(thread).ops("i32Add").memory("i32Store", 4);
    }
    code.else();
    {
      // If another source line has already accessed bytes of this word, which is uncommon, the host records the access.
      code.get(before).i32(note.lineShift).ops("i32ShrU").get(whole).i32(note.lineShift).ops("i32ShrU", "i32Ne");
      code.ifUnlikely().leave("access", parameters).end();
    }
    code.end();
    code.get(cell).get(before).get(noted).ops("i32Or").get(whole).ops("i32Or").memory("i32Store");
  }
  code.end();
  code.get(cell).i32(4 << note.wordsShift).ops("i32Add").tee(cell).get(end).ops("i32LtU").branchIf(nextWord).end();
  return {
    type: { parameters: ["i32", "i32", "i32"], results: [] },
    locals: ["i32", "i32", "i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}
