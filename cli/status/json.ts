/**
 * Matches characters that JSON permits unescaped and that a terminal would interpret: DEL, C1 controls, line separators
 * and bidirectional controls.
 */
const controls = /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Formats a value as JSON without control characters, so that it is safe to print even if it contains strings from
 * other processes.
 */
export function formatJson(value: unknown, space?: number): string {
  return JSON.stringify(value, undefined, space).replace(
    controls,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
