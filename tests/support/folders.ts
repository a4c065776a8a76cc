/**
 * Temporary folders.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";

/** Calls the body with a new folder, which is removed afterwards. Returns its result. */
export async function inFolder<Result>(body: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    return await body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
