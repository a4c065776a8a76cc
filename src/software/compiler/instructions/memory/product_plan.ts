/**
 * Where the threads of a warp leave the fragments of matrices of several instructions that are executed together:
 * loads and products.
 *
 * @module
 */
import type { CompiledInstruction } from "../instruction_form.ts";
import { fragmentWords, type MatrixProduct, type ProductPart } from "../../tensor_cores/matrix_products.ts";
import { mostFragmentBytes } from "../../tensor_cores/workspace.ts";
import type { PlacedOperation } from "../../tensor_cores/product_batches.ts";
import type { Register, ResolvedAddress, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import type { ScalarType } from "../../../../ptx/instructions/scalar_types.ts";

/** The registers of a fragment. */
export interface Fragment {
  readonly operands: readonly ResolvedOperand[];
  readonly type: ScalarType;
}

/** A product and its fragments. */
export interface BatchedProduct {
  readonly kind: "product";
  readonly product: MatrixProduct;
  readonly a: Fragment;
  readonly b: Fragment;
  readonly c: Fragment;
  readonly d: Fragment;
  readonly metadata: Fragment | undefined;
}

/** A load of matrices. */
export interface BatchedLoad {
  readonly kind: "load";
  readonly instruction: CompiledInstruction;
  readonly address: ResolvedAddress;
  readonly results: Fragment;
  readonly isTransposed: boolean;
}

/** A register and its place in a thread's memory for fragments. */
interface PlacedRegister {
  readonly operand: ResolvedOperand;
  readonly type: ScalarType;
  /** The offset in bytes. */
  readonly at: number;
}

/** A planned batch of loads and products. */
export interface PlannedBatch {
  readonly operations: readonly PlacedOperation[];
  /** The registers that a thread leaves. */
  readonly sources: readonly PlacedRegister[];
  /** The loads for which a thread leaves the offset of a row in linear memory, and where. */
  readonly rows: readonly { readonly load: BatchedLoad; readonly at: number }[];
  /** The registers that a thread takes. */
  readonly results: readonly PlacedRegister[];
  /** The registers that a thread neither leaves nor takes, and their offsets: see `ResidentRegisters`. */
  readonly residents: ReadonlyMap<Register, number>;
  /** The size of the memory for fragments, in bytes. */
  readonly byteLength: number;
}

/** Registers that are a fragment. Fragments that consist of some of them in order are part of it. */
interface Tuple {
  readonly fragment: Fragment;
  /** Whether the batch sets the registers before it reads them. */
  readonly isResult: boolean;
  isSet: boolean;
  /** Whether the registers are elements of C or D only. */
  isAccumulator: boolean;
  /** The index of the last operation that reads the registers. */
  lastRead: number;
  at: number;
}

/** A fragment that is a tuple or a part of one. */
interface Part {
  readonly tuple: Tuple;
  /** The offset in the tuple, in bytes. */
  readonly offset: number;
}

/** An operation of a batch, before its fragments have places. */
type PlannedOperation =
  | { readonly kind: "product"; readonly product: MatrixProduct; readonly parts: ReadonlyMap<ProductPart, Part> }
  | { readonly kind: "load"; readonly load: BatchedLoad; readonly results: Tuple };

/**
 * Registers that stay in the threads' memory for fragments, because all batches of a function only add to them: the
 * offset of each, in bytes.
 */
export interface ResidentRegisters {
  readonly places: ReadonlyMap<ResolvedOperand, number>;
  readonly byteLength: number;
}

/**
 * Returns the registers that may be resident in a function with these batches. Undefined if there are none.
 */
export function residentRegisters(plans: readonly ProductPlan[]): ResidentRegisters | undefined {
  const sums = new Map<ResolvedOperand | undefined, Fragment>();
  const excluded = new Set<ResolvedOperand>();
  for (const { fragment, isSum } of plans.flatMap(({ fragments }) => fragments)) {
    const [first] = fragment.operands;
    const known = sums.get(first);
    if (isSum && (known === undefined || isSame(known, fragment))) sums.set(first, fragment);
    else for (const operand of fragment.operands) excluded.add(operand);
  }
  const fragments = [...sums.values()];
  const counts = Map.groupBy(fragments.flatMap(({ operands }) => operands), (operand) => operand);
  const places = new Map<ResolvedOperand, number>();
  let byteLength = 0;
  for (const { operands, type } of fragments) {
    const isResident = operands.every((operand) => {
      return operand.kind === "register" && !excluded.has(operand) && counts.get(operand)!.length === 1;
    });
    for (const operand of isResident ? operands : []) {
      places.set(operand, byteLength);
      byteLength += type.bits / 8;
    }
  }
  return byteLength === 0 ? undefined : { places, byteLength };
}

/** The most instructions that are executed together. */
const mostOperations = 96;

/** Plans a batch: adds instructions as long as they can be executed together. */
export class ProductPlan {
  readonly #operations: PlannedOperation[] = [];
  readonly #tuples: Tuple[] = [];
  /** The tuple of each register that the batch has left or set so far. */
  readonly #tupleOf = new Map<ResolvedOperand, Tuple>();
  readonly #addresses = new Set<ResolvedOperand>();
  /** For each register, how often the batch reads it after it has set it. */
  readonly #reads = new Map<ResolvedOperand, number>();
  readonly #countReads: (register: Register) => number;
  #byteLength = 0;
  /** Whether nothing can be added, because results overlap operands. */
  #isClosed = false;

  /** @param countReads returns how often a function reads a register */
  constructor(countReads: (register: Register) => number = () => Infinity) {
    this.#countReads = countReads;
  }

  /** Whether the batch sets a register. */
  sets(operand: ResolvedOperand): boolean {
    return this.#tupleOf.get(operand)?.isSet === true;
  }

  /** Whether the batch reads or sets a register. */
  uses(operand: ResolvedOperand): boolean {
    return this.#tupleOf.has(operand) || this.#addresses.has(operand);
  }

  /**
   * Adds an instruction. Returns false, and adds nothing, if the instruction must be in another batch: because it reads
   * or sets some of the registers of a fragment, but not all of them in their order, or because there is no more memory.
   */
  add(operation: BatchedProduct | BatchedLoad): boolean {
    const words = operation.kind === "load"
      ? operation.results.operands.length + 1
      : Object.values(fragmentWords(operation.product)).reduce((sum, count) => sum + count, 0);
    const index = this.#operations.length;
    const isFull = index >= mostOperations || this.#byteLength + 4 * words > mostFragmentBytes;
    if (this.#isClosed || index > 0 && isFull) return false;
    const isAdded = operation.kind === "load" ? this.#addLoad(operation) : this.#addProduct(operation);
    if (isAdded) this.#byteLength += 4 * words;
    return isAdded;
  }

  #addLoad(load: BatchedLoad): boolean {
    const { address: { base }, results } = load;
    const isFirst = this.#operations.length === 0;
    if (base?.kind === "register" && this.sets(base)) return false;
    if (!isFirst && results.operands.some((operand) => this.#tupleOf.has(operand))) return false;
    if (new Set(results.operands).size < results.operands.length) {
      if (!isFirst) return false;
      this.#isClosed = true;
    }
    if (base !== undefined) this.#addresses.add(base);
    const tuple = this.#newTuple(results, true);
    tuple.isAccumulator = false;
    tuple.isSet = true;
    this.#operations.push({ kind: "load", load, results: tuple });
    return true;
  }

  #addProduct({ product, ...fragments }: BatchedProduct): boolean {
    const index = this.#operations.length;
    const sources = (["a", "b", "c", "metadata"] as const).flatMap((name) => {
      const fragment = fragments[name];
      return fragment === undefined ? [] : [{ name, fragment, part: this.#find(fragment) }];
    });
    const isMixed = ({ fragment, part }: typeof sources[number]) =>
      part === undefined && fragment.operands.some((operand) => this.sets(operand));
    if (sources.some(isMixed)) return false;
    // A fragment that is set must not share registers with another one.
    const { operands: results } = fragments.d;
    const known = this.#find(fragments.d);
    const isWhole = known === undefined || known.tuple.fragment.operands.length === results.length;
    const others = new Set(
      sources.filter(({ fragment }) => !isSame(fragment, fragments.d)).flatMap(({ fragment }) => fragment.operands),
    );
    const isAlsoOperand = sources.some(({ name, fragment }) => name !== "c" && isSame(fragment, fragments.d));
    const hasConflict = !isWhole || isAlsoOperand || known?.tuple.isAccumulator === false ||
      results.some((operand) => others.has(operand) || known === undefined && this.#tupleOf.has(operand)) ||
      new Set(results).size < results.length;
    if (hasConflict && index > 0) return false;
    const parts = new Map<ProductPart, Part>();
    for (const { name, fragment, part } of sources) {
      const found = part ?? this.#find(fragment) ?? { tuple: this.#newTuple(fragment, false), offset: 0 };
      found.tuple.lastRead = index;
      if (name !== "c") found.tuple.isAccumulator = false;
      if (found.tuple.isSet) {
        for (const operand of fragment.operands) this.#reads.set(operand, (this.#reads.get(operand) ?? 0) + 1);
      }
      parts.set(name, found);
    }
    // An instruction that is alone may have any registers: its results are taken after its operands have been left.
    this.#isClosed = hasConflict;
    const target = hasConflict ? undefined : this.#find(fragments.d)?.tuple;
    const tuple = target ?? this.#newTuple(fragments.d, true);
    tuple.isSet = true;
    parts.set("d", { tuple, offset: 0 });
    this.#operations.push({ kind: "product", product, parts });
    return true;
  }

  /** Finds a fragment among the tuples. */
  #find({ operands, type }: Fragment): Part | undefined {
    const [first] = operands;
    const tuple = first && this.#tupleOf.get(first);
    if (tuple === undefined || tuple.fragment.type !== type) return undefined;
    const begin = tuple.fragment.operands.indexOf(first!);
    const isPart = operands.every((operand, index) => tuple.fragment.operands[begin + index] === operand);
    return isPart ? { tuple, offset: begin * type.bits / 8 } : undefined;
  }

  #newTuple(fragment: Fragment, isResult: boolean): Tuple {
    const tuple: Tuple = { fragment, isResult, isSet: false, isAccumulator: true, lastRead: -1, at: -1 };
    this.#tuples.push(tuple);
    for (const operand of fragment.operands) this.#tupleOf.set(operand, tuple);
    return tuple;
  }

  /** The fragments so far. `isSum` states whether the batch only adds to the registers, and reads them only for that. */
  get fragments(): readonly { readonly fragment: Fragment; readonly isSum: boolean }[] {
    return this.#tuples.map(({ fragment, isResult, isSet, isAccumulator }) => {
      return { fragment, isSum: !isResult && isSet && isAccumulator };
    });
  }

  /** Assigns places to all fragments. */
  finish(residents?: ResidentRegisters): PlannedBatch {
    let end = residents?.byteLength ?? 0;
    const residentPlace = ({ fragment: { operands: [first] } }: Tuple) => first && residents?.places.get(first);
    for (const tuple of this.#tuples) tuple.at = residentPlace(tuple) ?? -1;
    const reserve = (bytes: number) => {
      end += bytes;
      return end - bytes;
    };
    const place = (tuple: Tuple) => {
      if (tuple.at < 0) tuple.at = reserve(bytesOf(tuple));
      return tuple.at;
    };
    const rows: { readonly load: BatchedLoad; readonly at: number }[] = [];
    const operations = this.#operations.map((operation, index): PlacedOperation => {
      if (operation.kind === "load") {
        const { load, results } = operation;
        const row = reserve(4);
        rows.push({ load, at: row });
        const { isTransposed, results: { operands } } = load;
        const isTaken = !this.#isDead(results);
        return { kind: "load", matrices: operands.length, isTransposed, row, at: place(results), isTaken };
      }
      const { product, parts } = operation;
      const at = (name: ProductPart) => {
        const part = parts.get(name);
        return part === undefined ? 0 : place(part.tuple) + part.offset;
      };
      const places = { a: at("a"), b: at("b"), c: at("c"), metadata: at("metadata") };
      const { tuple: c } = parts.get("c")!, { tuple: d } = parts.get("d")!;
      // D reuses the place of C if no later product reads C.
      const isFree = c.lastRead === index && c.isAccumulator && bytesOf(c) === bytesOf(d) &&
        (!c.isSet || c !== d && this.#isDead(c));
      if (d.at < 0 && isFree) d.at = c.at;
      return { kind: "product", product, places: { ...places, d: place(d) } };
    });
    const placed = ({ fragment: { operands, type }, at }: Tuple): PlacedRegister[] =>
      operands.map((operand, index) => ({ operand, type, at: at + type.bits / 8 * index }));
    const staying = this.#tuples.filter((tuple) => residentPlace(tuple) !== undefined);
    const others = this.#tuples.filter((tuple) => residentPlace(tuple) === undefined);
    return {
      operations,
      rows,
      sources: others.filter(({ isResult }) => !isResult).flatMap(placed),
      results: others.filter((tuple) => tuple.isSet && !this.#isDead(tuple)).flatMap(placed),
      residents: new Map(staying.flatMap(placed).map(({ operand, at }) => [operand as Register, at])),
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

function isSame(a: Fragment, b: Fragment): boolean {
  return a.operands.length === b.operands.length && a.operands.every((operand, index) => operand === b.operands[index]);
}

function bytesOf({ fragment: { operands, type } }: Tuple): number {
  return operands.length * type.bits / 8;
}
