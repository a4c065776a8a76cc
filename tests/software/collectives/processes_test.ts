import { assert, assertEquals } from "@std/assert";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { createId } from "../../../src/software/collectives/membership.ts";
import { type ChildProcess, startCommand, startScript } from "../../support/child_process.ts";
import { leakTest } from "../../support/resources.ts";
import type { TestOptions } from "../../support/test.ts";
import { namesLeftBy } from "../../support/names_left.ts";

/** Starts the processes of ranks; `what` is what each of them does. */
function startRanks(what: readonly string[], { count = 4, size = what.length } = {}): ChildProcess[] {
  const id = createId().toHex();
  return what.map((step, rank) =>
    startScript("children/software/collective_rank.ts", [id, String(rank), String(size), step, String(count)])
  );
}

/** The next line of each process. */
function nextLines(ranks: readonly ChildProcess[]): Promise<(string | undefined)[]> {
  return Promise.all(ranks.map((rank) => rank.nextLine()));
}

/** Declares a test with processes. Fails if one of them leaves named memory behind. */
function testProcesses(
  name: string,
  body: (start: typeof startRanks) => Promise<void>,
  options: TestOptions = {},
): void {
  leakTest(name, async () => {
    const started: ChildProcess[] = [];
    await using stack = new AsyncDisposableStack();
    await body((...given) => {
      const ranks = startRanks(...given);
      for (const rank of ranks) started.push(stack.use(rank));
      return ranks;
    });
    assertEquals(started.flatMap(({ pid }) => namesLeftBy(pid)), []);
  }, { skip: shimRefusal(), warmUp, ...options });
}

async function warmUp(): Promise<void> {
  await using child = startCommand(["true"]);
  await child.ended;
}

async function assertEnded(ranks: readonly ChildProcess[]): Promise<void> {
  assertEquals(await Promise.all(ranks.map(({ ended }) => ended)), ranks.map(() => 0));
}

testProcesses("processes sum over several slices, and each leaves as soon as it is done", async (start) => {
  const ranks = start(["sum", "sum", "sum"], { count: 2 ** 19 + 1 });
  assertEquals(await nextLines(ranks), ["joined", "joined", "joined"]);
  assertEquals(await nextLines(ranks), ["ready", "ready", "ready"]);
  assertEquals(await nextLines(ranks), ["6 6", "6 6", "6 6"]);
  await assertEnded(ranks);
});

testProcesses("a process that is killed before all are there is told of", async (start) => {
  const ranks = start(["sum", "sum"], { size: 3 });
  assertEquals(await nextLines(ranks), ["joined", "joined"]);
  ranks[1]!.kill("SIGKILL");
  const message = await ranks[0]!.nextLine();
  const { pid } = ranks[1]!;
  assert(message!.startsWith(`peer-gone: Rank 1 of 3 has ended (process ${pid}): `), message);
  await assertEnded(ranks.slice(0, 1));
});

testProcesses("the others go on without a process that is killed between collectives", async (start) => {
  const ranks = start(["survive", "survive", "wait"]);
  await nextLines(ranks);
  assertEquals(await nextLines(ranks), ["ready", "ready", "ready"]);
  ranks[2]!.kill("SIGKILL");
  await assertSurvivors(ranks.slice(0, 2), ranks[2]!.pid, 3);
});

testProcesses("the others go on without a process that is killed in a collective", async (start) => {
  // Long enough that the process ends during a collective.
  const ranks = start(["survive", "survive", "survive", "repeat"], { count: 2 ** 18 });
  await nextLines(ranks);
  assertEquals(await nextLines(ranks), ["ready", "ready", "ready", "ready"]);
  assertEquals(await ranks[3]!.nextLine(), "10 10");
  ranks[3]!.kill("SIGKILL");
  await assertSurvivors(ranks.slice(0, 3), ranks[3]!.pid, 6);
});

/** Each survivor prints the error, then its new communicator, the sum, and the error again. */
async function assertSurvivors(ranks: readonly ChildProcess[], pid: number, sum: number): Promise<void> {
  const errors = await nextLines(ranks);
  const size = ranks.length + 1;
  for (const error of errors) {
    assert(error!.startsWith(`peer-gone: Rank ${size - 1} of ${size} has ended (process ${pid}): `), error);
  }
  assertEquals(await nextLines(ranks), ranks.map(() => "ready"));
  assertEquals(await nextLines(ranks), ranks.map(() => `${sum} ${sum}`));
  assertEquals(await nextLines(ranks), errors);
  await assertEnded(ranks);
}

testProcesses("eight processes sum several MiB", async (start) => {
  const ranks = start(new Array(8).fill("sum"), { count: 2 ** 20 + 3 });
  await nextLines(ranks);
  assertEquals(new Set(await nextLines(ranks)), new Set(["ready"]));
  assertEquals(new Set(await nextLines(ranks)), new Set(["36 36"]));
  await assertEnded(ranks);
}, { long: true });
