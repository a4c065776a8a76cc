/**
 * Reductions of elements, in the order of ranks: rank 0's element and rank 1's, then the result and rank 2's, and so on.
 * Each step is rounded to the type, so that all ranks get the same bits on every machine. Float types that JavaScript
 * lacks are reduced as float32.
 *
 * - Integers wrap around.
 * - An average is the sum divided by the number of ranks; integers are rounded toward zero.
 * - A number wins against NaN in a maximum and a minimum, as in C's fmax and fmin, and 0 is greater than -0.
 * - A NaN may have any sign and payload.
 *
 * @module
 */
import { dataType, reductionOperation } from "../../collective_library.ts";
import type { TypedArray } from "../../support/validation.ts";

/** The typed arrays whose elements can be reduced. */
type ElementArray = Exclude<TypedArray, Uint8ClampedArray>;

/** An element type of collectives, and how to access its elements. */
export interface ElementType {
  /** The name of the type in `dataType`. */
  readonly name: string;
  readonly byteLength: number;
  readonly isInteger: boolean;
  /** Returns a typed array over `bytes`, which must begin at a multiple of 8. With `codec`, its elements are codes. */
  view(bytes: Uint8Array<ArrayBuffer>): ElementArray;
  /**
   * Converts between numbers and codes (bit patterns). Present for float types for which JavaScript has no typed array.
   */
  readonly codec?: Codec;
}

/** Converts between numbers and codes, which are the bit patterns of a float type of 8 or 16 bits. */
interface Codec {
  decode(code: number): number;
  /**
   * Returns the bit pattern of the representable value nearest to a number, with ties to even. Keeps infinities; drops
   * the sign and payload of a NaN.
   */
  encode(value: number): number;
  /**
   * Rounds a number to the nearest value of the type. In an 8-bit type, a number out of range becomes the largest
   * finite value.
   */
  round(value: number): number;
}

/** The constructor of a typed array of elements. */
type Constructor = new (buffer: ArrayBuffer, byteOffset: number, length: number) => ElementArray;

/** The format of an 8-bit float type. */
interface EightBitFormat {
  readonly mantissaBits: number;
  readonly bias: number;
  /** The code of the largest finite value of the format. */
  readonly largest: number;
  /** The bit pattern that encodes infinity. Undefined if the format cannot represent infinity. */
  readonly infinity?: number;
}

let types: Readonly<Record<number, ElementType>> | undefined;

/** Returns the element type that a number stands for in `dataType`. Undefined if there is none. */
export function elementType(number: number): ElementType | undefined {
  return (types ??= elementTypes())[number];
}

function elementTypes(): Readonly<Record<number, ElementType>> {
  return {
    [dataType.int8]: native("int8", Int8Array),
    [dataType.uint8]: native("uint8", Uint8Array),
    [dataType.int32]: native("int32", Int32Array),
    [dataType.uint32]: native("uint32", Uint32Array),
    [dataType.int64]: native("int64", BigInt64Array),
    [dataType.uint64]: native("uint64", BigUint64Array),
    [dataType.float16]: native("float16", Float16Array),
    [dataType.float32]: native("float32", Float32Array),
    [dataType.float64]: native("float64", Float64Array),
    [dataType.bfloat16]: { ...native("bfloat16", Uint16Array), isInteger: false, codec: bfloat16Codec() },
    [dataType.float8e4m3]: {
      ...native("float8e4m3", Uint8Array),
      isInteger: false,
      codec: eightBitCodec({ mantissaBits: 3, bias: 7, largest: 0x7e }),
    },
    [dataType.float8e5m2]: {
      ...native("float8e5m2", Uint8Array),
      isInteger: false,
      codec: eightBitCodec({ mantissaBits: 2, bias: 15, largest: 0x7b, infinity: 0x7c }),
    },
  };
}

function native(name: string, array: Constructor & { readonly BYTES_PER_ELEMENT: number }): ElementType {
  const byteLength = array.BYTES_PER_ELEMENT;
  return {
    name,
    byteLength,
    isInteger: !name.startsWith("float"),
    view: ({ buffer, byteOffset, byteLength: length }) => new array(buffer, byteOffset, length / byteLength),
  };
}

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

function bfloat16Codec(): Codec {
  const decode = (code: number): number => {
    floatBits[0] = code << 16;
    return float[0]!;
  };
  const encode = (value: number): number => {
    if (Number.isNaN(value)) return 0x7fff;
    float[0] = value;
    const bits = floatBits[0]!;
    return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
  };
  return { decode, encode, round: (value) => decode(encode(value)) };
}

function eightBitCodec({ mantissaBits, bias, largest, infinity }: EightBitFormat): Codec {
  const smallestExponent = 1 - bias;
  const values = Float32Array.from({ length: 256 }, (_, code) => {
    const sign = code < 0x80 ? 1 : -1, magnitude = code & 0x7f;
    if (magnitude === infinity) return sign * Infinity;
    if (magnitude > largest) return NaN;
    const exponent = Math.max(magnitude >> mantissaBits, 1), mantissa = magnitude & (2 ** mantissaBits - 1);
    const implied = magnitude >> mantissaBits === 0 ? 0 : 2 ** mantissaBits;
    return sign * (implied + mantissa) * 2 ** (exponent - bias - mantissaBits);
  });
  const encode = (value: number): number => {
    if (Number.isNaN(value)) return 0x7f;
    float[0] = value;
    const sign = floatBits[0]! >>> 31 << 7;
    const magnitude = Math.abs(float[0]!);
    if (magnitude === Infinity) return sign | (infinity ?? largest);
    const exponent = Math.max((floatBits[0]! >>> 23 & 0xff) - 127, smallestExponent);
    // If rounding carries the mantissa to the next power of two, the addition below increments the exponent.
    const steps = roundToEven(magnitude / 2 ** (exponent - mantissaBits));
    return sign | Math.min(((exponent - smallestExponent) << mantissaBits) + steps, largest);
  };
  // Replace infinity with the largest finite value, like CUDA's conversion with __NV_SATFINITE.
  const round = (value: number): number => {
    const code = encode(value);
    return values[(code & 0x7f) === infinity ? (code & 0x80) | largest : code]!;
  };
  return { decode: (code) => values[code]!, encode, round };
}

function roundToEven(value: number): number {
  const below = Math.floor(value), rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** The typed arrays whose elements are numbers, not BigInts. */
type NumberArray = Exclude<ElementArray, BigIntArray>;
type BigIntArray = BigInt64Array | BigUint64Array;

/** Reduces the elements of several ranks. The inputs of the ranks are accumulated one after another. */
export class ElementReduction {
  readonly #type: ElementType;
  readonly #operation: number;
  #result: ElementArray | undefined;
  #ranks = 0;

  /** @param operation the number of the reduction, as in `reductionOperation` */
  constructor(type: ElementType, operation: number) {
    this.#type = type;
    this.#operation = operation;
  }

  /**
   * Combines the next rank's elements with the result. The `bytes` of the first call may be overwritten with the
   * result.
   */
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

  /** Completes the reduction, and writes the result's elements to `bytes`. */
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

  /**
   * Rounds the result to values of the element type. Not needed for a maximum or minimum, which is one of the inputs.
   */
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
    // For an integer array, the assignment rounds toward zero.
    for (let i = 0; i < result.length; i++) result[i]! /= ranks;
    this.#round();
  }
}

function isBigIntArray(array: ElementArray): array is BigIntArray {
  return array instanceof BigInt64Array || array instanceof BigUint64Array;
}

/** Combines each element of `result` with the corresponding element of `next`, and stores it in `result`. */
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
    // Use `Math.imul`: a double cannot represent all products of two 32-bit integers.
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
