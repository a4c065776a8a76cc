/**
 * Starts the hostile peers of this folder, which are written in Python and share no code with the library.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type ChildProcess, startCommand } from "../../support/child_process.ts";

/** The interpreter itself: the python3 on the PATH may be a script, which starts more slowly. */
const python = findPython();

/** Why tests with hostile peers are skipped, if they are. */
export const noPython: string | undefined = python === undefined ? "there is no python3" : undefined;

/** Starts a script of this folder, such as `"silent_importers.py"`. */
export function startHostile(script: string, args: readonly (string | number)[]): ChildProcess {
  const path = fileURLToPath(new URL(script, import.meta.url));
  return startCommand([python!, "-S", path, ...args.map(String)]);
}

function findPython(): string | undefined {
  try {
    return execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}
