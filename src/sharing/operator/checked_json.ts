/**
 * Checks that JSON from another process has the expected type.
 *
 * @module
 */
import { badMessage } from "../protocol/messages.ts";
import type { JsonValue } from "../protocol/metadata.ts";

/**
 * The maximum nesting depth of JSON whose structure is not checked otherwise, such as metadata. Some runtimes cannot
 * serialize JSON that is nested much more deeply.
 */
export const maximumDepth = 200;

/**
 * Checks that a JSON value has the type `T`, and returns a copy without the unexpected members of objects.
 *
 * @param at the path of the value in the document, for the error message
 * @throws {SharingError} `bad-message` if the value has another type
 */
export type Check<T> = (value: JsonValue | undefined, at: string) => T;

/** Returns a check that accepts a string of at most `maximumLength` UTF-16 code units. */
export function text(maximumLength: number): Check<string> {
  return (value, at) => {
    if (typeof value === "string" && value.length <= maximumLength) return value;
    throw wrong(at, `not a string of at most ${maximumLength} characters`);
  };
}

/** Accepts an integer of at least 0. */
export const count: Check<number> = (value, at) => {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw wrong(at, "not a whole number of at least 0");
};

export const boolean: Check<boolean> = (value, at) => {
  if (typeof value === "boolean") return value;
  throw wrong(at, "neither true nor false");
};

/** Accepts any JSON that is nested at most `maximumDepth` levels deep. */
export const json: Check<JsonValue> = (value, at) => {
  if (value === undefined) throw wrong(at, "missing");
  if (isTooDeep(value)) throw wrong(at, `nested more than ${maximumDepth} deep`);
  return value;
};

/** Returns whether a value is nested more deeply than `maximumDepth`. */
export function isTooDeep(value: JsonValue): boolean {
  let level: readonly JsonValue[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maximumDepth) return true;
    level = level.flatMap((each) => typeof each === "object" && each !== null ? Object.values(each) : []);
  }
  return false;
}

/** Returns a check that accepts any of the given words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): Check<Word> {
  return (value, at) => {
    const found = words.find((word) => word === value);
    if (found !== undefined) return found;
    throw wrong(at, `none of ${words.join(", ")}`);
  };
}

/** Returns a check that accepts null and each value that `check` accepts. */
export function nullOr<T>(check: Check<T>): Check<T | null> {
  return (value, at) => value === null ? null : check(value, at);
}

/** Returns a check that accepts an array of at most `maximumLength` elements, each of which `check` accepts. */
export function list<T>(check: Check<T>, maximumLength: number): Check<readonly T[]> {
  return (value, at) => {
    if (!Array.isArray(value) || value.length > maximumLength) {
      throw wrong(at, `not a list of at most ${maximumLength} elements`);
    }
    return value.map((element, index) => check(element, `${at}[${index}]`));
  };
}

/** Returns a check that accepts an object with any member names, if `check` accepts the value of each member. */
export function partial<Name extends string, T>(check: Check<T>): Check<Readonly<Partial<Record<Name, T>>>> {
  return (value, at) => {
    const entries = Object.entries(objectOf(value, at)).map(([name, member]) => [name, check(member, `${at}.${name}`)]);
    return Object.fromEntries(entries) as Partial<Record<Name, T>>;
  };
}

/** Returns a check that accepts an object with the given members. */
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

/** Returns a check that accepts an object with or without the given member. */
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

/** Returns a check that accepts an object that both checks accept, and that merges their results. */
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
