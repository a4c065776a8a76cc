/**
 * Pairs of programs of two processes that share memory: in each, one process does something on one of its streams before
 * the other one does on one of its own. Where something orders the two, the sanitizer is silent in both processes, and
 * where nothing does, it reports the two in at least one.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { appendFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import process from "node:process";
import {
  open,
  type OpenOptions,
  Operator,
  type SanitizerReport,
  StoreClient,
  UnixListener,
  UnixSocket,
} from "../../mod.ts";
import { Board, type BoardPeer, maximumRecord } from "../../src/sanitizer/processes/board.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import type { Command } from "../children/sanitizer/share_memory.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { boardOfTest, withOwnBoard } from "../support/own_board.ts";
import {
  type Action,
  Participant,
  receive,
  send,
  type Sharing,
  type Side,
  type Step,
} from "../support/shared_steps.ts";
import { isLong, someOf, test } from "../support/test.ts";

type Schedule = OpenOptions["softwareSchedule"];
type DriverName = "software" | "cuda";

/** Two processes, one of them this one. */
class Pair {
  readonly #driver: DriverName;
  readonly #socket: UnixSocket;

  constructor(driver: DriverName, socket: UnixSocket) {
    this.#driver = driver;
    this.#socket = socket;
  }

  /** Runs a program. Returns the reports of each process. */
  async reportsOf(
    steps: readonly Step[],
    { sharing = "pool", schedule, onStep, during, collectives }: {
      sharing?: Sharing;
      /** Both join a communicator before, and wait for their streams 0 together, before these steps. */
      collectives?: readonly Step[];
      schedule?: Schedule;
      onStep?: () => void | Promise<void>;
      /**
       * What the other process does while the kernels of both wait, in parts, what this one does between each two, and a
       * file for both.
       */
      during?: {
        readonly importer: readonly (readonly Step[])[];
        readonly exporter: readonly (readonly Step[])[];
        readonly file: string;
      };
    } = {},
  ): Promise<Record<Side, SanitizerReport[]>> {
    const exporter = new Participant(this.#driver, schedule);
    const { shared, handle } = exporter.share(sharing);
    exporter.openEvents(
      await this.#ask(
        { do: "begin", shared, ...schedule === undefined ? {} : { schedule } } as Command,
        handle,
      ) as string[],
    );
    const id = exporter.createId();
    if (collectives !== undefined) await Promise.all([exporter.join(id, 0), this.#ask({ do: "join", id: id.toHex() })]);
    const run = async (step: Step) => {
      if (step[0] === "exporter") await exporter.run(step);
      else await this.#ask({ do: "step", step });
    };
    for (const step of steps) {
      await onStep?.();
      await run(step);
    }
    if (during !== undefined) {
      const { importer, exporter: between, file } = during;
      writeFileSync(file, "");
      const done = this.#ask({ do: "runWithoutTurns", file, parts: importer });
      await waitUntil(() => statSync(file).size > 0);
      // From here on, the kernels of this process are delayed, too.
      const steps: Promise<void>[] = [];
      for (const [index, part] of between.entries()) {
        while (statSync(file).size <= 2 * index);
        steps.push(...part.map((step) => exporter.run(step)));
        appendFileSync(file, "2");
      }
      await Promise.all([...steps, done]);
    }
    if (collectives !== undefined) {
      await Promise.all([run(["exporter", "finished", 0]), run(["importer", "finished", 0])]);
      for (const step of collectives) await run(step);
    }
    // What a kernel accesses is known when it is done, and then the other process gets to know.
    for (let time = 0; time < 2; time++) {
      exporter.settle();
      await this.#ask({ do: "settle" });
    }
    exporter.settle();
    const importer = await this.#ask({ do: "reports" }) as SanitizerReport[];
    const reports = { exporter: [...exporter.reports], importer };
    if (collectives !== undefined) await Promise.all([exporter.leave(), this.#ask({ do: "leave" })]);
    await this.#ask({ do: "end" });
    exporter[Symbol.dispose]();
    return reports;
  }

  /** Connects one of the two to a socket of another process. */
  async connect(side: Side, path: string): Promise<UnixSocket | undefined> {
    if (side === "exporter") return await UnixSocket.connect(path);
    await this.#ask({ do: "connect", path });
  }

  async #ask(command: Command, handle?: Parameters<typeof send>[2]): Promise<unknown> {
    await send(this.#socket, command, handle);
    return (await receive(this.#socket)).message;
  }
}

async function withPair(driver: DriverName, body: (pair: Pair) => Promise<void>): Promise<void> {
  await withOwnBoard(() =>
    inFolder(async (folder) => {
      await using listener = UnixListener.listen(`${folder}/socket`);
      await using child = startScript("children/sanitizer/share_memory.ts", [listener.path, driver, boardOfTest]);
      const failed = child.ended.then(async (code) => {
        throw new Error(`the other process has ended with ${code}: ${await child.errors()}`);
      });
      failed.catch(() => {});
      await using socket = await Promise.race([listener.accept(), failed]);
      await Promise.race([body(new Pair(driver, socket)), failed]);
    })
  );
}

/** A way to order the first operation, on stream 0 of one process, before the second, on stream 0 of the other. */
interface Link {
  readonly name: string;
  readonly orders: boolean;
  /** Steps before the first operation. */
  before?(first: Side, second: Side): Step[];
  between(first: Side, second: Side): Step[];
}

const links: readonly Link[] = [
  { name: "nothing", orders: false, between: () => [] },
  {
    name: "an event that the other process's stream waits for",
    orders: true,
    between: (first, second) => [[first, "record", 0, 0], [second, "waitOther", 0, 0]],
  },
  {
    name: "an event that the other process awaits",
    orders: true,
    between: (first, second) => [[first, "record", 0, 0], [second, "finishedOther", 0]],
  },
  { name: "a synchronization of the first stream", orders: true, between: (first) => [[first, "synchronize", 0]] },
  { name: "an awaited stream", orders: true, between: (first) => [[first, "finished", 0]] },
  { name: "a synchronization of the device", orders: true, between: (first) => [[first, "synchronizeDevice"]] },
  {
    name: "an event of a stream that waits for the first one",
    orders: true,
    between: (first, second) => [
      [first, "record", 0, 0],
      [first, "waitOwn", 1, 0],
      [first, "record", 1, 1],
      [second, "waitOther", 0, 1],
    ],
  },
  {
    name: "an event that another stream waits for, and one of that stream",
    orders: true,
    between: (first, second) => [
      [first, "record", 0, 0],
      [second, "waitOther", 1, 0],
      [second, "record", 1, 0],
      [second, "waitOwn", 0, 0],
    ],
  },
  {
    name: "an event that the second process's host knows to be done by another stream",
    orders: true,
    between: (first, second) => [
      [first, "record", 0, 0],
      [second, "waitOther", 1, 0],
      [second, "synchronize", 1],
    ],
  },
  {
    name: "an event that was recorded twice, before and after",
    orders: true,
    before: (first) => [[first, "record", 0, 0]],
    between: (first, second) => [[first, "record", 0, 0], [second, "waitOther", 0, 0]],
  },
  {
    name: "an event that was recorded before",
    orders: false,
    before: (first) => [[first, "record", 0, 0]],
    between: (_, second) => [[second, "waitOther", 0, 0]],
  },
  {
    name: "an event of another stream",
    orders: false,
    between: (first, second) => [[first, "record", 1, 0], [second, "waitOther", 0, 0]],
  },
  {
    name: "another event, of another stream",
    orders: false,
    between: (first, second) => [[first, "record", 0, 0], [first, "record", 1, 1], [second, "waitOther", 0, 1]],
  },
  {
    name: "an event that only another stream waits for",
    orders: false,
    between: (first, second) => [[first, "record", 0, 0], [second, "waitOther", 1, 0]],
  },
  { name: "an event that nobody waits for", orders: false, between: (first) => [[first, "record", 0, 0]] },
  {
    name: "an event that is recorded after the wait",
    orders: false,
    between: (first, second) => [[second, "waitOther", 0, 0], [first, "record", 0, 0]],
  },
  {
    name: "a synchronization of the second stream",
    orders: false,
    between: (_, second) => [[second, "synchronize", 0]],
  },
  { name: "a synchronization of another stream", orders: false, between: (first) => [[first, "synchronize", 1]] },
  {
    name: "an event in the other direction",
    orders: false,
    between: (first, second) => [[second, "record", 0, 0], [first, "waitOther", 0, 0]],
  },
];

const accesses: Readonly<Record<Action, { operation: string; access: "read" | "write"; isKernel?: boolean }>> = {
  copyFrom: { operation: "copyFrom", access: "write" },
  fill: { operation: "fill", access: "write" },
  copyIn: { operation: "copy", access: "write" },
  copyOut: { operation: "copy", access: "read" },
  kernelFill: { operation: "kernel fill", access: "write", isKernel: true },
  kernelSaxpy: { operation: "kernel saxpy", access: "read", isKernel: true },
};
const actions = Object.keys(accesses) as Action[];

const schedules: readonly Schedule[] = isLong ? ["oldest", "newest", "random:1", "random:2", "random:3"] : ["random:1"];

/** Runs a pair of operations with a link between them, and checks the reports. */
async function check(
  pair: Pair,
  [first, second]: readonly [Action, Action],
  { link, from, sharing, schedule }: { link: Link; from: Side; sharing: Sharing; schedule?: Schedule },
): Promise<void> {
  const to = from === "exporter" ? "importer" : "exporter";
  const reports = await pair.reportsOf([
    ...link.before?.(from, to) ?? [],
    [from, first, 0],
    ...link.between(from, to),
    [to, second, 0],
  ], { sharing, schedule });
  const all = [...reports.exporter, ...reports.importer];
  const what = `${first} ${second} ${link.name} ${from} ${sharing} ${schedule}: ${JSON.stringify(reports, null, 1)}`;
  if (link.orders) return assertEquals(all, [], what);
  assert(all.length > 0, what);
  const names = [accesses[first], accesses[second]].map(({ operation, access }) => `${access} ${operation}`).sort();
  for (const { check, kind, accesses } of all) {
    assertEquals(check, "stream-order", what);
    assertEquals(kind, `unordered-${accesses[1]!.access}-${accesses[0]!.access}`, what);
    assertEquals(accesses.map(({ access, operation }) => `${access} ${operation}`).sort(), names, what);
    assertEquals(accesses.map(({ pid }) => pid === undefined).sort(), [false, true], what);
  }
}

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  const isSeen = (action: Action) => driver === "software" || accesses[action].isKernel !== true;
  const isConflict = (first: Action, second: Action) =>
    accesses[first].access === "write" || accesses[second].access === "write";

  test(`two processes order what they do with memory, by every means [${driver}]`, { skip }, async () => {
    await withPair(driver, async (pair) => {
      for (const link of links) {
        await check(pair, ["fill", "copyOut"], { link, from: "exporter", sharing: "pool" });
        if (isLong) await check(pair, ["copyOut", "copyFrom"], { link, from: "importer", sharing: "legacy" });
      }
    });
  });

  test(`two processes order what they do with memory, whatever it is [${driver}]`, { skip }, async () => {
    await withPair(driver, async (pair) => {
      const pairs = actions.flatMap((first) => actions.map((second) => [first, second] as const));
      for (const [first, second] of someOf(pairs, 5)) {
        if (!isConflict(first, second) || !isSeen(first) || !isSeen(second)) continue;
        for (const [index, from] of (["exporter", "importer"] as const).entries()) {
          await check(pair, [first, second], { link: links[index]!, from, sharing: "pool" });
          if (isLong) await check(pair, [first, second], { link: links[1 - index]!, from, sharing: "legacy" });
        }
      }
    });
  });
}

test("two processes order what they do with virtual memory, which belongs to neither", async () => {
  await withPair("software", async (pair) => {
    for (const link of someOf(links, 4)) {
      await check(pair, ["fill", "copyOut"], { link, from: "exporter", sharing: "virtual" });
      await check(pair, ["kernelSaxpy", "copyFrom"], { link, from: "importer", sharing: "virtual" });
    }
    // The other process keeps the memory mapped.
    const reports = await pair.reportsOf([["importer", "fill", 0], ["exporter", "free"]], { sharing: "virtual" });
    assertEquals([reports.exporter, reports.importer], [[], []]);
  });
});

test("two processes report the same with every schedule", { long: true }, async () => {
  await withPair("software", async (pair) => {
    for (const schedule of schedules) {
      for (const [index, link] of links.entries()) {
        const actions = index % 2 === 0 ? ["kernelFill", "copyOut"] as const : ["kernelSaxpy", "fill"] as const;
        await check(pair, actions, { link, from: "exporter", sharing: "pool", schedule });
      }
    }
  });
});

test(
  "two processes report the same whatever they do, in either direction, with every schedule",
  { long: true },
  async () => {
    await withPair("software", async (pair) => {
      for (const schedule of schedules) {
        for (const [first, second] of actions.flatMap((first) => actions.map((second) => [first, second] as const))) {
          if (accesses[first].access === "read" && accesses[second].access === "read") continue;
          for (const link of links) {
            for (const from of ["exporter", "importer"] as const) {
              for (const sharing of ["pool", "legacy"] as const) {
                await check(pair, [first, second], { link, from, sharing, schedule });
              }
            }
          }
        }
      }
    });
  },
);

test("a report names the other process, its stream and where it called the library", async () => {
  await withPair("software", async (pair) => {
    const { exporter, importer } = await pair.reportsOf([["exporter", "kernelFill", 0], ["importer", "copyOut", 1]]);
    const [report] = [...importer, ...exporter];
    assertStringIncludes(report!.message, "of process ");
    const other = report!.accesses.find(({ pid }) => pid !== undefined)!;
    assertStringIncludes(other.stack, "shared_steps.ts:");
    assertStringIncludes(other.stream!, " of device 0 of process ");
    assertStringIncludes(report!.message, "record an interprocess event on ");
    if (importer.length > 0) {
      const fill = importer[0]!.accesses.find(({ operation }) => operation === "kernel fill")!;
      assertEquals(fill.pid, process.pid);
      assertStringIncludes(fill.source!, "fill.cu:");
    }
  });
});

test("memory is freed when another process's kernel is known to be done", { long: true }, async () => {
  await withPair("software", async (pair) => {
    for (const schedule of ["oldest", "newest"] as const) {
      for (const isKnown of [true, false]) {
        const { exporter } = await pair.reportsOf([
          ["importer", "kernelSaxpy", 0],
          ...isKnown ? [["importer", "synchronize", 0] as const] : [],
          // The kernel's accesses become known after that.
          ["exporter", "free"],
        ], { schedule });
        assertEquals(exporter.map(({ kind }) => kind), isKnown ? [] : ["use-after-free"], schedule);
      }
    }
  });
});

test("a kernel that waits is compared with what another process did before it freed the memory", async () => {
  await inFolder(async (folder) => {
    await withPair("software", async (pair) => {
      const { importer } = await pair.reportsOf([["exporter", "fill", 0]], {
        during: {
          importer: [[["importer", "kernelFill", 0]], [["importer", "fillOwn", 1]]],
          exporter: [[["exporter", "free"]]],
          file: `${folder}/gate`,
        },
      });
      assertEquals(importer.map(({ kind }) => kind), ["unordered-write-write"]);
    });
  });
});

test("work that was asked for before another process's was known to be done is compared with it", async () => {
  await inFolder(async (folder) => {
    await withPair("software", async (pair) => {
      // Behind a kernel that waits, nothing is looked at until it is known what that accesses: with a schedule, when it
      // is done.
      const { importer } = await pair.reportsOf([], {
        schedule: "oldest",
        during: {
          importer: [[["importer", "kernelFillOwn", 0]], [["importer", "fill", 1]], [["importer", "fillOwn", 0]]],
          exporter: [[["exporter", "fill", 0]], [["exporter", "synchronize", 0]]],
          file: `${folder}/gate`,
        },
      });
      assertEquals(importer.map(({ kind }) => kind), ["unordered-write-write"]);
    });
  });
});

test("kernels that are known to be done are told others who asked for theirs before", async () => {
  await inFolder(async (folder) => {
    await withPair("software", async (pair) => {
      // The kernel of the newest stream completes first, and is checked after the other one.
      const ask = (side: Side): Step[] => [[side, "kernelFillOwn", 0], [side, "kernelFill", 1]];
      const { exporter, importer } = await pair.reportsOf([], {
        schedule: "newest",
        during: {
          importer: [ask("importer"), [["importer", "synchronize", 1]], []],
          exporter: [ask("exporter"), [["exporter", "synchronize", 1]]],
          file: `${folder}/gate`,
        },
      });
      assertEquals(new Set([...exporter, ...importer].map(({ kind }) => kind)), new Set(["unordered-write-write"]));
    });
  });
});

/** A process of the same user that writes arbitrary records to the board. */
class ForgingProcess implements Disposable {
  readonly #board = Board.join() as Board;
  readonly #records: { peer: BoardPeer; record: Record<string, unknown> }[] = [];

  /** Reads the records of the others. */
  readRecords(): void {
    this.#board.read({
      onPeer: () => {},
      onRecordsLost: () => {},
      onPeerGone: () => {},
      onBystander: () => {},
      onRecord: (peer, text) => void this.#records.push({ peer, record: JSON.parse(text) }),
    });
  }

  /** Appends a record. */
  append(text: string): void {
    this.#board.append(text, 0);
  }

  /** Appends the others' records of their order again, with changed positions. */
  repeat(change: (position: number) => number): void {
    for (const { peer, record } of this.#records.splice(0)) {
      const { slot, generation } = peer;
      const clock = (record.clock as number[][] | undefined ?? [])
        .map((point) => [...point.slice(0, 3), Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, change(point[3]!)))]);
      if (record.type === "known" || record.type === "event") this.append(JSON.stringify({ ...record, clock }));
      if (record.type === "share") this.append(JSON.stringify({ ...record, share: 1 }));
      this.append(JSON.stringify({ type: "known", clock: [[slot, generation, 1, Number.MAX_SAFE_INTEGER]] }));
      this.append(JSON.stringify({ type: "retired", stream: 1 }));
    }
  }

  [Symbol.dispose](): void {
    this.#board.leave();
  }
}

const nonsense = [
  "",
  "null",
  "[]",
  "{",
  '{"type":"known"}',
  '{"type":"known","clock":[[0,0,0]]}',
  '{"type":"known","clock":[[-1,0.5,1e300,"1"]]}',
  '{"type":"event","handle":"zz","clock":[]}',
  '{"type":"share","share":1,"handle":"00","byteLength":-1}',
  '{"type":"access","share":[0,0,0],"access":"write","begin":5,"end":4}',
  `{"type":"known","clock":[${Array(1000).fill("[0,0,0,0]").join()}]}`.slice(0, maximumRecord),
  "\0".repeat(maximumRecord),
];

test("what another process says of the order never causes a report, and nonsense does no harm", async () => {
  await withPair("software", async (pair) => {
    const ordered = links.filter(({ orders }) => orders);
    for (
      const [index, change] of [
        (position: number) => position,
        () => 0,
        () => Number.MAX_SAFE_INTEGER,
        (position: number) => position - 1,
        (position: number) => position + 1,
      ].entries()
    ) {
      using forger = new ForgingProcess();
      for (const from of ["exporter", "importer"] as const) {
        const link = ordered[(2 * index + (from === "exporter" ? 0 : 1)) % ordered.length]!;
        const to = from === "exporter" ? "importer" : "exporter";
        const reports = await pair.reportsOf([[from, "fill", 0], ...link.between(from, to), [to, "fill", 0]], {
          onStep() {
            forger.readRecords();
            forger.repeat(change);
          },
        });
        assertEquals([reports.exporter, reports.importer], [[], []], link.name);
      }
    }
    for (const text of nonsense) {
      using forger = new ForgingProcess();
      const reports = await pair.reportsOf([["exporter", "fill", 0], ["exporter", "synchronize", 0], [
        "importer",
        "fill",
        0,
      ]], { onStep: () => forger.append(text) });
      assertEquals([reports.exporter, reports.importer], [[], []], text.slice(0, 100));
    }
  });
});

test("a process that has lost what others told causes no report, in any process", { long: true }, async () => {
  await withPair("software", async (pair) => {
    let step = 0;
    const onStep = () => {
      // The importer has recorded the event, and the exporter has not read of it yet.
      if (++step === 3) truncateSync(`/dev/shm/${boardOfTest}-${process.geteuid!()}`, 0);
    };
    const reports = await pair.reportsOf(
      [["importer", "fill", 0], ["importer", "record", 0, 0], ["exporter", "waitOther", 0, 0], ["exporter", "fill", 0]],
      { onStep },
    );
    assertEquals([reports.exporter, reports.importer], [[], []]);
  });
});

test("a collective orders two processes, whichever calls it first, until both know that it is done", async () => {
  await withPair("software", async (pair) => {
    for (const [first, schedule] of [["fill", "oldest"], ["kernelFill", "newest"]] as const) {
      const [before, after]: readonly Step[][] = [
        [["exporter", first, 0], ["exporter", "collective", 0]],
        [["importer", "collective", 0], ["importer", "copyOut", 0]],
      ];
      for (const steps of [[...before!, ...after!], [...after!, ...before!]]) {
        const reports = await pair.reportsOf(steps, { schedule, collectives: [] });
        assertEquals([reports.exporter, reports.importer], [[], []]);
        const wrong = await pair.reportsOf(steps, {
          schedule,
          collectives: [["exporter", "fill", 0], ["importer", "copyOut", 0]],
        });
        assert(wrong.exporter.length + wrong.importer.length > 0);
      }
    }
  });
});

test("a store and an operator order nothing", async () => {
  await inFolder((folder) =>
    withPair("software", async (pair) => {
      const path = `${folder}/store`;
      await using store = startScript("children/sharing/store_process.ts", ["software", path]);
      assertStringIncludes((await store.nextLine())!, "serves");
      using cuda = open({ driver: "software" });
      await using _client = await StoreClient.connect(cuda, path);
      await using _operator = await Operator.connect(path);
      const { exporter, importer } = await pair.reportsOf([["exporter", "fill", 0], ["importer", "fill", 0]]);
      assert(exporter.length + importer.length > 0);
    })
  );
});

test("a process that does not tell is taken to order everything until it has ended", async () => {
  const fills: readonly Step[] = [["exporter", "fill", 0], ["importer", "fill", 0]];
  const countOf = (reports: Record<Side, SanitizerReport[]>) => reports.exporter.length + reports.importer.length;
  for (const side of ["exporter", "importer"] as const) {
    await inFolder((folder) =>
      withPair("software", async (pair) => {
        await using silent = startScript("children/sanitizer/stay_silent.ts", [`${folder}/silent`]);
        assertEquals(await silent.nextLine(), "listening");
        await using _socket = await pair.connect(side, `${folder}/silent`);
        assertEquals(countOf(await pair.reportsOf(fills)), 0, side);
        silent.kill("SIGKILL");
        await silent.ended;
        assert(countOf(await pair.reportsOf(fills)) > 0, side);
      })
    );
  }
});

test(
  "what a process that did not tell may have ordered is not reported when it has ended",
  { long: true },
  async () => {
    await inFolder((folder) =>
      withPair("software", async (pair) => {
        await using silent = startScript("children/sanitizer/stay_silent.ts", [`${folder}/silent`]);
        assertEquals(await silent.nextLine(), "listening");
        await using _socket = await pair.connect("exporter", `${folder}/silent`);
        let step = 0;
        const ended = silent.ended;
        const reports = await pair.reportsOf([["exporter", "fill", 0], ["importer", "fill", 0]], {
          async onStep() {
            if (step++ === 0) return;
            silent.kill("SIGKILL");
            await ended;
          },
        });
        assertEquals([reports.exporter, reports.importer], [[], []]);
      })
    );
  },
);

test("a process that says very much is taken to order everything, and takes no memory", { long: true }, async () => {
  await withPair("software", async (pair) => {
    using forger = new ForgingProcess();
    let number = 0;
    const before = process.memoryUsage().heapUsed;
    await pair.reportsOf(Array<Step>(20).fill(["exporter", "fill", 0]), {
      onStep() {
        for (let time = 0; time < 2000; time++) {
          const handle = (++number).toString(16).padStart(128, "0");
          forger.append(JSON.stringify({ type: "event", handle, clock: [] }));
          forger.append(JSON.stringify({ type: "share", share: number, handle, byteLength: 1 }));
        }
      },
    });
    assert(process.memoryUsage().heapUsed - before < 100 * 2 ** 20);
    await check(pair, ["fill", "copyOut"], { link: links[1]!, from: "exporter", sharing: "pool" });
  });
});
