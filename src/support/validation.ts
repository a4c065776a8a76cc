/**
 * Checks of arguments, and errors that suggest the name that was probably meant.
 *
 * JavaScript returns undefined for a property that an object does not have, and adds the property if it is set, so a
 * mistyped name goes unnoticed. Accessors that throw for such names are inherited from the prototype, so they cost the
 * objects nothing.
 *
 * @module
 */
import { escapeControls, startStackAbove, withArticle } from "./printing.ts";
import { RangeError, TypeError } from "./program_errors.ts";

/** Throws unless `value` is a whole number of bytes, at least `minimum`. */
export function checkByteLength(value: number, what: string, minimum = 0): void {
  if (typeof value !== "number") refuseByteLength(value, what);
  if (!Number.isSafeInteger(value) || value < minimum) {
    refuseNumberOfBytes(value, what, minimum);
  }
}

/** Separate from `checkByteLength`, which every allocation calls and which must stay small to be inlined. */
function refuseByteLength(value: unknown, what: string): never {
  const advice = typeof value === "bigint" ? "; convert the bigint with Number" : ", such as 1024";
  throw new TypeError(`Cannot use ${whatIs(value)} as ${what}: it must be a number of bytes${advice}`);
}

/** Separate from `checkByteLength`, which must stay small to be inlined. */
function refuseNumberOfBytes(value: number, what: string, minimum: number): never {
  const bounds = Number.isInteger(value) && value > 0 && value >= minimum
    ? "it must be at most 2 ** 53 - 1 bytes"
    : `it must be a whole number of bytes, at least ${minimum}`;
  throw new RangeError(`Cannot use ${value} as ${what}: ${bounds}`);
}

/** Describes the options of a function, for validation by `checkOptions`. */
export interface KnownOptions<Options extends object> {
  /** The action of the function, phrased to follow "Cannot" in error messages: `"create a stream"`. */
  readonly action: string;
  /** The name of every option. */
  readonly names: OptionNames<Options>;
  /** The options that must be given, as a JavaScript expression: `"{ grid, block }"`. */
  readonly required?: string;
  /**
   * Maps names that programs may give by mistake, such as names of options in other libraries, to advice on what to use
   * instead: `"give a signal"`.
   */
  readonly instead?: Readonly<Record<string, string>>;
  /**
   * Given a value that was passed in place of the options, returns the options that the caller probably meant, as a
   * JavaScript expression: `"{ priority: -1 }"`.
   */
  readonly meantBy?: (value: unknown) => string | undefined;
}

/** The names of all options as keys: the type checker compares them with the properties of `Options`. */
export type OptionNames<Options extends object> = { readonly [Name in keyof Options & string]-?: true };

/**
 * Throws a `TypeError` unless `options` is an object with only known options. An unknown name counts as mistyped even
 * if its value is undefined. Inherited properties are checked too, because options are also read from them. Symbols are
 * not checked, because they cannot be mistyped names.
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
 * Throws a `TypeError` that reports a property which is not a known option. Does not throw for properties that the
 * caller did not set: those of `Object.prototype`, and inherited methods. For example, an AbortController, which is
 * often passed in place of `{ signal }`, has inherited methods.
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

/**
 * Returns whether an object may be meant as options: it is a plain object, or has a property with the name of a known
 * option.
 */
function mayBeOptions<Options extends object>(options: Options, { names }: KnownOptions<Options>): boolean {
  if (ArrayBuffer.isView(options)) return false;
  return Object.getPrototypeOf(options) === null || options.constructor?.name === "Object" ||
    Object.keys(names).some((name) => name in options);
}

function refuseOptions(options: unknown, { action, names, required, meantBy }: KnownOptions<object>): never {
  const known = Object.keys(names);
  // Guesses the option that the caller meant from the class of the value: a CudaStream suggests the option "stream".
  const className = whatIs(options).toLowerCase();
  const meant = known.find((name) => className.endsWith(name.toLowerCase())) ?? known[0];
  const stream = known.includes("stream") ? "a CudaStream, or " : "";
  const advice = required ?? `${stream}an object, such as ${meantBy?.(options) ?? `{ ${meant} }`}, or nothing`;
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
/** The maximum delay of a timer in milliseconds, 24 days. */
const maximumMilliseconds = maximumInt;

/**
 * Returns a duration in milliseconds, limited to the maximum delay of a timer. Throws unless `value` is at least 0;
 * Infinity is allowed.
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
    // The caller has probably forgotten to await the promise.
    if (value instanceof Promise) return "a Promise that was not awaited";
    const name = typeof named === "string" && named !== "" ? named : "Object";
    return `${withArticle(name)}${valid.includes(name) ? " of another copy of poolpass" : ""}`;
  }
  if (typeof value === "function") {
    return typeof value.name !== "string" || value.name === "" ? "a function" : `the function ${value.name}`;
  }
  return typeof value === "string" ? "a string" : typeof value === "bigint" ? "a bigint" : String(value);
}

/**
 * Formats a value for an error message: a string in quotes, a number unchanged, and anything else the way `whatIs`
 * formats it.
 */
export function shown(value: unknown): string {
  if (typeof value === "string") return escapeControls(JSON.stringify(value));
  return typeof value === "number" || typeof value === "bigint" ? String(value) : whatIs(value);
}

/**
 * Throws a `TypeError` for a call of a constructor that only the library may call. `name` is the class, and `source` is
 * the function that programs must call instead.
 */
export function refuseConstruction(name: string, source: string): never {
  throw new TypeError(`Cannot construct ${withArticle(name)}: use ${source}`);
}

/** Returns the bytes of a view or a buffer. */
export function bytesOf(source: ArrayBufferView | ArrayBuffer): Uint8Array<ArrayBuffer> {
  // The constructor is compared instead of using instanceof, because a subclass such as Node's Buffer may override
  // methods.
  if (source.constructor === Uint8Array) return source as Uint8Array<ArrayBuffer>;
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer as ArrayBuffer, source.byteOffset, source.byteLength);
  }
  return new Uint8Array(source);
}

/**
 * Returns an error that reports the use of an object that belongs to another `Cuda` object. In the message, `what`
 * follows "Cannot": "use a stream".
 */
export function errorOfAnotherCuda(what: string): TypeError {
  return new TypeError(`Cannot ${what} of another Cuda object: call open once, and create all objects from its result`);
}

/** The known properties of a class, for `refuseNewProperties`. */
export interface KnownProperties {
  readonly name: string;
  /**
   * The properties that the constructor adds. Without this list, setting these properties would be refused if a
   * compiler has translated the class fields to assignments.
   */
  readonly fields: readonly string[];
  /** Maps the names of unknown properties to the advice for programs that set them. */
  readonly instead?: Readonly<Record<string, string>>;
}

/**
 * Changes a class so that setting an unknown property of its objects throws a `TypeError` that suggests the nearest
 * name. Existing properties and methods can still be set.
 */
export function refuseNewProperties(
  constructor: { readonly prototype: object },
  { name, fields, instead = {} }: KnownProperties,
): void {
  const { prototype } = constructor;
  function set(target: object, property: string | symbol, value: unknown, receiver: unknown): boolean {
    if (typeof property === "symbol" || property in target || fields.includes(property)) {
      return Reflect.set(target, property, value, receiver);
    }
    const why = Object.hasOwn(instead, property)
      ? instead[property]
      : `there is no such property${didYouMean(property, [...Object.getOwnPropertyNames(prototype), ...fields])}`;
    throw startStackAbove(new TypeError(`Cannot set "${property}" of a ${name}: ${why}`), set);
  }
  Object.setPrototypeOf(prototype, new Proxy(Object.create(Object.getPrototypeOf(prototype)), { set }));
}

/**
 * Adds a setter to a property that only has a getter. The setter throws a `TypeError` with advice; without it, the
 * runtime would throw an error without advice.
 */
export function refuseToReplace(constructor: { readonly prototype: object }, property: string, advice: string): void {
  const { get } = Object.getOwnPropertyDescriptor(constructor.prototype, property)!;
  function set(): never {
    throw startStackAbove(new TypeError(`Cannot replace ${property}: ${advice}`), set);
  }
  Object.defineProperty(constructor.prototype, property, { get: get!, set, configurable: true });
}

/** The maximum number of names that a message lists. */
const maximumListed = 12;
/** The maximum number of typos for which a similar name is preferred to names that contain the given name. */
const fewMistakes = 2;
/** The minimum length of a name that is matched as a part of another name: "threshold" in "releaseThreshold". */
const minimumPartLength = 4;
/** The maximum number of names that contain the given name: if there are more, none of them is suggested. */
const maximumContaining = 4;
/** The maximum length of a name that is compared. A longer name is not a typo, and comparing it takes too long. */
const maximumLength = 100;

/**
 * Returns the names that may have been meant: the name that differs only in case and punctuation, otherwise the name
 * with the fewest typos, or the names that contain `name` or are contained in it. A typo is an inserted, missing or
 * wrong letter, or two swapped letters. One typo is allowed for every three letters.
 */
export function nearestNames(name: string, names: Iterable<string>): readonly string[] {
  const given = lettersOf(name);
  if (given === "" || given.length > maximumLength) return [];
  let nearest: string | undefined;
  let least = Infinity;
  const containing: string[] = [];
  for (const candidate of names) {
    const letters = lettersOf(candidate);
    if (letters === given || withSize(letters) === withSize(given)) return [candidate];
    const limit = Math.min(Math.floor(Math.max(given.length, letters.length) / 3), least - 1);
    const mistakes = Math.abs(given.length - letters.length) > limit ? Infinity : mistakesBetween(given, letters);
    if (mistakes <= limit) {
      nearest = candidate;
      least = mistakes;
    }
    const [part, whole] = given.length < letters.length ? [given, letters] : [letters, given];
    if (part.length >= minimumPartLength && whole.includes(part)) containing.push(candidate);
  }
  if (least > fewMistakes && containing.length > 0 && containing.length <= maximumContaining) return containing;
  return nearest === undefined ? [] : [nearest];
}

/**
 * Returns `did you mean "stream"?`, or the list of names if none is similar: `the options are priority, nonBlocking`.
 *
 * @param list The beginning of the list: `"the options are"`.
 */
export function suggestName(name: string, names: readonly string[], list: string): string {
  const more = names.length - maximumListed;
  const listed = more > 0 ? `${names.slice(0, maximumListed).join(", ")} and ${more} more` : names.join(", ");
  return question(nearestNames(name, names)) ?? `${list} ${listed}`;
}

/**
 * Returns `; did you mean "cuda"?` for the end of a message that lists the valid names; empty if no name is similar.
 */
export function didYouMean(name: unknown, names: readonly string[]): string {
  const asked = typeof name === "string" ? question(nearestNames(name, names)) : undefined;
  return asked === undefined ? "" : `; ${asked}`;
}

function question(nearest: readonly string[]): string | undefined {
  if (nearest.length === 0) return undefined;
  const quoted = nearest.map((name) => `"${name}"`);
  const last = quoted.pop();
  return `did you mean ${quoted.length === 0 ? last : `${quoted.join(", ")} or ${last}`}?`;
}

/** Returns the letters and digits of a name in lower case: "posixfd" for both "posix-fd" and "posixFd". */
function lettersOf(name: string): string {
  return name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
}

/** Replaces synonyms of "size" in a name with "size", so that "slotByteLength", "slotBytes" and "slotSize" match. */
function withSize(letters: string): string {
  return letters.replace(/bytelength|bytes/g, "size");
}

/**
 * Returns the optimal string alignment distance of two words: the minimum number of insertions, deletions, replacements
 * and swaps of adjacent letters that turn one word into the other, if no letter is changed twice.
 */
function mistakesBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      let least = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (isSame ? 0 : 1));
      if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]) {
        least = Math.min(least, beforeLast[column - 2]! + 1);
      }
      current.push(least);
    }
    beforeLast = last;
    last = current;
  }
  return last[b.length]!;
}

/** The reason why the name of a kernel or variable may not be found, for error messages. */
export const manglingHint = 'C++ mangles names, unless declared extern "C"';

/** Returns advice that suggests the mangled C++ names of a name; undefined if no mangled name matches. */
export function suggestMangled(name: string, names: readonly string[]): string | undefined {
  const mangled = mangledFrom(name, names);
  return mangled.length === 0 ? undefined : `did you mean "${mangled.join('" or "')}"? ${manglingHint}`;
}

/** Returns the mangled C++ names of a name that may have template arguments: `_Z4cubeIfEvPT_` for `cube<float>`. */
function mangledFrom(name: string, names: readonly string[]): string[] {
  const [identifier = ""] = /[A-Za-z_]\w*(?=$|<)/.exec(name) ?? [];
  const part = `${identifier.length}${identifier}`;
  if (identifier === "") return [];
  return names.filter((each) => each.startsWith(`_Z${part}`) || /^_ZN/.test(each) && each.includes(part)).slice(0, 3);
}

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
  // In Bun, DataView has a BYTES_PER_ELEMENT of 1.
  const isArray = typeof type === "function" && type.BYTES_PER_ELEMENT >= 1 && type.name !== "DataView";
  if (isArray) return;
  throw new TypeError(`Cannot use ${whatIs(type)} as the type of elements: give ${typeInsteadOf(type)}`);
}

/** Returns advice on what to pass instead of `value`, which is not an element type. */
function typeInsteadOf(value: unknown): string {
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return `its constructor, ${value.constructor.name}`;
  const [meant = "Float32Array"] = typeof value === "string" ? nearestNames(value, arrayNames) : [];
  const order = typeof value === "number" ? "; the type comes before numbers" : "";
  return `a typed array's constructor, such as ${meant}${order}`;
}

/** Throws a `TypeError` for a call that passes an element type where a number of bytes is expected. */
export function refuseType(type: unknown): never {
  throw new TypeError(`Cannot use ${whatIs(type)} as an allocation's size: use allocateArray for elements of a type`);
}

/** Returns the size in bytes of an array to allocate. Throws if its type or length is invalid. */
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
