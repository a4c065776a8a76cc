/**
 * Random programs of a store and its clients, some of them in another process, beside an oracle that knows what must
 * become of each request, what each mapping must have, and what must be left. Stores are replaced by their standbys, and
 * processes are killed.
 */
import { assertEquals } from "@std/assert";
import { readdirSync, readlinkSync } from "node:fs";
import process from "node:process";
import { type Cuda, MemoryStore, type MemoryStoreOptions, open, UnixListener, type UnixSocket } from "../../../mod.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import type { StoreStatus } from "../../../src/sharing/operator/status.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { Random } from "../../differential/random.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { assertLeavesNothing } from "../../support/resources.ts";
import { receive, send } from "../../support/shared_steps.ts";
import { type OracleHolder, type OracleMemory, StoreOracle, unit } from "../../support/store_oracle.ts";
import { numberIn, type StoreCommand, StoreParticipant, type StoreRequest } from "../../support/store_participant.ts";
import { isLong, test } from "../../support/test.ts";

const names = ["a", 'b "\\\n\u202e', "größe 漢字 🙂", "__proto__"];
const limits = { ofDevice: 6, ofUser: 9 };
/** Two clients are in the test's process, and two in another one. */
const clientCount = 4;
/** Milliseconds in which what must happen has happened, beside the time that a new store gives its clients. */
const patience = 20_000;
/** The same, while a program that fails is shortened. */
const shorterPatience = 3000;
const reclaimTimeout = { here: 1500, process: 4000 };
const stepsOfProgram = 60;

/** Where a program's store is, and how one ends for the next one. */
type Place = "here" | "process";

type Step =
  & { readonly number: number }
  & (
    | { readonly do: "request"; readonly client: number; readonly request: StoreRequest }
    | { readonly do: "free" | "read"; readonly mapping: number }
    | { readonly do: "write"; readonly mapping: number; readonly value: number }
    | { readonly do: "giveUp"; readonly request: number }
    | { readonly do: "list" | "reconnect"; readonly client: number }
    | { readonly do: "kill" }
    /** The request is under way meanwhile. */
    | {
      readonly do: "takeOver";
      readonly how: "SIGKILL" | "SIGTERM";
      readonly client: number;
      readonly request?: StoreRequest;
    }
  );

/** A process with clients. */
interface Participant {
  readonly pid: number;
  run(command: StoreCommand): Promise<unknown>;
}

class Remote implements Participant, AsyncDisposable {
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #socket: UnixSocket;
  readonly #failed: Promise<never>;

  private constructor(child: ChildProcess, socket: UnixSocket, failed: Promise<never>) {
    this.pid = child.pid;
    this.#child = child;
    this.#socket = socket;
    this.#failed = failed;
  }

  static async start(listener: UnixListener): Promise<Remote> {
    const child = startScript("children/sharing/run_store_steps.ts", [listener.path], {
      permissions: ["--allow-all"],
    });
    const failed = child.ended.then(async (code): Promise<never> => {
      throw new Error(`a process has ended with ${code}: ${await child.errors()}`);
    });
    failed.catch(() => {});
    return new Remote(child, await Promise.race([listener.accept(), failed]), failed);
  }

  run(command: StoreCommand): Promise<unknown> {
    return Promise.race([this.#exchange(command), this.#failed]);
  }

  async #exchange(command: StoreCommand): Promise<unknown> {
    await send(this.#socket, command);
    return (await receive(this.#socket)).message;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child[Symbol.asyncDispose]();
    await this.#socket[Symbol.asyncDispose]();
  }
}

/** The stores of a program: one that serves, and its standby. */
interface Stores extends AsyncDisposable {
  /** Lets the standby take over, and starts another one. Resolves when that one has everything. */
  takeOver(how: "SIGKILL" | "SIGTERM"): Promise<void>;
  /** How many memory files each of them has. */
  memoryFiles(): readonly number[];
}

interface StorePaths {
  readonly store: string;
  readonly standby: string;
}

class StoresHere implements Stores {
  readonly #cuda: Cuda;
  readonly #paths: StorePaths;
  readonly #options: MemoryStoreOptions;
  #serving: MemoryStore;
  #standby: MemoryStore | undefined;

  private constructor(cuda: Cuda, paths: StorePaths, options: MemoryStoreOptions) {
    this.#cuda = cuda;
    this.#paths = paths;
    this.#options = options;
    this.#serving = this.#listen(() => {});
  }

  static async start(cuda: Cuda, paths: StorePaths, options: MemoryStoreOptions): Promise<StoresHere> {
    const stores = new StoresHere(cuda, paths, options);
    await stores.#addStandby();
    return stores;
  }

  /** Called when the store that serves has a standby. */
  #onStandby: () => void = () => {};

  #listen(onServe: () => void): MemoryStore {
    return MemoryStore.listen(this.#cuda, this.#paths.store, {
      ...this.#options,
      standby: this.#paths.standby,
      onServe,
      onStandby: () => this.#onStandby(),
    });
  }

  #serves: Promise<void> = Promise.resolve();

  async #addStandby(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onStandby = resolve;
    this.#serves = new Promise((resolve) => this.#standby = this.#listen(resolve));
    await promise;
  }

  async takeOver(): Promise<void> {
    await this.#serving[Symbol.asyncDispose]();
    await this.#serves;
    this.#serving = this.#standby!;
    await this.#addStandby();
  }

  memoryFiles(): readonly number[] {
    return [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#standby?.[Symbol.asyncDispose]();
    await this.#serving[Symbol.asyncDispose]();
  }
}

class StoreProcesses implements Stores {
  readonly #paths: StorePaths;
  readonly #options: MemoryStoreOptions;
  #serving!: ChildProcess;
  #standby: ChildProcess | undefined;

  private constructor(paths: StorePaths, options: MemoryStoreOptions) {
    this.#paths = paths;
    this.#options = options;
  }

  static async start(paths: StorePaths, options: MemoryStoreOptions): Promise<StoreProcesses> {
    const stores = new StoreProcesses(paths, options);
    stores.#serving = stores.#start();
    await lineOf(stores.#serving, "serves");
    await stores.#addStandby();
    return stores;
  }

  #start(): ChildProcess {
    const { store, standby } = this.#paths;
    return startScript("children/sharing/store_process.ts", [
      "software",
      store,
      standby,
      JSON.stringify(this.#options),
    ]);
  }

  async #addStandby(): Promise<void> {
    this.#standby = this.#start();
    await lineOf(this.#serving, "has a standby");
  }

  async takeOver(how: "SIGKILL" | "SIGTERM"): Promise<void> {
    const last = this.#serving;
    last.kill(how);
    this.#serving = this.#standby!;
    await lineOf(this.#serving, "serves");
    await last.ended;
    await last[Symbol.asyncDispose]();
    await this.#addStandby();
  }

  memoryFiles(): readonly number[] {
    return [this.#serving, this.#standby!].map(({ pid }) =>
      readdirSync(`/proc/${pid}/fd`).filter((fd) => {
        try {
          return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith("/memfd:");
        } catch {
          return false;
        }
      }).length
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#standby?.[Symbol.asyncDispose]();
    await this.#serving[Symbol.asyncDispose]();
  }
}

async function lineOf(child: ChildProcess, word: string): Promise<void> {
  for (let line; (line = await child.nextLine()) !== undefined;) {
    if (line.startsWith("error")) throw new Error(`a store says: ${line}`);
    if (line.startsWith(word)) return;
  }
  throw new Error(`"${word}" did not come: ${await child.errors()}`);
}

/** A program that runs. */
class Program {
  readonly steps: Step[] = [];
  readonly #random: Random;
  readonly #stores: Stores;
  readonly #path: string;
  readonly #participants: readonly Participant[];
  readonly #restart: () => Promise<Participant>;
  readonly #oracle: StoreOracle;
  readonly #evict: boolean;
  readonly #isWithKills: boolean;
  /** Of the metadata of each memory. A status lists those of all. */
  readonly #padding: number;
  readonly #holders: OracleHolder[] = [];
  readonly #left: OracleHolder[] = [{ key: "left here", process: 0 }, { key: "left there", process: 1 }];
  #operator: Operator | undefined;
  #devices: readonly string[];
  /** What has become of requests so far. */
  readonly #outcomes = new Map<number, unknown>();
  #since = 0;
  readonly #limit: number;

  constructor(
    random: Random,
    { stores, path, participants, restart, evict, place, devices, limit }: {
      stores: Stores;
      path: string;
      participants: Participant[];
      restart: () => Promise<Participant>;
      evict: boolean;
      place: Place;
      devices: readonly string[];
      /** Milliseconds in which each step must have its effect. */
      limit: number;
    },
  ) {
    this.#random = random;
    this.#stores = stores;
    this.#path = path;
    this.#participants = participants;
    this.#restart = restart;
    this.#evict = evict;
    this.#isWithKills = place === "process" || random.percent(30);
    this.#padding = random.percent(30) ? Math.floor(2 ** 20 / limits.ofUser) - 1000 : 0;
    this.#devices = devices;
    this.#limit = limit;
    this.#oracle = new StoreOracle({ ...limits, evict }, (candidates) => this.#evicted(candidates));
  }

  async begin(): Promise<void> {
    for (const participant of this.#participants) await participant.run({ do: "begin", path: this.#path });
    for (let client = 0; client < clientCount; client++) await this.#connect(client);
    this.#operator = await Operator.connect(this.#path, { wait: true });
  }

  async #connect(client: number): Promise<void> {
    await this.#of(client).run({ do: "connect", client });
    this.#holders[client] = { key: `client ${client}`, process: processOf(client) };
  }

  #of(client: number): Participant {
    return this.#participants[processOf(client)]!;
  }

  /** The participant that has a mapping or has made a request. */
  #ofHolder(holder: OracleHolder): Participant {
    return this.#participants[holder.process]!;
  }

  /** Does a random step. */
  async next(): Promise<void> {
    for (;;) {
      const step = { number: this.steps.length + 1, ...this.#randomStep() } as Step;
      if (await this.perform(step)) return;
    }
  }

  #randomStep(): object {
    const random = this.#random;
    const client = random.below(clientCount);
    const mappings = [...this.#oracle.mappings.keys()];
    const unpublished = [...this.#oracle.mappings].filter(([number, { memory }]) => {
      return memory.number === number && memory.state === "unpublished";
    }).map(([number]) => number);
    const kind = random.below(100);
    if (kind < 26) return { do: "request", client, request: this.#randomCreate() };
    if (kind < 42 && unpublished.length > 0) {
      return { do: "request", client, request: { do: "publish", memory: random.pick(unpublished) } };
    }
    if (kind < 58) {
      const write = random.percent(25);
      return { do: "request", client, request: { do: "map", name: random.pick(names), write } };
    }
    if (kind < 76 && mappings.length > 0) return { do: "free", mapping: random.pick(mappings) };
    if (kind < 80 && mappings.length > 0) return { do: "read", mapping: random.pick(mappings) };
    if (kind < 83 && mappings.length > 0) {
      return { do: "write", mapping: random.pick(mappings), value: random.bits32() };
    }
    if (kind < 87) return { do: "request", client, request: { do: "remove", name: random.pick(names) } };
    if (kind < 91 && this.#oracle.waiting.length > 0) {
      return { do: "giveUp", request: random.pick(this.#oracle.waiting).number };
    }
    if (kind < 93) return { do: "list", client };
    if (kind < 95) return { do: "reconnect", client };
    if (!this.#isWithKills) return { do: "list", client };
    if (kind < 97) return { do: "kill" };
    const how = random.pick(["SIGKILL", "SIGTERM"]);
    const request = random.pick<StoreRequest | undefined>([
      undefined,
      this.#randomCreate(),
      { do: "map", name: random.pick(names), write: false },
      { do: "remove", name: random.pick(names) },
      unpublished.length > 0 ? { do: "publish", memory: random.pick(unpublished) } : undefined,
    ]);
    return { do: "takeOver", how, client, ...request === undefined ? {} : { request } };
  }

  #randomCreate(): StoreRequest {
    const random = this.#random;
    const units = random.percent(4) ? 7 : 1 + random.below(3);
    return {
      do: "create",
      name: random.pick(names),
      device: random.below(2),
      byteLength: (units - 1) * unit + random.pick([8, 100, 4096, unit - 1, unit]),
      value: random.bits32(),
      padding: this.#padding,
    };
  }

  /** Does a step, if it makes sense now. Returns whether it does. */
  async perform(step: Step): Promise<boolean> {
    if (!this.#isPossible(step)) return false;
    this.steps.push(step);
    this.#oracle.beginStep(step.number);
    this.#since = performance.now();
    // The order of two uses is known by their milliseconds.
    for (const now = Date.now(); Date.now() === now;);
    await this.#perform(step);
    await this.#settle();
    return true;
  }

  #isPossible(step: Step): boolean {
    const { mappings, waiting, waitingForRoom } = this.#oracle;
    switch (step.do) {
      case "request":
        return this.#canAsk(step.client, step.request);
      case "free":
      case "read":
        return mappings.has(step.mapping);
      case "write":
        return mappings.get(step.mapping)?.mayWrite === true;
      case "giveUp":
        return waiting.some(({ number }) => number === step.request);
      case "reconnect":
        // In the test's process, what such a client has mapped would be held to the end.
        return processOf(step.client) === 1 || ![...mappings].some(([number, { holder, memory }]) => {
          return holder === this.#holders[step.client] && number !== memory.number;
        });
      case "takeOver": {
        const { request } = step;
        // Clients ask again in any order, and what one of them has got by then has cost others theirs.
        if (new Set(waitingForRoom.map(({ holder }) => holder)).size > 1) return false;
        if (request === undefined) return true;
        // Whether it was removed by the last store is not known to the next one.
        if (request.do === "remove" && this.#oracle.published(request.name) === undefined) return false;
        if (request.do === "create" && (this.#evict || waitingForRoom.length > 0)) return false;
        return this.#canAsk(step.client, request);
      }
      default:
        return true;
    }
  }

  #canAsk(client: number, request: StoreRequest): boolean {
    if (request.do !== "publish") return true;
    const mapping = this.#oracle.mappings.get(request.memory);
    return mapping?.memory.state === "unpublished" && mapping.memory.number === request.memory && client >= 0;
  }

  async #perform(step: Step): Promise<void> {
    const { mappings } = this.#oracle;
    switch (step.do) {
      case "request":
        await this.#begin(step.number, step.client, step.request);
        return await this.#expect(step.number, step.client, step.request);
      case "free": {
        const { holder } = mappings.get(step.mapping)!;
        await this.#ofHolder(holder).run({ do: "free", number: step.mapping });
        return await this.#oracle.free(step.mapping, this.#holders.includes(holder));
      }
      case "read":
        return await this.#checkMapping(step.mapping);
      case "write": {
        const { memory, holder } = mappings.get(step.mapping)!;
        await this.#ofHolder(holder).run({ do: "write", number: step.mapping, value: step.value });
        memory.value = step.value;
        return;
      }
      case "giveUp": {
        const { holder } = this.#oracle.waiting.find(({ number }) => number === step.request)!;
        await this.#ofHolder(holder).run({ do: "giveUp", number: step.request });
        return await this.#oracle.giveUp(step.request);
      }
      case "list":
        return await this.#checkList(step.client);
      case "reconnect": {
        const holder = this.#holders[step.client]!;
        await this.#of(step.client).run({ do: "disconnect", client: step.client });
        const left = this.#left[holder.process]!;
        await this.#oracle.disconnect(holder, left);
        for (const [number, mapping] of mappings) {
          if (mapping.holder === holder) mappings.set(number, { ...mapping, holder: left });
        }
        return await this.#connect(step.client);
      }
      case "kill": {
        const gone = [...this.#holders, ...this.#left].filter(({ process }) => process === 1);
        (this.#participants as Participant[])[1] = await this.#restart();
        await this.#oracle.kill(gone);
        await this.#participants[1]!.run({ do: "begin", path: this.#path });
        for (let client = 0; client < clientCount; client++) if (processOf(client) === 1) await this.#connect(client);
        return;
      }
      case "takeOver": {
        const { client, request, number } = step;
        if (request !== undefined) await this.#ask(number, client, request);
        await this.#stores.takeOver(step.how);
        await this.#oracle.takeOver(this.#holders);
        if (request !== undefined) await this.#expect(number, client, request);
        await this.#operator?.[Symbol.asyncDispose]();
        this.#operator = await Operator.connect(this.#path, { wait: true });
      }
    }
  }

  /** Begins a request, and lets it arrive. */
  async #begin(number: number, client: number, request: StoreRequest): Promise<void> {
    const asking = await this.#ask(number, client, request);
    if (request.do !== "publish") await this.#of(asking).run({ do: "list", client: asking });
  }

  /** Begins a request. Who publishes is the client that has created. */
  async #ask(number: number, client: number, request: StoreRequest): Promise<number> {
    const asking = this.#asking(client, request);
    await this.#of(asking).run({ do: "request", client: asking, number, request });
    return asking;
  }

  #asking(client: number, request: StoreRequest): number {
    if (request.do !== "publish") return client;
    return this.#holders.indexOf(this.#oracle.mappings.get(request.memory)!.holder);
  }

  async #expect(number: number, client: number, request: StoreRequest): Promise<void> {
    const holder = this.#holders[client]!;
    switch (request.do) {
      case "create":
        return await this.#oracle.create({ ...request, number, holder });
      case "publish":
        return await this.#oracle.publish(number, request.memory);
      case "map":
        return this.#oracle.map({ number, holder, name: request.name }, request.write);
      case "remove":
        return await this.#oracle.remove(number, request.name);
    }
  }

  /** Waits until everything is as it must be. */
  async #settle(): Promise<void> {
    for (;;) {
      const wrong = await this.#difference();
      if (wrong === undefined) return;
      if (performance.now() - this.#since > this.#limit) throw new Error(wrong);
    }
  }

  async #difference(): Promise<string | undefined> {
    for (const participant of this.#participants) {
      for (const [number, outcome] of await participant.run({ do: "outcomes" }) as [number, unknown][]) {
        this.#outcomes.set(number, outcome);
      }
    }
    for (const [number, expected] of this.#oracle.outcomes) {
      const outcome = this.#outcomes.get(number);
      if (outcome === undefined) {
        return `request ${number} has no outcome, and should have ${JSON.stringify(expected)}`;
      }
      const found = JSON.stringify(outcome);
      if (found !== JSON.stringify(expected)) {
        throw new Error(`request ${number}: ${found}, and should be ${JSON.stringify(expected)}`);
      }
    }
    for (const [number, outcome] of this.#outcomes) {
      if (this.#oracle.outcomes.has(number)) continue;
      throw new Error(`request ${number}: ${JSON.stringify(outcome)}, and should wait`);
    }
    const status = await this.#status();
    const found = status.entries.map((entry) =>
      JSON.stringify([
        entry.name,
        entry.generation,
        entry.state,
        entry.byteLength,
        entry.device,
        numberIn(entry.metadata),
        entry.writer?.pid ?? 0,
        entry.readers.map(({ pid }) => pid).sort((a, b) => a - b),
      ])
    ).sort();
    const expected = this.#oracle.memories.map((memory) =>
      JSON.stringify([
        memory.name,
        memory.generation,
        memory.state,
        memory.byteLength,
        this.#devices[memory.device],
        memory.number,
        memory.writer === undefined ? 0 : this.#ofHolder(memory.writer).pid,
        this.#pidsOf(memory),
      ])
    ).sort();
    if (found.join("\n") !== expected.join("\n")) {
      return `the store has\n${found.join("\n")}\nand should have\n${expected.join("\n")}`;
    }
    const used = this.#oracle.used() * unit;
    if (status.statistics.byteLength !== used) return `${status.statistics.byteLength} bytes are used, and not ${used}`;
    if (status.statistics.clients !== clientCount) return `${status.statistics.clients} clients are connected`;
    return undefined;
  }

  async #status(): Promise<StoreStatus> {
    const status = await this.#operator!.status();
    if (status.kind !== "store") throw new Error(status.kind);
    return status;
  }

  #pidsOf({ readers }: OracleMemory): number[] {
    return [...readers.keys()].map((holder) => this.#ofHolder(holder).pid).sort((a, b) => a - b);
  }

  /** Which of some memories the store does not have any more. */
  async #evicted(candidates: readonly OracleMemory[]): Promise<OracleMemory> {
    for (;;) {
      const { entries } = await this.#status();
      const there = new Set(entries.map(({ metadata }) => numberIn(metadata)));
      const gone = candidates.filter(({ number }) => !there.has(number));
      if (gone.length > 0) return gone[0]!;
      if (performance.now() - this.#since > this.#limit) throw new Error("nothing gives way");
    }
  }

  async #checkMapping(number: number): Promise<void> {
    const { memory, holder } = this.#oracle.mappings.get(number)!;
    assertEquals(await this.#ofHolder(holder).run({ do: "read", number }), memory.value, `mapping ${number}`);
  }

  async #checkList(client: number): Promise<void> {
    const found = await this.#of(client).run({ do: "list", client }) as unknown[][];
    const expected = this.#oracle.memories.filter(({ state }) => state === "published").map((memory) => {
      const { name, byteLength, generation, number } = memory;
      return [name, byteLength, generation, number, this.#pidsOf(memory)];
    });
    const sorted = (entries: unknown[]) => entries.map((entry) => JSON.stringify(entry)).sort();
    assertEquals(sorted(found), sorted(expected));
  }

  /** Lets everything go, and checks that nothing is left of it. */
  async end(): Promise<void> {
    this.#oracle.beginStep(this.steps.length + 1);
    this.#since = performance.now();
    for (const number of this.#oracle.mappings.keys()) await this.#checkMapping(number);
    for (let waiting; (waiting = this.#oracle.waiting[0]) !== undefined;) {
      await this.#ofHolder(waiting.holder).run({ do: "giveUp", number: waiting.number });
      await this.#oracle.giveUp(waiting.number);
      await this.#settle();
    }
    for (const name of names) {
      if (this.#oracle.published(name) === undefined) continue;
      const number = 1000 + names.indexOf(name);
      await this.#begin(number, 0, { do: "remove", name });
      await this.#expect(number, 0, { do: "remove", name });
    }
    for (const [number, { holder }] of this.#oracle.mappings) {
      await this.#ofHolder(holder).run({ do: "free", number });
      await this.#oracle.free(number, this.#holders.includes(holder));
    }
    await this.#settle();
  }

  /** What clients that were disposed of have left is held until their process ends. */
  get isSomethingLeft(): boolean {
    return this.#oracle.memories.length > 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#operator?.[Symbol.asyncDispose]();
    for (const participant of this.#participants) await participant.run({ do: "end" });
  }
}

function processOf(client: number): number {
  return client < clientCount / 2 ? 0 : 1;
}

/** The processes of all programs. */
class Processes implements AsyncDisposable {
  readonly #listener: UnixListener;
  readonly here: Participant;
  there: Remote | undefined;

  constructor(listener: UnixListener) {
    this.#listener = listener;
    const participant = new StoreParticipant();
    this.here = { pid: process.pid, run: (command) => participant.run(command) };
  }

  async both(): Promise<Participant[]> {
    return [this.here, this.there ?? await this.restart()];
  }

  async restart(): Promise<Participant> {
    await this.there?.[Symbol.asyncDispose]();
    this.there = undefined;
    return this.there = await Remote.start(this.#listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.there?.[Symbol.asyncDispose]();
  }
}

/** What is wrong with a program, and what it did. */
interface Failure {
  readonly error: unknown;
  readonly steps: readonly Step[];
}

/** Runs a program: what the seed says, or some steps of it. */
async function run(
  processes: Processes,
  { seed, place, steps }: { seed: number; place: Place; steps?: readonly Step[] },
): Promise<Failure | undefined> {
  const random = new Random(seed);
  const evict = random.percent(40);
  let program: Program | undefined;
  let error: unknown;
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software", softwareDevices: 2, sanitize: false });
    const paths = { store: `${folder}/store`, standby: `${folder}/standby` };
    const options = {
      maxSize: limits.ofDevice * unit,
      maxSizeOfUser: limits.ofUser * unit,
      evict,
      reclaimTimeout: reclaimTimeout[place],
    };
    await using stores = place === "here"
      ? await StoresHere.start(cuda, paths, options)
      : await StoreProcesses.start(paths, options);
    const before = stores.memoryFiles();
    const running = program = new Program(random, {
      stores,
      path: paths.store,
      participants: await processes.both(),
      restart: () => processes.restart(),
      evict,
      place,
      devices: cuda.devices.map(({ uuid }) => uuid),
      limit: (steps === undefined ? patience : shorterPatience) + reclaimTimeout[place],
    });
    try {
      await running.begin();
      for (const step of steps ?? []) await running.perform(step);
      while (steps === undefined && running.steps.length < stepsOfProgram) await running.next();
      await running.end();
      const end = performance.now() + patience;
      // A standby lets go a moment later.
      while (!running.isSomethingLeft && stores.memoryFiles().join() !== before.join()) {
        if (performance.now() > end) assertEquals(stores.memoryFiles(), before, "memory files of the stores");
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    } catch (caught) {
      error = caught;
    }
    // After a failure, a process may be in any state.
    if (error === undefined) return await running[Symbol.asyncDispose]();
    await processes.here.run({ do: "end" });
    await processes.restart();
  });
  return error === undefined ? undefined : { error, steps: program!.steps };
}

/** A failing program without the steps that do not matter. */
async function shortened(
  processes: Processes,
  { seed, place, failure }: { seed: number; place: Place; failure: Failure },
): Promise<Failure> {
  let shortest = failure;
  for (let length = failure.steps.length >> 1; length >= 1; length >>= 1) {
    for (let index = shortest.steps.length - length; index >= 0; index -= length) {
      const tried = await run(processes, { seed, place, steps: shortest.steps.toSpliced(index, length) });
      if (tried !== undefined) shortest = tried;
      index = Math.min(index, shortest.steps.length);
    }
  }
  return shortest;
}

function listingOf({ error, steps }: Failure): string {
  const lines = steps.map(({ number, ...rest }) => `${number}: ${JSON.stringify(rest)}`);
  return `${lines.join("\n")}\n${error instanceof Error ? error.stack : String(error)}`;
}

async function runPrograms(place: Place, seeds: Iterable<number>): Promise<void> {
  await inFolder(async (folder) => {
    await using listener = UnixListener.listen(`${folder}/socket`);
    await using processes = new Processes(listener);
    for (const seed of seeds) {
      const failure = await run(processes, { seed, place });
      if (failure === undefined) continue;
      // What depends on the moment may not fail again.
      console.error(`program ${seed} (${place}) fails, and is shortened:\n${listingOf(failure)}`);
      const shortest = await shortened(processes, { seed, place, failure });
      throw new Error(`program ${seed} (${place}):\n${listingOf(shortest)}`);
    }
  });
}

function* seedsOf(count: number): Iterable<number> {
  const first = Number(process.env.POOLPASS_SEED ?? 0);
  for (let seed = first; seed < first + count; seed++) yield seed;
}

const skip = shimRefusal() ?? false;

test("random programs of a store in the test's process are right to the last byte", { skip }, async () => {
  await assertLeavesNothing(() => runPrograms("here", seedsOf(isLong ? 100 : 2)));
});

test("random programs of a store in processes that are killed are right to the last byte", { skip }, async () => {
  await runPrograms("process", seedsOf(isLong ? 40 : 1));
});
