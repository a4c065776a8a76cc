/**
 * The programs that a benchmark starts.
 *
 * @module
 */
import { basename } from "node:path";
import type { Greeting } from "../sharing/contract.ts";
import { Contender, type Program } from "./contender.ts";

/** Milliseconds in which a program that runs once must print its line. */
const onceTimeout = 30_000;

/** The Python that the environment variable `PYTHON` names, or `python3`. */
export function python(): string {
  return Deno.env.get("PYTHON") ?? "python3";
}

/** Resolves to Python's error message for the first missing package, or undefined if none is missing. */
export async function missingPackage(packages: readonly string[]): Promise<string | undefined> {
  if (packages.length === 0) return undefined;
  const code = `
import sys
from importlib.util import find_spec
for name in sys.argv[1:]:
    if find_spec(name) is None:
        raise ModuleNotFoundError(f"No module named '{name}'")
`;
  const { success, stderr } = await new Deno.Command(python(), { args: ["-c", code, ...packages] }).output();
  return success ? undefined : errorIn(stderr);
}

/**
 * Runs a program to its end, and resolves to what it prints.
 *
 * @throws {Error} If it cannot be found or fails; the message has the line of its errors that says why
 */
export async function outputOf(
  [command, ...args]: readonly [command: string, ...args: string[]],
  { env = {}, cwd }: { env?: Readonly<Record<string, string>>; cwd?: string } = {},
): Promise<string> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command(command, { args, env, ...cwd !== undefined && { cwd } }).output();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new Error(`${command} was not found`);
    throw error;
  }
  if (!output.success) {
    throw new Error(`${basename(command)} failed: ${errorIn(output.stderr) || `exit code ${output.code}`}`);
  }
  return new TextDecoder().decode(output.stdout);
}

/** The line of a program's errors that says what is wrong: that of an exception, or the last one. */
function errorIn(bytes: Uint8Array): string | undefined {
  const lines = new TextDecoder().decode(bytes).trim().split("\n");
  return lines.find((line) => /^(\w*error|\w+Error)( \[\w+\])?: /.test(line)) ?? lines.at(-1);
}

/** Running programs, which end together. */
export class Programs implements AsyncDisposable {
  readonly #running: Contender[] = [];

  /** Starts a program, and resolves when it has printed its greeting. */
  async start(program: Program): Promise<{ contender: Contender; greeting: Greeting }> {
    const contender = new Contender(program);
    this.#running.push(contender);
    const greeting = await contender.greeting<Greeting & { error?: string }>();
    if (greeting.error !== undefined) throw new Error(greeting.error);
    return { contender, greeting };
  }

  /** Starts a program that prints no greeting. */
  startQuiet(program: Program): Contender {
    const contender = new Contender(program);
    this.#running.push(contender);
    return contender;
  }

  /** Ends all at once, without asking. */
  kill(): void {
    for (const { pid } of this.#running) {
      try {
        Deno.kill(pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.toReversed().map((contender) => contender.end()));
  }
}

/**
 * Times a program that runs once, from its start until it has printed its first line. Resolves to nanoseconds.
 *
 * @throws {Error} If it fails, or if the line is JSON with an error
 */
export async function timeStart({ name, command, args, env = {} }: Program): Promise<number> {
  const begin = performance.now();
  const child = new Deno.Command(command, { args: [...args], env, stdin: "null", stdout: "piped", stderr: "piped" })
    .spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), onceTimeout);
  const reader = child.stdout.getReader();
  const { value, done } = await reader.read();
  const nanoseconds = (performance.now() - begin) * 1e6;
  reader.releaseLock();
  const [errors, { success, code }] = await Promise.all([
    new Response(child.stderr).bytes(),
    child.status,
    child.stdout.cancel(),
  ]);
  clearTimeout(timer);
  if (done || !success) throw new Error(errorIn(errors) || `${name} ended with exit code ${code}`);
  const line = new TextDecoder().decode(value);
  const { error } = line.startsWith("{") ? JSON.parse(line) as { error?: string } : {};
  if (error !== undefined) throw new Error(error);
  return nanoseconds;
}
