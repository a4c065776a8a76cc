/**
 * Reads the members of JSON documents received from other processes.
 *
 * @module
 */
import { badMessage } from "../protocol/messages.ts";
import type { JsonObject } from "../protocol/documents.ts";
import type { JsonValue } from "../protocol/metadata.ts";

/** The maximum length of a string that an error quotes. */
const quotedLength = 60;

/** Returns a member of a document that must be a string. */
export function textOf(document: JsonObject, name: string): string {
  const value = memberOf(document, name);
  if (typeof value !== "string") throw refusal(name, value, "a text");
  return value;
}

/** Returns a member of a document that must be an integer. */
export function numberOf(document: JsonObject, name: string, minimum = 0): number {
  return checkedNumber(memberOf(document, name), name, minimum);
}

/** Returns a member of a document that must be an array of integers. */
export function numbersOf(document: JsonObject, name: string, minimum = 0): readonly number[] {
  return listOf(document, name).map((value) => checkedNumber(value, name, minimum));
}

function checkedNumber(value: JsonValue | undefined, name: string, minimum: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < minimum) {
    throw refusal(name, value, `a whole number of at least ${minimum}`);
  }
  return value;
}

/** Returns a member of a document that must be a boolean or absent. */
export function flagOf(document: JsonObject, name: string): boolean {
  const value = memberOf(document, name) ?? false;
  if (typeof value !== "boolean") throw refusal(name, value, "true or false");
  return value;
}

/** Returns a member of a document that must be an array. An absent member is an empty array. */
function listOf(document: JsonObject, name: string): readonly JsonValue[] {
  const value = memberOf(document, name) ?? [];
  if (!Array.isArray(value)) throw refusal(name, value, "a list");
  return value;
}

/** Returns a member of a document that must be an array of objects. */
export function objectsOf(document: JsonObject, name: string): readonly JsonObject[] {
  return listOf(document, name).map((value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw refusal(name, value, "objects");
    return value as JsonObject;
  });
}

/** Returns a member of a document. Undefined if it is absent. */
export function memberOf(document: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(document, name) ? document[name] : undefined;
}

function refusal(name: string, value: JsonValue | undefined, needed: string): Error {
  const quoted = value === undefined ? "absent" : JSON.stringify(value).slice(0, quotedLength);
  return badMessage(`the member ${name} of a document is ${quoted}; it takes ${needed}`);
}
