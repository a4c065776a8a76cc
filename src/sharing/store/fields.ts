/**
 * Reads the members of documents that come from others.
 *
 * @module
 */
import { badMessage } from "../protocol/messages.ts";
import type { JsonObject } from "../protocol/documents.ts";
import type { JsonValue } from "../protocol/metadata.ts";

/** The longest text that is quoted in an error. */
const quotedLength = 60;

/** The member of a document that is a text. */
export function textOf(document: JsonObject, name: string): string {
  const value = memberOf(document, name);
  if (typeof value !== "string") throw refusal(name, value, "a text");
  return value;
}

/** The member of a document that is a whole number. */
export function numberOf(document: JsonObject, name: string, minimum = 0): number {
  return checkedNumber(memberOf(document, name), name, minimum);
}

/** The members of a document's list, which are whole numbers. */
export function numbersOf(document: JsonObject, name: string, minimum = 0): readonly number[] {
  return listOf(document, name).map((value) => checkedNumber(value, name, minimum));
}

function checkedNumber(value: JsonValue | undefined, name: string, minimum: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < minimum) {
    throw refusal(name, value, `a whole number of at least ${minimum}`);
  }
  return value;
}

/** The member of a document that is true, false or absent. */
export function flagOf(document: JsonObject, name: string): boolean {
  const value = memberOf(document, name) ?? false;
  if (typeof value !== "boolean") throw refusal(name, value, "true or false");
  return value;
}

/** The member of a document that is a list. Absent is an empty one. */
function listOf(document: JsonObject, name: string): readonly JsonValue[] {
  const value = memberOf(document, name) ?? [];
  if (!Array.isArray(value)) throw refusal(name, value, "a list");
  return value;
}

/** The members of a document's list, which are objects. */
export function objectsOf(document: JsonObject, name: string): readonly JsonObject[] {
  return listOf(document, name).map((value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw refusal(name, value, "objects");
    return value as JsonObject;
  });
}

/** Any member of a document; undefined if it is absent. */
export function memberOf(document: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(document, name) ? document[name] : undefined;
}

function refusal(name: string, value: JsonValue | undefined, needed: string): Error {
  const quoted = value === undefined ? "absent" : JSON.stringify(value).slice(0, quotedLength);
  return badMessage(`the member ${name} of a document is ${quoted}; it takes ${needed}`);
}
