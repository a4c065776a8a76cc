/**
 * Where the threads of a warp leave the fragments of several products that are computed together.
 *
 * @module
 */
import { fragmentWords, type MatrixProduct, type ProductPart } from "../../tensor_cores/matrix_products.ts";
import { mostFragmentBytes } from "../../tensor_cores/workspace.ts";
import type { PlacedProduct } from "../../tensor_cores/product_batches.ts";
import type { Register, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../../ptx/instructions/scalar_types.ts";

/** The registers of a fragment. */
interface Fragment {
  readonly operands: readonly ResolvedOperand[];
  readonly type: ScalarType;
}

/** A product and its fragments. */
export interface BatchedProduct {
  readonly product: MatrixProduct;
  readonly a: Fragment;
  readonly b: Fragment;
  readonly c: Fragment;
  readonly d: Fragment;
  readonly metadata: Fragment | undefined;
}

/** A register and its place in a thread's memory for fragments. */
interface PlacedRegister {
  readonly operand: ResolvedOperand;
  readonly type: ScalarType;
  /** The offset in bytes. */
  readonly at: number;
}

/** A planned batch of products. */
export interface PlannedBatch {
  readonly products: readonly PlacedProduct[];
  /** The registers that a thread leaves. */
  readonly sources: readonly PlacedRegister[];
  /** The registers that a thread takes. */
  readonly results: readonly PlacedRegister[];
  /** The size of the memory for fragments, in bytes. */
  readonly byteLength: number;
}

/** Registers that are a fragment of one or several products. */
interface Tuple {
  readonly fragment: Fragment;
  /** Whether the batch sets the registers before it reads them. */
  readonly isResult: boolean;
  isSet: boolean;
  /** Whether the registers are elements of C or D only. */
  isAccumulator: boolean;
  /** The index of the last product that reads the registers. */
  lastRead: number;
  at: number;
}

/** The most products that are computed together. */
const mostProducts = 64;

/** Plans a batch: adds products as long as they can be computed together. */
export class ProductPlan {
  readonly #products: { readonly product: MatrixProduct; readonly tuples: ReadonlyMap<ProductPart, Tuple> }[] = [];
  readonly #tuples = new Map<string, Tuple>();
  /** The tuple of each register, for registers that the batch has read or set so far. */
  readonly #tupleOf = new Map<ResolvedOperand, Tuple>();
  readonly #ids = new Map<ResolvedOperand, number>();
  /** For each register, how often the batch reads it after it has set it. */
  readonly #reads = new Map<ResolvedOperand, number>();
  readonly #countReads: (register: Register) => number;
  #byteLength = 0;
  /** Whether no product can be added, because the results overlap the operands. */
  #isClosed = false;

  /** @param countReads returns how often a function reads a register */
  constructor(countReads: (register: Register) => number = () => Infinity) {
    this.#countReads = countReads;
  }

  get size(): number {
    return this.#products.length;
  }

  /** Whether the batch sets a register. */
  sets(operand: ResolvedOperand): boolean {
    return this.#tupleOf.get(operand)?.isSet === true;
  }

  /** Whether the batch reads or sets a register. */
  uses(operand: ResolvedOperand): boolean {
    return this.#tupleOf.has(operand);
  }

  /**
   * Adds a product. Returns false, and adds nothing, if the product must be in another batch: because it reads or sets
   * some of the registers of a fragment, but not all of them in their order, or because there is no more memory.
   */
  add({ product, ...fragments }: BatchedProduct): boolean {
    if (this.#isClosed) return false;
    const index = this.#products.length;
    const words = fragmentWords(product);
    const bytes = 4 * Object.values(words).reduce((sum, count) => sum + count, 0);
    if (index > 0 && (index >= mostProducts || this.#byteLength + bytes > mostFragmentBytes)) return false;
    const sources = (["a", "b", "c", "metadata"] as const).flatMap((part) => {
      const fragment = fragments[part];
      return fragment === undefined ? [] : [{ part, fragment, key: this.#keyOf(fragment) }];
    });
    const results = { fragment: fragments.d, key: this.#keyOf(fragments.d) };
    const isNew = (key: string, { operands }: Fragment) =>
      !this.#tuples.has(key) && operands.every((operand) => !this.sets(operand));
    if (sources.some(({ key, fragment }) => !this.#tuples.has(key) && !isNew(key, fragment))) return false;
    // A fragment that is set must not share registers with another one.
    const accumulator = sources.find(({ part }) => part === "c")!;
    const others = new Set(sources.filter(({ part }) => part !== "c").flatMap(({ fragment }) => fragment.operands));
    const known = this.#tuples.get(results.key);
    const isOfAccumulators = known === undefined || known.isAccumulator;
    const isOther = (operand: ResolvedOperand) => {
      const tuple = this.#tupleOf.get(operand);
      const isShared = accumulator.key !== results.key && accumulator.fragment.operands.includes(operand);
      return others.has(operand) || isShared || tuple !== undefined && tuple !== known;
    };
    const hasConflict = !isOfAccumulators || results.fragment.operands.some(isOther) ||
      new Set(results.fragment.operands).size < results.fragment.operands.length;
    if (hasConflict && index > 0) return false;
    const tuples = new Map<ProductPart, Tuple>();
    for (const { part, fragment, key } of sources) {
      const tuple = this.#tuple(key, { fragment, isResult: false });
      tuple.lastRead = index;
      if (part !== "c") tuple.isAccumulator = false;
      if (tuple.isSet) { for (const operand of fragment.operands) this.#noteRead(operand); }
      tuples.set(part, tuple);
    }
    // A product that is alone may have any registers: its results are taken after all of its operands have been left.
    this.#isClosed = hasConflict;
    const key = hasConflict ? `results of ${index}` : results.key;
    const tuple = this.#tuple(key, { fragment: results.fragment, isResult: true });
    tuple.isSet = true;
    tuples.set("d", tuple);
    this.#products.push({ product, tuples });
    this.#byteLength += bytes;
    return true;
  }

  #keyOf({ operands, type }: Fragment): string {
    const ids = operands.map((operand) => {
      let id = this.#ids.get(operand);
      if (id === undefined) this.#ids.set(operand, id = this.#ids.size);
      return id;
    });
    return `${type.name} ${ids.join(" ")}`;
  }

  #tuple(key: string, { fragment, isResult }: { fragment: Fragment; isResult: boolean }): Tuple {
    let tuple = this.#tuples.get(key);
    if (tuple === undefined) {
      tuple = { fragment, isResult, isSet: false, isAccumulator: true, lastRead: -1, at: -1 };
      this.#tuples.set(key, tuple);
      for (const operand of fragment.operands) this.#tupleOf.set(operand, tuple);
    }
    return tuple;
  }

  #noteRead(operand: ResolvedOperand): void {
    this.#reads.set(operand, (this.#reads.get(operand) ?? 0) + 1);
  }

  /** Assigns places to all fragments. */
  finish(): PlannedBatch {
    let end = 0;
    const place = (tuple: Tuple) => {
      if (tuple.at >= 0) return;
      tuple.at = end;
      end += bytesOf(tuple);
    };
    const products = this.#products.map(({ product, tuples }, index): PlacedProduct => {
      const source = (part: "a" | "b" | "c") => {
        const tuple = tuples.get(part)!;
        place(tuple);
        return tuple.at;
      };
      const c = tuples.get("c")!, d = tuples.get("d")!;
      const [a, b] = [source("a"), source("b")];
      source("c");
      const metadata = tuples.get("metadata");
      if (metadata !== undefined) place(metadata);
      // D takes the place of a C that nobody needs any more.
      const isFree = c.lastRead === index && c.isAccumulator && bytesOf(c) === bytesOf(d) &&
        (!c.isSet || c !== d && this.#isDead(c));
      if (d.at < 0 && isFree) d.at = c.at;
      else place(d);
      return { product, places: { a, b, c: c.at, d: d.at, metadata: metadata?.at ?? 0 } };
    });
    const tuples = [...this.#tuples.values()];
    const placed = ({ fragment: { operands, type }, at }: Tuple): PlacedRegister[] =>
      operands.map((operand, index) => ({ operand, type, at: at + type.bits / 8 * index }));
    return {
      products,
      sources: tuples.filter(({ isResult }) => !isResult).flatMap(placed),
      results: tuples.filter((tuple) => tuple.isSet && !this.#isDead(tuple)).flatMap(placed),
      byteLength: end,
    };
  }

  /** Whether the batch alone reads the registers that it sets, after it has set them. */
  #isDead({ fragment: { operands }, isResult }: Tuple): boolean {
    return isResult && operands.every((operand) => {
      return operand.kind === "register" && this.#countReads(operand) === (this.#reads.get(operand) ?? 0);
    });
  }
}

function bytesOf({ fragment: { operands, type } }: Tuple): number {
  return operands.length * type.bits / 8;
}
