/**
 * Checks of the arguments of a buffer's methods.
 *
 * @module
 */
import { checkByteLength, checkNumber, whatIs } from "../support/validation.ts";
import { checkArrayType, type TypedArray, type TypedArrayConstructor } from "../support/typed_array.ts";
import { HostBuffer } from "./host_buffer.ts";

const bufferClasses = ["DeviceBuffer", "DeviceArray", "HostBuffer"];

/** Throws unless the range is in a buffer of `bufferByteLength` bytes. `length` is a whole number. */
export function checkRange(byteOffset: number, length: number, bufferByteLength: number): void {
  // The fast path: every copy comes here.
  if (Number.isSafeInteger(byteOffset) && byteOffset >= 0 && byteOffset + length <= bufferByteLength) return;
  checkByteLength(byteOffset, "a byteOffset");
  if (byteOffset > bufferByteLength) {
    throw new RangeError(`Cannot start at byte ${byteOffset} of the buffer: it has ${bufferByteLength} bytes`);
  }
  throw new RangeError(
    `Cannot reach bytes ${byteOffset} to ${byteOffset + length} of the buffer: it has ${bufferByteLength} bytes`,
  );
}

/** Throws unless `byte` can be filled with. */
export function checkByte(byte: unknown): asserts byte is number {
  if (typeof byte === "number" && Number.isInteger(byte) && byte >= 0 && byte <= 255) return;
  checkNumber(byte, "a byte to fill with");
  throw new RangeError(`Cannot fill with ${byte}: a byte is a whole number from 0 to 255`);
}

/** Throws the error of a fill of a plain buffer with a range of elements. */
export function refuseElements(): never {
  throw new TypeError(
    "Cannot fill from a begin to an end of a buffer: it has no elements; give byteOffset and byteLength, or use " +
      "buffer.as(type)",
  );
}

/** Throws unless a buffer's bytes can be seen as elements of a type. */
export function checkElements(
  type: TypedArrayConstructor<TypedArray>,
  { address, byteLength }: { readonly address: bigint; readonly byteLength: number },
): void {
  checkArrayType(type);
  const { BYTES_PER_ELEMENT: size, name } = type;
  if (byteLength % size !== 0) {
    throw new RangeError(
      `Cannot see ${byteLength} bytes as a ${name}: its elements have ${size} bytes each; use subarray for a part`,
    );
  }
  if (address % BigInt(size) === 0n) return;
  throw new RangeError(
    `Cannot see the buffer at 0x${address.toString(16)} as a ${name}: its address must be a multiple of ${size}; use ` +
      "subarray to begin elsewhere",
  );
}

/** Throws unless `source`, which is neither a view nor a DeviceBuffer, is host memory that can be copied from. */
export function checkHostSource(source: unknown): void {
  // Checks the tag, because an ArrayBuffer may come from another realm, where instanceof is false.
  if (source instanceof HostBuffer || Object.prototype.toString.call(source) === "[object ArrayBuffer]") return;
  const sources = "a typed array, a DataView, an ArrayBuffer, a HostBuffer or a DeviceBuffer";
  throw new TypeError(`Cannot copy from ${whatIs(source, ...bufferClasses)}: give ${sources}`);
}

/** Throws unless `target`, which is not a DeviceBuffer, is host memory that can be copied to. */
export function checkHostTarget(target: unknown): void {
  if (target instanceof HostBuffer) return;
  throw new TypeError(
    `Cannot copy to ${
      whatIs(target, ...bufferClasses)
    }: give a HostBuffer or a DeviceBuffer, or use read for a typed array`,
  );
}
