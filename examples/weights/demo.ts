/**
 * All of the example at once: a store, a process that publishes and is killed, and one that maps what it has left.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { open, StoreClient } from "../../mod.ts";
import { type ChildProcess, startChild } from "../child_process.ts";

/**
 * Runs the demonstration.
 *
 * @param program the URL of the example
 * @param size the size of the sample file, as on the command line
 */
export async function runDemo(program: URL, size: string, signal: AbortSignal): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-weights-");
  const [file, store] = [join(folder, "model.safetensors"), join(folder, "store.sock")];
  await using children = new Children(program, folder);
  signal.addEventListener("abort", () => children.endAll());
  await succeed(children.start(["make", file, "--size", size]));
  const server = children.start(["serve", "--store", store]);
  const publisher = children.start(["publish", file, "--store", store, "--stay", "yes"]);
  await Promise.race([
    whenPublished(store, signal),
    ...[server, publisher].map(async (child) => {
      throw new Error(`Process ${child.pid} has ended early, with exit code ${await child.exited}`);
    }),
  ]);
  publisher.kill("SIGKILL");
  await publisher.exited;
  console.log(`Killed process ${publisher.pid}, which has loaded the weights. Another one maps them:`);
  await succeed(children.start(["map", "--store", store, "--verify", "yes"]));
  signal.throwIfAborted();
}

/** The processes of a demonstration, and the folder of their files. */
class Children implements AsyncDisposable {
  readonly #program: URL;
  readonly #folder: string;
  readonly #running = new Set<ChildProcess>();

  constructor(program: URL, folder: string) {
    this.#program = program;
    this.#folder = folder;
  }

  start(args: readonly string[]): ChildProcess {
    const permissions = [`--allow-read=${this.#folder}`, `--allow-write=${this.#folder}`];
    const child = startChild(this.#program, { args, permissions });
    this.#running.add(child);
    void child.exited.finally(() => this.#running.delete(child));
    return child;
  }

  endAll(): void {
    for (const child of this.#running) child.kill("SIGTERM");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.endAll();
    await Promise.all([...this.#running].map(({ exited }) => exited));
    rmSync(this.#folder, { recursive: true });
  }
}

async function whenPublished(store: string, signal: AbortSignal): Promise<void> {
  using cuda = open();
  await using client = await StoreClient.connect(cuda, store, { wait: true, signal });
  using _weights = await client.map("weights", { signal });
}

async function succeed(child: ChildProcess): Promise<void> {
  const code = await child.exited;
  if (code !== 0) throw new Error(`Process ${child.pid} has ended with exit code ${code}`);
}
