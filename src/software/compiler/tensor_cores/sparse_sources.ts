/**
 * The metadata of a sparse matrix A: which elements of a row are kept. PTX ISA, section 9.7.14.6.1.
 *
 * @module
 */
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import { workspace } from "./workspace.ts";

/** How the metadata of A's rows is distributed among the lanes. */
export interface SparseLayout {
  /** The number of elements of a row that are kept. */
  readonly kept: number;
  /** The bits of metadata for each unit: 2 for one of four units, or 4 for one of two units. */
  readonly unitBits: 2 | 4;
  /** The number of elements of a unit, which are kept together. */
  readonly unit: 1 | 2;
  /** The last operand, which selects the lanes of each four that have metadata. */
  readonly selector: number;
  /** Which lanes of each four have the metadata of the rows g and g + 8. */
  readonly spread: "one lane" | "two lanes" | "a lane for each row" | "all lanes";
  /** By how much an index is multiplied in the workspace. */
  readonly factor: number;
  /** Whether elements 0 and 1 of each four come first in the workspace, then elements 2 and 3. */
  readonly isSplit: boolean;
}

/**
 * Returns a function that stores, for each kept element of A, the index of the element of the whole row. Its parameters
 * are the workspace and the offset of the metadata in a lane's fragments.
 */
export function sourceReader(functions: KernelFunctions, layout: SparseLayout): number {
  return functions.indexOf(`sources ${JSON.stringify(layout)}`, () => {
    const { kept, unitBits, unit, selector, spread, factor, isSplit } = layout;
    const f = new FunctionWriter(["i32", "i32"]);
    const { code } = f;
    const group = f.local(), row = f.local(), word = f.local(), place = f.local();
    const lanesOfRow = (upper: number): readonly number[] => {
      switch (spread) {
        case "one lane":
          return [selector];
        case "two lanes":
          return [2 * selector, 2 * selector + 1];
        case "a lane for each row":
          return [2 * selector + upper];
        case "all lanes":
          return [upper, 2 + upper];
      }
    };
    const bitsOfRow = kept / unit * unitBits;
    // With 16 bits of a row in a lane, the row g has the lower half of the lane's word, and the row g + 8 the upper one.
    const bitsInLane = bitsOfRow / lanesOfRow(0).length;
    f.loop(8, (counter) => {
      code.get(counter).set(group);
      for (const upper of [0, 1]) {
        code.get(0).get(group).i32(8 * upper).ops("i32Add").i32(2 * kept).ops("i32Mul", "i32Add").set(row);
        lanesOfRow(upper).forEach((lane, part) => {
          code.get(0).get(group).i32(4).ops("i32Shl", "i32Add").memory("i32Load", workspace.lanes + 4 * lane);
          code.get(1).ops("i32Add").memory("i32Load").set(word);
          const begin = bitsInLane === 16 ? 16 * upper : 0;
          for (let index = 0; index < bitsInLane / unitBits; index++) {
            const unitIndex = part * bitsInLane / unitBits + index;
            code.get(word).i32(begin + unitBits * index + (unitBits === 4 ? 3 : 0)).ops("i32ShrU");
            code.i32(unitBits === 4 ? 1 : 3).ops("i32And");
            if (unit > 1) code.i32(unit).ops("i32Mul");
            // Of every four units, two are kept; of every two, one.
            code.i32(unit * (unitBits === 4 ? 2 * unitIndex : 4 * (unitIndex >> 1))).ops("i32Add").set(place);
            for (let element = 0; element < unit; element++) {
              const k = unitIndex * unit + element;
              const at = isSplit ? (k % 4 >> 1) * (kept / 2) + 2 * (k >> 2) + k % 2 : k;
              code.get(row).get(place).i32(element).ops("i32Add").i32(factor).ops("i32Mul");
              code.memory("i32Store16", workspace.sources + 2 * at);
            }
          }
        });
      }
    });
    return f.finish();
  });
}
