/**
 * Which bits of products of matrices are uninitialized, for the check `initialization`.
 *
 * An element of D is uninitialized if any bit of its row of A, its column of B, or its element of C is.
 *
 * @module
 */
import { loopOverLanes } from "./fragments.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { workspace } from "./workspace.ts";

/** The layout of a product's fragments. */
export interface ShadowLayout {
  readonly m: number;
  readonly n: number;
  /** The number of words of the fragments of A and B, and of the metadata of a sparse A. */
  readonly words: Readonly<Record<"a" | "b" | "metadata", number>>;
  /** The size of an element of C and D, in bits. */
  readonly bits: Readonly<Record<"c" | "d", 16 | 32 | 64>>;
  /** Whether each quad pair computes a product of its own. */
  readonly isOfQuads: boolean;
}

/** The bytes for rows of A are before those for columns of B. */
const mostRows = 32;

/**
 * Returns a function that computes the shadow of D. Its parameters are the workspace, and the offsets of the fragments
 * of A, B, C and D and of the metadata.
 */
export function shadowFunction(functions: KernelFunctions, layout: ShadowLayout): number {
  return functions.indexOf(`shadow ${JSON.stringify(layout)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32"]);
    const [space, a, b, c, d, metadata] = [0, 1, 2, 3, 4, 5] as const;
    const { code } = f;
    if (layout.isOfQuads) {
      const index = functions.indexOf(`shadow of quads ${JSON.stringify(layout)}`, () => writeShadowsOfQuads(layout));
      code.get(space).get(a).get(b).get(c).get(d).call(index);
      return f.finish();
    }
    code.get(space).i32(workspace.uninitialized).ops("i32Add").i32(0).i32(2 * mostRows).memoryFill();
    const perRegister = layout.bits.c === 64 ? 2 : 1;
    for (const [operand, offset] of [["a", a], ["b", b], ["metadata", metadata]] as const) {
      const words = layout.words[operand];
      if (words === 0) continue;
      const marking: Marking = { operand, words, blocks: (operand === "b" ? layout.n : layout.m) / 8, perRegister };
      const index = functions.indexOf(`mark ${JSON.stringify(marking)}`, () => writeMarking(marking));
      code.get(space).get(offset).call(index);
    }
    code.get(space).get(c).get(d).call(
      functions.indexOf(`spread ${JSON.stringify(layout)}`, () => writeShadows(layout)),
    );
    return f.finish();
  });
}

/** The fragments whose uninitialized bits are marked. */
interface Marking {
  readonly operand: "a" | "b" | "metadata";
  readonly words: number;
  /** The number of groups of eight rows or columns. */
  readonly blocks: number;
  /** The number of words of a register. */
  readonly perRegister: number;
}

/** Writes a function that marks the rows of A or the columns of B that have uninitialized bits, or such metadata. */
function writeMarking({ operand, words, blocks, perRegister }: Marking): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32"]);
  const { code } = f;
  const begin = workspace.uninitialized + (operand === "b" ? mostRows : 0);
  loopOverLanes(f, ({ fragment, group }) => {
    for (let word = 0; word < words; word++) {
      code.get(fragment).memory("i32Load", 4 * word + shadowOffset).if();
      const block = Math.floor(word / perRegister) % blocks;
      for (const marked of operand === "metadata" ? Array(blocks).keys() : [block]) {
        code.get(0).get(group).ops("i32Add").i32(1).memory("i32Store8", begin + 8 * marked);
      }
      code.end();
    }
  });
  return f.finish();
}

/** Writes a function that marks all results of a quad pair as uninitialized if any of its operands is. */
function writeShadowsOfQuads({ words, bits }: ShadowLayout): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32"]);
  const [space, a, b, c, d] = [0, 1, 2, 3, 4] as const;
  const { code } = f;
  const fragment = f.local(), quad = f.local(), shadow = f.local();
  code.get(space).i64(0n).memory("i64Store", workspace.uninitialized);
  code.get(space).i64(0n).memory("i64Store", workspace.uninitialized + 8);
  const forLanes = (body: () => void) => {
    f.loop(32, (lane) => {
      code.get(space).get(lane).i32(2).ops("i32Shl", "i32Add").memory("i32Load", workspace.lanes).set(fragment);
      code.get(space).get(lane).i32(12).ops("i32And", "i32Add").set(quad);
      body();
    });
  };
  const wordsOf = (format: 16 | 32 | 64) => format === 16 ? 4 : 8;
  forLanes(() => {
    code.get(quad).get(quad).memory("i32Load", workspace.uninitialized);
    for (const [offset, count] of [[a, words.a], [b, words.b], [c, wordsOf(bits.c)]] as const) {
      for (let word = 0; word < count; word++) {
        code.get(fragment).get(offset).ops("i32Add").memory("i32Load", 4 * word + shadowOffset).ops("i32Or");
      }
    }
    code.memory("i32Store", workspace.uninitialized);
  });
  forLanes(() => {
    code.i32(0).get(quad).memory("i32Load", workspace.uninitialized).i32(0).ops("i32Ne", "i32Sub").set(shadow);
    for (let word = 0; word < wordsOf(bits.d); word++) {
      code.get(fragment).get(d).ops("i32Add").get(shadow).memory("i32Store", 4 * word + shadowOffset);
    }
  });
  return f.finish();
}

/** Writes a function that computes the shadow of D from the marks and from the shadow of C. */
function writeShadows({ m, n, bits }: ShadowLayout): FunctionDefinition {
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
