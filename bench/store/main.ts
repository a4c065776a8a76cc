/**
 * Measures memory that outlives the process that created it: mapping published weights beside C++ that does the same by hand, listing a
 * thousand entries, and what being watched costs a channel.
 *
 *     deno task bench store [--size 16GiB] [--entries 1000] [--rounds 5] [--folder /tmp] [--limit 170]
 *
 * Writes a file of `--size` to `--folder`, and deletes it at the end. On the software device, only poolpass runs, with
 * 64 MiB. After `--limit` seconds, all programs are killed. Exits with 1 if something cannot be measured. A missed goal
 * does not change the exit code.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { parseBytes } from "../../examples/command_line.ts";
import { formatTable } from "../../examples/table.ts";
import type { Contender } from "../harness/contender.ts";
import { fail, reportFailures } from "../harness/failures.ts";
import { describeDevice, describeProcessor } from "../harness/machine.ts";
import { readOptions } from "../harness/options.ts";
import { Programs, timeStart } from "../harness/programs.ts";
import { asking, type Measure, measureRow, type Row } from "../harness/rows.ts";
import { buildNative, script } from "./programs.ts";
import { writeWeights } from "./weights_file.ts";

/** The samples of a round, of calls that take about a millisecond. */
const samples = { repetitions: 20, warmUp: 5 };
/** Maps that are not counted once the first ones were: engines compile what is called for a while, and C++ is compiled. */
const warmUpMaps = 500;
/** Milliseconds for which frames are sent in a round. */
const sending = 1000;
/** Reading a file again takes seconds. */
const maximumReads = 3;

/** The library in one file, as it is published. */
const oneFile = fileURLToPath(new URL("../../dist/url/poolpass.js", import.meta.url));

/** What the rows need. */
interface Setting {
  readonly isSoftware: boolean;
  readonly size: number;
  readonly entries: number;
  readonly rounds: number;
  /** Where files and sockets are. */
  readonly folder: string;
  readonly programs: Programs;
  readonly signal: AbortSignal;
}

/** Publishes a file by the example, in a process that has ended when this resolves. */
async function publish(file: string, { folder, signal }: Setting): Promise<void> {
  const example = fileURLToPath(new URL("../../examples/weights_store.ts", import.meta.url));
  const args = ["run", "--allow-all", example, "publish", file, "--store", `${folder}/store.sock`];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, stderr: "piped", signal }).output();
  const said = new TextDecoder().decode(stderr).trimEnd().split("\n").at(-1);
  if (!success) throw new Error(`Cannot publish the weights: ${said}`);
  console.log(said);
}

/** What C++ measures. */
interface Native {
  readonly client: Contender;
  readonly once: Measure;
}

/** Starts the programs in C++, which hold memory of their own. */
async function startNative(file: string, { isSoftware, size, folder, programs }: Setting): Promise<Native> {
  if (isSoftware) throw new Error("there is no GPU");
  const command = await buildNative(folder);
  const path = `${folder}/native.sock`;
  await programs.start({ name: "C++", command, args: ["serve", path, String(size)] });
  const { contender } = await programs.start({ name: "C++", command, args: ["client", path, file] });
  return { client: contender, once: () => timeStart({ name: "C++", command, args: ["once", path] }) };
}

async function rowsOfStore(setting: Setting, native: Native | undefined): Promise<Row[]> {
  const { size, entries, rounds, folder, programs } = setting;
  const [file, path] = [`${folder}/weights.safetensors`, `${folder}/store.sock`];
  const { contender: client } = await programs.start(script("client.ts", [path, file]));
  const what = `${size / 2 ** 20} MiB`;
  const both = (request: Record<string, unknown>) => ({
    measure: asking(client, request),
    reference: native && asking(native.client, request),
  });
  const unit = "ms";
  return [
    { name: `map ${what}, the first times`, unit, rounds, ...both({ work: "map", ...samples }) },
    { name: `map ${what}`, goal: 1.5, unit, rounds, ...both({ work: "map", ...samples, warmUp: warmUpMaps }) },
    {
      name: `start a process that maps ${what}`,
      goal: 1.5,
      unit,
      rounds,
      measure: () => timeStart(script("once.ts", [path])),
      reference: native?.once,
    },
    {
      name: `the same, the library in one file`,
      goal: 1.5,
      unit,
      rounds,
      measure: async () => {
        // Not built here, so that a machine without a network can measure it.
        await Deno.stat(oneFile).catch(() => {
          throw new Error(`there is no ${oneFile}: build it by "deno task package"`);
        });
        return await timeStart(script("once.ts", [path, oneFile]));
      },
      reference: native?.once,
    },
    {
      name: `read ${what} to the device again`,
      goal: 1.05,
      unit,
      rounds: Math.min(rounds, maximumReads),
      ...both({ work: "load", byteLength: size }),
    },
    ...([
      ["publish", `read ${what}, compute the digest and publish`],
      ["verify", "compute the digest of what is published"],
      ["sleep", "sleep and wake, in place"],
      ["update", "update to another generation of the same layout"],
      ["offload", `move ${what} to host memory`],
      ["wake", `wake ${what} from host memory`],
    ] as const).map(([work, name]): Row => ({
      name,
      unit,
      rounds: Math.min(rounds, maximumReads),
      measure: asking(client, { work }),
      reference: undefined,
    })),
    {
      name: `create, write and publish one of ${entries} entries`,
      unit,
      rounds: 1,
      measure: asking(client, { work: "create", count: entries }),
      reference: undefined,
    },
    {
      name: `list ${entries} entries`,
      unit,
      rounds,
      measure: asking(client, { work: "list", count: entries, ...samples }),
      reference: undefined,
    },
  ];
}

async function rowsOfChannel({ rounds, folder, programs }: Setting): Promise<Row[]> {
  const path = `${folder}/frames.sock`;
  const { contender: producer } = await programs.start(script("producer.ts", [path]));
  const { contender: watcher } = await programs.start(script("watcher.ts", [path]));
  programs.startQuiet(script("consumer.ts", [path]));
  const send = asking(producer, { work: "frames", milliseconds: sending });
  // The first frames wait for the consumer to start.
  await send();
  const [watch, stop] = ["watch", "stop"].map((work) => asking(watcher, { work })) as [Measure, Measure];
  const watched: Measure = async () => {
    await watch();
    const time = await send();
    const statuses = await stop();
    if (statuses < 2) throw new Error("the operator has had no status meanwhile");
    return time;
  };
  const name = "a channel's frames, its exporter watched";
  return [{ name, unit: "per second", rounds, measure: watched, reference: send }];
}

/** Measures rows and prints their table. */
async function print(rows: readonly Row[], contenders: readonly string[], signal: AbortSignal): Promise<void> {
  const table: (readonly string[])[] = [["", "goal", ...contenders, "ratio"]];
  for (const row of rows) {
    const cells = await measureRow(row);
    signal.throwIfAborted();
    table.push(cells);
  }
  console.log(`\n${formatTable(table)}`);
}

async function measureAll(setting: Setting): Promise<void> {
  const { size, folder, programs, signal } = setting;
  const file = `${folder}/weights.safetensors`;
  const begin = performance.now();
  await writeWeights(file, size, signal);
  console.log(`wrote ${size / 2 ** 20} MiB in ${((performance.now() - begin) / 1000).toFixed(1)} s`);
  await programs.start(script("server.ts", [`${folder}/store.sock`]));
  await publish(file, setting);
  const native = await startNative(file, setting).catch((error: Error) => {
    console.log(`C++ is not measured: ${error.message}`);
    return setting.isSoftware ? undefined : fail("C++", error);
  });
  await print(await rowsOfStore(setting, native), ["poolpass", "C++"], signal);
  await print(await rowsOfChannel(setting), ["watched", "not watched"], signal);
}

const options = readOptions(import.meta.url, { size: "", entries: 1000, rounds: 5, folder: "/tmp", limit: 170 });
const { entries, rounds, limit } = options;
const device = describeDevice();
const size = parseBytes(options.size || (device.isSoftware ? "64MiB" : "16GiB"));
if (size % 2 ** 20 !== 0) throw new TypeError("Cannot use --size: it is a number of whole MiB");
console.log(`${device.name}, ${describeProcessor()}`);
const folder = await Deno.makeTempDir({ dir: options.folder, prefix: "poolpass-store-" });
const stopping = new AbortController();
const programs = new Programs();
const timer = setTimeout(() => {
  stopping.abort(new Error(`it took longer than ${limit} s (--limit)`));
  // Whoever waits for an answer learns of their end.
  programs.kill();
}, limit * 1000);
const { isSoftware } = device;
try {
  await measureAll({ isSoftware, size, entries, rounds, folder, programs, signal: stopping.signal });
} catch (error) {
  fail("the benchmark", error);
}
clearTimeout(timer);
await programs[Symbol.asyncDispose]();
await Deno.remove(folder, { recursive: true });
reportFailures();
