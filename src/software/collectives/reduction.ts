/**
 * Reductions of elements, in the order of ranks: rank 0's element and rank 1's, then the result and rank 2's, and so on.
 * Each step is rounded to the type, so that all ranks get the same bits on every machine.
 *
 * - Integers wrap around.
 * - An average is the sum divided by the number of ranks; integers are rounded toward zero.
 * - A number wins against NaN in a maximum and a minimum, as in C's fmax and fmin, and 0 is greater than -0.
 * - A NaN may have any sign and payload.
 *
 * @module
 */
import { reductionOperation } from "../../collective_library.ts";
import type { ElementArray, ElementType } from "./element_types.ts";

/** Element arrays of numbers. */
type NumberArray = Exclude<ElementArray, BigIntArray>;
type BigIntArray = BigInt64Array | BigUint64Array;

/** The sum of elements of several ranks, or another reduction of them. */
export class ElementReduction {
  readonly #type: ElementType;
  readonly #operation: number;
  #result: ElementArray | undefined;
  #ranks = 0;

  /** @param operation one of `reductionOperation` */
  constructor(type: ElementType, operation: number) {
    this.#type = type;
    this.#operation = operation;
  }

  /** Adds the elements of the next rank. The bytes of the first rank are overwritten with the result. */
  add(bytes: Uint8Array<ArrayBuffer>): void {
    const elements = this.#decoded(bytes);
    this.#ranks++;
    if (this.#result === undefined) {
      this.#result = elements;
      return;
    }
    if (isBigIntArray(elements)) combineBigInts(this.#result as BigIntArray, elements, this.#operation);
    else combineNumbers(this.#result as NumberArray, elements, this.#operation);
    this.#round();
  }

  /** Fills `bytes` with the result. */
  finish(bytes: Uint8Array<ArrayBuffer>): void {
    const result = this.#result!;
    if (this.#operation === reductionOperation.average) this.#divide(result);
    const { codec } = this.#type;
    const target = this.#type.view(bytes);
    if (codec === undefined) target.set(result as never);
    else for (let i = 0; i < result.length; i++) target[i] = codec.encode(result[i] as number);
  }

  #decoded(bytes: Uint8Array<ArrayBuffer>): ElementArray {
    const { codec } = this.#type;
    const elements = this.#type.view(bytes);
    return codec === undefined ? elements : Float32Array.from(elements as Uint8Array, codec.decode);
  }

  /** Rounds the result to the type. A maximum or minimum is a value of the type already. */
  #round(): void {
    const { codec } = this.#type;
    const { maximum, minimum } = reductionOperation;
    if (codec === undefined || this.#operation === maximum || this.#operation === minimum) return;
    const result = this.#result as Float32Array;
    for (let i = 0; i < result.length; i++) result[i] = codec.round(result[i]!);
  }

  #divide(result: ElementArray): void {
    const ranks = this.#ranks;
    if (isBigIntArray(result)) {
      for (let i = 0; i < result.length; i++) result[i]! /= BigInt(ranks);
      return;
    }
    // Arrays of integers round toward zero themselves.
    for (let i = 0; i < result.length; i++) result[i]! /= ranks;
    this.#round();
  }
}

function isBigIntArray(array: ElementArray): array is BigIntArray {
  return array instanceof BigInt64Array || array instanceof BigUint64Array;
}

/** Sets each element of `result` to its combination with that of `next`. */
function combineNumbers(result: NumberArray, next: NumberArray, operation: number): void {
  const { product, maximum, minimum } = reductionOperation;
  const { length } = result;
  if (operation === maximum) {
    for (let i = 0; i < length; i++) result[i] = larger(result[i]!, next[i]!);
  } else if (operation === minimum) {
    for (let i = 0; i < length; i++) result[i] = -larger(-result[i]!, -next[i]!);
  } else if (operation !== product) {
    for (let i = 0; i < length; i++) result[i]! += next[i]!;
  } else if (result instanceof Int32Array || result instanceof Uint32Array) {
    // A double cannot hold all bits of the product of two 32-bit integers.
    for (let i = 0; i < length; i++) result[i] = Math.imul(result[i]!, next[i]!);
  } else {
    for (let i = 0; i < length; i++) result[i]! *= next[i]!;
  }
}

function larger(one: number, other: number): number {
  if (one !== one) return other;
  return other !== other ? one : Math.max(one, other);
}

function combineBigInts(result: BigIntArray, next: BigIntArray, operation: number): void {
  const { product, maximum, minimum } = reductionOperation;
  const { length } = result;
  if (operation === maximum) {
    for (let i = 0; i < length; i++) if (next[i]! > result[i]!) result[i] = next[i]!;
  } else if (operation === minimum) {
    for (let i = 0; i < length; i++) if (next[i]! < result[i]!) result[i] = next[i]!;
  } else if (operation === product) {
    for (let i = 0; i < length; i++) result[i]! *= next[i]!;
  } else {
    for (let i = 0; i < length; i++) result[i]! += next[i]!;
  }
}
