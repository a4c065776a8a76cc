import { checkNumber, whatIs } from "./validation.ts";

/** The typed arrays that a device's memory can be read as. */
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

/** The constructor of a typed array, `Float32Array` say. */
export interface TypedArrayConstructor<T extends TypedArray> {
  /** Bytes of one element. */
  readonly BYTES_PER_ELEMENT: number;
  /** A view of memory. */
  new (buffer: ArrayBuffer, byteOffset?: number, length?: number): T;
}

/** Throws unless it makes typed arrays. */
export function checkArrayType(type: TypedArrayConstructor<TypedArray>): void {
  // Bun's DataView has elements of one byte.
  const isArray = typeof type === "function" && type.BYTES_PER_ELEMENT >= 1 && type.name !== "DataView";
  if (isArray) return;
  throw new TypeError(
    `Cannot use ${whatIs(type)} as the type of elements: give a typed array's constructor, Float32Array say`,
  );
}

/** Bytes of an array that is to be allocated. */
export function byteLengthOfArray(type: TypedArrayConstructor<TypedArray>, length: number): number {
  checkArrayType(type);
  checkNumber(length, "the length of an array");
  if (!Number.isSafeInteger(length) || length < 1) {
    throw new RangeError(`Cannot allocate an array of ${length} elements: it must be a whole number, at least 1`);
  }
  return length * type.BYTES_PER_ELEMENT;
}
