/**
 * `node:test`'s `test`, except that tests which cannot run here are reported together: as one skipped test for each
 * file and reason, whose name has their number and the reason. If everything can run, each test has its own name.
 *
 * @module
 */
import { test as nodeTest } from "node:test";
import process from "node:process";
import { inTurn, sharesProcess } from "./parallel.ts";

/** Why a test cannot run here; false or undefined if it can. */
export type SkipReason = string | false | undefined;

/** `POOLPASS_NAME_SKIPPED=1` reports each skipped test by its own name. */
const namesSkipped = process.env.POOLPASS_NAME_SKIPPED === "1";

/** `POOLPASS_LONG=only` runs what is left to the long run, and nothing else. */
const isOnlyLong: boolean = process.env.POOLPASS_LONG === "only";

/** Whether tests run all their cases. Without `POOLPASS_LONG=1` they run some of every kind. */
export const isLong: boolean = process.env.POOLPASS_LONG === "1" || isOnlyLong;

/** All cases in the long run, otherwise every `step`th. */
export function someOf<Case>(cases: readonly Case[], step: number): readonly Case[] {
  return isLong ? cases : cases.filter((_, index) => index % step === 0);
}

/** When a test runs. */
export interface TestOptions {
  /** Why it cannot run here. */
  readonly skip?: SkipReason;
  /** Whether it is left to the long run, because it resembles others or takes long. */
  readonly long?: boolean;
}

/** In the names of tests that run on a GPU. */
const namesGpu = /\[cuda\b/;

/** By reason, the names of the tests that this file has skipped so far. */
const skipped = new Map<string, string[]>();

/** Declares a test, or reports it as skipped if there is a reason. */
export function test(
  name: string,
  ...[options, body]:
    | [body: () => void | Promise<void>]
    | [options: TestOptions, body: () => void | Promise<void>]
): void {
  if (isOnlyLong && (typeof options === "function" || options.long !== true)) return;
  if (typeof options === "function") return declare(name, options);
  const skip = options.skip || (options.long && !isLong && "only with POOLPASS_LONG=1");
  if (skip === false || skip === undefined) return declare(name, body!);
  if (namesSkipped) return reportSkipped(name, skip);
  // A file declares all its tests before its microtasks run.
  if (skipped.size === 0) queueMicrotask(reportGroups);
  const names = skipped.get(skip);
  if (names === undefined) skipped.set(skip, [name]);
  else names.push(name);
}

function declare(name: string, body: () => void | Promise<void>): void {
  void nodeTest(name, namesGpu.test(name) && sharesProcess() ? inTurn(body) : body);
}

function reportGroups(): void {
  for (const [reason, names] of skipped) reportSkipped(groupName(names), reason);
  skipped.clear();
}

function reportSkipped(name: string, reason: string): void {
  // Bun and Deno print the reason only if it is part of the name.
  nodeTest(`${name} (skipped: ${reason})`, { skip: true }, () => {});
}

/** Returns "17 tests on [cuda]" if all names end with a driver, otherwise "17 tests". */
function groupName(names: readonly string[]): string {
  if (names.length === 1) return names[0]!;
  const drivers = new Set(names.map((name) => /\[[^\]]*\]$/.exec(name)?.[0]));
  return `${names.length} tests${drivers.has(undefined) ? "" : ` on ${[...drivers].join(" and ")}`}`;
}
