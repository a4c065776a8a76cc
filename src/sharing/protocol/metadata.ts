/**
 * Encoding and validation of the names and metadata of offers, and lengths of strings in UTF-8.
 *
 * @module
 */
import { whatIs } from "../../support/validation.ts";
import { maximumMetadataByteLength, maximumNameByteLength } from "./messages.ts";
import { escapeControls } from "../../support/printing.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

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
 * Encodes metadata as JSON for a message. Returns an empty string if `metadata` is undefined.
 *
 * @param maximum the maximum length in bytes of UTF-8
 */
export function encodeMetadata(metadata: JsonValue | undefined, maximum: number = maximumMetadataByteLength): string {
  if (metadata === undefined) return "";
  const json = stringify(metadata);
  if (json === undefined) {
    throw new TypeError(`Cannot send ${whatIs(metadata)} as metadata: give a value that JSON can represent`);
  }
  checkUnchanged(metadata);
  // UTF-8 needs at most three bytes for each UTF-16 code unit.
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

/** Returns metadata as JSON; undefined if JSON cannot represent the value. */
function stringify(metadata: JsonValue): string | undefined {
  try {
    return JSON.stringify(metadata);
  } catch (cause) {
    // `JSON.stringify` itself throws only a TypeError. Any other error was thrown by the application's own `toJSON`.
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

/** An object or array within metadata, with its key in the object or array that contains it. */
interface Container {
  readonly value: object;
  readonly key: string;
  readonly parent: Container | undefined;
}

/**
 * Throws a `TypeError` for a value that `JSON.stringify` rejects, or silently changes or omits: a number that is not
 * finite, a function, a Map or a typed array. Allows undefined members of objects, which are omitted. Does not check
 * the result of an object's own `toJSON`.
 *
 * @param seen the containers checked so far, to stop at cyclic references; needed only if metadata may be cyclic
 */
function checkUnchanged(metadata: unknown, seen?: Set<unknown>): void {
  refuseIfChanged(metadata, undefined, "");
  if (!isContainer(metadata)) return;
  // The traversal is iterative, because metadata may be nested more deeply than the call stack allows.
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

/**
 * Returns whether a value is an object or array whose properties `JSON.stringify` encodes. Returns false for an object
 * with a `toJSON` method, whose result is encoded instead.
 */
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

/**
 * Returns advice on what to use instead of a value that JSON cannot represent. Undefined if JSON can represent the
 * value.
 */
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

/** Decodes the result of `encodeMetadata`. Returns undefined for an empty string. */
export function decodeMetadata(json: string): JsonValue | undefined {
  return json === "" ? undefined : JSON.parse(json) as JsonValue;
}

/** The maximum number of characters of an invalid name that an error quotes. */
const quotedLength = 40;

/**
 * Checks the name of an offer.
 *
 * @throws {TypeError} If the name is not a string
 * @throws {RangeError} If the name's length is not 1 to 255 bytes of UTF-8, or if it contains a NUL or a lone surrogate
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
 * Returns whether a name consists of 1 to 255 ASCII characters other than NUL, and is therefore valid. Most names are
 * ASCII, and for them this loop is faster than `TextEncoder`.
 */
function isPlain(name: string): boolean {
  if (name.length === 0 || name.length > maximumNameByteLength) return false;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (code === 0 || code > 0x7f) return false;
  }
  return true;
}

/**
 * The maximum length, in UTF-16 code units, of a string for which a loop over the characters is faster than
 * `TextEncoder`.
 */
const shortLength = 64;

/** Returns the length of a well-formed string in bytes of UTF-8. */
export function utf8ByteLength(text: string): number {
  if (text.length > shortLength) return encoder.encode(text).length;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return encoder.encode(text).length;
  return text.length;
}

/** Returns the number of bytes of an offer that count toward `maximumMetadata`: its name and metadata in UTF-8. */
export function textByteLength({ name, metadata }: { readonly name: string; readonly metadata: string }): number {
  return utf8ByteLength(name) + utf8ByteLength(metadata);
}
