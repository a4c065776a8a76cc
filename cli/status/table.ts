import { escapeControls } from "../../src/support/printing.ts";

/** A column of a table. */
export interface Column {
  readonly name: string;
  /** Numbers are aligned to the right. */
  readonly align?: "right";
}

/** Text that a terminal shows in one line and at its own place, even if another process has written it. */
export function harmless(text: string): string {
  return escapeControls(text);
}

/** The lines of a table, the names of the columns first. Columns without any text are left out. */
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

/** The number of cells of a terminal that text takes. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** The longest prefix of a string that takes at most this many cells. */
export function cutTo(text: string, width: number): string {
  let [cut, taken] = ["", 0];
  for (const character of text) {
    taken += widthOfCharacter(character);
    if (taken > width) return cut;
    cut += character;
  }
  return cut;
}

const combining = /^[\p{Mn}\p{Me}\p{Cf}]$/u;
/** The scripts and symbols that terminals show in two cells. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]$|^\p{Emoji_Presentation}$|^[\u{20000}-\u{3fffd}]$/u;

function widthOfCharacter(character: string): number {
  if (character < "\x7f") return 1;
  return combining.test(character) ? 0 : wide.test(character) ? 2 : 1;
}
