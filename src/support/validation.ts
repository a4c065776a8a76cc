import { startStackAbove } from "./call_stack.ts";
import { escapeControls } from "./escape_controls.ts";
import { suggestName } from "./nearest_name.ts";
import { withArticle } from "./printing.ts";

/** Throws unless `value` is a whole number of bytes, at least `minimum`. */
export function checkByteLength(value: number, what: string, minimum = 0): void {
  if (typeof value !== "number") refuseByteLength(value, what);
  if (!Number.isSafeInteger(value) || value < minimum) {
    refuseNumberOfBytes(value, what, minimum);
  }
}

/** Not in `checkByteLength`, which is on the path of each allocation and must stay small. */
function refuseByteLength(value: unknown, what: string): never {
  const advice = typeof value === "bigint" ? "; convert the bigint with Number" : ", such as 1024";
  throw new TypeError(`Cannot use ${whatIs(value)} as ${what}: it must be a number of bytes${advice}`);
}

/** Not in `checkByteLength` for the same reason. */
function refuseNumberOfBytes(value: number, what: string, minimum: number): never {
  const bounds = Number.isInteger(value) && value > 0 && value >= minimum
    ? "it must be at most 2 ** 53 - 1 bytes"
    : `it must be a whole number of bytes, at least ${minimum}`;
  throw new RangeError(`Cannot use ${value} as ${what}: ${bounds}`);
}

/** The options of a function, for `checkOptions`. */
export interface KnownOptions<Options extends object> {
  /** What the function does, as error messages say it after "Cannot": `"create a stream"`. */
  readonly action: string;
  /** The name of every option. */
  readonly names: OptionNames<Options>;
  /** What to give if there are options that must be given: `"{ grid, block }"`. */
  readonly required?: string;
  /** What to do instead of giving an option of another library's, by its name: `"give a signal"`. */
  readonly instead?: Readonly<Record<string, string>>;
  /** The options that somebody means who gives a value in their place, as JavaScript: `"{ priority: -1 }"`. */
  readonly meantBy?: (value: unknown) => string | undefined;
}

/** The name of every option: the type checker compares them with the properties of `Options`. */
export type OptionNames<Options extends object> = { readonly [Name in keyof Options & string]-?: true };

/**
 * Throws a `TypeError` unless `options` is an object with known options alone. A name that is not known is mistyped,
 * also if its value is undefined. Inherited options count, as they do where options are read. Symbols do not: they are no
 * mistyped names.
 */
export function checkOptions<Options extends object>(options: Options, known: KnownOptions<Options>): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) refuseOptions(options, known);
  const names = known.names as Readonly<Record<string, unknown>>;
  for (const name in options) if (names[name] !== true) refuseUnknownOption(options, name, known);
  if (Object.getPrototypeOf(options) !== Object.prototype && !mayBeOptions(options, known)) {
    refuseOptions(options, known);
  }
}

/**
 * Throws the error for the name of a property that is not a known option, unless others than the caller have put it
 * there: it is inherited from `Object.prototype`, or it is an inherited method, such as those of an AbortController,
 * which is often passed where `{ signal }` belongs.
 */
export function refuseUnknownOption<Options extends object>(
  options: Options,
  name: string,
  known: KnownOptions<Options>,
): void {
  const names = Object.keys(known.names);
  if (names.includes(name)) return;
  if (!Object.hasOwn(options, name)) {
    if (name in Object.prototype || typeof (options as Record<string, unknown>)[name] === "function") return;
  }
  if (!mayBeOptions(options, known)) refuseOptions(options, known);
  const { instead = {} } = known;
  const suggestion = Object.hasOwn(instead, name)
    ? instead[name]
    : suggestName(name, names, names.length === 1 ? "the only option is" : "the options are");
  throw new TypeError(`Cannot ${known.action} with the option "${name}": there is no such option; ${suggestion}`);
}

/** Whether an object may be meant as options: it is not an object of a class that has no known option. */
function mayBeOptions<Options extends object>(options: Options, { names }: KnownOptions<Options>): boolean {
  if (ArrayBuffer.isView(options)) return false;
  return Object.getPrototypeOf(options) === null || options.constructor?.name === "Object" ||
    Object.keys(names).some((name) => name in options);
}

function refuseOptions(options: unknown, { action, names, required, meantBy }: KnownOptions<object>): never {
  const known = Object.keys(names);
  // Somebody who passes a CudaStream as the options means its option "stream".
  const className = whatIs(options).toLowerCase();
  const meant = known.find((name) => className.endsWith(name.toLowerCase())) ?? known[0];
  const advice = required ?? `an object, such as ${meantBy?.(options) ?? `{ ${meant} }`}, or nothing`;
  throw new TypeError(`Cannot ${action} with ${whatIs(options)} as its options: give ${advice}`);
}

/** Throws a `TypeError` unless `value` is true or false. */
export function checkBoolean(value: unknown, what: string): void {
  if (typeof value !== "boolean") {
    throw new TypeError(`Cannot use ${whatIs(value)} as ${what}: it must be true or false`);
  }
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
  if (typeof value !== "number") {
    throw new TypeError(`Cannot use ${shown(value)} as ${what}: it must be a number of milliseconds, such as 5000`);
  }
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
    return `${withArticle(name)}${valid.includes(name) ? " of another copy of poolpass" : ""}`;
  }
  if (typeof value === "function") {
    return typeof value.name !== "string" || value.name === "" ? "a function" : `the function ${value.name}`;
  }
  return typeof value === "string" ? "a string" : typeof value === "bigint" ? "a bigint" : String(value);
}

/** A value for an error's message: a string in quotes, a number as it is, another value as `whatIs` describes it. */
export function shown(value: unknown): string {
  if (typeof value === "string") return escapeControls(JSON.stringify(value));
  return typeof value === "number" || typeof value === "bigint" ? String(value) : whatIs(value);
}

/** Throws the error of a program that calls a constructor. `source` is what to call instead. */
export function refuseConstruction(name: string, source: string): never {
  throw startStackAbove(new TypeError(`Cannot construct ${withArticle(name)}: use ${source}`), refuseConstruction);
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
