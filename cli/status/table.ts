import { escapeControls } from "../../src/support/printing.ts";

/** A column of a table. */
export interface Column {
  readonly name: string;
  /** The alignment of the cells; left if absent. */
  readonly align?: "right";
}

/** Escapes control characters, so that text from other processes is safe to print and stays in one line. */
export function printable(text: string): string {
  return escapeControls(text);
}

/** Returns the lines of a table, with a heading first. Omits columns whose cells are all empty. */
export function formatTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const shown = columns.map((_, index) => index).filter((index) => rows.some((row) => row[index] !== ""));
  const lines = [columns.map(({ name }) => name), ...rows];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => widthOf(line[index]!))));
  return lines.map((line) =>
    shown.map((index) => {
      const space = " ".repeat(widths[index]! - widthOf(line[index]!));
      return columns[index]!.align === "right" ? space + line[index] : line[index] + space;
    }).join("  ").trimEnd()
  );
}

/** Returns the number of terminal cells that a string occupies. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** Returns the longest prefix of a string that is at most `width` terminal cells wide. */
export function cutTo(text: string, width: number): string {
  let [cut, taken] = ["", 0];
  for (const character of text) {
    taken += widthOfCharacter(character);
    if (taken > width) return cut;
    cut += character;
  }
  return cut;
}

/** Matches characters that occupy no cell of a terminal, such as combining marks. */
const combining = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
/** Matches characters that terminals show in two cells. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]$|^\p{Emoji_Presentation}$|^[\u{20000}-\u{3fffd}]$/u;

function widthOfCharacter(character: string): number {
  if (character < "\x7f") return 1;
  return combining.test(character) ? 0 : wide.test(character) ? 2 : 1;
}
