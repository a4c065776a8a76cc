/**
 * Imports export data and handles of events and of memory that were changed: each byte, each field, and whole handles.
 * A child goes on until it dies or hangs, and then the next one, so that nothing is missed.
 *
 *     deno run --allow-all tests/soak/handle_fuzz.ts [--kinds data,event,memory] [--by poolpass,driver] [--random 40]
 *
 * `--by driver` gives everything to the driver unchecked, for comparison: on a GPU, children then die. Prints a table, and
 * exits with 1 if a child has died that poolpass should have protected. What only the driver can check, the number of the
 * memory in export data, is listed and not counted.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../../examples/table.ts";
import { type Cuda, open, type ShareableHandle, UnixListener, UnixSocket } from "../../mod.ts";
import { sessionOf } from "../../src/objects/cuda.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["kinds", "by", "random", "child", "path", "begin"]);

const byteLength = 64 * 2 ** 20;
/** Milliseconds without an answer after which a child hangs. */
const hanging = 10_000;
/** The bytes of the memory's number in export data, which only the driver can check. */
const numberField = { begin: 40, end: 48 };

type Kind = "data" | "event" | "memory";

/** A changed handle. */
interface Case {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** Every case of a handle, always the same ones. */
function casesOf(handle: Uint8Array, random: number): Case[] {
  const cases: Case[] = [{ name: "unchanged", bytes: handle }];
  for (let at = 0; at < handle.length; at++) {
    for (const mask of [1, 0x80, 0xff]) {
      cases.push({ name: `byte ${at}`, bytes: handle.map((byte, index) => index === at ? byte ^ mask : byte) });
    }
  }
  const values = [0n, 1n, 2n ** 31n, 2n ** 32n, 2n ** 33n, 2n ** 40n, 2n ** 44n, 2n ** 63n, 2n ** 64n - 1n];
  for (let field = 0; field < 8; field++) {
    for (const value of values) {
      const bytes = Uint8Array.from(handle);
      new BigUint64Array(bytes.buffer)[field] = value;
      cases.push({ name: `field ${field}`, bytes });
    }
  }
  for (const byte of [0, 0xff, 0xa5]) cases.push({ name: "all bytes", bytes: new Uint8Array(64).fill(byte) });
  let seed = 1;
  for (let count = 0; count < random; count++) {
    const bytes = Uint8Array.from(handle, () => (seed = Math.imul(seed, 1664525) + 1013904223 >>> 0) >>> 24);
    cases.push({ name: "random", bytes });
  }
  return cases;
}

/** Tries cases from an index on, and prints a line for each. */
async function tryCases(kind: Kind, by: string, { path, begin }: { path: string; begin: number }): Promise<void> {
  using cuda = open();
  await using socket = await UnixSocket.connect(path);
  const { bytes, handles } = await socket.receive(64, { handles: 1 });
  using handle = handles[0]!;
  const attempt = attemptOf(cuda, handle, kind, by);
  const cases = casesOf(bytes, Number(options.random));
  for (let index = begin; index < cases.length; index++) {
    let outcome = "accepted";
    try {
      attempt(cases[index]!.bytes);
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      outcome = code ?? message;
    }
    console.log(`${index} ${outcome}`);
    // A context that is lost stays so.
    if (/IllegalAddress|LaunchFailure|ContextIsDestroyed/.test(outcome)) Deno.exit(0);
  }
}

function attemptOf(cuda: Cuda, handle: ShareableHandle, kind: Kind, by: string): (bytes: Uint8Array) => void {
  const gpu = cuda.device(0);
  const { driver } = sessionOf(cuda);
  const isChecked = by === "poolpass";
  const own = gpu.allocate(256);
  const use = (): void => {
    own.fill(1);
    gpu.synchronize();
  };
  switch (kind) {
    case "data": {
      const pool = gpu.importPool(handle);
      return (bytes) => {
        if (isChecked) pool.importPointer(bytes, 1).free();
        else driver.freeAsync(0, driver.memPoolImportPointer(0, pool.unsafeHandle, bytes), 0n);
        use();
      };
    }
    case "event":
      return (bytes) => {
        if (isChecked) {
          using event = gpu.openEvent(bytes);
          event.query();
        } else {
          const event = driver.ipcOpenEventHandle(0, bytes);
          driver.eventQuery(event);
          driver.eventDestroy(0, event);
        }
        use();
      };
    case "memory":
      return (bytes) => {
        if (isChecked) {
          using buffer = gpu.openMemory(bytes, 1);
          buffer.readSync(Uint8Array, { length: 1 });
        } else {
          const address = driver.ipcOpenMemHandle(0, bytes);
          driver.ipcCloseMemHandle(0, address);
        }
        use();
      };
  }
}

/** Runs children until all cases were tried. Returns the outcome of each. */
async function fuzz(kind: Kind, by: string, { handle, pool, path }: {
  handle: Uint8Array;
  pool: ShareableHandle;
  path: string;
}): Promise<string[]> {
  const outcomes: string[] = [];
  const count = casesOf(handle, Number(options.random)).length;
  await using listener = UnixListener.listen(path);
  while (outcomes.length < count) {
    const begin = outcomes.length;
    const script = fileURLToPath(import.meta.url);
    const map = fileURLToPath(new URL("../../import_map.json", import.meta.url));
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--import-map",
        map,
        script,
        "--child",
        kind,
        "--by",
        by,
        "--path",
        path,
        "--begin",
        `${begin}`,
      ]
        .concat("--random", String(options.random)),
      stdout: "piped",
      stderr: "null",
    }).spawn();
    let timer = setTimeout(() => child.kill("SIGKILL"), 4 * hanging);
    await using socket = await listener.accept({ signal: AbortSignal.timeout(4 * hanging) });
    await socket.send(handle, { handles: [pool] });
    let hasHung = false;
    for await (const line of createInterface({ input: Readable.fromWeb(child.stdout as never) })) {
      clearTimeout(timer);
      timer = setTimeout(() => {
        hasHung = true;
        child.kill("SIGKILL");
      }, hanging);
      outcomes.push(line.slice(line.indexOf(" ") + 1));
    }
    clearTimeout(timer);
    const { signal, code } = await child.status;
    if (outcomes.length < count && (signal !== null || code !== 0)) {
      outcomes.push(hasHung ? "HANGS" : `DIES (${signal ?? code})`);
    } else if (outcomes.length === begin) throw new Error(`A child has done nothing from case ${begin} on`);
  }
  return outcomes;
}

/** Joins the outcomes of neighbouring places that have the same ones. */
function summarize(cases: readonly Case[], outcomes: readonly string[]): string[][] {
  const rows: { first: string; last: string; text: string }[] = [];
  for (const [name, members] of Map.groupBy(cases.keys(), (index) => cases[index]!.name)) {
    const counts = Object.entries(Object.groupBy(members, (index) => outcomes[index]!));
    const text = counts.map(([outcome, all]) => `${outcome} ${all!.length}`).sort().join(", ");
    const previous = rows.at(-1);
    const isNext = previous?.text === text && previous.first.split(" ")[0] === name.split(" ")[0];
    if (isNext) previous.last = name;
    else rows.push({ first: name, last: name, text });
  }
  return rows.map(({ first, last, text }) => [first === last ? first : `${first} to ${last.split(" ")[1]}`, text]);
}

const options = parseArgs(Deno.args, {
  string: ["kinds", "by", "random", "child", "path", "begin"],
  default: { kinds: "data,event,memory", by: "poolpass", random: "40" },
});
if (options.child !== undefined) {
  await tryCases(options.child as Kind, options.by, { path: options.path!, begin: Number(options.begin) });
} else {
  using cuda = open();
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  using buffer = pool.allocate(byteLength);
  using memory = gpu.allocate(byteLength);
  using event = gpu.createEvent({ interprocess: true, timing: false });
  gpu.synchronize();
  const handles = { data: buffer.exportPointer(), event: event.exportHandle(), memory: memory.exportHandle() };
  for (const kind of options.kinds.split(",") as Kind[]) {
    for (const by of options.by.split(",")) {
      const path = `/tmp/poolpass-fuzz-${Deno.pid}.sock`;
      const outcomes = await fuzz(kind, by, { handle: handles[kind], pool: handle, path });
      const cases = casesOf(handles[kind], Number(options.random));
      console.log(`\n${gpu.name}: ${kind}, by ${by}\n`);
      console.log(formatTable([["changed", "outcomes"], ...summarize(cases, outcomes)]));
      const isNumber = ({ name }: Case): boolean => {
        const at = Number(name.split(" ")[1]) * (name.startsWith("field") ? 8 : 1);
        return kind === "data" && at >= numberField.begin && at < numberField.end;
      };
      const harmed = cases.filter((each, index) => /DIES|HANGS/.test(outcomes[index]!) && !isNumber(each));
      if (by === "poolpass" && harmed.length > 0) {
        console.log(`HARMED: ${harmed.map(({ name }) => name).join(", ")}`);
        Deno.exitCode = 1;
      }
    }
  }
}
