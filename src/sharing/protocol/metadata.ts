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
  const changed = findChanged(metadata);
  if (changed !== undefined) {
    throw new TypeError(
      `Cannot send metadata with ${changed.what}${
        changed.path === "" ? "" : ` at ${changed.path.slice(1)}`
      }: JSON cannot ` +
        "represent it; give finite numbers and strings, and arrays and objects of these",
    );
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

/**
 * Finds a value that `JSON.stringify` changes or leaves out silently: a number that is not finite, a function, a Map, a
 * typed array. Undefined is left out of objects, where it means no value.
 */
function findChanged(value: unknown): { readonly what: string; readonly path: string } | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : { what: String(value), path: "" };
  if (typeof value !== "object") {
    return typeof value === "string" || typeof value === "boolean" ? undefined : { what: whatIs(value), path: "" };
  }
  if (value === null || typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
  const isArray = Array.isArray(value);
  if (!isArray && Object.prototype.toString.call(value) !== "[object Object]") return { what: whatIs(value), path: "" };
  for (const name of Object.keys(value)) {
    const property = (value as Record<string, unknown>)[name];
    const changed = property === undefined && !isArray ? undefined : findChanged(property);
    if (changed !== undefined) return { what: changed.what, path: `.${name}${changed.path}` };
  }
  return undefined;
}

/** The value that was passed to `encodeMetadata`. */
export function decodeMetadata(json: string): JsonValue | undefined {
  return json === "" ? undefined : JSON.parse(json) as JsonValue;
}
