/**
 * What was found, in a line.
 *
 * @module
 */
import { countOf } from "../support/printing.ts";
import { shortPlaceOf } from "./places.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";

const mostListed = 10;

/**
 * `2 mistakes (1 unordered-write-read, 1 use-after-free): unordered-write-read at script.ts:14 (seen 12 times),
 * use-after-free at script.ts:20`.
 */
export function summaryOf(reports: readonly SanitizerReport[]): string {
  const listed = reports.slice(0, mostListed).map((report) => {
    const place = shortPlaceOf(report);
    return `${report.kind}${place === undefined ? "" : ` at ${place}`}${countIn(report)}`;
  });
  const more = reports.length - listed.length;
  if (more > 0) listed.push(`${more} more`);
  const kinds = reports.length > 1 ? ` (${countsByKind(reports)})` : "";
  return `${countOf(reports.length, "mistake")}${kinds}${listed.length === 0 ? "" : `: ${listed.join(", ")}`}`;
}

/** `2 unordered-write-read, 1 leak`. */
function countsByKind(reports: readonly SanitizerReport[]): string {
  const counts = new Map<string, number>();
  for (const { kind } of reports) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(", ");
}

/** Races are counted by the pairs of accesses, which are more than the accesses. */
function countIn({ check, count }: SanitizerReport): string {
  return check === "race" && count > 1 ? ` (in ${count} pairs of accesses)` : timesOf(count);
}

/** How often something was seen, behind its name. Empty for once. */
export function timesOf(count: number): string {
  return count > 1 ? ` (seen ${count} times)` : "";
}
