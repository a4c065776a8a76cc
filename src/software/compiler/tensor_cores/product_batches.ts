/**
 * Products of matrices that a warp requests together, and the function that computes them.
 *
 * @module
 */
import {
  exited,
  launchFieldOffset,
  savedHeader,
  threadRecord,
  threadRecordByteLength,
} from "../../abi/launch_record.ts";
import {
  type ConvertedOperand,
  convertedOperand,
  copyOfAccumulator,
  fragmentWords,
  keepsAccumulators,
  keptProductFunction,
  loadedOperand,
  type MatrixProduct,
  productFunction,
  type ProductPart,
  productShadow,
} from "./matrix_products.ts";
import { type LoadedOperand, loadedReader } from "./loaded_operands.ts";
import { type MatrixLoad, matrixLoad } from "./matrix_loads.ts";
import { shadowOffset } from "../../abi/addresses.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { mostAccumulatorBytes, mostFragmentBytes, mostOperandBytes, workspace } from "./workspace.ts";

/** A product, and the offsets of its fragments in each thread's memory for fragments, in bytes. */
export interface PlacedProduct {
  readonly kind: "product";
  readonly product: MatrixProduct;
  readonly places: Readonly<Record<ProductPart, number>>;
}

/** A load of matrices, and the offsets of the row that a thread names and of its fragments, in bytes. */
export interface PlacedLoad extends MatrixLoad {
  readonly kind: "load";
  readonly row: number;
  readonly at: number;
  /** Whether the threads take the fragments. */
  readonly isTaken: boolean;
}

/** An operation of a warp on matrices. */
export type PlacedOperation = PlacedProduct | PlacedLoad;

/** The offset of the memory for fragments from the beginning of a function's saved registers. */
export const fragmentsBegin: number = savedHeader.byteLength;

/**
 * Returns a function that loads matrices and computes products, one after another. Its parameters are the launch record, the record of a
 * thread of the warp, and the number of the thread.
 */
export function batchFunction(
  functions: KernelFunctions,
  operations: readonly PlacedOperation[],
  { hasShadows }: { readonly hasShadows: boolean },
): number {
  return functions.indexOf(`batch ${JSON.stringify(operations)}`, () => {
    const f = new FunctionWriter(["i32", "i32", "i32"]);
    const { code } = f;
    const space = f.local();
    code.get(0).get(1).get(2).call(preparation(functions, { hasShadows })).set(space);
    const loaded = new LoadedFragments(hasShadows ? [] : operations);
    const operands = new ConvertedOperands(f, { functions, space, loaded });
    const accumulators = new KeptAccumulators(f, functions, space);
    for (const operation of operations) {
      if (operation.kind === "load") {
        if (!hasShadows && !loaded.isRead(operation)) continue;
        const { row, at, matrices, isTransposed } = operation;
        for (const distance of hasShadows ? [0, shadowOffset] : [0]) {
          const load = matrixLoad(functions, { matrices, isTransposed, distance });
          code.get(space).i32(row).i32(at).call(load);
        }
        continue;
      }
      const { product, places } = operation;
      if (hasShadows) {
        code.get(space);
        for (const part of ["a", "b", "c", "d", "metadata"] as const) code.i32(places[part]);
        code.call(productShadow(functions, product));
      }
      const words = fragmentWords(product);
      for (const part of ["a", "b", "metadata"] as const) accumulators.store(places[part], 4 * words[part]);
      const found = operands.convert(product, places);
      if (found !== undefined && keepsAccumulators(product)) {
        const c = accumulators.read(product, places.c), d = accumulators.reserve(product);
        code.get(space);
        for (const { at } of [found.a, found.b, { at: c }, { at: d }]) code.get(space).i32(at).ops("i32Add");
        code.i32(places.metadata).get(found.a.flags).get(found.b.flags).ops("i32Or");
        code.call(keptProductFunction(functions, product));
        accumulators.set(product, { place: places.d, at: d });
        continue;
      }
      accumulators.finish();
      code.get(space);
      if (found === undefined) code.i32(places.a).i32(places.b);
      else for (const { at } of [found.a, found.b]) code.get(space).i32(at).ops("i32Add");
      for (const part of ["c", "d", "metadata"] as const) code.i32(places[part]);
      if (found === undefined) code.i32(0);
      else code.get(found.a.flags).get(found.b.flags).ops("i32Or");
      code.call(productFunction(functions, product));
    }
    accumulators.finish();
    return f.finish();
  });
}

/**
 * Returns a function that prepares the workspace for the operations of a warp: stores where the fragments of each lane
 * are, and marks the requests of all lanes as answered. Its parameters are those of `batchFunction`; it returns the
 * offset of the workspace. Lanes that do not exist or have exited have fragments of 0.
 */
export function preparation(functions: KernelFunctions, { hasShadows }: { readonly hasShadows: boolean }): number {
  return functions.indexOf("prepare", () => writePreparation(hasShadows));
}

function writePreparation(hasShadows: boolean): FunctionDefinition {
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

/** An operand in the workspace: its offset there, and the local with its flags. */
interface PlacedOperand {
  readonly at: number;
  readonly flags: number;
}

/** The fragments that a batch loads. */
class LoadedFragments {
  readonly #loads: readonly PlacedLoad[];
  /** The loads whose fragments are read. */
  readonly #read = new Set<PlacedLoad>();

  constructor(operations: readonly PlacedOperation[]) {
    this.#loads = operations.filter((operation) => operation.kind === "load");
    for (const load of this.#loads) if (load.isTaken) this.#read.add(load);
    for (const operation of operations) {
      if (operation.kind === "load") continue;
      const { product, places } = operation;
      const words = fragmentWords(product);
      for (const part of ["a", "b", "c", "metadata"] as const) {
        if ((part === "a" || part === "b") && this.find(product, part, places[part]) !== undefined) continue;
        const [begin, end] = [places[part], places[part] + 4 * words[part]];
        for (const load of this.#loads) {
          if (begin < load.at + 4 * load.matrices && end > load.at) this.#read.add(load);
        }
      }
    }
  }

  /** Whether fragments of a load are read: by the threads, or by a product that does not convert them. */
  isRead(load: PlacedLoad): boolean {
    return this.#read.has(load);
  }

  /** Finds the load of an operand that can be converted where it is, and the number of the operand's first matrix. */
  find(
    product: MatrixProduct,
    part: "a" | "b",
    place: number,
  ): { readonly load: PlacedLoad; readonly first: number; readonly operand: LoadedOperand } | undefined {
    const end = place + 4 * fragmentWords(product)[part];
    const load = this.#loads.find(({ at, matrices }) => at <= place && end <= at + 4 * matrices);
    const operand = load && loadedOperand(product, part, load);
    return operand && { load: load!, first: (place - load!.at) / 4, operand };
  }
}

/** Converts the operands of a batch's products, each of them once as long as there is memory for all of them. */
class ConvertedOperands {
  readonly #f: FunctionWriter;
  readonly #functions: KernelFunctions;
  readonly #space: number;
  readonly #loaded: LoadedFragments;
  readonly #found = new Map<string, PlacedOperand>();
  #end = 0;

  constructor(
    f: FunctionWriter,
    { functions, space, loaded }: {
      readonly functions: KernelFunctions;
      readonly space: number;
      readonly loaded: LoadedFragments;
    },
  ) {
    this.#f = f;
    this.#functions = functions;
    this.#space = space;
    this.#loaded = loaded;
  }

  /** Writes code that converts the operands of a product unless they have been. Undefined if they are not converted. */
  convert(
    product: MatrixProduct,
    places: PlacedProduct["places"],
  ): Readonly<Record<"a" | "b", PlacedOperand>> | undefined {
    const [a, b] = (["a", "b"] as const).map((part) => convertedOperand(this.#functions, { product, part }));
    if (a === undefined || b === undefined) return undefined;
    if (this.#end + a.byteLength + b.byteLength > mostOperandBytes) {
      this.#found.clear();
      this.#end = 0;
    }
    const place = (part: "a" | "b", converted: ConvertedOperand) =>
      this.#place(converted, places[part], this.#loaded.find(product, part, places[part]));
    return { a: place("a", a), b: place("b", b) };
  }

  #place(
    { name, reader, byteLength }: ConvertedOperand,
    fragment: number,
    source: ReturnType<LoadedFragments["find"]>,
  ): PlacedOperand {
    const key = `${name} ${fragment}`;
    let placed = this.#found.get(key);
    if (placed !== undefined) return placed;
    const { code } = this.#f;
    placed = { at: workspace.operands + this.#end, flags: this.#f.local() };
    this.#end += byteLength;
    this.#found.set(key, placed);
    code.get(this.#space).i32(source?.load.row ?? fragment);
    if (source !== undefined) code.i32(32 * source.first);
    code.get(this.#space).i32(placed.at).ops("i32Add");
    code.call(source === undefined ? reader() : loadedReader(this.#functions, source.operand)).set(placed.flags);
    return placed;
  }
}

/** A matrix C or D in the workspace. */
interface KeptMatrix {
  /** The offset in the workspace. */
  readonly at: number;
  /** The product of which it is D. Undefined if it is only a C. */
  readonly product: MatrixProduct | undefined;
  /** The format and the size of the matrix. */
  readonly key: string;
}

/** Keeps matrices C and D in the workspace from one product of a batch to the next. */
class KeptAccumulators {
  readonly #f: FunctionWriter;
  readonly #functions: KernelFunctions;
  readonly #space: number;
  /** The matrices in the workspace, by the place of their fragments. */
  readonly #kept = new Map<number, KeptMatrix>();
  #bytes = 0;
  #free: number[] = [];

  constructor(f: FunctionWriter, functions: KernelFunctions, space: number) {
    this.#f = f;
    this.#functions = functions;
    this.#space = space;
  }

  /** Writes code that copies C to the workspace unless it is there. Returns its offset in the workspace. */
  read(product: MatrixProduct, place: number): number {
    const key = keyOf(product, "c");
    const known = this.#kept.get(place);
    // Two matrices are needed at once.
    const isFull = this.#free.length < 2;
    if (known?.key === key && !isFull) return known.at;
    if (known !== undefined || isFull || this.#bytes !== bytesOf(product)) {
      this.finish();
      this.#bytes = bytesOf(product);
      this.#free = Array.from({ length: Math.floor(mostAccumulatorBytes / this.#bytes) }, (_, index) => {
        return workspace.accumulators + index * this.#bytes;
      });
    }
    const at = this.#free.pop()!;
    this.#kept.set(place, { at, product: undefined, key });
    this.#copy({ product, part: "c", place, at });
    return at;
  }

  /** Returns the offset of memory for a D. */
  reserve(product: MatrixProduct): number {
    if (this.#bytes !== bytesOf(product)) throw new Error("C and D have different sizes");
    return this.#free.pop()!;
  }

  /** Records that the workspace holds a D, which replaces the former contents of its place. */
  set(product: MatrixProduct, { place, at }: { place: number; at: number }): void {
    const before = this.#kept.get(place);
    if (before !== undefined) this.#free.push(before.at);
    this.#kept.set(place, { at, product, key: keyOf(product, "d") });
  }

  /** Writes code that copies the D to their fragments that have a part in the given range. */
  store(begin: number, byteLength: number): void {
    for (const [place, kept] of this.#kept) {
      const { product, at, key } = kept;
      if (product === undefined || begin >= place + 4 * fragmentWords(product).d || begin + byteLength <= place) {
        continue;
      }
      this.#copy({ product, part: "d", place, at });
      this.#kept.set(place, { at, product: undefined, key });
    }
  }

  /** Writes code that copies all D to their fragments. */
  finish(): void {
    for (const [place, { at, product }] of this.#kept) {
      if (product !== undefined) this.#copy({ product, part: "d", place, at });
    }
    this.#kept.clear();
    this.#free = [];
    this.#bytes = 0;
  }

  #copy({ product, part, place, at }: { product: MatrixProduct; part: "c" | "d"; place: number; at: number }): void {
    const { code } = this.#f;
    code.get(this.#space).i32(place).get(this.#space).i32(at).ops("i32Add");
    code.call(copyOfAccumulator(this.#functions, product, part));
  }
}

function bytesOf({ m, n }: MatrixProduct): number {
  return 4 * m * n;
}

function keyOf({ m, n, c, d }: MatrixProduct, part: "c" | "d"): string {
  return `${part === "c" ? c : d} ${m} ${n}`;
}
