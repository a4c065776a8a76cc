/**
 * `node:test`'s `test`, of which those that cannot run here are reported together: one skipped test of each file and reason,
 * whose name says how many they are and why. Where everything can run, each test has its own name.
 *
 * @module
 */
import { test as nodeTest } from "node:test";
import process from "node:process";

/** Why a test cannot run here; false or undefined where it can. */
export type SkipReason = string | false | undefined;

/** `POOLPASS_NAME_SKIPPED=1` reports each skipped test by its own name. */
const namesSkipped = process.env.POOLPASS_NAME_SKIPPED === "1";

/** Whether each test has all of its cases: without `POOLPASS_LONG=1` it has some of every kind. */
export const isLong: boolean = process.env.POOLPASS_LONG === "1";

/** All cases in the long run, else one in so many of them. */
export function someOf<Case>(cases: readonly Case[], step: number): readonly Case[] {
  return isLong ? cases : cases.filter((_, index) => index % step === 0);
}

/** Why a test that is much like others is skipped; false in the long run. */
export const skipUnlessLong: SkipReason = !isLong && "only with POOLPASS_LONG=1";

/** By reason, the names of the tests that this file has skipped so far. */
const skipped = new Map<string, string[]>();

/** A test, or a skipped one if there is a reason for that. */
export function test(
  name: string,
  ...[options, body]:
    | [body: () => void | Promise<void>]
    | [options: { readonly skip: SkipReason }, body: () => void | Promise<void>]
): void {
  if (typeof options === "function") return void nodeTest(name, options);
  const { skip } = options;
  if (skip === false || skip === undefined) return void nodeTest(name, body!);
  if (namesSkipped) return reportSkipped(name, skip);
  // A file's tests are all declared before its microtasks run.
  if (skipped.size === 0) queueMicrotask(reportGroups);
  const names = skipped.get(skip);
  if (names === undefined) skipped.set(skip, [name]);
  else names.push(name);
}

function reportGroups(): void {
  for (const [reason, names] of skipped) reportSkipped(groupName(names), reason);
  skipped.clear();
}

function reportSkipped(name: string, reason: string): void {
  // Bun and Deno print no reason but in the name.
  nodeTest(`${name} (skipped: ${reason})`, { skip: true }, () => {});
}

/** "17 tests on [cuda]" of tests whose names end with the driver that they are on, "17 tests" of others. */
function groupName(names: readonly string[]): string {
  if (names.length === 1) return names[0]!;
  const drivers = new Set(names.map((name) => /\[[^\]]*\]$/.exec(name)?.[0]));
  return `${names.length} tests${drivers.has(undefined) ? "" : ` on ${[...drivers].join(" and ")}`}`;
}
