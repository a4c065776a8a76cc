/**
 * Imports the tests of a folder, for `tests/together/`. `deno task test` passes `--no-incremental-marking` to V8, which
 * would otherwise mark the heap of many tests again and again, because the devices' memory counts as garbage to come.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { useBundles } from "./child_bundles.ts";

/** The folders with so few tests that one file of `tests/together/` imports all of them. */
export const smallFolders: readonly string[] = ["ptx", "support", "types"];

/** Those that one file of `tests/together/more/` imports: loading the library takes a second. */
export const smallFoldersOfMore: readonly string[] = [
  "cli",
  "compile",
  "conformance",
  "corpus",
  "differential",
  "docs",
  "examples",
  "files",
  "kernels",
  "mistakes",
  "notebook",
  "packaging",
  "python",
  "trace",
  "weights",
];

/** Folders within `sharing` and `objects` whose tests `deno task test:more` has: they start many processes, or are many. */
const left: readonly string[] = ["graphs", "hostile", "store"];

/**
 * Imports all files of tests in a folder and, unless told otherwise, in its folders other than `graphs`, `hostile` and
 * `store`, in the order of their names.
 */
export async function importTests(folder: URL, { recursive = true }: { recursive?: boolean } = {}): Promise<void> {
  useBundles();
  const files = readdirSync(folder, { recursive, encoding: "utf8" });
  const isLeft = (name: string): boolean => left.some((folder) => name.startsWith(`${folder}/`));
  for (const file of files.filter((name) => name.endsWith("_test.ts") && !isLeft(name)).sort()) {
    await import(new URL(file, folder).href);
  }
}
