/**
 * Temporary folders.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";

/** Calls the body with a new folder, which is removed afterwards. */
export async function inFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
