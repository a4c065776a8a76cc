import { startStackAbove } from "./printing.ts";
import { nearestNames, whatIs } from "./validation.ts";

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

const arrayNames = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array]
  .map(({ name }) => name).concat("Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array");

/** Throws a `TypeError` unless `type` is the constructor of a typed array. */
export function checkArrayType(type: TypedArrayConstructor<TypedArray>): void {
  // In Bun, DataView has a BYTES_PER_ELEMENT, which is 1.
  const isArray = typeof type === "function" && type.BYTES_PER_ELEMENT >= 1 && type.name !== "DataView";
  if (isArray) return;
  throw new TypeError(`Cannot use ${whatIs(type)} as the type of elements: give ${typeInsteadOf(type)}`);
}

/** What to give where `value` is given as the type of elements. */
function typeInsteadOf(value: unknown): string {
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return `its constructor, ${value.constructor.name}`;
  const [meant = "Float32Array"] = typeof value === "string" ? nearestNames(value, arrayNames) : [];
  const order = typeof value === "number" ? "; the type comes before numbers" : "";
  return `a typed array's constructor, such as ${meant}${order}`;
}

/** Throws the error for the type of elements where a number of bytes belongs. */
export function refuseType(type: unknown): never {
  throw startStackAbove(
    new TypeError(`Cannot use ${whatIs(type)} as an allocation's size: use allocateArray for elements of a type`),
    refuseType,
  );
}

/** The size in bytes of an array to allocate. Throws if its type or length is invalid. */
export function byteLengthOfArray(type: TypedArrayConstructor<TypedArray>, length: number): number {
  checkArrayType(type);
  if (typeof length !== "number") {
    throw new TypeError(`Cannot use ${whatIs(length)} as the length of an array: it must be a number of elements`);
  }
  if (!Number.isSafeInteger(length) || length < 1) {
    throw new RangeError(`Cannot allocate an array of ${length} elements: give a whole number, at least 1`);
  }
  return length * type.BYTES_PER_ELEMENT;
}
