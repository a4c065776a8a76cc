/**
 * Checks of the arguments of a buffer's methods.
 *
 * @module
 */
import type { Session } from "../session.ts";
import { countOf } from "../support/printing.ts";
import {
  checkArrayType,
  checkByteLength,
  checkNumber,
  errorOfAnotherCuda,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../support/validation.ts";
import { HostBuffer, sessionOfHost } from "./transfers/host_buffer.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

const bufferClasses = ["DeviceBuffer", "DeviceArray", "HostBuffer"];

/**
 * Throws unless the range is in a buffer of `bufferByteLength` bytes. `length` is the range's size in bytes, a whole
 * number.
 *
 * @param source the memory that is copied to the range, for the error's message
 */
export function checkRange(byteOffset: number, length: number, bufferByteLength: number, source?: object): void {
  // The fast path: the range of every valid copy passes this check.
  if (Number.isSafeInteger(byteOffset) && byteOffset >= 0 && byteOffset + length <= bufferByteLength) return;
  checkByteLength(byteOffset, "a byteOffset");
  if (byteOffset > bufferByteLength) {
    throw new RangeError(`Cannot start at byte ${byteOffset} of the buffer: it has ${bufferByteLength} bytes`);
  }
  refuseRange(byteOffset, length, bufferByteLength, source);
}

/** Throws the `RangeError` of `checkRange`. Separate from `checkRange`, which must stay small to be inlined. */
function refuseRange(byteOffset: number, length: number, bufferByteLength: number, source: object | undefined): never {
  let [given, advice] = ["", ""];
  if (source !== undefined) {
    const size = elementByteLength(source);
    const fitting = Math.floor((bufferByteLength - byteOffset) / (size ?? 1));
    given = ` with ${whatIs(source)} of ${
      size === undefined ? countOf(length, "byte") : countOf(length / size, "element")
    }`;
    if (length <= bufferByteLength) {
      advice = `; give a byteOffset of at most ${bufferByteLength - length}, or copy a part of the source`;
    } else if (fitting > 0) advice = `; copy a part of the source, such as ${partOf(source, fitting)}`;
  }
  const range = `bytes ${byteOffset} to ${byteOffset + length}`;
  throw new RangeError(`Cannot reach ${range} of the buffer${given}: it has ${bufferByteLength} bytes${advice}`);
}

/** Returns the element size of a typed array or a DeviceArray; undefined for memory without an element type. */
function elementByteLength(source: object): number | undefined {
  if ("BYTES_PER_ELEMENT" in source) return Number(source.BYTES_PER_ELEMENT);
  return "type" in source ? (source.type as TypedArrayConstructor<TypedArray>).BYTES_PER_ELEMENT : undefined;
}

/**
 * Returns JavaScript source for the first `length` elements of `source`, or bytes if `source` has no element type:
 * `source.subarray(0, 4)`.
 */
function partOf(source: object, length: number): string {
  if ("subarray" in source) return `source.subarray(0, ${length})`;
  return `new Uint8Array(source${"buffer" in source ? ".buffer" : ""}, 0, ${length})`;
}

/** Throws unless `byte` is a valid byte to fill memory with. */
export function checkByte(byte: unknown): asserts byte is number {
  if (typeof byte === "number" && Number.isInteger(byte) && byte >= 0 && byte <= 255) return;
  checkNumber(byte, "a byte to fill with");
  throw new RangeError(
    `Cannot fill with ${byte}: a byte is a whole number from 0 to 255; use buffer.as(type) to fill elements`,
  );
}

/**
 * Throws a `TypeError` for a fill of a plain buffer that is given a range of elements (`begin`, `end`): a plain buffer
 * has no elements.
 */
export function refuseElements(): never {
  throw new TypeError(
    "Cannot fill from a begin to an end of a buffer: it has no elements; give byteOffset and byteLength, or use " +
      "buffer.as(type)",
  );
}

/** Throws unless a buffer's bytes can be viewed as elements of a type. */
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
export function checkHostSource(source: unknown, session: Session): void {
  if (source instanceof HostBuffer) return checkSession(source, session);
  // Checks `Symbol.toStringTag`, because `instanceof` is false for an ArrayBuffer from another realm.
  if (Object.prototype.toString.call(source) === "[object ArrayBuffer]") return;
  const sources = "a typed array, a DataView, an ArrayBuffer, a HostBuffer or a DeviceBuffer";
  throw new TypeError(`Cannot copy from ${whatIs(source, ...bufferClasses)}: give ${sources}${instead(source)}`);
}

/** Returns advice to append to an error message: how to convert `source` to a value that can be copied from. */
function instead(source: unknown): string {
  if (source instanceof Promise) return "; await the promise first";
  if (Array.isArray(source)) {
    return `, such as new ${typeof source[0] === "bigint" ? "BigInt64Array" : "Float32Array"}(array)`;
  }
  if (typeof source === "string") return ", such as new TextEncoder().encode(string)";
  if (typeof source === "object" && source !== null && "copyTo" in source) return ", or use its copyTo";
  const isBody = typeof source === "object" && source !== null && "arrayBuffer" in source;
  return isBody ? ", such as await source.arrayBuffer()" : "";
}

function checkSession(buffer: HostBuffer, session: Session): void {
  if (sessionOfHost(buffer) !== session) throw errorOfAnotherCuda("copy to or from a host buffer");
}

/** Throws if a source has no bytes because its ArrayBuffer was transferred. */
export function checkNotTransferred(source: object): void {
  const { detached } = ("buffer" in source ? source.buffer : source) as { readonly detached?: boolean };
  if (detached !== true) return;
  throw new TypeError(
    "Cannot copy from an ArrayBuffer that was transferred: it has no bytes any more; copy before it is transferred",
  );
}

/** Throws unless `target`, which is not a DeviceBuffer, is host memory that can be copied to. */
export function checkHostTarget(target: unknown, session: Session): void {
  if (target instanceof HostBuffer) return checkSession(target, session);
  throw new TypeError(
    `Cannot copy to ${
      whatIs(target, ...bufferClasses)
    }: give a HostBuffer or a DeviceBuffer, or use read for a typed array`,
  );
}
