/**
 * Products of matrices of a warpgroup: of 64 rows of A and up to 256 columns of B. Each warp computes 16 rows of D, for
 * which it needs no other warp.
 *
 * @module
 */
import type { FloatFormat } from "./formats.ts";
import { fragmentsBegin, preparation } from "./product_batches.ts";
import {
  type ConvertedOperand,
  convertedOperand,
  type MatrixProduct,
  productFunction,
  productShadow,
} from "./matrix_products.ts";
import { columnReader, sharedReader } from "./shared_operands.ts";
import { FunctionWriter, type WarpFunctions } from "./warp_functions.ts";
import { workspace } from "./workspace.ts";

/** A product of a warpgroup, as each of its warps computes it. */
export interface WarpgroupProduct {
  /** The product of 16 rows of A and eight columns of B. */
  readonly part: MatrixProduct;
  /** The number of columns of D. */
  readonly n: number;
  /** Whether A is in shared memory. B always is. */
  readonly isShared: boolean;
  /** The bits of each word of A that are inverted: the signs of its elements, if the product is negated. */
  readonly signs: number;
  /** Whether the elements of A or B are adjacent along M or N. */
  readonly isTransposed: Readonly<Record<"a" | "b", boolean>>;
}

/** The offsets of a product's operands in each thread's memory for fragments, in bytes. */
export const warpgroupPlaces = {
  /** The descriptors of A and B. */
  descriptors: { a: 0, b: 8 },
  a: 16,
  /** The fragment of eight columns of B. */
  b: 32,
  metadata: 48,
  /** The fragment of C and D. */
  accumulator: 64,
} as const;

/** The number of columns of B with which the product is computed at once. */
const partColumns = 8;

/**
 * Returns a function that computes a warp's part of a product. Its parameters are the launch record, the record of a
 * thread of the warp, the number of the thread, the thread's saved registers, and the encoded location of the
 * instruction.
 */
export function warpgroupFunction(
  functions: WarpFunctions,
  product: WarpgroupProduct,
  { hasShadows, checksRaces }: { readonly hasShadows: boolean; readonly checksRaces: boolean },
): number {
  return functions.indexOf(`warpgroup ${JSON.stringify(product)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32"]);
    const { code } = f;
    const [launch, record, thread, saved, place] = [0, 1, 2, 3, 4] as const;
    const { part, n, isShared, signs, isTransposed } = product;
    const space = f.local(), accumulator = f.local();
    code.get(launch).get(record).get(thread).call(preparation(functions, { hasShadows })).set(space);
    const rowBytes = { a: 32, b: part.selector === undefined ? 32 : 64 } as const;
    const pushSource = (operand: "a" | "b", pushFirst: () => void) => {
      code.get(saved).memory("i64Load", fragmentsBegin + warpgroupPlaces.descriptors[operand]);
      pushFirst();
      return code.get(launch).get(thread).get(place);
    };
    const read = (operand: "a" | "b", { blocks, pushFirst }: { blocks: number; pushFirst: () => void }) => {
      const flipped = operand === "a" ? signs : 0;
      const shared = {
        blocks,
        rowBytes: rowBytes[operand],
        isTransposed: isTransposed[operand],
        flipped,
        hasShadows,
        checksRaces,
      };
      code.get(space).i32(warpgroupPlaces[operand]);
      pushSource(operand, pushFirst).call(sharedReader(functions, shared));
    };
    if (isShared) {
      const pushWarp = () => code.get(thread).i32(5).ops("i32ShrU").i32(3).ops("i32And");
      read("a", { blocks: 2, pushFirst: () => pushWarp().i32(1).ops("i32Shl") });
    }
    const converted = {
      a: convertedOperand(functions, { product: part, part: "a" }),
      b: convertedOperand(functions, { product: part, part: "b" }),
    };
    const targets = { a: f.local(), b: f.local() }, flags = { a: f.local(), b: f.local() };
    const convert = (operand: "a" | "b", { reader }: ConvertedOperand) => {
      code.get(space).i32(warpgroupPlaces[operand]).get(targets[operand]).call(reader).set(flags[operand]);
    };
    if (converted.a !== undefined) {
      code.get(space).i32(workspace.operands).ops("i32Add").tee(targets.a);
      code.i32(converted.a.byteLength).ops("i32Add").set(targets.b);
      convert("a", converted.a);
    }
    code.i32(warpgroupPlaces.accumulator).set(accumulator);
    f.loop(n / partColumns, (index) => {
      const pushGroup = () => code.get(index);
      if (converted.b !== undefined && !hasShadows) {
        const columns = {
          format: part.b as FloatFormat,
          columnBytes: rowBytes.b,
          isTransposed: isTransposed.b,
          checksRaces,
        };
        code.get(targets.b).i32(0);
        pushSource("b", pushGroup).call(columnReader(functions, columns)).set(flags.b);
      } else {
        read("b", { blocks: 1, pushFirst: pushGroup });
        if (converted.b !== undefined) convert("b", converted.b);
      }
      if (hasShadows) {
        code.get(space).i32(warpgroupPlaces.a).i32(warpgroupPlaces.b).get(accumulator).get(accumulator);
        code.i32(warpgroupPlaces.metadata).call(productShadow(functions, part));
      }
      code.get(space);
      for (const operand of ["a", "b"] as const) {
        if (converted[operand] === undefined) code.i32(warpgroupPlaces[operand]);
        else code.get(targets[operand]);
      }
      code.get(accumulator).get(accumulator).i32(warpgroupPlaces.metadata);
      code.get(flags.a).get(flags.b).ops("i32Or").call(productFunction(functions, part));
      code.get(accumulator).i32(part.d === "f16" ? 8 : 16).ops("i32Add").set(accumulator);
    });
    return f.finish();
  });
}
