/**
 * Characters that JSON permits unescaped, and that a terminal would execute or reorder: DEL, C1 controls, directions,
 * separators.
 */
const controls = /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/** A value as JSON that is harmless on a terminal, even if another process has chosen the strings in it. */
export function formatJson(value: unknown, space?: number): string {
  return JSON.stringify(value, undefined, space).replace(
    controls,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
