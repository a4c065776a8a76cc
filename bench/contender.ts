/**
 * A program that takes part in a benchmark, kept running from one round to the next: it greets with a line of JSON, and
 * answers each line with a line of JSON.
 *
 * @module
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

/** To start, which imports of Python may make long, or to answer. */
const answerTimeout = 40_000;

/** How to start a contender. */
export interface Program {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Variables of its environment, beside this process's own. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A running program that answers. */
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

  /** Its process's number. */
  get pid(): number {
    return this.#child.pid;
  }

  /** What it says when it is ready. */
  async greeting<Greeting>(): Promise<Greeting> {
    return JSON.parse(await this.#line());
  }

  /** Asks by a line. */
  async ask<Answer>(question: string): Promise<Answer> {
    // A program that has ended takes nothing; why it has is found where its answer is waited for.
    await this.#input.write(new TextEncoder().encode(`${question}\n`)).catch(() => {});
    return JSON.parse(await this.#line());
  }

  /** Lets it end by itself, and kills it where it does not. */
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
