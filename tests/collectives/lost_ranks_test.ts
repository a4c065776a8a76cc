/** When a rank is killed, at any step, the others get an error and can shrink the communicator. */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { utimesSync } from "node:fs";
import process from "node:process";
import { Communicator, open } from "../../mod.ts";
import { noPython } from "../sharing/hostile/hostile_peers.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { namesLeftBy } from "../support/names_left.ts";
import { isLong, test } from "../support/test.ts";
import { environmentOf, ranksOn } from "./rank_processes.ts";

/** When the rank is killed, by the last line that it has printed, and the error of the others. */
const moments: readonly {
  at: string;
  how?: "idle";
  /** Default: SIGKILL. */
  signal?: "SIGSTOP";
  timeout: number;
  code: string;
}[] = [
  // The first rank that times out publishes that, so the others may name it.
  { at: "started", timeout: 2000, code: "timed-out|peer-gone" },
  { at: "creating", timeout: 2000, code: "peer-gone|timed-out" },
  { at: "created", timeout: 15_000, code: "peer-gone" },
  { at: "working", timeout: 60_000, code: "peer-gone" },
  { at: "working", how: "idle", timeout: 60_000, code: "peer-gone" },
  { at: "working", signal: "SIGSTOP", timeout: 4000, code: "timed-out" },
];

/** A time before which unused names are removed, in seconds since 1970. */
const longAgo = Date.now() / 1000 - 3600;

const noNamespace = process.geteuid?.() !== 0 || spawnSync("unshare", ["-m", "true"]).status !== 0
  ? "it takes root to mount another /dev/shm"
  : noPython;

/** Creates communicators in another `/dev/shm`, which has other files in it. */
async function createAmong(what: string, count: number, size: string): Promise<string[]> {
  const mounting = `mount -t tmpfs -o mode=1777,size=${size} none /dev/shm && exec "$0" "$@"`;
  await using child = startScript("children/collectives/crowded_names.ts", [what, `${count}`], {
    through: ["unshare", "-m", "/bin/sh", "-c", mounting],
    permissions: ["-A"],
  });
  const lines = await remainingLines(child);
  assertEquals([await child.ended, await child.errors()], [0, ""], lines.join("\n"));
  return lines;
}

/** The longest pause of the event loop, in milliseconds. */
function standstill(line: string | undefined): number {
  return Number(/^stood still for (.*)$/.exec(line ?? "")?.[1]);
}

test("names that another user has made delay no creation, and those of killed ranks are removed beside them", {
  skip: noNamespace,
}, async () => {
  // A search of the folder takes 130 milliseconds for 20,000 names, and two seconds for 300,000.
  const [first, second, third] = await createAmong("names", isLong ? 300_000 : 20_000, "100%");
  assertEquals([first, third], ["the killed rank has left 1", "the killed rank has left 0"]);
  assert(standstill(second) < 50, second);
});

test("files that another user has leases on, under names of this user, are not waited for", {
  skip: noNamespace,
}, async () => {
  const [line] = await createAmong("leases", 2, "100%");
  assert(standstill(line) < 2000, line);
});

test("a full /dev/shm is an error that says so, and leaves no file behind", { skip: noNamespace }, async () => {
  const [error, left, line, leftAtLast] = await createAmong("bytes", 1, "1m");
  assertEquals(
    error,
    "limit-exceeded: Cannot create a communicator: rank 0 of 2 could not take its place: /dev/shm is full: 160 bytes are " +
      "needed there for 2 ranks; remove what is not used, or make it larger (in a container: --shm-size 1g)",
  );
  assertEquals([left, leftAtLast], ["filler", ""]);
  assert(standstill(line) < 2000, line);
});

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  // One rank is killed, and at least one is left.
  const size = ranksOn(driver, 3);
  for (const { at, how, signal, timeout, code } of moments) {
    const name = `a rank that is ${signal === undefined ? "killed" : "stopped"} when it is ${at}${
      how === undefined ? "" : `, and ${how},`
    } costs the others an error`;
    // When the aborted kernel ends, and with which bytes, is not determined.
    const times = isLong && driver === "cuda" && at === "working" && signal === undefined ? 5 : 1;
    const loseRank = async () => {
      using cuda = open({ driver });
      const lost = size - 1;
      const id = Communicator.createId(cuda).toHex();
      await using stack = new AsyncDisposableStack();
      const start = (rank: number): ChildProcess => {
        const args = [driver, rank, size, id, lost, timeout, how ?? ""].map(String);
        return stack.use(startScript("children/collectives/lose_rank.ts", args, environmentOf(driver, rank)));
      };
      const victim = start(lost);
      // The remaining ranks start after it is gone, or notice that it is.
      const isFirst = at === "started" || at === "creating";
      const others = isFirst ? [] : Array.from({ length: lost }, (_, rank) => start(rank));
      const told: string[] = [];
      for (let line = await victim.nextLine(); line !== at; line = await victim.nextLine()) {
        if (line === undefined) throw new Error(`it has ended after ${told.join("; ")} ${await victim.errors()}`);
        told.push(line);
      }
      const killed = Date.now();
      victim.kill(signal ?? "SIGKILL");
      if (signal === undefined) await victim.ended;
      if (isFirst) others.push(...Array.from({ length: lost }, (_, rank) => start(rank)));
      const outputs = await Promise.all(others.map(remainingLines));
      // A rank that has not seen all others join gets the error from the creation, and does not shrink.
      const areCreated = outputs.every((lines) => lines.includes("created"));
      assert(areCreated || isFirst || at === "created", JSON.stringify(outputs));
      for (const [rank, lines] of outputs.entries()) {
        const told = `${lines.join("; ")} ${await others[rank]!.errors()}`;
        assertEquals(await others[rank]!.ended, 0, told);
        const errors = lines.filter((line) => /^[a-z-]+ \d+$/i.test(line));
        assert(new RegExp(`^(${code}) `).test(errors[0]!), told);
        if (areCreated) {
          const sum = lost * (lost + 1) / 2;
          assertEquals(lines.slice(-2), [`${rank} of ${lost}: ${sum}`, "done"], told);
        } else if (lines.includes("created")) {
          // The shrunk communicator cannot work without that rank either.
          assert(errors.length === 2 && /^(peer-gone|timed-out) /.test(errors[1]!), told);
        }
        const milliseconds = Number(errors[0]!.split(" ")[1]) - killed;
        if (isLong) console.log(`${name}: rank ${rank}: ${errors[0]!.split(" ")[0]} after ${milliseconds} ms`);
      }
      victim.kill("SIGKILL");
      assertEquals([victim, ...others].flatMap(({ pid }) => namesLeftBy(pid)), []);
    };
    test(
      `${name} [${driver}]`,
      { skip, long: at === "started" || at === "created" || how === "idle" || signal !== undefined },
      async () => {
        for (let time = 0; time < times; time++) await loseRank();
      },
    );
  }

  test(
    `the names of ranks that were all killed are removed by a later one [${driver}]`,
    { skip },
    async () => {
      using cuda = open({ driver });
      const id = Communicator.createId(cuda);
      await using victim = startScript("children/collectives/lose_rank.ts", [
        driver,
        "0",
        "2",
        id.toHex(),
        "1",
        "60000",
      ]);
      assertEquals([await victim.nextLine(), await victim.nextLine()], ["started", "creating"]);
      const names = namesLeftBy(victim.pid);
      assertEquals(names.length, 1);
      victim.kill("SIGKILL");
      await victim.ended;
      // The ranks of a younger name may still join.
      for (const name of names) utimesSync(`/dev/shm/${name}`, longAgo, longAgo);
      const own = { id: Communicator.createId(cuda), rank: 0, size: 1 };
      await using _communicator = await Communicator.create(cuda.device(0), own);
      assertEquals(namesLeftBy(victim.pid), []);
    },
  );

  for (const call of ["allReduce", "send", "receive", "allToAll"]) {
    test(
      `${call} that the other rank does not answer ends after the timeout [${driver}]`,
      { skip, long: call !== "send" },
      async () => {
        using cuda = open({ driver });
        const id = Communicator.createId(cuda).toHex();
        const start = (rank: number) =>
          startScript(
            "children/collectives/call_alone.ts",
            [driver, `${rank}`, id, call],
            environmentOf(driver, rank),
          );
        await using other = start(1);
        await using child = start(0);
        assertEquals([await other.nextLine(), await child.nextLine()], ["created", "created"]);
        assertEquals(await child.nextLine(), "timed-out, in time");
        other.kill("SIGKILL");
      },
    );
  }
}
