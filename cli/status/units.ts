export { formatBytes } from "../../src/support/printing.ts";

/** Formats a duration in a suitable unit, rounded down: `"12 s"`, `"3 min"`. */
export function formatDuration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 2 * 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** Formats a count with commas as thousands separators: `"12,345"`. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** Formats a rate per second: `"59.9"`, `"1,200"`. */
export function formatRate(perSecond: number): string {
  return perSecond < 100 ? perSecond.toFixed(1) : formatCount(Math.round(perSecond));
}
