/**
 * The terminal as a screen: an alternate one, which is left however the program ends.
 *
 * @module
 */
import { writeSync } from "node:fs";
import process from "node:process";
import type { ViewLine } from "./view.ts";

/** Enters the alternate screen, hides the cursor and does not break long lines. */
const enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
/** Undoes all of that. */
const leave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/** Starts and ends a synchronized update, for terminals that have it: the user never sees half a screen. */
const [beginUpdate, endUpdate] = ["\x1b[?2026h", "\x1b[?2026l"];

/** The callbacks of a `Screen`. */
export interface ScreenHandlers {
  /** Receives typed characters. */
  onInput(input: string): void;
  /** Called when the size has changed, or the program resumes after it was stopped: everything must be drawn again. */
  onResize(): void;
}

/** Whether this program runs in a terminal. */
export function isTerminal(): boolean {
  return process.stdout.isTTY === true && process.stdin.isTTY === true;
}

/** The alternate screen of the terminal, from its construction until its disposal or the end of the program. */
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

  /** The number of characters in a line. */
  get columns(): number {
    return process.stdout.getWindowSize()[0];
  }

  /** The number of lines. */
  get rows(): number {
    return process.stdout.getWindowSize()[1];
  }

  /** Shows lines from the top. */
  draw(lines: readonly ViewLine[]): void {
    if (!this.#isEntered) return;
    const drawn = lines.map(({ text, isHeading }, index) =>
      `\x1b[${index + 1};1H${isHeading ? `\x1b[7m${text}\x1b[K\x1b[27m` : `${text}\x1b[K`}`
    );
    write(`${beginUpdate}${drawn.join("")}\x1b[J${endUpdate}`);
  }

  /** Stops the program, as Ctrl-Z does. */
  suspend(): void {
    this.#leave();
    // The whole process group, including the parent, such as npx.
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
      // The terminal is gone.
    }
  }
}

/** Writes now: a program that ends has no time for more. */
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
