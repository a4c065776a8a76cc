import { whatIs } from "../../support/validation.ts";
import { maximumMetadataByteLength } from "./messages.ts";

/** A value that JSON can represent. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

const encoder = new TextEncoder();

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
