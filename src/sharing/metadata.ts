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

/** Metadata as they are sent: empty where there are none. */
export function encodeMetadata(metadata: JsonValue | undefined): string {
  if (metadata === undefined) return "";
  const text = JSON.stringify(metadata) as string | undefined;
  if (text === undefined) throw new TypeError(`Cannot send ${typeof metadata} as metadata: it must be JSON`);
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
  if (typeof name !== "string") throw new TypeError("Cannot offer anything without a name: it must be a string");
  if (isPlain(name)) return;
  const { length } = encoder.encode(name);
  if (length === 0 || length > maximumNameByteLength || name.includes("\0") || !name.isWellFormed()) {
    throw new RangeError(
      `Cannot offer ${JSON.stringify(name)}: a name has 1 to ${maximumNameByteLength} bytes of UTF-8 and no NUL`,
    );
  }
}
