/**
 * Random programs of two and three processes that share memory and interprocess events, beside an oracle that knows the
 * true order of all that they do.
 */
import { assert } from "@std/assert";
import { type ShareableHandle, UnixListener, type UnixSocket } from "../../mod.ts";
import type { Command } from "../children/sanitizer/run_random_steps.ts";
import { Random } from "../differential/random.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { maximumCalls } from "../support/numbered_calls.ts";
import { boardOfTest, withOwnBoard } from "../support/own_board.ts";
import { counts, type Part, ProcessProgram, type Setting, type UnorderedPair } from "../support/process_programs.ts";
import {
  type Beginning,
  type Offered,
  RandomParticipant,
  type RandomStep,
  type ReportedPair,
} from "../support/random_participant.ts";
import { receive, send } from "../support/shared_steps.ts";
import { isLong, test } from "../support/test.ts";

/** A process that runs the steps it gets. */
interface Participant {
  ask(command: Command, handle?: ShareableHandle): Promise<unknown>;
}

/** This process, which owns the pools. */
class Local implements Participant {
  participant: RandomParticipant | undefined;

  // deno-lint-ignore require-await
  async ask(command: Command): Promise<unknown> {
    switch (command.do) {
      case "begin":
        this.participant = new RandomParticipant(command.beginning);
        return this.participant.offer();
      case "add":
        return this.participant!.add(command.offered, []);
      case "step":
        return this.participant!.run(command.step);
      case "end":
        return this.participant![Symbol.dispose]();
      default:
        return this.participant![command.do]();
    }
  }
}

class Remote implements Participant {
  readonly #socket: UnixSocket;

  constructor(socket: UnixSocket) {
    this.#socket = socket;
  }

  async ask(command: Command, handle?: ShareableHandle): Promise<unknown> {
    await send(this.#socket, command, handle);
    return (await receive(this.#socket)).message;
  }
}

async function withProcesses(count: number, body: (processes: readonly Participant[]) => Promise<void>): Promise<void> {
  await withOwnBoard(() =>
    inFolder(async (folder) => {
      await using stack = new AsyncDisposableStack();
      const listener = stack.use(UnixListener.listen(`${folder}/socket`));
      const participants: Participant[] = [new Local()];
      const failures: Promise<never>[] = [];
      for (let index = 1; index < count; index++) {
        const child = stack.use(startScript("children/sanitizer/run_random_steps.ts", [listener.path, boardOfTest]));
        const failed = child.ended.then(async (code) => {
          throw new Error(`a process has ended with ${code}: ${await child.errors()}`);
        });
        failed.catch(() => {});
        failures.push(failed);
        participants.push(new Remote(stack.use(await Promise.race([listener.accept(), failed]))));
      }
      await Promise.race([body(participants), ...failures]);
    })
  );
}

/** The steps of a program, its mistakes, and its reports. */
interface Outcome {
  readonly steps: readonly RandomStep[];
  readonly unordered: readonly UnorderedPair[];
  readonly reported: readonly ReportedPair[];
  /** Whether a kernel has used memory that was freed. The rest of the program was not done. */
  readonly isLost: boolean;
}

/**
 * Runs a random program.
 *
 * @param steps what it does; by default, whatever the seed says
 */
async function run(processes: readonly Participant[], seed: number, steps?: readonly Part[]): Promise<Outcome> {
  const random = new Random(seed);
  const isBlocking = processes.map(() =>
    Array.from({ length: counts.streams }, (_, index) => index === 0 || random.percent(20))
  );
  // A message carries one handle.
  const buffers: Setting["buffers"][number][] = [
    { process: 0, sharing: "pool" },
    { process: 0, sharing: "legacy" },
    { process: 1, sharing: "legacy" },
  ];
  const schedule = random.pick(["oldest", "newest", `random:${seed}`] as const);
  const offers: Offered[] = [];
  for (const [process, participant] of processes.entries()) {
    const own = buffers.filter((buffer) => buffer.process === process).map(({ sharing }) => sharing);
    const beginning: Beginning = {
      process,
      streams: isBlocking[process]!,
      events: counts.events,
      buffers: own,
      schedule,
    };
    offers.push(await participant.ask({ do: "begin", beginning }) as Offered);
  }
  const handle = (processes[0] as Local).participant!.handles[0]!;
  for (const [process, participant] of processes.entries()) {
    for (const [owner, offered] of offers.entries()) {
      if (owner === process) await participant.ask({ do: "addOwn" });
      else await participant.ask({ do: "add", offered }, owner === 0 ? handle : undefined);
    }
  }
  const program = new ProcessProgram(random, { isBlocking, buffers });
  let isLost = false;
  const doStep = async (step: RandomStep) => {
    const result = await processes[step.process]!.ask({ do: "step", step });
    if (result === "lost") isLost = true;
    return result === true;
  };
  for (const step of steps ?? []) if (!isLost) await program.repeat(step, doStep);
  while (steps === undefined && !isLost && program.steps.length < counts.steps) await program.next(doStep);
  assert(program.steps.length <= maximumCalls);
  // The accesses of a kernel are published when it completes.
  for (let time = 0; time < 3; time++) for (const each of processes) await each.ask({ do: "settle" });
  const reported: ReportedPair[] = [];
  for (const each of processes) reported.push(...await each.ask({ do: "reports" }) as ReportedPair[]);
  for (const each of processes) await each.ask({ do: "end" });
  return { steps: program.steps, unordered: program.unordered(), reported, isLost };
}

/** The errors in the reports of a program. */
function disagreements({ steps, unordered, reported, isLost }: Outcome): string[] {
  const wrong = new Set(unordered.map(({ steps }) => steps.join()));
  const right = new Set(reported.map(({ steps }) => steps.join()));
  const falsely = reported.filter(({ steps }) => !wrong.has(steps.join())).map(({ message }) => `false: ${message}`);
  const isReported = (pair: UnorderedPair) => right.has(pair.steps.join());
  // Only the last access of a process to memory is kept.
  const processOf = (number: number) => steps[number]!.process;
  const hides = (other: UnorderedPair, { buffer, steps: [earlier, later] }: UnorderedPair) => {
    const isOfSame = (a: number, b: number) => processOf(a) === processOf(b);
    return other.buffer === buffer && (
      other.steps[1] === later && other.steps[0] > earlier && isOfSame(other.steps[0], earlier) ||
      other.steps[0] === earlier && isOfSame(other.steps[1], later) ||
      isOfSame(earlier, later) && other.steps[1] <= later
    );
  };
  const missed = unordered.filter((pair) => !pair.isAssumed && !isReported(pair))
    .filter((pair) => !unordered.some((other) => isReported(other) && hides(other, pair)))
    .map(({ steps }) => `missed: ${steps.join()}`);
  return [...falsely, ...isLost ? [] : missed];
}

function listingOf({ steps }: Outcome): string {
  return steps.map(({ number, process, stream, ...rest }) =>
    `${number}: process ${process} stream ${stream} ${Object.values(rest).join(" ")}`
  ).join("\n");
}

/** Removes the steps of a program that make no difference. */
async function shortened(processes: readonly Participant[], seed: number, outcome: Outcome): Promise<Outcome> {
  let shortest = outcome;
  for (let index = outcome.steps.length - 1; index >= 0; index--) {
    const tried = await run(processes, seed, shortest.steps.toSpliced(index, 1));
    if (disagreements(tried).length > 0) shortest = tried;
  }
  return shortest;
}

for (const [count, some, many] of [[2, 6, 4000], [3, 4, 2000]] as const) {
  test(
    `random programs of ${count} processes are reported where nothing orders them`,
    { long: count !== 2 },
    async () => {
      await withProcesses(count, async (processes) => {
        const programs = isLong ? many : some;
        let right = 0;
        for (let seed = 0; seed < programs; seed++) {
          const outcome = await run(processes, seed);
          if (outcome.unordered.length === 0) right++;
          if (disagreements(outcome).length === 0) continue;
          const shortest = await shortened(processes, seed, outcome);
          throw new Error(`program ${seed}:\n${listingOf(shortest)}\n${disagreements(shortest).join("\n")}`);
        }
        assert(right > programs / 4 && right < programs * 0.95, `${right} of ${programs} programs are right`);
      });
    },
  );
}
