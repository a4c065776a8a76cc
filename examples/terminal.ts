/**
 * Shows pictures in a terminal. Each character is an upper half block in two colors: two pixels, one above the other.
 *
 * @module
 */
import process from "node:process";
import type { Picture } from "./png.ts";

/**
 * Returns the size at which a picture fits into the terminal and keeps its shape, in pixels: at most the terminal's
 * columns wide and twice its rows high. Where the terminal's size is not known, it is 80 columns and 24 rows.
 *
 * @param rows How many rows stay free.
 */
export function sizeInTerminal(
  { width, height }: { width: number; height: number },
  rows: number,
): { width: number; height: number } {
  const { columns: terminalColumns = 80, rows: terminalRows = 24 } = process.stdout;
  const scale = Math.min(1, terminalColumns / width, 2 * Math.max(1, terminalRows - rows) / height);
  return { width: Math.max(1, Math.floor(width * scale)), height: Math.max(1, Math.floor(height * scale)) };
}

/** Returns a smaller picture. Each of its pixels has the mean color of those that it stands for. */
export function shrink({ width, height, pixels }: Picture, to: { width: number; height: number }): Picture {
  const smaller = new Uint8Array(4 * to.width * to.height);
  for (let y = 0; y < to.height; y++) {
    const [top, bottom] = [Math.floor(y * height / to.height), Math.floor((y + 1) * height / to.height)];
    for (let x = 0; x < to.width; x++) {
      const [left, right] = [Math.floor(x * width / to.width), Math.floor((x + 1) * width / to.width)];
      for (let color = 0; color < 4; color++) {
        let sum = 0;
        for (let row = top; row < bottom; row++) {
          for (let column = left; column < right; column++) sum += pixels[4 * (row * width + column) + color]!;
        }
        smaller[4 * (y * to.width + x) + color] = Math.round(sum / ((bottom - top) * (right - left)));
      }
    }
  }
  return { ...to, pixels: smaller };
}

/** Returns a picture as lines of half blocks for a terminal with 24-bit colors. */
export function halfBlocks({ width, height, pixels }: Picture): string[] {
  const color = (x: number, y: number) => pixels.subarray(4 * (y * width + x), 4 * (y * width + x) + 3).join(";");
  const lines: string[] = [];
  for (let y = 0; y < height; y += 2) {
    let line = "";
    let [lastUpper, lastLower] = ["", ""];
    for (let x = 0; x < width; x++) {
      const upper = `\x1b[38;2;${color(x, y)}m`;
      const lower = y + 1 < height ? `\x1b[48;2;${color(x, y + 1)}m` : "\x1b[49m";
      line += `${upper === lastUpper ? "" : upper}${lower === lastLower ? "" : lower}▀`;
      [lastUpper, lastLower] = [upper, lower];
    }
    lines.push(`${line}\x1b[0m`);
  }
  return lines;
}

/** Writes to the output. Rejects if nobody reads it any more, where `console.log` would go on. */
export function print(text: string): Promise<void> {
  // Without a listener, Node ends the process; the callback has the same error.
  if (process.stdout.listenerCount("error") === 0) process.stdout.on("error", () => {});
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => error ? reject(new Error("Cannot print: the output is closed")) : resolve());
  });
}

/** The terminal while it shows an animation: its other screen, without a cursor. Disposing brings back the first. */
export class AnimatedScreen implements Disposable {
  constructor() {
    process.stdout.write("\x1b[?1049h\x1b[?25l");
  }

  /** Draws a picture and a line of text under it. Resolves when the terminal has taken them. */
  draw(picture: Picture, text: string): Promise<void> {
    // A line is cleared before it is written: at its end, a full line would lose its last character. Neither may the
    // text fill its line, or the terminal scrolls.
    const lines = halfBlocks(picture).map((line) => `\x1b[K${line}\r\n`).join("");
    const fitting = text.slice(0, (process.stdout.columns ?? 80) - 1);
    // A terminal that knows the first and the last sequence shows what is between them at once.
    const screen = `\x1b[?2026h\x1b[H${lines}\x1b[K${fitting}\x1b[J\x1b[?2026l`;
    return print(screen);
  }

  [Symbol.dispose](): void {
    process.stdout.write("\x1b[0m\x1b[?25h\x1b[?1049l");
  }
}
