/**
 * Draws on the alternate screen of the terminal, which is restored however the program ends.
 *
 * @module
 */
import { writeSync } from "node:fs";
import process from "node:process";
import type { ViewLine } from "./view.ts";

/**
 * The escape sequences that enter the alternate screen, hide the cursor, disable line wrapping and clear the screen.
 */
const enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
/** The escape sequences that undo the effects of `enter`. */
const leave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/** The escape sequences around a synchronized update, which prevents flicker on terminals that support it. */
const [beginUpdate, endUpdate] = ["\x1b[?2026h", "\x1b[?2026l"];

/** The callbacks of a `Screen`. */
export interface ScreenHandlers {
  /** Called with typed characters. */
  onInput(input: string): void;
  /** Called when the terminal was resized or the program resumed: the screen must be redrawn. */
  onResize(): void;
}

/** Returns whether the standard input and output of this program are a terminal. */
export function isTerminal(): boolean {
  return process.stdout.isTTY === true && process.stdin.isTTY === true;
}

/** Shows the alternate screen of the terminal until this object is disposed or the program exits. */
export class Screen implements Disposable {
  readonly #handlers: ScreenHandlers;
  #isEntered = false;
  readonly #onData = (data: Uint8Array | string) => this.#handlers.onInput(String(data));
  readonly #onResize = () => this.#handlers.onResize();
  readonly #onContinue = () => {
    this.#enter();
    this.#handlers.onResize();
  };
  readonly #onExit = () => this.#leave();
  readonly #onError = (error: unknown) => {
    this.#leave();
    console.error(error);
    process.exit(1);
  };

  constructor(handlers: ScreenHandlers) {
    this.#handlers = handlers;
    process.on("exit", this.#onExit);
    process.on("uncaughtException", this.#onError);
    process.on("unhandledRejection", this.#onError);
    process.on("SIGWINCH", this.#onResize);
    process.on("SIGCONT", this.#onContinue);
    process.stdin.on("data", this.#onData);
    this.#enter();
  }

  /** The width of the terminal in characters. */
  get columns(): number {
    return process.stdout.getWindowSize()[0];
  }

  /** The height of the terminal in lines. */
  get rows(): number {
    return process.stdout.getWindowSize()[1];
  }

  /** Draws lines from the top of the screen, and clears the rest. */
  draw(lines: readonly ViewLine[]): void {
    if (!this.#isEntered) return;
    const drawn = lines.map(({ text, isHeading }, index) =>
      `\x1b[${index + 1};1H${isHeading ? `\x1b[7m${text}\x1b[K\x1b[27m` : `${text}\x1b[K`}`
    );
    write(`${beginUpdate}${drawn.join("")}\x1b[J${endUpdate}`);
  }

  /** Suspends the program, like Ctrl-Z. */
  suspend(): void {
    this.#leave();
    // Stop the entire process group, which includes a parent such as npx.
    process.kill(0, "SIGTSTP");
  }

  /** Leaves the screen. */
  [Symbol.dispose](): void {
    process.off("exit", this.#onExit);
    process.off("uncaughtException", this.#onError);
    process.off("unhandledRejection", this.#onError);
    process.off("SIGWINCH", this.#onResize);
    process.off("SIGCONT", this.#onContinue);
    process.stdin.off("data", this.#onData);
    this.#leave();
    process.stdin.pause();
  }

  #enter(): void {
    this.#isEntered = true;
    process.stdin.setRawMode(true);
    process.stdin.resume();
    write(enter);
  }

  #leave(): void {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    try {
      write(leave);
      process.stdin.setRawMode(false);
    } catch {
      // The terminal was closed: ignore the error.
    }
  }
}

/** Writes to standard output synchronously, because the program may be about to exit. */
function write(text: string): void {
  let bytes = new TextEncoder().encode(text);
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(1, bytes));
    } catch (error) {
      if ((error as { code?: string }).code !== "EAGAIN") throw error;
    }
  }
}
