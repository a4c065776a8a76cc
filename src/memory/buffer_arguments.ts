/**
 * Checks of the arguments of a buffer's methods.
 *
 * @module
 */
import { checkByteLength, checkNumber, whatIs } from "../support/validation.ts";
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
export function checkByte(byte: number): void {
  if (Number.isInteger(byte) && byte >= 0 && byte <= 255) return;
  checkNumber(byte, "a byte to fill with");
  throw new RangeError(`Cannot fill with ${byte}: a byte is a whole number from 0 to 255`);
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
