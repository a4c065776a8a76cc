/**
 * The names and the metadata of offers, and the lengths of strings in UTF-8.
 *
 * @module
 */
import { whatIs } from "../../support/validation.ts";
import { maximumMetadataByteLength, maximumNameByteLength } from "./messages.ts";
import { escapeControls } from "../../support/printing.ts";

/** A value that JSON can represent. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

const encoder = new TextEncoder();

/**
 * Metadata as sent to the peer: a JSON string, empty if there is none.
 *
 * @param maximum bytes of UTF-8
 */
export function encodeMetadata(metadata: JsonValue | undefined, maximum: number = maximumMetadataByteLength): string {
  if (metadata === undefined) return "";
  const json = stringify(metadata);
  if (json === undefined) {
    throw new TypeError(`Cannot send ${whatIs(metadata)} as metadata: give a value that JSON can represent`);
  }
  checkUnchanged(metadata);
  // A string takes at most three bytes of UTF-8 for each UTF-16 code unit.
  if (json.length * 3 > maximum) {
    const { length } = encoder.encode(json);
    if (length > maximum) {
      throw new RangeError(
        `Cannot send metadata of ${length} bytes: the limit is ${maximum}; send them in a buffer`,
      );
    }
  }
  return json;
}

/** Metadata as JSON; undefined if JSON has no representation of the value. */
function stringify(metadata: JsonValue): string | undefined {
  try {
    return JSON.stringify(metadata);
  } catch (cause) {
    // Any other error was thrown by the application's own `toJSON`.
    if (!(cause instanceof TypeError)) throw cause;
    checkUnchanged(metadata, new Set());
    throw new TypeError(
      `Cannot send metadata that JSON cannot represent (${
        cause.message.split("\n")[0]
      }); give numbers and strings, and arrays and objects of these`,
      { cause },
    );
  }
}

/** An object or an array in metadata, and where it is. */
interface Container {
  readonly value: object;
  readonly key: string;
  readonly parent: Container | undefined;
}

/**
 * Throws for a value that JSON refuses, or that `JSON.stringify` changes or leaves out silently: a number that is not
 * finite, a function, a Map, a typed array. Undefined is left out of objects, where it means no value. What an object's
 * own `toJSON` returns is not checked.
 *
 * @param seen the containers that were checked, for metadata that may contain itself
 */
function checkUnchanged(metadata: unknown, seen?: Set<unknown>): void {
  refuseIfChanged(metadata, undefined, "");
  if (!isContainer(metadata)) return;
  // Not recursive: JSON may be nested more deeply than functions can call each other.
  const containers: Container[] = [{ value: metadata, key: "", parent: undefined }];
  for (const container of containers) {
    const isArray = Array.isArray(container.value);
    for (const key of Object.keys(container.value)) {
      const value = (container.value as Record<string, unknown>)[key];
      if (value === undefined && !isArray) continue;
      refuseIfChanged(value, container, key);
      if (!isContainer(value) || seen?.has(value) === true) continue;
      seen?.add(value);
      containers.push({ value, key, parent: container });
    }
  }
}

/** Whether JSON represents the properties of a value. */
function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null && typeof (value as { toJSON?: unknown }).toJSON !== "function";
}

function refuseIfChanged(value: unknown, parent: Container | undefined, key: string): void {
  const advice = adviceFor(value);
  if (advice === undefined) return;
  let path = "";
  for (let at = parent; at !== undefined; key = at.key, at = at.parent) {
    path = (Array.isArray(at.value) ? `[${key}]` : `.${key}`) + path;
  }
  throw new TypeError(`Cannot send metadata${path}, ${whatIs(value)}: JSON cannot represent it; ${advice}`);
}

/** The advice for a value that JSON does not represent; undefined if it does. */
function adviceFor(value: unknown): string | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "number":
      return Number.isFinite(value) ? undefined : "give a finite number, a string or null";
    case "bigint":
      return "give a string or a number";
    case "object":
      if (!isContainer(value) || Array.isArray(value)) return undefined;
      if (ArrayBuffer.isView(value)) return "give an array, such as Array.from makes of it";
      return Object.prototype.toString.call(value) === "[object Object]"
        ? undefined
        : "give numbers and strings, and arrays and objects of these";
    default:
      return "leave it out";
  }
}

/** The value that was passed to `encodeMetadata`. */
export function decodeMetadata(json: string): JsonValue | undefined {
  return json === "" ? undefined : JSON.parse(json) as JsonValue;
}

/** The number of characters that an error quotes of an invalid name. */
const quotedLength = 40;

/**
 * Checks the name of an offer.
 *
 * @throws {TypeError} If it is not a string
 * @throws {RangeError} If its length is not 1 to 255 bytes of UTF-8, or if it contains a NUL or a lone surrogate
 */
export function checkOfferName(name: string): void {
  if (typeof name !== "string") {
    throw new TypeError(`Cannot use ${whatIs(name)} as the name of an offer: it must be a string`);
  }
  if (isPlain(name)) return;
  const { length } = encoder.encode(name);
  if (length === 0 || length > maximumNameByteLength || name.includes("\0") || !name.isWellFormed()) {
    const quoted = JSON.stringify(name.length > quotedLength ? `${name.slice(0, quotedLength)}...` : name);
    throw new RangeError(
      `Cannot use ${
        escapeControls(quoted)
      } as the name of an offer: it has ${length} bytes of UTF-8; a name has 1 to ` +
        `${maximumNameByteLength} bytes, no NUL and no lone surrogate`,
    );
  }
}

/**
 * Whether a name consists of ASCII characters only and is therefore valid. Most names do, and this loop costs less than
 * an encoder.
 */
function isPlain(name: string): boolean {
  if (name.length === 0 || name.length > maximumNameByteLength) return false;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (code === 0 || code > 0x7f) return false;
  }
  return true;
}

/** The length up to which a loop over a string is faster than the encoder. */
const shortLength = 64;

/** The length of a well-formed string in bytes of UTF-8. */
export function utf8ByteLength(text: string): number {
  if (text.length > shortLength) return encoder.encode(text).length;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return encoder.encode(text).length;
  return text.length;
}

/** The number of bytes that count toward `maximumMetadata`: an offer's name and metadata in UTF-8. */
export function textByteLength({ name, metadata }: { readonly name: string; readonly metadata: string }): number {
  return utf8ByteLength(name) + utf8ByteLength(metadata);
}
