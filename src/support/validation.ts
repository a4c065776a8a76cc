/** Throws unless `value` is a whole number of bytes, at least `minimum`. */
export function checkByteLength(value: number, what: string, minimum = 0): void {
  checkNumber(value, what);
  if (!Number.isSafeInteger(value) || value < minimum) {
    throw new RangeError(`Cannot use ${value} as ${what}: it must be a whole number of bytes, at least ${minimum}`);
  }
}

/** Throws a `TypeError` unless `options` is an object. */
export function checkOptions(options: object, ofWhat: string): void {
  if (typeof options === "object" && options !== null) return;
  throw new TypeError(`Cannot use ${whatIs(options)} as the options of ${ofWhat}: give an object or nothing`);
}

/** The largest value of a C int. */
export const maximumInt: number = 2 ** 31 - 1;
/** The longest delay of a timer, 24 days. */
const maximumMilliseconds = maximumInt;

/**
 * Returns a duration in milliseconds, limited to a timer's longest delay. Throws unless `value` is at least 0; Infinity
 * is allowed.
 */
export function checkMilliseconds(value: number, what: string): number {
  checkNumber(value, what);
  if (!(value >= 0)) {
    throw new RangeError(`Cannot use ${value} as ${what}: it must be a number of milliseconds, at least 0`);
  }
  return Math.min(value, maximumMilliseconds);
}

/** Checks a limit, which is a number of at least 1, and returns it. */
export function checkMaximum(value: number, what: string): number {
  checkNumber(value, what);
  if (!(value >= 1)) throw new RangeError(`Cannot use ${value} as ${what}: it must be 1 or more`);
  return value;
}

/** Throws a `TypeError` unless `value` is a number. */
export function checkNumber(value: unknown, what: string): void {
  if (typeof value !== "number") throw new TypeError(`Cannot use ${whatIs(value)} as ${what}: it must be a number`);
}

/**
 * Describes an invalid argument for an error's message: `"a Date"`, `"the function f"`, `"a string"`, `"null"`.
 *
 * @param valid Names of the valid classes. A value whose class has such a name comes from another copy of poolpass.
 */
export function whatIs(value: unknown, ...valid: readonly string[]): string {
  if (typeof value === "object" && value !== null) {
    const named: unknown = value.constructor?.name;
    // Whoever passes a promise has forgotten to await it.
    if (value instanceof Promise) return "a Promise that was not awaited";
    const name = typeof named === "string" && named !== "" ? named : "Object";
    return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}${valid.includes(name) ? " of another copy of poolpass" : ""}`;
  }
  if (typeof value === "function") {
    return typeof value.name !== "string" || value.name === "" ? "a function" : `the function ${value.name}`;
  }
  return typeof value === "string" ? "a string" : typeof value === "bigint" ? "a bigint" : String(value);
}

/** The bytes of a view or a buffer. */
export function bytesOf(source: ArrayBufferView | ArrayBuffer): Uint8Array<ArrayBuffer> {
  // Not instanceof: a subclass, such as Node's Buffer, may have methods that behave differently.
  if (source.constructor === Uint8Array) return source as Uint8Array<ArrayBuffer>;
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength);
  }
  return new Uint8Array(source);
}

/** The error of using an object that belongs to another `Cuda` object. `what` follows "Cannot": "use a stream". */
export function errorOfAnotherCuda(what: string): TypeError {
  return new TypeError(`Cannot ${what} of another Cuda object: call open once, and create all objects from its result`);
}
