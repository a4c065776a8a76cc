/**
 * What was found, in a line.
 *
 * @module
 */
import { countOf } from "../support/printing.ts";
import { shortPlaceOf } from "./places.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";

const mostListed = 10;

/** `2 mistakes: unordered-write-read at script.ts:14 (seen 12 times), use-after-free at script.ts:20`. */
export function summaryOf(reports: readonly SanitizerReport[]): string {
  const listed = reports.slice(0, mostListed).map((report) => {
    const place = shortPlaceOf(report);
    return `${report.kind}${place === undefined ? "" : ` at ${place}`}${countIn(report)}`;
  });
  const more = reports.length - listed.length;
  if (more > 0) listed.push(`${more} more`);
  return `${countOf(reports.length, "mistake")}${listed.length === 0 ? "" : `: ${listed.join(", ")}`}`;
}

/** Races are counted by the pairs of accesses, which are more than the accesses. */
function countIn({ check, count }: SanitizerReport): string {
  return check === "race" && count > 1 ? ` (in ${count} pairs of accesses)` : timesOf(count);
}

/** How often something was seen, behind its name. Empty for once. */
export function timesOf(count: number): string {
  return count > 1 ? ` (seen ${count} times)` : "";
}
