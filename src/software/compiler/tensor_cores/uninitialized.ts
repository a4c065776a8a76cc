/**
 * Which bits of products of matrices are uninitialized, for the check `initialization`.
 *
 * An element of D is uninitialized if any bit of its row of A, its column of B, or its element of C is.
 *
 * @module
 */
import { loopOverLanes } from "./fragments.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import { FunctionWriter, type WarpFunctions } from "./warp_functions.ts";
import { workspace } from "./workspace.ts";

/** The layout of a product's fragments. */
export interface ShadowLayout {
  readonly m: number;
  readonly n: number;
  /** The number of registers of A and B. */
  readonly words: Readonly<Record<"a" | "b", number>>;
  /** The size of an element of C and D, in bits. */
  readonly bits: Readonly<Record<"c" | "d", 16 | 32 | 64>>;
}

/** The bytes for rows of A are before those for columns of B. */
const mostRows = 32;

/**
 * Returns a function that computes the shadow of D. Its parameters are the workspace, and the offsets of the fragments
 * of A, B, C and D.
 */
export function shadowFunction(functions: WarpFunctions, layout: ShadowLayout): number {
  return functions.indexOf(`shadow ${JSON.stringify(layout)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32"]);
    const [space, a, b, c, d] = [0, 1, 2, 3, 4] as const;
    const { code } = f;
    code.get(space).i32(workspace.uninitialized).ops("i32Add").i32(0).i32(2 * mostRows).memoryFill();
    for (const [operand, offset] of [["a", a], ["b", b]] as const) {
      const words = layout.words[operand];
      const blocks = (operand === "a" ? layout.m : layout.n) / 8;
      const name = `mark ${operand} ${words} ${blocks}`;
      code.get(space).get(offset).call(functions.indexOf(name, () => writeMarking({ operand, words, blocks })));
    }
    code.get(space).get(c).get(d).call(
      functions.indexOf(`spread ${JSON.stringify(layout)}`, () => writeShadows(layout)),
    );
    return f.finish();
  });
}

/** Writes a function that marks the rows of A or the columns of B that have uninitialized bits. */
function writeMarking(
  { operand, words, blocks }: { operand: "a" | "b"; words: number; blocks: number },
): ReturnType<FunctionWriter["finish"]> {
  const f = new FunctionWriter(["i32", "i32"]);
  const { code } = f;
  const begin = workspace.uninitialized + (operand === "a" ? 0 : mostRows);
  loopOverLanes(f, ({ fragment, group }) => {
    for (let word = 0; word < words; word++) {
      code.get(fragment).memory("i32Load", 4 * word + shadowOffset).if();
      code.get(0).get(group).ops("i32Add").i32(1).memory("i32Store8", begin + 8 * (word % blocks)).end();
    }
  });
  return f.finish();
}

/** Writes a function that computes the shadow of D from the marks and from the shadow of C. */
function writeShadows({ m, n, bits }: ShadowLayout): ReturnType<FunctionWriter["finish"]> {
  const f = new FunctionWriter(["i32", "i32", "i32"]);
  const { code } = f;
  const difference = 2;
  const row = f.local(), column = f.local(), target = f.local();
  const shadows = [f.local(), f.local()];
  code.get(2).get(1).ops("i32Sub").set(difference);
  loopOverLanes(f, ({ fragment, group, member }) => {
    code.get(fragment).get(difference).ops("i32Add").set(target);
    code.get(0).get(group).ops("i32Add").set(row);
    code.get(0).get(member).i32(1).ops("i32Shl", "i32Add").set(column);
    for (let firstColumn = 0, pair = 0; firstColumn < n; firstColumn += 8) {
      for (let firstRow = 0; firstRow < m; firstRow += 8, pair++) {
        const isMarked = (element: number) => {
          code.get(row).memory("i32Load8U", workspace.uninitialized + firstRow);
          code.get(column).memory("i32Load8U", workspace.uninitialized + mostRows + firstColumn + element);
          code.ops("i32Or").get(fragment);
          const at = (2 * pair + element) * bits.c / 8 + shadowOffset;
          if (bits.c === 16) code.memory("i32Load16U", at);
          else if (bits.c === 32) code.memory("i32Load", at);
          else code.memory("i64Load", at).i64(0n).ops("i64Ne");
          code.ops("i32Or").i32(0).ops("i32Ne");
        };
        // C and D may be in the same place.
        shadows.forEach((local, element) => {
          isMarked(element);
          code.set(local);
        });
        shadows.forEach((local, element) => {
          const at = (2 * pair + element) * bits.d / 8 + shadowOffset;
          code.get(target).i32(0).get(local).ops("i32Sub");
          if (bits.d === 16) code.memory("i32Store16", at);
          else if (bits.d === 32) code.memory("i32Store", at);
          else code.ops("i64ExtendI32S").memory("i64Store", at);
        });
      }
    }
  });
  return f.finish();
}
