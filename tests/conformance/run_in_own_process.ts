/**
 * Rows, run in processes of their own, several at once.
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
/** Milliseconds that a process has to die: it may be in a call that no signal interrupts. */
const patience = 10_000;

/** Node would compile TypeScript anew in each process. It keeps what it compiled in the folder that is its own default. */
const env = { NODE_COMPILE_CACHE: `${tmpdir()}/node-compile-cache` };

/** Runs a row on a driver. */
export async function runInOwnProcess(situation: Situation, driverName: string): Promise<Result> {
  const [result] = await runTogether([situation], driverName);
  return result!;
}

/**
 * Runs rows of one file on a driver, one after the other in one process. Gives what came of each, up to the first that did
 * not answer or that left devices on which no other can run.
 */
export async function runTogether(situations: readonly Situation[], driverName: string): Promise<Result[]> {
  const names = situations.map(({ name }) => name);
  const args = [driverName, ...names, "--file", fileOf(situations[0]!)];
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
    peers.forEach(endProcess);
    await soon(child[Symbol.asyncDispose]());
  }
}

/** What came of the next row, undefined where its process has ended; and the second processes that it told of. */
async function nextResult(child: ChildProcess, peers: number[]): Promise<Result | undefined> {
  for (;;) {
    const line = await child.nextLine();
    if (line === undefined) return undefined;
    const message = JSON.parse(line) as Result | { readonly peer: number };
    if (!("peer" in message)) return message;
    peers.push(message.peer);
  }
}

/** Runs rows on a driver in their order, so many at once, and tells what came of each as soon as it is known. */
export async function runEach(
  situations: readonly Situation[],
  driverName: string,
  { atOnce, onResult }: {
    readonly atOnce: number;
    readonly onResult: (situation: Situation, result: Result) => void;
  },
): Promise<void> {
  const rest = situations.values();
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (const situation of rest) onResult(situation, await runInOwnProcess(situation, driverName));
  }));
}

async function resultOfEnd(child: ChildProcess): Promise<Result> {
  const end = await child.ended;
  if (typeof end === "string") return { crash: end };
  return { failure: `It ended with ${end} and no answer: ${await child.errors()}` };
}

/** Waits, but not for ever. */
async function soon(promise: PromiseLike<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const given = new Promise<void>((resolve) => timer = setTimeout(resolve, patience));
  await Promise.race([promise, given]);
  clearTimeout(timer!);
}

/** Of second processes: one that waits for its device does not find out that its row is over. */
function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended already, as it does when its row's process is gone.
  }
}
