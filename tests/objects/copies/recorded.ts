/**
 * The outcomes of asynchronous copies that `record.ts` recorded on an H200.
 *
 * @module
 */
import { createHash } from "node:crypto";

/** The longest outcome that is recorded as it is. */
const mostCharacters = 40;

/** Returns an outcome, or the beginning of the SHA-256 hash of a long one. */
export function condensed(outcome: string): string {
  const text = outcome.replace(/(?:00)+$/, "").trim();
  if (text.length <= mostCharacters) return text;
  return `sha256 ${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
}
