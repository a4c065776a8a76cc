/**
 * The types of elements that collectives move and reduce. Float types that JavaScript lacks are reduced as float32, and
 * rounded to the type.
 *
 * @module
 */
import { dataType } from "../../collective_library.ts";
import type { TypedArray } from "../../support/validation.ts";

/** The typed arrays that elements are reduced in. */
export type ElementArray = Exclude<TypedArray, Uint8ClampedArray>;

/** A type of elements. */
export interface ElementType {
  /** Its name in `dataType`. */
  readonly name: string;
  readonly byteLength: number;
  readonly isInteger: boolean;
  /** A view of whole elements at a multiple of 8 bytes. The elements of a type with `codec` are its codes. */
  view(bytes: Uint8Array<ArrayBuffer>): ElementArray;
  /** Converts between numbers and the codes of a type that JavaScript lacks. */
  readonly codec?: Codec;
}

/** Converts between numbers and their codes in memory, for a float type of 8 or 16 bits. */
export interface Codec {
  decode(code: number): number;
  /** Rounds to the nearest value, or to the even one of two. A NaN loses its sign and payload; infinities stay. */
  encode(value: number): number;
  /** Rounds a result to a value of the type. In 8 bits, it saturates: an overflow gives the largest value. */
  round(value: number): number;
}

/** The constructor of an element array. */
type Constructor = new (buffer: ArrayBuffer, byteOffset: number, length: number) => ElementArray;

/** The format of an 8-bit float type. */
interface EightBitFormat {
  readonly mantissaBits: number;
  readonly bias: number;
  /** The code of the largest finite value. */
  readonly largest: number;
  /** The code of infinity, if there is one. */
  readonly infinity?: number;
}

let types: Readonly<Record<number, ElementType>> | undefined;

/** A type by its number in `dataType`. Undefined if there is none. */
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
    // A mantissa that is rounded up to the next power of two becomes the first of the next exponent.
    const steps = roundToEven(magnitude / 2 ** (exponent - mantissaBits));
    return sign | Math.min(((exponent - smallestExponent) << mantissaBits) + steps, largest);
  };
  // Saturates, as CUDA's conversion with __NV_SATFINITE does.
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
