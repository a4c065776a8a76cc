/**
 * Element types and shapes of arrays in an offer's metadata, in the form that the Python package writes and reads: the
 * element type has the name that array libraries give it, such as `float32`, and the shape is an array of numbers.
 *
 * @module
 */
import { shown, type TypedArray, type TypedArrayConstructor } from "../support/validation.ts";

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
/** The maximum number of dimensions, as in NumPy and in the Python package. */
const maximumDimensions = 64;

/** The element type and the shape of an array, as stated in metadata. */
export interface ArrayDescription {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** Describes an array for metadata. */
export function describeArray({ type, shape }: {
  readonly type: TypedArrayConstructor<TypedArray>;
  readonly shape: readonly number[];
}): ArrayDescription {
  // A subclass of a typed array gets the dtype of its base class. Only a Uint8ClampedArray has no dtype of its own: it
  // gets "uint8".
  let dtype: string | undefined;
  for (let of = type; dtype === undefined && typeof of === "function"; of = Object.getPrototypeOf(of)) {
    dtype = dtypes.get(of);
  }
  return { dtype: dtype ?? "uint8", shape: [...shape] };
}

/**
 * Returns the typed array for the element type that metadata states.
 *
 * @param metadata any JSON value from another process
 * @param what the array, for the error's message
 * @throws {TypeError} If the metadata states no element type, or one without a typed array
 */
export function typeFromMetadata(metadata: unknown, what: string): TypedArrayConstructor<TypedArray> {
  const dtype = memberOf(metadata, "dtype");
  if (typeof dtype === "string" && Object.hasOwn(types, dtype)) return types[dtype]!;
  const why = dtype === undefined
    ? "its metadata states no dtype"
    : `no typed array has elements of its dtype, ${shown(dtype)}`;
  throw new TypeError(`Cannot map ${what} as an array: ${why}; give the type, such as mapArray(Float32Array)`);
}

/** Returns the shape that metadata states; undefined if it states none, or one that does not have `length` elements. */
export function shapeFromMetadata(metadata: unknown, length: number): readonly number[] | undefined {
  const shape = memberOf(metadata, "shape");
  if (!Array.isArray(shape) || shape.length > maximumDimensions) return undefined;
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) return undefined;
  return shape.reduce((product, size) => product * size, 1) === length ? shape : undefined;
}

function memberOf(metadata: unknown, name: string): unknown {
  const isObject = typeof metadata === "object" && metadata !== null && Object.hasOwn(metadata, name);
  return isObject ? (metadata as Record<string, unknown>)[name] : undefined;
}
