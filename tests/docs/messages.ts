/**
 * The messages of errors, as the sources have them and as the page of troubleshooting calls them.
 *
 * @module
 */

/** The headings of the third level: each is a message. */
export function headingsOfPage(page: string): string[] {
  return [...page.matchAll(/^### (.*)$/gm)].map((match) => match[1]!);
}

/** The codes in the first column of the table below a heading. */
export function codesOfPage(page: string, heading: string): string[] {
  const section = page.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^\| `([\w-]+)` +\|/gm)].map((match) => match[1]!);
}

/** The texts in a source, with those that are put together in one piece, and "…" for what is put in. */
export function textsOfSource(source: string): string {
  let text = source.replaceAll(/^ *(?:\/?\*|\/\/).*$/gm, "").replaceAll(/(["'`]) \+\s+(["'`])/g, "");
  // From the inside out: what is put in may hold texts itself.
  for (let before = ""; before !== text;) {
    before = text;
    text = text.replaceAll(/\$\{[^{}]*\}/g, "…").replaceAll(/…(?:\s*…)+/g, "…");
  }
  // The function of that name puts the word before what it is given.
  return text.replaceAll(/\bcannot\(\s*(["'`])/g, "$1Cannot ").replaceAll(/\\(["'`])/g, "$1");
}

/** What a runtime says before poolpass can: Node 20 or older of a script, and Node 26 of its FFI. */
const messagesOfRuntimes: readonly string[] = [
  'Unknown file extension ".ts"',
  "ExperimentalWarning: FFI is an experimental feature and might change at any time",
];

/**
 * Whether a heading is a message of the sources, or a part of one, in their order, or one of a runtime: "…" stands for
 * anything in a text.
 */
export function isMessageOf(heading: string, texts: string): boolean {
  if (messagesOfRuntimes.includes(heading)) return true;
  return new RegExp(heading.split("…").map((piece) => RegExp.escape(piece)).join("[^\\n]*?")).test(texts);
}
