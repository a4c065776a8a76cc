import { whatIs } from "../../support/validation.ts";
import { maximumMetadataByteLength, maximumNameByteLength } from "./messages.ts";

/** What JSON can say. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

const encoder = new TextEncoder();
/** Of a name that is refused, so many characters are quoted. */
const quotedLength = 40;

/** Metadata as they are sent: empty where there are none. */
export function encodeMetadata(metadata: JsonValue | undefined): string {
  if (metadata === undefined) return "";
  const text = textOf(metadata);
  if (text === undefined) {
    throw new TypeError(`Cannot send ${whatIs(metadata)} as metadata: give what JSON can say`);
  }
  // A string has at most three bytes of UTF-8 for each of its units.
  if (text.length * 3 > maximumMetadataByteLength) {
    const { length } = encoder.encode(text);
    if (length > maximumMetadataByteLength) {
      throw new RangeError(
        `Cannot send metadata of ${length} bytes: there is room for ${maximumMetadataByteLength}; send them in a buffer`,
      );
    }
  }
  return text;
}

/** The JSON of metadata; undefined where there is none of them. */
function textOf(metadata: JsonValue): string | undefined {
  try {
    return JSON.stringify(metadata);
  } catch (cause) {
    // What else is thrown, a method of the application's has.
    if (!(cause instanceof TypeError)) throw cause;
    throw new TypeError(
      `Cannot send metadata that JSON cannot say (${
        cause.message.split("\n")[0]
      }); give numbers and texts, and lists and objects of these`,
      { cause },
    );
  }
}

/** What was given to `encodeMetadata`. */
export function decodeMetadata(text: string): JsonValue | undefined {
  return text === "" ? undefined : JSON.parse(text) as JsonValue;
}

/** Whether a name is one beyond doubt: most are, and an encoder costs more than looking at each character. */
function isPlain(name: string): boolean {
  if (name.length === 0 || name.length > maximumNameByteLength) return false;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (code === 0 || code > 0x7f) return false;
  }
  return true;
}

/** Refuses names that an offer cannot have. */
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
        `${maximumNameByteLength} bytes, no NUL and no half of a character`,
    );
  }
}
