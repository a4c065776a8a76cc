/**
 * Products of matrices, of all shapes and formats that the tensor cores of sm_80 to sm_90 have.
 *
 * @module
 */
import {
  bitsOfInteger,
  doubleMultiplication,
  doubleReader,
  type IntegerFormat,
  integerMultiplication,
  integerReader,
} from "./exact_products.ts";
import { blockFunction } from "./float_products.ts";
import { bitsOfFormat, type FloatFormat } from "./formats.ts";
import {
  accumulatorCopy,
  type AccumulatorFormat,
  floatReader,
  type ProductShape,
  registersOfOperand,
} from "./fragments.ts";
import { fromHalf, toHalf } from "./half_conversions.ts";
import type { ProductBlock } from "./product_block.ts";
import type { LoadedOperand } from "./loaded_operands.ts";
import { quadFunction } from "./quad_products.ts";
import type { Rounding } from "../helpers/rounding_helpers.ts";
import { sourceReader, type SparseLayout } from "./sparse_sources.ts";
import { shadowFunction } from "./uninitialized.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { workspace } from "./workspace.ts";

/** The format of the elements of A or B. */
export type OperandFormat = FloatFormat | IntegerFormat | "f64";

/** A product of matrices: D = A * B + C. */
export interface MatrixProduct extends ProductShape {
  readonly a: OperandFormat;
  readonly b: OperandFormat;
  readonly c: AccumulatorFormat;
  readonly d: AccumulatorFormat;
  /** For a sparse A: the operand that selects the lanes with metadata. */
  readonly selector?: number;
  /** Whether integer results that do not fit are limited. */
  readonly saturates?: true;
  /** How bits are combined. */
  readonly operation?: "xor" | "and";
  /** The rounding of 64-bit results. Default: to nearest even. */
  readonly rounding?: Rounding;
  /** For products of quad pairs: the layouts of A and B. */
  readonly layouts?: { readonly a: "row" | "col"; readonly b: "row" | "col" };
  /** The number of products in each exact sum, if not all are in one. */
  readonly blockDepth?: number;
  /** Whether the product is a part of that of a warpgroup, which multiplies 8-bit elements itself. */
  readonly isOfWarpgroup?: true;
}

/** A fragment of a product in a thread. The metadata of a sparse A is a fragment, too. */
export type ProductPart = "a" | "b" | "c" | "d" | "metadata";

/** The number of 32-bit words of each fragment in a thread. */
export function fragmentWords(product: MatrixProduct): Readonly<Record<ProductPart, number>> {
  const { m, n, k, a, b, c, d, selector, layouts } = product;
  const accumulator = (format: AccumulatorFormat) => m * n * bitsOfAccumulator(format) / 1024;
  const metadata = selector === undefined ? 0 : 1;
  if (layouts !== undefined) {
    const words = (format: AccumulatorFormat) => format === "f16" ? 4 : 8;
    return { a: 2, b: 2, c: words(c), d: words(d), metadata };
  }
  return {
    a: registersOfOperand({ count: m, depth: keptOf(product), bits: bitsOf(a) }),
    b: registersOfOperand({ count: n, depth: k, bits: bitsOf(b) }),
    c: accumulator(c),
    d: accumulator(d),
    metadata,
  };
}

/** The number of elements of a row of A that are multiplied. */
function keptOf({ k, selector }: MatrixProduct): number {
  return selector === undefined ? k : k / 2;
}

function bitsOf(format: OperandFormat): number {
  if (format === "f64") return 64;
  return isInteger(format) ? bitsOfInteger(format) : bitsOfFormat[format];
}

function bitsOfAccumulator(format: AccumulatorFormat): 16 | 32 | 64 {
  return format === "f16" ? 16 : format === "f64" ? 64 : 32;
}

function isInteger(format: OperandFormat): format is IntegerFormat {
  return /^([su][48]|b1)$/.test(format);
}

/**
 * Returns a function that computes a product. Its parameters are the workspace, the offsets of the fragments of A, B, C
 * and D and of the metadata, and flags. For operands that are converted before, it takes their offsets in linear memory
 * and their flags.
 */
export function productFunction(functions: KernelFunctions, product: MatrixProduct): number {
  return functions.indexOf(`product ${JSON.stringify(product)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32", "i32"]);
    if (product.layouts !== undefined) {
      const { layouts } = product;
      for (const parameter of [space, a, b, c, d]) f.code.get(parameter);
      f.code.call(quadFunction(functions, {
        aLayout: layouts.a,
        bLayout: layouts.b,
        c: product.c as "f16" | "f32",
        d: product.d as "f16" | "f32",
      }));
    } else {
      writeProduct(f, functions, product);
    }
    return f.finish();
  });
}

/** The parameters of a product's function. */
const space = 0, a = 1, b = 2, c = 3, d = 4, metadata = 5, flags = 6;

/** Whether a product is composed of two, as of 8-bit floating-point elements. */
function isSplitProduct(product: MatrixProduct): boolean {
  return hasSmallFloats(product) && product.isOfWarpgroup !== true;
}

/** Whether a product is of 8-bit floating-point elements. */
function hasSmallFloats({ a }: MatrixProduct): boolean {
  return /^e[45]m/.test(a);
}

/** An operand A or B that is converted before products are computed. */
export interface ConvertedOperand {
  /** The size of the converted operand, in bytes. */
  readonly byteLength: number;
  /** A name that is equal for operands that are converted in the same way. */
  readonly name: string;
  /** Returns the index of the function that converts it: see `floatReader`. */
  reader(): number;
}

/** Returns how an operand of a product is converted. Undefined if the product's function reads the fragments itself. */
export function convertedOperand(
  functions: KernelFunctions,
  { product, part }: { readonly product: MatrixProduct; readonly part: "a" | "b" },
): ConvertedOperand | undefined {
  const format = product[part];
  if (format === "f64" || isInteger(format) || product.layouts !== undefined) return undefined;
  const [count, depth] = part === "a" ? [product.m, keptOf(product)] : [product.n, product.k];
  // The rows of a B that metadata selects are in the usual order.
  const isSplit = isSplitProduct(product) && (part === "a" || product.selector === undefined);
  const normalizes = product.isOfWarpgroup !== true;
  const operand = { operand: part, format, count, depth, isSplit, normalizes };
  return {
    byteLength: 6 * count * depth,
    name: JSON.stringify(operand),
    reader: () => floatReader(functions, operand),
  };
}

/** Returns an operand of a product that a load sets. Undefined if it can only be converted from the fragments. */
export function loadedOperand(
  product: MatrixProduct,
  part: "a" | "b",
  { isTransposed }: { readonly isTransposed: boolean },
): LoadedOperand | undefined {
  const { [part]: format, m, n, k, selector, layouts } = product;
  if (format !== "f16" && format !== "bf16" || selector !== undefined || layouts !== undefined) return undefined;
  const count = part === "a" ? m : n;
  const isUsual = part === "a" ? count === 16 : count === 8;
  return isUsual && k % 8 === 0 ? { operand: part, format, count, depth: k, isTransposed } : undefined;
}

function writeProduct(f: FunctionWriter, functions: KernelFunctions, product: MatrixProduct): void {
  const { code } = f;
  const { m, n, k } = product;
  const kept = keptOf(product);
  const copy = (part: "c" | "d") => {
    code.get(space).get(part === "c" ? c : d).get(space).i32(workspace[part]).ops("i32Add");
    code.call(accumulatorCopy(functions, { part, format: product[part], m, n }));
  };
  readMetadata(f, functions, product);
  const shapes = { a: { operand: "a", count: m, depth: kept }, b: { operand: "b", count: n, depth: k } } as const;
  const { a: aFormat, b: bFormat } = product;
  if (aFormat === "f64" || bFormat === "f64") {
    code.get(space).get(a).call(doubleReader(functions, shapes.a));
    code.get(space).get(b).call(doubleReader(functions, shapes.b));
    copy("c");
    code.get(space).call(doubleMultiplication(functions, { m, n, k, rounding: product.rounding ?? "rn" }));
  } else if (isInteger(aFormat) || isInteger(bFormat)) {
    const format = { a: aFormat as IntegerFormat, b: bFormat as IntegerFormat };
    code.get(space).get(a).call(integerReader(functions, { ...shapes.a, format: format.a }));
    code.get(space).get(b).call(integerReader(functions, { ...shapes.b, format: format.b }));
    copy("c");
    code.get(space).call(integerMultiplication(functions, {
      ...{ m, n, k, ...format },
      isSparse: product.selector !== undefined,
      saturates: product.saturates === true,
      operation: product.operation,
    }));
  } else {
    copy("c");
    const at = (part: "c" | "d") => code.get(space).i32(workspace[part]).ops("i32Add");
    writeBlocks(f, functions, { product, at });
  }
  copy("d");
}

/** Whether C and D of a product may stay in the workspace between the products of a batch. */
export function keepsAccumulators(product: MatrixProduct): boolean {
  const { a, layouts } = product;
  return a !== "f64" && !isInteger(a) && layouts === undefined && !isSplitProduct(product);
}

/**
 * Returns a function that computes a product for which `keepsAccumulators` is true. Its parameters are those of
 * `productFunction`, but the offsets of C and D are those of matrices in linear memory, which must not overlap.
 */
export function keptProductFunction(functions: KernelFunctions, product: MatrixProduct): number {
  return functions.indexOf(`kept ${JSON.stringify(product)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32", "i32", "i32", "i32", "i32"]);
    readMetadata(f, functions, product);
    writeBlocks(f, functions, { product, at: (part) => f.code.get(part === "c" ? c : d) });
    return f.finish();
  });
}

/** Writes code that finds the rows of B by which the elements of a sparse A are multiplied. */
function readMetadata({ code }: FunctionWriter, functions: KernelFunctions, product: MatrixProduct): void {
  if (product.selector === undefined) return;
  code.get(space).get(metadata).call(sourceReader(functions, sparseLayout(product, product.selector)));
}

/** Returns a function that copies C of a product to a matrix in the workspace, or D from there. */
export function copyOfAccumulator(functions: KernelFunctions, product: MatrixProduct, part: "c" | "d"): number {
  const { m, n, [part]: format } = product;
  return accumulatorCopy(functions, { part, format, m, n });
}

/** Writes the sums of floating-point products: one block, or several. */
function writeBlocks(
  f: FunctionWriter,
  functions: KernelFunctions,
  { product, at }: {
    readonly product: MatrixProduct;
    /** Pushes the offset of C or D. */
    readonly at: (part: "c" | "d") => void;
  },
): void {
  const { code } = f;
  const { m, n } = product;
  const kept = keptOf(product);
  // With C of f32, GPUs convert the sums of f32 to f16 at the end.
  const isNarrowed = product.c === "f32" && product.d === "f16";
  const [cFormat, dFormat] = [product.c, isNarrowed ? "f32" : product.d] as ["f16" | "f32", "f16" | "f32"];
  const isSplit = isSplitProduct(product);
  const k = isSplit ? kept / 2 : product.blockDepth ?? kept;
  const between = () => void code.get(space).i32(workspace.between).ops("i32Add");
  for (let first = 0; first < kept; first += k) {
    const isFirst = first === 0, isLast = first + k === kept;
    const block: ProductBlock = {
      ...{ m, n, k, depth: kept, rows: product.k },
      c: isFirst && !isSplit ? cFormat : dFormat,
      d: dFormat,
      isSparse: product.selector !== undefined,
      isWide: product.a === "bf16" || product.a === "tf32",
      ...product.isOfWarpgroup && hasSmallFloats(product) ? { isShort: true } as const : {},
    };
    // D is the C of the first of two products that are composed, until it is the result of the second.
    if (isFirst && isSplit) {
      at("d");
      code.i32(0).i32(4 * m * n).memoryFill();
    }
    code.get(space).get(a).get(b).i32(first);
    if (isFirst) at(isSplit ? "d" : "c");
    else between();
    if (isLast) at("d");
    else between();
    code.get(flags).call(blockFunction(functions, block));
  }
  if (isNarrowed) {
    at("d");
    code.call(narrowingFunction(functions, m * n));
  }
  // GPUs of sm_90 compose these products: C is added at the end.
  if (isSplit) code.get(space).call(additionFunction(functions, { count: m * n, format: dFormat }));
}

/** Returns a function that converts the elements of a matrix from f32 to f16. Its parameter is the matrix. */
function narrowingFunction(functions: KernelFunctions, count: number): number {
  return functions.indexOf(`narrow ${count} elements`, () => {
    const f = new FunctionWriter(["i32"]);
    const { code } = f;
    f.loop(count, () => {
      code.get(0).get(0).memory("f32Load").call(toHalf(functions)).memory("i32Store");
      code.get(0).i32(4).ops("i32Add").set(0);
    });
    return f.finish();
  });
}

/** Returns a function that adds C to D in the workspace, rounding to nearest even. */
function additionFunction(
  functions: KernelFunctions,
  { count, format }: { count: number; format: "f16" | "f32" },
): number {
  return functions.indexOf(`add ${count} ${format}`, (): FunctionDefinition => {
    const f = new FunctionWriter(["i32"]);
    const { code } = f;
    const value = f.local("f32");
    f.loop(count, () => {
      for (const part of ["d", "c"] as const) {
        code.get(space);
        if (format === "f32") code.memory("f32Load", workspace[part]);
        else code.memory("i32Load", workspace[part]).call(fromHalf(functions));
      }
      code.ops("f32Add").set(value).get(space);
      if (format === "f32") {
        code.get(value).f32Bits(0x7fff_ffffn).get(value).get(value).ops("f32Eq", "select");
        code.memory("f32Store", workspace.d);
      } else {
        code.get(value).call(toHalf(functions)).memory("i32Store", workspace.d);
      }
      code.get(space).i32(4).ops("i32Add").set(space);
    });
    return f.finish();
  });
}

function sparseLayout(product: MatrixProduct, selector: number): SparseLayout {
  const { n, k, a } = product;
  const kept = keptOf(product);
  const bits = bitsOf(a);
  const factor = isInteger(a) ? 1 : n;
  const common = { kept, selector, factor, isSplit: isSplitProduct(product) } as const;
  if (bits === 32) return { ...common, unitBits: 4, unit: 1, spread: k === 8 ? "one lane" : "two lanes" };
  if (bits === 16) return { ...common, unitBits: 2, unit: 1, spread: k === 16 ? "one lane" : "two lanes" };
  const spread = k * bits === 256 ? "a lane for each row" : "all lanes";
  return { ...common, unitBits: 2, unit: bits === 4 ? 2 : 1, spread };
}

/** Returns the largest number that can select lanes with the metadata of a sparse A. */
export function mostSelector(product: MatrixProduct): number {
  switch (sparseLayout(product, 0).spread) {
    case "one lane":
      return 3;
    case "two lanes":
    case "a lane for each row":
      return 1;
    case "all lanes":
      return 0;
  }
}

/**
 * Returns a function that computes the shadow of D. Its parameters are the workspace, and the offsets of the fragments
 * of A, B, C and D and of the metadata.
 */
export function productShadow(functions: KernelFunctions, product: MatrixProduct): number {
  const { m, n, c, d, layouts } = product;
  const { a, b, metadata } = fragmentWords(product);
  return shadowFunction(functions, {
    ...{ m, n },
    words: { a, b, metadata },
    bits: { c: bitsOfAccumulator(c), d: bitsOfAccumulator(d) },
    isOfQuads: layouts !== undefined,
  });
}
