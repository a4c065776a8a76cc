/**
 * Loads of matrices of 8 x 8 16-bit elements, of which the lanes of a warp name the rows. PTX ISA, section 9.7.14.5.15.
 *
 * @module
 */
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import { workspace } from "./workspace.ts";

/** A load of one, two or four matrices. */
export interface MatrixLoad {
  readonly matrices: number;
  readonly isTransposed: boolean;
}

/**
 * Returns a function that loads the fragments of all lanes. Its parameters are the workspace, and the offsets in a
 * lane's memory for fragments of the row that it names and of its fragments. A row whose offset is 0 has elements of 0.
 *
 * @param options `distance` is added to the offsets of rows and of fragments
 */
export function matrixLoad(
  functions: KernelFunctions,
  { matrices, isTransposed, distance }: MatrixLoad & { readonly distance: number },
): number {
  return functions.indexOf(`load ${matrices} ${isTransposed} ${distance}`, () => {
    const [space, row, at] = [0, 1, 2] as const;
    const f = new FunctionWriter(["i32", "i32", "i32"]);
    const { code } = f;
    const lanes = f.local(), place = f.local();
    const rows = Array.from({ length: 8 }, () => f.local("v128"));
    code.get(space).set(lanes).get(at).set(place);
    // The lanes that name the rows of a matrix follow those of the matrix before it.
    f.loop(matrices, () => {
      loadRows(f, rows, { lanes, row, distance });
      if (isTransposed) transpose(f, rows);
      rows.forEach((local, index) => {
        for (let member = 0; member < 4; member++) {
          code.get(space).memory("i32Load", workspace.lanes + 4 * (4 * index + member)).get(place).ops("i32Add");
          code.get(local).storeLane("v128Store32Lane", member, distance);
        }
      });
      code.get(lanes).i32(32).ops("i32Add").set(lanes);
      code.get(place).i32(4).ops("i32Add").set(place);
    });
    return f.finish();
  });
}

/**
 * Writes code that loads the rows of a matrix, which eight lanes name. The local `lanes` has the workspace plus four
 * times the number of the first lane, and `row` the offset in a lane's memory for fragments.
 */
export function loadRows(
  f: FunctionWriter,
  rows: readonly number[],
  { lanes, row, distance }: { readonly lanes: number; readonly row: number; readonly distance: number },
): void {
  const { code } = f;
  const place = f.local();
  rows.forEach((local, index) => {
    code.get(lanes).memory("i32Load", workspace.lanes + 4 * index).get(row).ops("i32Add").memory("i32Load").set(place);
    code.get(place).v128Load(distance).set(local);
    // The page at offset 0 is not empty.
    code.get(place).ops("i32Eqz").ifUnlikely().i32x4([0, 0, 0, 0]).set(local).end();
  });
}

/** Writes code that transposes a matrix: its rows are eight vectors. */
export function transpose(f: FunctionWriter, rows: readonly number[]): void {
  const { code } = f;
  // In each step, the vectors i and i + 4 are interleaved, which rotates the bits of an element's row and column.
  for (let step = 0; step < 3; step++) {
    const before = rows.map((row) => {
      const copy = f.local("v128");
      code.get(row).set(copy);
      return copy;
    });
    for (let index = 0; index < 4; index++) {
      for (const half of [0, 1]) {
        const bytes = Array.from({ length: 16 }, (_, byte) => {
          const element = 4 * half + (byte >> 2);
          return (byte & 2 ? 16 : 0) + 2 * element + (byte & 1);
        });
        code.get(before[index]!).get(before[index + 4]!).i8x16Shuffle(bytes).set(rows[2 * index + half]!);
      }
    }
  }
}
