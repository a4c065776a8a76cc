/**
 * Makes text of other processes harmless for whoever prints it: on a terminal, control characters run commands, forge
 * lines and reorder what is shown.
 *
 * @module
 */

/**
 * C0 and C1 control characters and DEL, the characters that set the direction of the text behind them, and the line and
 * paragraph separators.
 */
// deno-lint-ignore no-control-regex
const controls = /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces control characters by the escapes that they have in a string literal: `\x1b`, `\u202e`. */
export function escapeControls(text: string): string {
  return text.replace(controls, escapeOf);
}

/** The same for text of several lines: keeps the ends of lines, and tabs. */
export function escapeControlsInLines(text: string): string {
  return text.replace(
    controls,
    (character) => character === "\n" || character === "\t" ? character : escapeOf(character),
  );
}

function escapeOf(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
}
