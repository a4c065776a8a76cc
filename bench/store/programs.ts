/**
 * The programs of the benchmark of stores: how they are built, started and ended.
 *
 * @module
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { Contender, type Program, scriptProgram } from "../contender.ts";
import type { Greeting } from "../sharing/contract.ts";

/** Milliseconds in which a program that runs once must print its line. */
const onceTimeout = 30_000;

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** How to start a program in TypeScript, by its path in this folder. */
export function script(file: string, args: readonly string[]): Program {
  return scriptProgram("poolpass", new URL(file, import.meta.url), args);
}

/**
 * Builds `bench/cuda/stored_memory.cpp` by nvcc or by g++.
 *
 * @returns the path of the program
 * @throws {Error} If neither can build it
 */
export async function buildNative(folder: string): Promise<string> {
  const program = `${folder}/stored_memory`;
  const common = ["-O2", "-std=c++17", "-o", program, path("../cuda/stored_memory.cpp")];
  const libraries = ["-ldl", "-lpthread"];
  const compilers = { "nvcc": [], "g++": ["-I/usr/local/cuda/include"] };
  for (const [compiler, args] of Object.entries(compilers)) {
    const built = new Deno.Command(compiler, { args: [...args, ...common, ...libraries], stderr: "null" }).output();
    if (await built.then(({ success }) => success, () => false)) return program;
  }
  throw new Error("neither nvcc nor g++ with cuda.h could build it");
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

/** Starts a program that prints a line. Resolves to the nanoseconds from its start until the line. */
export async function timeOnce({ command, args }: Program): Promise<number> {
  const begin = performance.now();
  const child = new Deno.Command(command, { args: [...args], stdin: "null", stdout: "piped", stderr: "inherit" })
    .spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), onceTimeout);
  try {
    const lines = createInterface({ input: Readable.fromWeb(child.stdout as never) });
    const { value } = await lines[Symbol.asyncIterator]().next();
    const nanoseconds = (performance.now() - begin) * 1e6;
    const { error } = JSON.parse(value ?? '{"error":"it ended early"}') as { error?: string };
    if (error !== undefined) throw new Error(error);
    return nanoseconds;
  } finally {
    await child.status;
    clearTimeout(timer);
  }
}
