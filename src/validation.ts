/** Throws unless `value` is a whole number of bytes from `least` on. */
export function checkByteLength(value: number, what: string, least = 0): void {
  if (typeof value !== "number") throw new TypeError(`Cannot use ${String(value)} as ${what}: it is no number`);
  if (!Number.isSafeInteger(value) || value < least) {
    throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number of bytes, at least ${least}`);
  }
}

/** Throws unless the range lies within `byteLength` bytes. */
export function checkRange(what: string, range: { byteOffset: number; length: number; byteLength: number }): void {
  checkByteLength(range.byteOffset, `${what}'s byteOffset`);
  checkByteLength(range.length, `${what}'s length`);
  if (range.byteOffset + range.length > range.byteLength) {
    const end = range.byteOffset + range.length;
    throw new RangeError(
      `Cannot reach bytes ${range.byteOffset} to ${end} of ${what}: it has ${range.byteLength} bytes`,
    );
  }
}

/** 24 days: what a timer can count. */
const maximumMilliseconds = 2 ** 31 - 1;

/** A time as a timer can count it. Throws unless it is one, or longer, or Infinity. */
export function checkMilliseconds(value: number, what: string): number {
  if (typeof value !== "number") throw new TypeError(`Cannot use ${String(value)} as ${what}: it is no number`);
  if (!(value >= 0)) throw new RangeError(`Cannot use ${value} as ${what}: it is in milliseconds, from 0 on`);
  return Math.min(value, maximumMilliseconds);
}

/** What a caller gave in place of what it should have, as an error calls it. */
export function whatIs(value: unknown): string {
  if (typeof value === "object" && value !== null) {
    const name = value.constructor?.name ?? "Object";
    return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
  }
  return typeof value === "string" ? "a text" : typeof value === "function" ? "a function" : String(value);
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
