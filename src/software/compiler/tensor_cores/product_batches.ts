/**
 * Products of matrices that a warp requests together, and the function that computes them.
 *
 * @module
 */
import { blockFunction } from "./float_products.ts";
import type { FloatFormat } from "./formats.ts";
import { accumulatorCopy, floatReader, type ProductShape, registersOfOperand } from "./fragments.ts";
import {
  exited,
  launchFieldOffset,
  savedHeader,
  threadRecord,
  threadRecordByteLength,
} from "../../abi/launch_record.ts";
import { FunctionWriter, type WarpFunctions } from "./warp_functions.ts";
import { shadowFunction, type ShadowLayout } from "./uninitialized.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import { mostFragmentBytes, workspace } from "./workspace.ts";

/** A product of matrices of floating-point elements: D = A * B + C. */
export interface FloatProduct extends ProductShape {
  readonly kind: "float";
  readonly a: FloatFormat;
  readonly b: FloatFormat;
  readonly c: "f16" | "f32";
  readonly d: "f16" | "f32";
}

/** A product of matrices. */
export type MatrixProduct = FloatProduct;

/** A product, and the offsets of its fragments in each thread's memory for fragments, in bytes. */
export interface PlacedProduct {
  readonly product: MatrixProduct;
  readonly places: Readonly<Record<"a" | "b" | "c" | "d", number>>;
}

/** The number of 32-bit words of each fragment in a thread. */
export function fragmentWords({ m, n, k, a, b, c, d }: MatrixProduct): Record<"a" | "b" | "c" | "d", number> {
  const accumulator = (format: "f16" | "f32") => m * n / (format === "f16" ? 64 : 32);
  return {
    a: registersOfOperand({ count: m, depth: k, bits: bitsOf(a) }),
    b: registersOfOperand({ count: n, depth: k, bits: bitsOf(b) }),
    c: accumulator(c),
    d: accumulator(d),
  };
}

function shadowLayout(product: MatrixProduct): ShadowLayout {
  const { m, n, c, d } = product;
  const bitsOfElement = (format: "f16" | "f32") => format === "f16" ? 16 : 32;
  return { m, n, words: fragmentWords(product), bits: { c: bitsOfElement(c), d: bitsOfElement(d) } };
}

function bitsOf(format: FloatFormat): number {
  return format === "tf32" ? 32 : format === "f16" || format === "bf16" ? 16 : 8;
}

/** The offset of the memory for fragments from the beginning of a function's saved registers. */
export const fragmentsBegin: number = savedHeader.byteLength;

/**
 * Returns a function that computes products, one after another. Its parameters are the launch record, the record of a
 * thread of the warp, and the number of the thread.
 */
export function batchFunction(
  functions: WarpFunctions,
  products: readonly PlacedProduct[],
  { hasShadows }: { readonly hasShadows: boolean },
): number {
  return functions.indexOf(`batch ${JSON.stringify(products)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32"]);
    const { code } = f;
    const space = f.local(), flags = f.local();
    code.get(0).get(1).get(2).call(functions.indexOf("prepare", () => writePreparation(hasShadows))).set(space);
    for (const { product, places } of products) {
      if (hasShadows) {
        code.get(space);
        for (const operand of ["a", "b", "c", "d"] as const) code.i32(places[operand]);
        code.call(shadowFunction(functions, shadowLayout(product)));
      }
      const { m, n, k, a, b, c, d } = product;
      const read = (operand: "a" | "b") => {
        const [format, count] = operand === "a" ? [a, m] : [b, n];
        code.get(space).i32(places[operand]);
        code.call(floatReader(functions, { operand, format, count, depth: k, isSplit: false }));
      };
      read("a");
      read("b");
      code.ops("i32Or").set(flags);
      code.get(space).i32(places.c).call(accumulatorCopy(functions, { part: "c", format: c, m, n }));
      code.get(space).i32(0);
      code.get(space).i32(workspace.c).ops("i32Add");
      code.get(space).i32(workspace.d).ops("i32Add");
      code.get(flags).call(blockFunction(functions, { m, n, k, depth: k, c, d, isSparse: false }));
      code.get(space).i32(places.d).call(accumulatorCopy(functions, { part: "d", format: d, m, n }));
    }
    return f.finish();
  });
}

/**
 * Writes a function that prepares the workspace for the operations of a warp: stores where the fragments of each lane
 * are, and marks the requests of all lanes as answered. Returns the offset of the workspace. Lanes that do not exist or
 * have exited have fragments of 0.
 */
function writePreparation(hasShadows: boolean): ReturnType<FunctionWriter["finish"]> {
  const f = new FunctionWriter(["i32", "i32", "i32"], ["i32"]);
  const { code } = f;
  const [launch, record, thread] = [0, 1, 2] as const;
  const space = f.local(), left = f.local(), fragments = f.local(), hasAbsent = f.local();
  const load = (field: Parameters<typeof launchFieldOffset>[0]) => {
    return code.get(launch).memory("i32Load", launchFieldOffset(field));
  };
  load("warpWorkspace").set(space);
  const lane = () => code.get(thread).i32(31).ops("i32And");
  code.get(record);
  lane().i32(threadRecordByteLength).ops("i32Mul", "i32Sub").set(record);
  load("blockDimX");
  load("blockDimY").ops("i32Mul");
  load("blockDimZ").ops("i32Mul").get(thread).i32(-32).ops("i32And", "i32Sub").set(left);
  f.loop(32, (lane) => {
    code.get(space).i32(workspace.absent).ops("i32Add").set(fragments);
    code.get(lane).get(left).ops("i32GeU").if().i32(1).set(hasAbsent).else();
    code.get(record).memory("i32Load", threadRecord.request).i32(exited).ops("i32Eq").if().i32(1).set(hasAbsent).else();
    code.get(record).memory("i32Load", threadRecord.saved).i32(fragmentsBegin).ops("i32Add").set(fragments);
    code.get(record).i32(0).memory("i32Store", threadRecord.result).end().end();
    code.get(space).get(lane).i32(2).ops("i32Shl", "i32Add").get(fragments).memory("i32Store", workspace.lanes);
    code.get(record).i32(threadRecordByteLength).ops("i32Add").set(record);
  });
  code.get(hasAbsent).if();
  for (const distance of hasShadows ? [0, shadowOffset] : [0]) {
    code.get(space).i32(workspace.absent + distance).ops("i32Add").i32(0).i32(mostFragmentBytes).memoryFill();
  }
  code.end();
  code.get(space);
  return f.finish();
}
