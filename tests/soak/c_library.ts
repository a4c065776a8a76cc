import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Builds a C file of this folder as a shared library. Returns its path, or undefined if there is no compiler. */
export function buildLibrary(name: string, folder: string): string | undefined {
  const source = fileURLToPath(new URL(`./${name}.c`, import.meta.url));
  const output = join(folder, `${name}.so`);
  const compilers = [
    ["gcc", "-shared", "-fPIC", "-O1", "-g", "-o", output, source],
    ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-o", output, source],
  ] as const;
  for (const [command, ...options] of compilers) {
    try {
      if (new Deno.Command(command, { args: options, stderr: "null" }).outputSync().success) return output;
    } catch {
      // There is no such program.
    }
  }
  return undefined;
}
