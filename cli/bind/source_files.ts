/**
 * The files of a program: its source and the headers that it includes.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** Programs with more headers than any person writes are not followed further. */
const maximumFiles = 1000;

/**
 * The text of a source and of the headers that it includes, by path. Undefined for a header that does not exist where it
 * might: it may be written later. Does not find the headers of compilers, which do not change.
 *
 * @param includePaths Where headers are looked for, other than beside the file that includes them.
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

/** The names behind `#include`. */
function includesIn(text: string): string[] {
  return Array.from(text.matchAll(/^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]/gm), ([, name]) => name!);
}

/** The text of a file. Undefined if it cannot be read. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
