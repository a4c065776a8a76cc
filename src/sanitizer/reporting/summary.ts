/**
 * What was found, in a line.
 *
 * @module
 */
import { countOf, listOf } from "../../support/printing.ts";
import { shortPlaceOf } from "./places.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";

/** `3 mistakes: unordered-write-read at script.ts:14 (seen 12 times), script.ts:20; leak at script.ts:6`. */
export function summaryOf(reports: readonly SanitizerReport[]): string {
  const byKind = Array.from(Map.groupBy(reports, ({ kind }) => kind), ([kind, all]) => `${kind}${placesIn(all)}`);
  return `${countOf(reports.length, "mistake")}${byKind.length === 0 ? "" : `: ${byKind.join("; ")}`}`;
}

/** ` at script.ts:14 (seen 12 times), script.ts:20`. */
function placesIn(reports: readonly SanitizerReport[]): string {
  const byPlace = Array.from(Map.groupBy(reports, shortPlaceOf), ([place = "an unknown place", at]) => {
    return `${place}${at.length === 1 ? countIn(at[0]!) : ` (${countOf(at.length, "mistake")})`}`;
  });
  return ` at ${listOf(byPlace)}`;
}

/** Races are counted by the pairs of accesses, which are more than the accesses. */
function countIn({ check, count }: SanitizerReport): string {
  return check === "race" && count > 1 ? ` (in ${count} pairs of accesses)` : timesOf(count);
}

/** How often something was seen, behind its name. Empty for once. */
export function timesOf(count: number): string {
  return count > 1 ? ` (seen ${count} times)` : "";
}
