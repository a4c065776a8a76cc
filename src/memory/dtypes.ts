/**
 * Element types and shapes of arrays in an offer's metadata, in the form that the Python package writes and reads: the
 * element type has the name that array libraries give it, such as `float32`, and the shape is an array of numbers.
 *
 * @module
 */
import {
  byteLengthOfArray,
  checkArrayType,
  checkOptions,
  didYouMean,
  type KnownOptions,
  shown,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../support/validation.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** The typed array for each element type that has one. */
const types: Readonly<Record<string, TypedArrayConstructor<TypedArray>>> = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Float16Array,
  float32: Float32Array,
  float64: Float64Array,
};
const dtypes = new Map(Object.entries(types).map(([dtype, type]) => [type, dtype]));

/** The element types without a typed array of their own. `type` is the typed array that shows the bits. */
const otherTypes: Readonly<Record<string, ArrayElement>> = {
  bool: { type: Uint8Array, bits: 8 },
  bfloat16: { type: Uint16Array, bits: 16 },
  float8_e3m4: { type: Uint8Array, bits: 8 },
  float8_e4m3: { type: Uint8Array, bits: 8 },
  float8_e4m3b11fnuz: { type: Uint8Array, bits: 8 },
  float8_e4m3fn: { type: Uint8Array, bits: 8 },
  float8_e4m3fnuz: { type: Uint8Array, bits: 8 },
  float8_e5m2: { type: Uint8Array, bits: 8 },
  float8_e5m2fnuz: { type: Uint8Array, bits: 8 },
  float8_e8m0fnu: { type: Uint8Array, bits: 8 },
  float6_e2m3fn: { type: Uint8Array, bits: 6 },
  float6_e3m2fn: { type: Uint8Array, bits: 6 },
  float4_e2m1fn: { type: Uint8Array, bits: 4 },
  complex64: { type: Float32Array, bits: 64 },
  complex128: { type: Float64Array, bits: 128 },
};

/** How elements of a dtype are represented in memory. */
export interface ArrayElement {
  readonly type: TypedArrayConstructor<TypedArray>;
  /** The size of an element in bits. Elements are packed without padding. */
  readonly bits: number;
}

/** The shape of an array, and its dtype if the typed array does not imply it. */
export interface ArrayOptions {
  /** The size of each dimension, in elements of the dtype; the last dimension varies fastest. */
  shape?: readonly number[];
  /**
   * The name of the element type, as array libraries call it, such as `"bfloat16"` for a `Uint16Array` that holds the
   * bits. Defaults to the dtype of the typed array, such as `"float32"`.
   */
  dtype?: string;
}

const arrayOptions: KnownOptions<ArrayOptions> = {
  action: "describe an array",
  names: { shape: true, dtype: true },
  meantBy: (value) => Array.isArray(value) ? `{ shape: [${value.join(", ")}] }` : undefined,
};
/** The maximum number of dimensions, as in NumPy and in the Python package. */
const maximumDimensions = 64;

/** The element type and the shape of an array, as stated in metadata. */
export interface ArrayDescription {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** Returns how elements of a dtype are represented in memory. Undefined if there is no such dtype. */
export function elementTypeOf(dtype: string): ArrayElement | undefined {
  if (Object.hasOwn(otherTypes, dtype)) return otherTypes[dtype];
  if (!Object.hasOwn(types, dtype)) return undefined;
  return { type: types[dtype]!, bits: 8 * types[dtype]!.BYTES_PER_ELEMENT };
}

/** Returns the dtype of a typed array's elements. */
export function dtypeOfType(type: TypedArrayConstructor<TypedArray>): string {
  // A subclass of a typed array has the dtype of its base class. Uint8ClampedArray, which has no corresponding dtype,
  // counts as "uint8".
  let dtype: string | undefined;
  for (let of = type; dtype === undefined && typeof of === "function"; of = Object.getPrototypeOf(of)) {
    dtype = dtypes.get(of);
  }
  return dtype ?? "uint8";
}

/**
 * Returns the dtype, the shape and the size in bytes of an array.
 *
 * @param byteLength the size of the memory, which the array must fill; undefined if the memory is still to be allocated
 * @throws {RangeError} If the shape is invalid, or its size does not equal `byteLength`
 * @throws {TypeError} If `type` cannot represent elements of the dtype
 */
export function arrayLayout(
  type: TypedArrayConstructor<TypedArray>,
  options: ArrayOptions,
  byteLength?: number,
): ArrayDescription & { readonly byteLength: number } {
  checkArrayType(type);
  checkOptions(options, arrayOptions);
  const { dtype = dtypeOfType(type), shape } = options;
  const own = dtypeOfType(type);
  const element = typeof dtype === "string" ? elementTypeOf(dtype) : undefined;
  if (element === undefined) {
    const names = [...Object.keys(types), ...Object.keys(otherTypes)];
    throw new TypeError(`Cannot use ${shown(dtype)} as a dtype: there is no such dtype${didYouMean(dtype, names)}`);
  }
  if (dtypeOfType(element.type) !== own) {
    throw new TypeError(`Cannot see ${dtype} elements as a ${type.name}: give ${element.type.name}`);
  }
  const { bits } = element;
  if (shape === undefined) {
    if (byteLength === undefined) throw new TypeError("Cannot allocate an array without its shape: give { shape }");
    if ((8 * byteLength) % bits !== 0) {
      throw new RangeError(`Cannot see ${byteLength} bytes as ${dtype} elements: they have ${bits} bits each`);
    }
    return { dtype, shape: [8 * byteLength / bits], byteLength };
  }
  const count = elementsOf(shape);
  const needed = count * bits / 8;
  if (!Number.isSafeInteger(count * bits) || needed % type.BYTES_PER_ELEMENT !== 0) {
    throw new RangeError(`Cannot have an array of shape [${shape}]: its ${count * bits} bits are not whole bytes`);
  }
  if (byteLength !== undefined && needed !== byteLength) {
    throw new RangeError(
      `Cannot see ${byteLength} bytes as ${dtype} elements of shape [${shape}]: they have ${needed} bytes`,
    );
  }
  return { dtype, shape: [...shape], byteLength: needed };
}

/**
 * Returns the number of elements of an array with the given shape: 1 if it has no dimensions. Throws if the shape is
 * invalid.
 */
function elementsOf(shape: readonly number[]): number {
  if (!Array.isArray(shape)) {
    throw new TypeError(`Cannot use ${whatIs(shape)} as a shape: give an array of numbers, such as [480, 640]`);
  }
  if (shape.length > maximumDimensions) {
    throw new RangeError(`Cannot use a shape of ${shape.length} dimensions: it may have ${maximumDimensions}`);
  }
  const wrong = shape.find((size) => !Number.isSafeInteger(size) || size < 0);
  if (wrong !== undefined) {
    throw new RangeError(`Cannot use [${shape}] as a shape: ${shown(wrong)} is not a whole number of elements`);
  }
  // If any dimension is 0, the array is empty, even if the product of the other dimensions would overflow.
  return shape.includes(0) ? 0 : shape.reduce((product, size) => product * size, 1);
}

/**
 * Returns the size in bytes to allocate for `length` elements, or for an array with a layout. At least the size of one
 * element.
 */
export function byteLengthToAllocate(
  type: TypedArrayConstructor<TypedArray>,
  { length, layout }: { readonly length: number; readonly layout?: { readonly byteLength: number } | undefined },
): number {
  return layout === undefined ? byteLengthOfArray(type, length) : Math.max(layout.byteLength, type.BYTES_PER_ELEMENT);
}

/**
 * Returns the typed array for the `dtype` in an offer's metadata.
 *
 * @param metadata any JSON value from another process
 * @param what the array, for the error's message
 * @throws {TypeError} If the metadata has no `dtype`, or one without a corresponding typed array
 */
export function typeFromMetadata(metadata: unknown, what: string): TypedArrayConstructor<TypedArray> {
  const dtype = memberOf(metadata, "dtype");
  if (typeof dtype === "string" && Object.hasOwn(types, dtype)) return types[dtype]!;
  const why = dtype === undefined
    ? "its metadata states no dtype"
    : `no typed array has elements of its dtype, ${shown(dtype)}`;
  throw new TypeError(`Cannot map ${what} as an array: ${why}; give the type, such as mapArray(Float32Array)`);
}

/**
 * Returns the dtype and the shape in an offer's metadata. Omits each of them if it does not fit the given type and
 * size.
 *
 * @param metadata any JSON value from another process
 */
export function layoutFromMetadata(
  metadata: unknown,
  { type, byteLength }: { readonly type: TypedArrayConstructor<TypedArray>; readonly byteLength: number },
): { readonly dtype?: string; readonly shape?: readonly number[] | undefined } {
  const dtype = memberOf(metadata, "dtype");
  const own = dtypeOfType(type);
  const element = typeof dtype === "string" && dtype !== own ? elementTypeOf(dtype) : undefined;
  const length = 8 * byteLength / (element?.bits ?? 8);
  if (element === undefined || dtypeOfType(element.type) !== own || !Number.isInteger(length)) {
    return { shape: shapeFromMetadata(metadata, byteLength / type.BYTES_PER_ELEMENT) };
  }
  return { dtype: dtype as string, shape: shapeFromMetadata(metadata, length) ?? [length] };
}

/** Returns the shape that metadata states; undefined if it states none, or one that does not have `length` elements. */
function shapeFromMetadata(metadata: unknown, length: number): readonly number[] | undefined {
  const shape = memberOf(metadata, "shape");
  if (!Array.isArray(shape) || shape.length > maximumDimensions) return undefined;
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) return undefined;
  return shape.reduce((product, size) => product * size, 1) === length ? shape : undefined;
}

function memberOf(metadata: unknown, name: string): unknown {
  const isObject = typeof metadata === "object" && metadata !== null && Object.hasOwn(metadata, name);
  return isObject ? (metadata as Record<string, unknown>)[name] : undefined;
}
