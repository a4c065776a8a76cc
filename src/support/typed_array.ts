import { checkNumber, whatIs } from "./validation.ts";

/** The typed arrays that device memory can be read as. */
export type TypedArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Float16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/** The constructor of a typed array, such as `Float32Array`. */
export interface TypedArrayConstructor<T extends TypedArray> {
  /** The size of one element in bytes. */
  readonly BYTES_PER_ELEMENT: number;
  /** Creates a view of `buffer`. */
  new (buffer: ArrayBuffer, byteOffset?: number, length?: number): T;
}

/** Throws a `TypeError` unless `type` is the constructor of a typed array. */
export function checkArrayType(type: TypedArrayConstructor<TypedArray>): void {
  // In Bun, DataView has a BYTES_PER_ELEMENT, which is 1.
  const isArray = typeof type === "function" && type.BYTES_PER_ELEMENT >= 1 && type.name !== "DataView";
  if (isArray) return;
  throw new TypeError(
    `Cannot use ${whatIs(type)} as the type of elements: give a typed array's constructor, such as Float32Array`,
  );
}

/** The size in bytes of an array to allocate. Throws if its type or length is invalid. */
export function byteLengthOfArray(type: TypedArrayConstructor<TypedArray>, length: number): number {
  checkArrayType(type);
  checkNumber(length, "the length of an array");
  if (!Number.isSafeInteger(length) || length < 1) {
    throw new RangeError(`Cannot allocate an array of ${length} elements: give a whole number, at least 1`);
  }
  return length * type.BYTES_PER_ELEMENT;
}
