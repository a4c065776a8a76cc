/** A rank that is killed costs the others an error, at each step, and those that are left go on. */
import { assert, assertEquals } from "@std/assert";
import { readdirSync } from "node:fs";
import { Communicator, open } from "../../mod.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";

/** The size of the communicators: the rank that is killed, and at least one that is left. */
function sizeOn(driver: "software" | "cuda"): number {
  if (driver === "software") return 3;
  using cuda = open({ driver });
  return Math.min(3, cuda.devices.length);
}

/** When the rank is killed, by what it has printed last, and what the others get then. */
const moments: readonly {
  at: string;
  how?: "idle";
  /** SIGKILL unless given. */
  signal?: "SIGSTOP";
  timeout: number;
  code: string;
}[] = [
  // The first one whose time is over lets the others know that it has gone, too.
  { at: "started", timeout: 2000, code: "timed-out|peer-gone" },
  { at: "creating", timeout: 2000, code: "peer-gone|timed-out" },
  { at: "created", timeout: 60_000, code: "peer-gone" },
  { at: "working", timeout: 60_000, code: "peer-gone" },
  { at: "working", how: "idle", timeout: 60_000, code: "peer-gone" },
  { at: "working", signal: "SIGSTOP", timeout: 1500, code: "timed-out" },
];

/** The names of shared memory of this user's that ranks find each other by. */
function rosters(): string[] {
  return readdirSync("/dev/shm").filter((name) => name.startsWith("poolpass-ranks-"));
}

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  const tooFew = skip || sizeOn(driver) > 1 ? skip : "one device only";
  for (const { at, how, signal, timeout, code } of moments) {
    const name = `a rank that is ${signal === undefined ? "killed" : "stopped"} when it is ${at}${
      how === undefined ? "" : `, and ${how},`
    } costs the others an error`;
    test(`${name} [${driver}]`, { skip: tooFew }, async () => {
      const before = rosters();
      using cuda = open({ driver });
      const size = sizeOn(driver);
      const lost = size - 1;
      const id = Communicator.createId(cuda).toHex();
      await using stack = new AsyncDisposableStack();
      const start = (rank: number): ChildProcess => {
        const args = [driver, rank, size, id, lost, timeout, how ?? ""].map(String);
        return stack.use(startScript("children/collectives/lose_rank.ts", args));
      };
      const victim = start(lost);
      // Those that are left come when it is gone, or find it.
      const isFirst = at === "started" || at === "creating";
      const others = isFirst ? [] : Array.from({ length: lost }, (_, rank) => start(rank));
      for (let line = await victim.nextLine(); line !== at; line = await victim.nextLine()) {
        if (line === undefined) throw new Error(await victim.errors());
      }
      const killed = Date.now();
      victim.kill(signal ?? "SIGKILL");
      if (signal === undefined) await victim.ended;
      if (isFirst) others.push(...Array.from({ length: lost }, (_, rank) => start(rank)));
      for (const [rank, other] of others.entries()) {
        const lines: string[] = [];
        for (let line = await other.nextLine(); line !== undefined; line = await other.nextLine()) lines.push(line);
        const told = `${lines.join("; ")} ${await other.errors()}`;
        assertEquals(await other.ended, 0, told);
        const error = lines.find((line) => /^[a-z-]+ \d+$/i.test(line));
        if (error === undefined) throw new Error(told);
        assert(new RegExp(`^(${code}) `).test(error), told);
        // One that has not been told yet that all are there gets it from the creation.
        const isCreated = lines.includes("created");
        assert(isCreated || isFirst || at === "created", told);
        if (isCreated) {
          const sum = lost * (lost + 1) / 2;
          assertEquals(lines.slice(-2), [`${rank} of ${lost}: ${sum}`, "done"], told);
        }
        const milliseconds = Number(error.split(" ")[1]) - killed;
        if (isLong) console.log(`${name}: rank ${rank}: ${error.split(" ")[0]} after ${milliseconds} ms`);
      }
      victim.kill("SIGKILL");
      assertEquals(rosters(), before);
    });
  }

  for (const call of ["allReduce", "send", "receive", "allToAll"]) {
    test(
      `${call} that the other rank does not answer ends after the timeout [${driver}]`,
      { skip: tooFew, long: call !== "send" },
      async () => {
        using cuda = open({ driver });
        const id = Communicator.createId(cuda).toHex();
        const start = (rank: number) =>
          startScript("children/collectives/call_alone.ts", [driver, `${rank}`, id, call]);
        await using other = start(1);
        await using child = start(0);
        assertEquals([await other.nextLine(), await child.nextLine()], ["created", "created"]);
        assertEquals(await child.nextLine(), "timed-out, in time");
        other.kill("SIGKILL");
      },
    );
  }
}
