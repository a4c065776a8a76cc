/**
 * Checks JSON that another process has sent against the type that it should have.
 *
 * @module
 */
import { badMessage } from "../protocol/messages.ts";
import type { JsonValue } from "../protocol/metadata.ts";

/** The maximum depth of JSON whose form is free. Some runtimes cannot write what is nested much more deeply. */
export const maximumDepth = 200;

/**
 * Returns a value of JSON, if it has the right type. Members of objects that are not expected are left out.
 *
 * @param at where the value is, for the error
 * @throws {SharingError} `bad-message` if it has another type
 */
export type Check<T> = (value: JsonValue | undefined, at: string) => T;

/** Text, at most `maximumLength` UTF-16 code units. */
export function text(maximumLength: number): Check<string> {
  return (value, at) => {
    if (typeof value === "string" && value.length <= maximumLength) return value;
    throw wrong(at, `not a string of at most ${maximumLength} characters`);
  };
}

/** A whole number of at least 0. */
export const count: Check<number> = (value, at) => {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw wrong(at, "not a whole number of at least 0");
};

export const boolean: Check<boolean> = (value, at) => {
  if (typeof value === "boolean") return value;
  throw wrong(at, "neither true nor false");
};

/** Any JSON that is not nested so deeply that it cannot be printed. */
export const json: Check<JsonValue> = (value, at) => {
  if (value === undefined) throw wrong(at, "missing");
  if (isTooDeep(value)) throw wrong(at, `nested more than ${maximumDepth} deep`);
  return value;
};

/** Whether a value is nested more deeply than `maximumDepth`. */
export function isTooDeep(value: JsonValue): boolean {
  let level: readonly JsonValue[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maximumDepth) return true;
    level = level.flatMap((each) => typeof each === "object" && each !== null ? Object.values(each) : []);
  }
  return false;
}

/** One of some words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): Check<Word> {
  return (value, at) => {
    const found = words.find((word) => word === value);
    if (found !== undefined) return found;
    throw wrong(at, `none of ${words.join(", ")}`);
  };
}

/** Null, or something else. */
export function nullOr<T>(check: Check<T>): Check<T | null> {
  return (value, at) => value === null ? null : check(value, at);
}

/** A list of at most `maximumLength` elements. */
export function list<T>(check: Check<T>, maximumLength: number): Check<readonly T[]> {
  return (value, at) => {
    if (!Array.isArray(value) || value.length > maximumLength) {
      throw wrong(at, `not a list of at most ${maximumLength} elements`);
    }
    return value.map((element, index) => check(element, `${at}[${index}]`));
  };
}

/** An object in which any of some names may have a value. */
export function partial<Name extends string, T>(check: Check<T>): Check<Readonly<Partial<Record<Name, T>>>> {
  return (value, at) => {
    const entries = Object.entries(objectOf(value, at)).map(([name, member]) => [name, check(member, `${at}.${name}`)]);
    return Object.fromEntries(entries) as Partial<Record<Name, T>>;
  };
}

/** An object with certain members. */
export function object<Members extends Readonly<Record<string, Check<unknown>>>>(
  members: Members,
): Check<{ readonly [Name in keyof Members]: ReturnType<Members[Name]> }> {
  return (value, at) => {
    const given = objectOf(value, at);
    const entries = Object.entries(members).map(([name, check]) =>
      [name, check(Object.hasOwn(given, name) ? given[name] : undefined, `${at}.${name}`)] as const
    );
    return Object.fromEntries(entries) as { [Name in keyof Members]: ReturnType<Members[Name]> };
  };
}

/** Members that an object need not have. */
export function optional<Name extends string, T>(
  name: Name,
  check: Check<T>,
): Check<{ readonly [Member in Name]?: T }> {
  return (value, at) => {
    const given = objectOf(value, at);
    if (!Object.hasOwn(given, name)) return {};
    return { [name]: check(given[name], `${at}.${name}`) } as { [Member in Name]?: T };
  };
}

/** An object with the members of two. */
export function both<One, Other>(one: Check<One>, other: Check<Other>): Check<One & Other> {
  return (value, at) => ({ ...one(value, at), ...other(value, at) });
}

function objectOf(value: JsonValue | undefined, at: string): { readonly [name: string]: JsonValue } {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as { readonly [name: string]: JsonValue };
  }
  throw wrong(at, "not an object");
}

function wrong(at: string, what: string): Error {
  return badMessage(`${at} is ${what}`);
}
