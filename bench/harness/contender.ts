/**
 * A program that takes part in a benchmark and keeps running from round to round. It prints a greeting as a line of
 * JSON, and answers each line of input with a line of JSON.
 *
 * @module
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

/** Milliseconds in which a program must start or answer. Imports in Python can make the start slow. */
const answerTimeout = 40_000;

/** How to start a contender. */
export interface Program {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Environment variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A program in TypeScript, with all permissions. */
export function scriptProgram(name: string, url: URL, args: readonly string[]): Program {
  return { name, command: Deno.execPath(), args: ["run", "--allow-all", fileURLToPath(url), ...args] };
}

/** A running program that answers requests. */
export class Contender {
  readonly name: string;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: AsyncIterator<string>;

  constructor({ name, command, args, env = {} }: Program) {
    this.name = name;
    this.#child = new Deno.Command(command, {
      args: [...args],
      env,
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    })
      .spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#lines = createInterface({ input: Readable.fromWeb(this.#child.stdout as never) })[Symbol.asyncIterator]();
  }

  /** The number of the program's process. */
  get pid(): number {
    return this.#child.pid;
  }

  /** Resolves to the greeting, which the program prints when it is ready. */
  async greeting<Greeting>(): Promise<Greeting> {
    return JSON.parse(await this.#line());
  }

  /** Sends a request and resolves to the program's answer. */
  async ask<Answer>(request: string): Promise<Answer> {
    // The write fails if the program has ended. Reading the answer then reports the reason.
    await this.#input.write(new TextEncoder().encode(`${request}\n`)).catch(() => {});
    return JSON.parse(await this.#line());
  }

  /** Closes the program's input, and kills the program if it does not end within 5 seconds. */
  async end(): Promise<void> {
    await this.#input.close().catch(() => {});
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5000);
    await this.#child.status;
    clearTimeout(timer);
  }

  async #line(): Promise<string> {
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), answerTimeout);
    const { value, done } = await this.#lines.next();
    clearTimeout(timer);
    if (!done) return value;
    const { code, signal } = await this.#child.status;
    throw new Error(`it ended early: ${signal ?? `exit code ${code}`}`);
  }
}
