/**
 * Compares the error messages of the sources with those in troubleshooting.md.
 *
 * @module
 */

/** Returns the third-level headings of a page. Each is a message. */
export function headingsOfPage(page: string): string[] {
  return [...page.matchAll(/^### (.*)$/gm)].map((match) => match[1]!);
}

/** Returns the codes in the first column of the table below a second-level heading. */
export function codesOfPage(page: string, heading: string): string[] {
  const section = page.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^\| `([\w-]+)` +\|/gm)].map((match) => match[1]!);
}

/** Returns the strings of a source. Concatenated strings are joined, and "…" replaces interpolated expressions. */
export function stringsOfSource(source: string): string {
  let text = source.replaceAll(/^ *(?:\/?\*|\/\/).*$/gm, "").replaceAll(/(["'`]) \+\s+(["'`])/g, "");
  // Replaces the innermost expressions first, because expressions may contain strings.
  for (let before = ""; before !== text;) {
    before = text;
    text = text.replaceAll(/\$\{[^{}]*\}/g, "…").replaceAll(/…(?:\s*…)+/g, "…");
  }
  // The function `cannot` prepends "Cannot " to its argument.
  return text.replaceAll(/\bcannot\(\s*(["'`])/g, "$1Cannot ").replaceAll(/\\(["'`])/g, "$1");
}

/** Messages of runtimes: of Node 20 and older for TypeScript files, of Node 26 for its FFI, and of Deno for transfers. */
const messagesOfRuntimes: readonly string[] = [
  'Unknown file extension ".ts"',
  "ExperimentalWarning: FFI is an experimental feature and might change at any time",
  "Value not transferable",
];

/**
 * Whether a heading is a message, or parts of a message in order, of the sources or of a runtime. "…" in a heading
 * stands for any string.
 */
export function isMessageOf(heading: string, texts: string): boolean {
  if (messagesOfRuntimes.includes(heading)) return true;
  return new RegExp(heading.split("…").map((piece) => RegExp.escape(piece)).join("[^\\n]*?")).test(texts);
}
