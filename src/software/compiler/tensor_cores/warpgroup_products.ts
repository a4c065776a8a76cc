/**
 * Products of matrices of a warpgroup: of 64 rows of A and up to 256 columns of B. Each warp computes 16 rows of D, for
 * which it needs no other warp.
 *
 * @module
 */
import type { FloatFormat } from "./formats.ts";
import { fragmentsBegin, preparation } from "./product_batches.ts";
import {
  convertedOperand,
  copyOfAccumulator,
  keepsAccumulators,
  keptProductFunction,
  type MatrixProduct,
  productFunction,
  productShadow,
} from "./matrix_products.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { columnReader, sharedReader } from "./shared_operands.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
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

/** The offsets of the operands of products in each thread's memory for fragments, in bytes. */
export const warpgroupPlaces = {
  /** The fragment of A, if it is in shared memory. */
  a: 0,
  /** The fragment of eight columns of B. */
  b: 16,
  /** The first fragment of C and D. */
  accumulator: 32,
  /** The operands of a product, from their beginning. */
  operands: { a: 0, b: 16, metadata: 24, scale: 28, byteLength: 32 },
} as const;

/** The number of columns of B with which a product is computed at once. */
const partColumns = 8;

/** The shape and the formats of a product. */
export type WarpgroupShape = Pick<WarpgroupProduct, "part" | "n">;

/** Where the operands of products are in each thread's memory for fragments. */
export interface WarpgroupLayout {
  /** The offset of the fragment of C and D, in bytes. */
  readonly accumulator: number;
  /** The offset of the operands of the first product, in bytes. Those of the next ones follow. */
  readonly operands: number;
  /** Whether the accumulator stays there. If so, threads do not replace it by 0 for a product that does not add it. */
  readonly isResident: boolean;
}

/** The size of a thread's fragment of C and D, in bytes. */
export function accumulatorBytes({ part, n }: WarpgroupShape): number {
  return n * (part.d === "f16" ? 1 : 2);
}

/** Returns the layout of products whose accumulator does not stay in the memory for fragments. */
export function usualLayout(shape: WarpgroupShape): WarpgroupLayout {
  const { accumulator } = warpgroupPlaces;
  return { accumulator, operands: accumulator + accumulatorBytes(shape), isResident: false };
}

/** Returns the offset of the operands of the `index`-th product, in bytes. */
export function placeOfOperands({ operands }: WarpgroupLayout, index: number): number {
  return operands + index * warpgroupPlaces.operands.byteLength;
}

/** The maximum number of products that are computed together. */
export const mostWarpgroupProducts = 8;

/** Whether products with the same accumulator, of elements of this product's formats, can be computed together. */
export function areJoined({ part }: WarpgroupShape): boolean {
  return keepsAccumulators(part);
}

/**
 * Returns a function that computes a warp's part of products, one after another, which have the same accumulator. Its
 * parameters are the launch record, the record of a thread of the warp, the number of the thread, the thread's saved
 * registers, and the encoded location of each instruction.
 */
export function warpgroupFunction(
  functions: KernelFunctions,
  batch: WarpgroupBatch,
  checks: WarpgroupChecks,
): number {
  return functions.indexOf(`warpgroup ${JSON.stringify(batch)}`, () => {
    return new WarpgroupWriter(functions, batch, checks).write();
  });
}

/** Products that are computed together. */
export interface WarpgroupBatch {
  readonly products: readonly WarpgroupProduct[];
  readonly layout: WarpgroupLayout;
}

interface WarpgroupChecks {
  readonly hasShadows: boolean;
  readonly checksRaces: boolean;
}

/** A product whose A has been converted. */
interface PreparedProduct {
  readonly product: WarpgroupProduct;
  /** The parameter with the location of the instruction. */
  readonly place: number;
  /** The offset of the operands in each thread's memory for fragments. */
  readonly operandsAt: number;
  /** The offset of A in each thread's memory for fragments. */
  readonly aAt: number;
  /** The offset in the workspace of the converted A, and the local with its flags. Undefined if it is not converted. */
  readonly a: { readonly at: number; readonly flags: number } | undefined;
}

/** The parameters of a function. */
const launch = 0, record = 1, thread = 2, saved = 3, firstPlace = 4;

class WarpgroupWriter {
  readonly #f: FunctionWriter;
  readonly #functions: KernelFunctions;
  readonly #products: readonly WarpgroupProduct[];
  readonly #layout: WarpgroupLayout;
  readonly #checks: WarpgroupChecks;
  readonly #space: number;
  /** The end of the converted operands in the workspace. */
  #end: number = workspace.operands;

  constructor(
    functions: KernelFunctions,
    { products, layout }: WarpgroupBatch,
    checks: WarpgroupChecks,
  ) {
    this.#layout = layout;
    this.#f = new FunctionWriter(Array.from({ length: firstPlace + products.length }, () => "i32"));
    this.#functions = functions;
    this.#products = products;
    this.#checks = checks;
    this.#space = this.#f.local();
  }

  write(): FunctionDefinition {
    const f = this.#f;
    const { code } = f;
    const { hasShadows } = this.#checks;
    code.get(launch).get(record).get(thread).call(preparation(this.#functions, { hasShadows })).set(this.#space);
    const prepared = this.#products.map((product, index) => this.#prepare(product, index));
    const accumulator = f.local();
    const { part, n } = this.#products[0]!;
    code.i32(this.#layout.accumulator).set(accumulator);
    f.loop(n / partColumns, (group) => {
      if (keepsAccumulators(part)) this.#multiplyKept(prepared, { group, accumulator });
      else this.#multiplyFragments(prepared[0]!, { group, accumulator });
      code.get(accumulator).i32(part.d === "f16" ? 8 : 16).ops("i32Add").set(accumulator);
    });
    return f.finish();
  }

  /** Writes code that reads and converts A of a product. */
  #prepare(product: WarpgroupProduct, index: number): PreparedProduct {
    const { code } = this.#f;
    const { part, isShared } = product;
    const operandsAt = placeOfOperands(this.#layout, index);
    const aAt = isShared ? warpgroupPlaces.a : operandsAt + warpgroupPlaces.operands.a;
    const prepared = { product, place: firstPlace + index, operandsAt, aAt };
    if (isShared) {
      const pushWarp = () => code.get(thread).i32(5).ops("i32ShrU").i32(3).ops("i32And");
      this.#read("a", prepared, { blocks: 2, pushFirst: () => pushWarp().i32(1).ops("i32Shl") });
    }
    const converted = convertedOperand(this.#functions, { product: part, part: "a" });
    if (converted === undefined) return { ...prepared, a: undefined };
    const a = { at: this.#end, flags: this.#f.local() };
    this.#end += converted.byteLength;
    code.get(this.#space).i32(aAt).get(this.#space).i32(a.at).ops("i32Add").call(converted.reader()).set(a.flags);
    return { ...prepared, a };
  }

  /** Writes code that pushes the parameters of a function that reads an operand, after the first two. */
  #pushSource(
    operand: "a" | "b",
    { operandsAt, place }: Omit<PreparedProduct, "a">,
    pushFirst: () => void,
  ): CodeWriter {
    const { code } = this.#f;
    code.get(saved).memory("i64Load", fragmentsBegin + operandsAt + warpgroupPlaces.operands[operand]);
    pushFirst();
    return code.get(launch).get(thread).get(place);
  }

  /** Writes code that copies a part of an operand in shared memory to the fragments of the lanes. */
  #read(
    operand: "a" | "b",
    prepared: Omit<PreparedProduct, "a">,
    { blocks, pushFirst }: { blocks: number; pushFirst: () => void },
  ): void {
    const { product } = prepared;
    const shared = {
      blocks,
      rowBytes: rowBytesOf(product, operand),
      isTransposed: product.isTransposed[operand],
      flipped: operand === "a" ? product.signs : 0,
      ...this.#checks,
    };
    this.#f.code.get(this.#space).i32(warpgroupPlaces[operand]);
    this.#pushSource(operand, prepared, pushFirst).call(sharedReader(this.#functions, shared));
  }

  /** Writes code that computes eight columns of products, whose sums stay in the workspace meanwhile. */
  #multiplyKept(
    all: readonly PreparedProduct[],
    { group, accumulator }: { group: number; accumulator: number },
  ): void {
    const { code } = this.#f;
    const space = this.#space;
    const { part } = this.#products[0]!;
    const [first, second] = [workspace.c, workspace.d];
    const pushMatrix = (at: number) => code.get(space).i32(at).ops("i32Add");
    const copy = (name: "c" | "d", at: number) => {
      code.get(space).get(accumulator);
      pushMatrix(at).call(copyOfAccumulator(this.#functions, part, name));
    };
    const bAt = this.#end, bFlags = this.#f.local();
    const { hasShadows, checksRaces } = this.#checks;
    copy("c", first);
    all.forEach((prepared, index) => {
      const { product, operandsAt, a } = prepared;
      const [from, to] = index % 2 === 0 ? [first, second] : [second, first];
      if (hasShadows) {
        this.#read("b", prepared, { blocks: 1, pushFirst: () => code.get(group) });
        const { reader } = convertedOperand(this.#functions, { product: product.part, part: "b" })!;
        code.get(space).i32(warpgroupPlaces.b);
        pushMatrix(bAt).call(reader()).set(bFlags);
        this.#multiplyShadows(prepared, accumulator);
      } else {
        const columns = {
          format: product.part.b as FloatFormat,
          columnBytes: rowBytesOf(product, "b"),
          isTransposed: product.isTransposed.b,
          checksRaces,
        };
        pushMatrix(bAt).i32(0);
        this.#pushSource("b", prepared, () => code.get(group)).call(columnReader(this.#functions, columns)).set(bFlags);
      }
      if (index > 0 || this.#layout.isResident) {
        code.get(saved).memory("i32Load", fragmentsBegin + operandsAt + warpgroupPlaces.operands.scale);
        code.ops("i32Eqz").ifUnlikely();
        pushMatrix(from).i32(0).i32(matrixBytes).memoryFill().end();
      }
      code.get(space);
      for (const at of [a!.at, bAt, from, to]) pushMatrix(at);
      code.i32(operandsAt + warpgroupPlaces.operands.metadata).get(a!.flags).get(bFlags).ops("i32Or");
      code.call(keptProductFunction(this.#functions, product.part));
    });
    copy("d", all.length % 2 === 0 ? first : second);
  }

  /** Writes code that computes eight columns of a product, whose operands are not converted. */
  #multiplyFragments(
    prepared: PreparedProduct,
    { group, accumulator }: { group: number; accumulator: number },
  ): void {
    const { code } = this.#f;
    const { product: { part }, aAt, operandsAt } = prepared;
    this.#read("b", prepared, { blocks: 1, pushFirst: () => code.get(group) });
    if (this.#checks.hasShadows) this.#multiplyShadows(prepared, accumulator);
    code.get(this.#space).i32(aAt).i32(warpgroupPlaces.b).get(accumulator).get(accumulator);
    code.i32(operandsAt + warpgroupPlaces.operands.metadata).i32(0).call(productFunction(this.#functions, part));
  }

  #multiplyShadows({ product: { part }, aAt, operandsAt }: PreparedProduct, accumulator: number): void {
    const { code } = this.#f;
    code.get(this.#space).i32(aAt).i32(warpgroupPlaces.b).get(accumulator).get(accumulator);
    code.i32(operandsAt + warpgroupPlaces.operands.metadata).call(productShadow(this.#functions, part));
  }
}

/** The number of bytes of a row of A or a column of B. */
function rowBytesOf({ part }: WarpgroupProduct, operand: "a" | "b"): number {
  return operand === "b" && part.selector !== undefined ? 64 : 32;
}

/** The size of 16 rows and eight columns of C or D in the workspace. */
const matrixBytes = 4 * 16 * partColumns;
