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

/** What to do about a value that JSON does not represent; undefined if it does. */
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
