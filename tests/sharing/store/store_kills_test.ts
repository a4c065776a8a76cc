/**
 * Writers, readers, processes that move an entry or let it sleep, the store and its standby are killed, each at any moment.
 * What was published is there, all of it, and nothing is left of those who were killed.
 */
import { assert, assertEquals } from "@std/assert";
import { readdirSync } from "node:fs";
import process from "node:process";
import { open, StoreClient } from "../../../mod.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { driverNamed } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";
import { test } from "../../support/test.ts";

const users = ["writer", "reader", "mover", "sleeper"] as const;
type User = typeof users[number];
const roles = [...users, "store", "standby"] as const;
type Role = typeof roles[number];

/** How often each of them is killed: most often in one runtime, because the others have the same processes to start. */
const kills = Number(process.env.POOLPASS_KILLS ?? ("Deno" in globalThis ? 100 : 20));
const seed = Number(process.env.POOLPASS_SEED ?? Date.now() % 1e6);
/** Milliseconds in which something must happen. */
const patience = 20_000;

/** A process whose lines are read as they come. */
class Watched implements AsyncDisposable {
  readonly process: ChildProcess;
  /** The last line that begins with each word. */
  readonly last = new Map<string, string>();
  #waiting: (() => void)[] = [];
  #hasEnded = false;

  constructor(process: ChildProcess) {
    this.process = process;
    void this.#read();
  }

  async #read(): Promise<void> {
    for (let line; (line = await this.process.nextLine()) !== undefined;) {
      this.last.set(line.split(" ")[0]!, line);
      for (const notify of this.#waiting.splice(0)) notify();
    }
    this.#hasEnded = true;
    for (const notify of this.#waiting.splice(0)) notify();
  }

  /** The number that the last line of a word has. */
  numberOf(word: string): number {
    return Number(this.last.get(word)?.split(" ")[1] ?? 0);
  }

  /** Waits until something is so, which is asked after each line. */
  async until(isSo: () => boolean, what: string): Promise<void> {
    const end = performance.now() + patience;
    while (!isSo()) {
      if (this.#hasEnded || performance.now() > end) {
        this.process.kill("SIGKILL");
        throw new Error(`${what} did not come: ${[...this.last.values()].join("; ")}\n${await this.process.errors()}`);
      }
      let timer;
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
        timer = setTimeout(resolve, 1000);
      });
      clearTimeout(timer);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process[Symbol.asyncDispose]();
  }
}

/** xorshift32 */
function randomNumbers(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

function descriptorCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

for (const driver of ["software", "cuda"] as const) {
  const skip = driverNamed(driver).skip || (shimRefusal() ?? false);
  test(
    `nothing that is published is lost or torn, whichever process is killed [${driver}]`,
    { skip, long: process.env.POOLPASS_KILLS === undefined },
    () =>
      inFolder(async (folder) => {
        const [path, standbyPath] = [`${folder}/store`, `${folder}/standby`];
        const random = randomNumbers(seed);
        const start = (script: string, ...args: string[]) =>
          new Watched(startScript(`children/sharing/${script}.ts`, [driver, ...args]));
        const startStore = () => start("store_process", path, standbyPath);
        const isUser = (role: Role): role is User => role !== "store" && role !== "standby";
        const entryOf = (role: User) => role === "writer" || role === "reader" ? "weights" : "moved";
        const startUser = (role: User) => start("store_user", path, role, entryOf(role));
        const running: Record<Role, Watched> = {
          store: startStore(),
          writer: startUser("writer"),
          reader: startUser("reader"),
          mover: startUser("mover"),
          sleeper: startUser("sleeper"),
          standby: undefined as never,
        };
        await using _all = {
          [Symbol.asyncDispose]: async () => {
            for (const each of Object.values(running)) await each?.[Symbol.asyncDispose]();
          },
        };
        await running.store.until(() => running.store.last.has("serves"), "a store that serves");
        using cuda = open({ driver });
        await using client = await StoreClient.connect(cuda, path, { wait: true });
        {
          await using memory = await client.create("moved", 2 ** 20 + 1);
          memory.buffer.fill(7);
          await memory.publish();
        }
        const addStandby = async () => {
          running.store.last.delete("has");
          running.standby = startStore();
          await running.store.until(() => running.store.last.has("has"), "a standby that has everything");
        };
        await addStandby();
        const takeOvers: number[] = [];
        let published = 0;
        const left = Object.fromEntries(roles.map((role) => [role, kills])) as Record<Role, number>;
        for (let round = 0; roles.some((role) => left[role] > 0); round++) {
          const candidates = roles.filter((role) => left[role] > 0);
          const victim = candidates[Math.floor(random() * candidates.length)]!;
          left[victim]--;
          // Some work first, and then any moment of what comes next.
          for (const role of users) {
            const process = running[role], done = process.numberOf("did");
            await process.until(
              () => process.numberOf("did") > done,
              `what a ${role} does in round ${round} of seed ${seed}`,
            );
          }
          await new Promise((resolve) => setTimeout(resolve, random() * 20));
          published = Math.max(published, running.writer.numberOf("did"));
          const since = performance.now();
          const killed = running[victim];
          killed.process.kill("SIGKILL");
          if (victim === "store") {
            await client.entries();
            takeOvers.push(performance.now() - since);
            running.store = running.standby;
          }
          await killed[Symbol.asyncDispose]();
          if (isUser(victim)) running[victim] = startUser(victim);
          else await addStandby();
          // All that a writer was told to be published is there, or something later.
          if (victim === "writer") published = Math.max(published, killed.numberOf("did"));
          const entries = await client.entries();
          assertEquals(entries.find(({ name }) => name === "moved")?.generation, 1);
          const entry = entries.find(({ name }) => name === "weights");
          assert((entry!.metadata as { value: number }).value >= published, `seed ${seed}: ${published} was lost`);
          using mapped = await client.map("weights");
          const words = await mapped.read(Uint32Array);
          assert(words.every((word) => word === words[0]) && words[0]! >= published, `seed ${seed}: ${words.join()}`);
          for (const each of Object.values(running)) assertEquals(each.last.get("torn"), undefined);
          for (const each of Object.values(running)) assertEquals(each.last.get("error"), undefined);
        }
        // Nothing is left of those who were killed.
        for (const role of users) await running[role][Symbol.asyncDispose]();
        await using operator = await Operator.connect(path);
        const end = performance.now() + patience;
        for (let isClean = false; !isClean;) {
          const status = await operator.status();
          if (status.kind !== "store") throw new Error(status.kind);
          const held = status.entries.map(({ name, state, readers }) => `${name} ${state} ${readers.length}`).sort();
          isClean = held.join() === "moved published 0,weights published 0";
          if (!isClean && performance.now() > end) throw new Error(`This is left: ${held.join()}`);
        }
        using moved = await client.mapEntry("moved");
        assert((await moved.buffer.read(Uint8Array)).every((byte) => byte === 7));
        assert(descriptorCount(running.store.process.pid) < 60, `${descriptorCount(running.store.process.pid)}`);
        takeOvers.sort((a, b) => a - b);
        const [median, most] = [takeOvers[takeOvers.length >> 1]!, takeOvers.at(-1)!];
        console.log(
          `${kills} kills of each, seed ${seed}: ${published} generations; taken over in ${median.toFixed(1)} ms ` +
            `(median), ${most.toFixed(1)} ms (most)`,
        );
      }),
  );
}
