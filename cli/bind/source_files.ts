/**
 * Finds the files of a program: its source and the headers that it includes.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** The maximum number of files, including headers, to read for one source. */
const maximumFiles = 1000;

/**
 * Returns the text of a source and of the headers that it includes, keyed by path. Each path at which a header was
 * searched for and not found has the value undefined, because the header may be created there later. Does not search
 * the compilers' own headers, which do not change.
 *
 * @param includePaths the folders to search for headers, in addition to that of the including file
 */
export function readSourceFiles(file: string, includePaths: readonly string[]): Map<string, string | undefined> {
  const texts = new Map<string, string | undefined>();
  const queue = [resolve(file)];
  for (const path of queue) {
    if (texts.has(path) || texts.size > maximumFiles) continue;
    const text = readIfThere(path);
    texts.set(path, text);
    for (const name of includesIn(text ?? "")) {
      for (const folder of [dirname(path), ...includePaths]) {
        const header = resolve(folder, name);
        queue.push(header);
        if (readIfThere(header) !== undefined) break;
      }
    }
  }
  return texts;
}

/** Returns the names in `#include` directives. */
function includesIn(text: string): string[] {
  return Array.from(text.matchAll(/^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]/gm), ([, name]) => name!);
}

/** Returns the text of a file, or undefined if it cannot be read. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
