import { whatIs } from "../../support/validation.ts";
import { maximumMetadataByteLength, maximumNameByteLength } from "./messages.ts";

/** A value that JSON can represent. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

const encoder = new TextEncoder();
/** The number of characters that an error quotes of an invalid name. */
const quotedLength = 40;

/** Metadata as sent to the peer: a JSON string, empty if there is none. */
export function encodeMetadata(metadata: JsonValue | undefined): string {
  if (metadata === undefined) return "";
  const json = stringify(metadata);
  if (json === undefined) {
    throw new TypeError(`Cannot send ${whatIs(metadata)} as metadata: give a value that JSON can represent`);
  }
  // A string takes at most three bytes of UTF-8 for each UTF-16 code unit.
  if (json.length * 3 > maximumMetadataByteLength) {
    const { length } = encoder.encode(json);
    if (length > maximumMetadataByteLength) {
      throw new RangeError(
        `Cannot send metadata of ${length} bytes: the limit is ${maximumMetadataByteLength}; send them in a buffer`,
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
    throw new TypeError(
      `Cannot send metadata that JSON cannot represent (${
        cause.message.split("\n")[0]
      }); give numbers and strings, and arrays and objects of these`,
      { cause },
    );
  }
}

/** The value that was passed to `encodeMetadata`. */
export function decodeMetadata(json: string): JsonValue | undefined {
  return json === "" ? undefined : JSON.parse(json) as JsonValue;
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

/** Throws unless a name is valid for an offer. */
export function checkName(name: string): void {
  if (typeof name !== "string") {
    throw new TypeError(`Cannot use ${whatIs(name)} as the name of an offer: it must be a string`);
  }
  if (isPlain(name)) return;
  const { length } = encoder.encode(name);
  if (length === 0 || length > maximumNameByteLength || name.includes("\0") || !name.isWellFormed()) {
    const quoted = JSON.stringify(name.length > quotedLength ? `${name.slice(0, quotedLength)}...` : name);
    throw new RangeError(
      `Cannot use ${quoted} as the name of an offer: it has ${length} bytes of UTF-8; a name has 1 to ` +
        `${maximumNameByteLength} bytes, no NUL and no lone surrogate`,
    );
  }
}
