/**
 * Rows, each run in a process of its own, several at once.
 *
 * @module
 */
import { tmpdir } from "node:os";
import process from "node:process";
import { type ChildProcess, startScript } from "../child_process.ts";
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
  const child = startScript("conformance/run_situation.ts", [driverName, situation.name, fileOf(situation)], {
    permissions: ["--allow-all"],
    env,
  });
  const peers: number[] = [];
  let isOver = false;
  const timer = setTimeout(() => {
    isOver = true;
    child.kill("SIGKILL");
  }, situation.limit ?? defaultLimit);
  try {
    for (;;) {
      const line = await child.nextLine();
      if (line === undefined) return isOver ? { hang: true } : await resultOfEnd(child);
      const message = JSON.parse(line) as Result | { readonly peer: number };
      if (!("peer" in message)) return message;
      peers.push(message.peer);
    }
  } finally {
    clearTimeout(timer);
    child.kill("SIGKILL");
    peers.forEach(endProcess);
    await soon(child[Symbol.asyncDispose]());
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
