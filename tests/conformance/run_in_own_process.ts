/**
 * Runs rows in child processes, several at once.
 *
 * @module
 */
import { tmpdir } from "node:os";
import process from "node:process";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import type { Result } from "./outcome.ts";
import type { Situation } from "./situation.ts";
import { fileOf } from "./table.ts";

const defaultLimit = 20_000;
/** Milliseconds to wait for a killed process to end. It may be in a call that no signal interrupts. */
const killTimeout = 10_000;

/** Caches compiled TypeScript in Node's default folder, because Node would compile it again in each process. */
const env = { NODE_COMPILE_CACHE: `${tmpdir()}/node-compile-cache` };

/** Runs a row on a driver, in a process of its own. */
export async function runInOwnProcess(situation: Situation, driverName: string): Promise<Result> {
  const [result] = await runTogether([situation], driverName);
  return result!;
}

/**
 * Runs rows on a driver, one after the other in one process. Returns the results up to and including the
 * first row that did not answer or that left the devices unusable.
 */
export async function runTogether(situations: readonly Situation[], driverName: string): Promise<Result[]> {
  const names = situations.map(({ name }) => name);
  const file = fileOf(situations[0]!);
  const isOneFile = situations.every((situation) => fileOf(situation) === file);
  const args = [driverName, ...names, "--file", isOneFile ? file : "../table"];
  const child = startScript("conformance/run_situation.ts", args, { permissions: ["--allow-all"], env });
  const peers: number[] = [];
  const results: Result[] = [];
  let isOver = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    for (const { limit = defaultLimit } of situations) {
      timer = setTimeout(() => {
        isOver = true;
        child.kill("SIGKILL");
      }, limit);
      const result = await nextResult(child, peers);
      clearTimeout(timer);
      if (result === undefined) {
        if (isOver) results.push({ hang: true });
        else if (results.length === 0 || await child.ended !== 0) results.push(await resultOfEnd(child));
        break;
      }
      results.push(result);
    }
    return results;
  } finally {
    clearTimeout(timer);
    child.kill("SIGKILL");
    peers.forEach(killProcess);
    await waitBriefly(child[Symbol.asyncDispose]());
  }
}

/**
 * Returns the result of the next row, or undefined if the process has ended. Adds the second processes that it reports
 * to `peers`.
 */
async function nextResult(child: ChildProcess, peers: number[]): Promise<Result | undefined> {
  for (;;) {
    const line = await child.nextLine();
    if (line === undefined) return undefined;
    const message = JSON.parse(line) as Result | { readonly peer: number };
    if (!("peer" in message)) return message;
    peers.push(message.peer);
  }
}

/**
 * Runs rows in their order on a driver, up to `concurrency` at once, and reports each result as soon as it is known.
 */
export async function runEach(
  situations: readonly Situation[],
  driverName: string,
  { concurrency, onResult }: {
    readonly concurrency: number;
    readonly onResult: (situation: Situation, result: Result) => void;
  },
): Promise<void> {
  const rest = situations.values();
  await Promise.all(Array.from({ length: concurrency }, async () => {
    for (const situation of rest) onResult(situation, await runInOwnProcess(situation, driverName));
  }));
}

async function resultOfEnd(child: ChildProcess): Promise<Result> {
  const end = await child.ended;
  if (typeof end === "string") return { crash: end };
  return { failure: `The process ended with ${end} and without an answer: ${await child.errors()}` };
}

/** Waits for a promise, but no longer than `killTimeout`. */
async function waitBriefly(promise: PromiseLike<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const timeout = new Promise<void>((resolve) => timer = setTimeout(resolve, killTimeout));
  await Promise.race([promise, timeout]);
  clearTimeout(timer!);
}

/** Kills a second process. One that waits for its device does not notice that its row's process has exited. */
function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended already, because its row's process exited.
  }
}
