/** Boards for the processes of a test, apart from all other sanitized processes. */
import { rmSync } from "node:fs";
import process from "node:process";
import { boardFile } from "../../src/sanitizer/processes/board.ts";

/** The name for a child process, which gives it to `useBoard`. */
export const boardOfTest: string = `poolpass-test-${process.pid}`;

/** Uses the file of a name from now on. */
export function useBoard(name: string): void {
  boardFile.name = name;
}

/** Runs a test with a file of its own. */
export async function withOwnBoard(body: () => Promise<void>): Promise<void> {
  const before = boardFile.name;
  useBoard(boardOfTest);
  try {
    await body();
  } finally {
    useBoard(before);
    rmSync(`/dev/shm/${boardOfTest}-${process.geteuid?.()}`, { force: true });
  }
}
