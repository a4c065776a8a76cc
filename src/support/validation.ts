/** Throws unless `value` is a whole number of bytes from `least` on. */
export function checkByteLength(value: number, what: string, least = 0): void {
  checkNumber(value, what);
  if (!Number.isSafeInteger(value) || value < least) {
    throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number of bytes, at least ${least}`);
  }
}

/** Throws unless it is an object that options can be read of. */
export function checkOptions(options: object, ofWhat: string): void {
  if (typeof options === "object" && options !== null) return;
  throw new TypeError(`Cannot use ${whatIs(options)} as the options of ${ofWhat}: give an object, or leave it out`);
}

/** The most that a C int holds. */
export const maximumInt: number = 2 ** 31 - 1;
/** 24 days: what a timer can count. */
const maximumMilliseconds = maximumInt;

/** A time as a timer can count it. Throws unless it is one, or longer, or Infinity. */
export function checkMilliseconds(value: number, what: string): number {
  checkNumber(value, what);
  if (!(value >= 0)) throw new RangeError(`Cannot use ${value} as ${what}: it is in milliseconds, from 0 on`);
  return Math.min(value, maximumMilliseconds);
}

/** Throws unless `value` is a number. */
export function checkNumber(value: unknown, what: string): void {
  if (typeof value !== "number") throw new TypeError(`Cannot use ${whatIs(value)} as ${what}: it is no number`);
}

/**
 * What a caller gave in place of what it should have, as an error calls it.
 *
 * @param wanted Classes of which it is no object, but may be of one with such a name.
 */
export function whatIs(value: unknown, ...wanted: readonly string[]): string {
  if (typeof value === "object" && value !== null) {
    const named: unknown = value.constructor?.name;
    const name = typeof named === "string" && named !== "" ? named : "Object";
    return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}${wanted.includes(name) ? " of another copy of poolpass" : ""}`;
  }
  if (typeof value === "function") {
    return typeof value.name !== "string" || value.name === "" ? "a function" : `the function ${value.name}`;
  }
  return typeof value === "string" ? "a text" : typeof value === "bigint" ? "a bigint" : String(value);
}

/** The bytes under a view or a buffer. */
export function bytesOf(source: ArrayBufferView | ArrayBuffer): Uint8Array<ArrayBuffer> {
  // Methods of a subclass, Node's Buffer say, may do other things.
  if (source.constructor === Uint8Array) return source as Uint8Array<ArrayBuffer>;
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength);
  }
  return new Uint8Array(source);
}

/** The error of using what another `Cuda` object has made: `what` is what cannot be done to what. */
export function errorOfAnotherCuda(what: string): TypeError {
  return new TypeError(`Cannot ${what} of another Cuda object: open once, and make everything from that`);
}
