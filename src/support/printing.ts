/**
 * The printed form of objects in a REPL, in `console.log` and as strings: `MemoryPool { device 0, 3 buffers, ... }`.
 * Properties are printed in this order: location, kind, size, and state.
 *
 * Text from other processes is escaped, because control characters can run commands on a terminal, forge lines, and
 * reorder the displayed text.
 *
 * @module
 */
import { noteUnseen } from "./lost_devices.ts";
import { addEntries, isBun, startStackAtProgram, TypeError } from "./program_errors.ts";

/** The maximum number of names of a list that are printed. */
const maxNames = 8;

/**
 * The properties that `JSON.stringify` writes for an object: property names, or names with functions that return the
 * values. Values that cannot be read, such as those of a disposed object, are left out.
 */
export type JsonFields<T> =
  readonly (Extract<keyof T, string> | readonly [name: string, read: (object: T) => unknown])[];

/**
 * Sets how objects of a class are printed in Deno, Bun and Node, and how they are converted to strings and to JSON.
 * Also sets the class's name.
 *
 * @example
 * ```ts
 * class Point {
 *   #x = 1;
 *   static {
 *     printAs(this, "Point", (point) => `Point { x: ${point.#x} }`, [["x", (point) => point.#x]]);
 *   }
 * }
 * ```
 */
export function printAs<T>(
  constructor: { readonly prototype: T },
  name: string,
  ...[format, fields]: [format: (object: T) => string, fields: JsonFields<T>]
): void {
  nameClass(constructor, name);
  addEntries(constructor);
  const formatAny = (object: T) => {
    try {
      return format(object);
    } catch {
      // The object lacks the private fields, because it is a prototype, inherits from an instance, or is a Proxy.
      return `${name} { a prototype or a Proxy }`;
    }
  };
  printObjectAs(constructor.prototype, formatAny, fields);
}

/**
 * Makes `using` throw for objects of a class that must be declared with `await using`. The error is thrown at the end
 * of the block, and recommends `await using`; otherwise the runtime would report that `Symbol.dispose` is not a
 * function. The object's disposal is started anyway, because the program has lost its reference, and the object would
 * keep its socket and the process alive.
 */
export function refuseUsing(constructor: { readonly prototype: AsyncDisposable }, name: string): void {
  refuseDisposal(
    constructor,
    `Cannot declare ${withArticle(name)} with using: its disposal waits for others; ` +
      "declare it with await using",
  );
}

/**
 * Makes `using` throw a `TypeError` with the given message for objects of a class, after starting the asynchronous
 * disposal of the object, if it has one. `Symbol.dispose` is a method that throws, not a getter that throws: some
 * programs read all properties of an object to inspect it, and reading a property must have no side effects.
 */
export function refuseDisposal(constructor: { readonly prototype: object }, message: string): void {
  function refuse(this: Partial<AsyncDisposable>): never {
    const error = new TypeError(message);
    try {
      // The TypeError is the error to fix first, so an error of the disposal is ignored.
      this[Symbol.asyncDispose]?.().then(undefined, () => {});
    } catch {
      // The disposal has thrown, because the object inherits from an instance, or is a Proxy.
    }
    throw startStackAbove(error, refuse);
  }
  Object.defineProperty(constructor.prototype, Symbol.dispose, { value: refuse, configurable: true, writable: true });
}

/** Sets a class's name, which a bundler may have changed. */
export function nameClass(constructor: object, name: string): void {
  // The name is not redefined if it is correct already, because that would make each `instanceof` 7 ns slower in V8.
  if ((constructor as { name?: unknown }).name === name) return;
  Object.defineProperty(constructor, "name", { value: name, configurable: true });
}

/**
 * Sets how one object is printed in Deno, Bun and Node, and how it is converted to a string and to JSON. Escapes
 * control characters, because names may come from other processes.
 */
export function printObjectAs<T>(object: T, format: (object: T) => string, fields: JsonFields<T>): void {
  function print(this: T): string {
    return escapeControls(format(this));
  }
  Object.defineProperty(object, Symbol.for("nodejs.util.inspect.custom"), { value: print });
  writeAsJson(object, fields);
  Object.defineProperty(object, "toString", { value: print, configurable: true, writable: true });
}

/** Sets the JSON form of one object, or of a class's objects if `object` is a prototype. */
export function writeAsJson<T>(object: T, fields: JsonFields<T>): void {
  function toJSON(this: T): Record<string, unknown> {
    const entries = fields.map((field) => {
      const [name, read] = typeof field === "string" ? [field, (object: T) => object[field]] : field;
      // The property `device` is written as the device's ordinal. Devices in a list are written by their own `toJSON`.
      return [name, valueOf(() => name === "device" ? ordinalOf(read(this)) : read(this))] as const;
    });
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  }
  Object.defineProperty(object, "toJSON", { value: toJSON, configurable: true, writable: true });
}

/** Returns the result of `read` in a form that JSON supports; undefined if it throws. */
function valueOf(read: () => unknown): unknown {
  try {
    const value = read();
    if (typeof value === "bigint") return hexOf(value);
    return Array.isArray(value) ? value.map(plainOf) : plainOf(value);
  } catch (error) {
    noteUnseen(error);
    return undefined;
  }
}

function ordinalOf(device: unknown): unknown {
  return (device as { readonly ordinal: number } | undefined)?.ordinal;
}

function plainOf(value: unknown): unknown {
  const { toJSON } = (value ?? {}) as { readonly toJSON?: unknown };
  // The type of `toJSON` is checked, because metadata from other processes may have a property of this name that is not
  // a function.
  return typeof toJSON === "function" ? toJSON.call(value) : value;
}

/** Formats an address: "0x302000000". */
export function hexOf(value: bigint): string {
  return `0x${value.toString(16)}`;
}

/** Formats a location: `"device 0"`, or `"host"` for host memory. */
export function placeOf(device: { readonly ordinal: number } | undefined): string {
  return device === undefined ? "host" : `device ${device.ordinal}`;
}

const byteUnits = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/** Formats a number of bytes in a suitable unit: `"512 B"`, `"4.0 MiB"`. */
export function formatBytes(byteLength: number): string {
  if (byteLength < 1024) return `${Math.round(byteLength)} B`;
  let [value, unit] = [byteLength / 1024, 0];
  while (value >= 999.95 && unit < byteUnits.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value.toFixed(1)} ${byteUnits[unit]}`;
}

/** Formats a duration as seconds with one decimal: `"2.1 s"`. */
export function formatSeconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

/** Formats a number with its noun: `"1 buffer"`, `"2 buffers"`. */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Returns a class's name with its indefinite article: `"an Exporter"`, `"a CudaStream"`. */
export function withArticle(name: string): string {
  return `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
}

/** Formats a list: the first names, and the number of the remaining ones. */
export function listOf(names: readonly string[]): string {
  const more = names.length - maxNames;
  return more > 0 ? `${names.slice(0, maxNames).join(", ")} and ${more} more` : names.join(", ");
}

/**
 * Returns the result of `ask`. If `ask` throws, returns the error's code, or `fallback` if the error has none, so that
 * printing never fails.
 */
export function stateOf(ask: () => string, fallback: string = "unknown"): string {
  try {
    return ask();
  } catch (error) {
    noteUnseen(error);
    return error instanceof Error && "code" in error ? String(error.code) : fallback;
  }
}

/**
 * Matches C0 and C1 control characters, DEL, the characters that set the direction of the following text, and the line
 * and paragraph separators.
 */
// deno-lint-ignore no-control-regex
const controls = /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces control characters with the escapes that they have in a string literal: `\x1b`, `\u202e`. */
export function escapeControls(text: string): string {
  return text.replace(controls, escapeOf);
}

/** Like `escapeControls`, for text of several lines: keeps newlines and tabs. */
export function escapeControlsInLines(text: string): string {
  return text.replace(
    controls,
    (character) => character === "\n" || character === "\t" ? character : escapeOf(character),
  );
}

function escapeOf(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
}

/** Escapes text for use in elements of HTML and SVG, and in quoted attributes. Replaces what XML cannot contain. */
export function escapeMarkup(text: string): string {
  return escapeControlsInLines(text).toWellFormed().replace(/[\ufffe\uffff]/g, "\ufffd").replace(
    /[&<>"'`]/g,
    (character) => `&#${character.charCodeAt(0)};`,
  );
}

/**
 * Makes an error's stack start at the caller of a function, which must be on the current stack. Uncaught errors are
 * printed with the source line at which their stack starts. Takes microseconds, so use it only after a failure.
 */
export function startStackAbove<E extends Error>(error: E, called: (...args: never) => unknown): E {
  // In Bun, captureStackTrace finds `called` by name, and might find a different function with the same name.
  if (isBun) return startStackAtProgram(error);
  // All three runtimes have captureStackTrace, but the standard library's types do not declare it.
  const { captureStackTrace } = Error as unknown as { captureStackTrace(error: Error, called: unknown): void };
  captureStackTrace(error, called);
  return error;
}
