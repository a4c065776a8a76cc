/**
 * One of the programs that stream frames, kept running from one round to the next.
 *
 * @module
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { formatJob, type Greeting, type Job, type RoundTimes } from "./job.ts";

/** To start, which imports of Python may make long, or to do a job. */
const answerTimeout = 40_000;

/** How to start a contender. */
export interface Program {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

/** A running program that does jobs. */
export class Contender {
  readonly name: string;
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: AsyncIterator<string>;

  constructor({ name, command, args }: Program) {
    this.name = name;
    this.#child = new Deno.Command(command, { args: [...args], stdin: "piped", stdout: "piped", stderr: "inherit" })
      .spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#lines = createInterface({ input: Readable.fromWeb(this.#child.stdout as never) })[Symbol.asyncIterator]();
  }

  /** What it says when it is ready. */
  async greeting(): Promise<Greeting> {
    return JSON.parse(await this.#line());
  }

  async run(job: Job): Promise<RoundTimes> {
    await this.#input.write(new TextEncoder().encode(`${formatJob(job)}\n`));
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
