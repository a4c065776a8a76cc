/**
 * How fast calls, copies, kernels and sharing are, beside the same in C++ and Python.
 *
 *     deno task bench [--rounds 8] [--only ROW]... [--quick] [--out FOLDER]
 *
 * `--only` takes the rows whose name contains ROW, and "garbage". Prints a table, and writes it to FOLDER as NAME.json
 * with pictures beside that, or as NAME-2.json where there is one already: without a FOLDER to `bench/results`, and only
 * all rows of a GPU that were not measured quickly. On the software device, poolpass runs alone. Exits 1 if something
 * could not be measured; a goal that is not met changes nothing.
 *
 * @module
 */
import { availableParallelism, cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "@std/cli/parse-args";
import { median } from "../measurement.ts";
import { describeDevice, type DeviceDescription } from "./device.ts";
import { measureGarbage } from "./garbage.ts";
import {
  formatGarbage,
  formatMemoryShares,
  formatRows,
  type GarbageRow,
  type MeasuredRow,
  measuredRow,
  type Report,
  type Rounds,
} from "./report.ts";
import { Roster } from "./roster.ts";
import { allRows, contenderNames, purposes, type Row } from "./rows.ts";

interface Options {
  readonly rounds: number;
  readonly only: readonly string[];
  readonly isQuick: boolean;
  /** Where to write; undefined to keep what is whole and from a GPU, and nothing else. */
  readonly out: string | undefined;
}

const quickRounds = 3;
const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** The rounds of a row, by all in turn: whatever else the machine does falls on all of them alike. */
async function measure(row: Row, { roster, rounds }: { roster: Roster; rounds: number }): Promise<Rounds> {
  const found: Rounds = {};
  let participants = roster.participants(row);
  for (let round = 0; round < Math.min(rounds, row.rounds ?? rounds); round++) {
    for (const name of participants.map((_, turn) => participants[(round + turn) % participants.length]!)) {
      const times = await roster.ask(row, { name, round });
      if (times === undefined) participants = participants.filter((other) => other !== name);
      else (found[name] ??= []).push(valueOf(row, median(times)));
    }
  }
  return found;
}

function valueOf({ bytesMoved }: Row, nanoseconds: number): number {
  return bytesMoved === undefined ? nanoseconds : bytesMoved / nanoseconds * 1e9;
}

async function measureRows(rows: readonly Row[], { roster, rounds }: { roster: Roster; rounds: number }) {
  const measured: MeasuredRow[] = [];
  for (const purpose of purposes) {
    const ofPurpose = rows.filter((row) => row.purpose === purpose);
    if (ofPurpose.length === 0) continue;
    const begin = performance.now();
    await roster.start(purpose);
    console.error(`${purpose}: programs started in ${secondsSince(begin)}`);
    for (const row of ofPurpose) {
      const start = performance.now();
      const found = measuredRow(row, await measure(row, { roster, rounds }));
      // Without any contender where there is one device, or only the software device.
      if (Object.keys(found.contenders).length === 0) continue;
      measured.push(found);
      console.error(`${row.name}: measured in ${secondsSince(start)}`);
    }
    await roster.end(purpose);
  }
  return measured;
}

function secondsSince(start: number): string {
  return `${((performance.now() - start) / 1000).toFixed(1)} s`;
}

async function tryGarbage({ isQuick }: Options, roster: Roster): Promise<GarbageRow[]> {
  try {
    return await measureGarbage(isQuick ? 100_000 : 1_000_000);
  } catch (error) {
    roster.failures.push(`garbage: ${error instanceof Error ? error.message : error}`);
    return [];
  }
}

/** "580.159.04", where nvidia-smi says so. */
function nvidiaDriver(): string | undefined {
  try {
    const args = ["--query-gpu=driver_version", "--format=csv,noheader"];
    const { success, stdout } = new Deno.Command("nvidia-smi", { args, stderr: "null" }).outputSync();
    return success ? new TextDecoder().decode(stdout).split("\n")[0] : undefined;
  } catch {
    return undefined;
  }
}

function printHead({ device, host, nvidiaDriver }: Pick<Report, "device" | "host" | "nvidiaDriver">): void {
  console.log(`${device.name}, ${device.uuid}${device.count > 1 ? `, the first of ${device.count}` : ""}`);
  const runtime = device.runtimeVersion === undefined ? "no libcudart" : `libcudart ${device.runtimeVersion}`;
  const driver = nvidiaDriver === undefined ? "" : `driver ${nvidiaDriver}, `;
  if (!device.isSoftware) console.log(`${driver}CUDA ${device.driverVersion}, ${runtime}`);
  console.log(host);
  if (!device.isSoftware) return;
  console.log(
    "There is no GPU: poolpass alone, on the software device. That shows that the benchmark works, and no more.",
  );
}

function print({ device, versions, rows, garbage, absences, failures }: Report): void {
  for (const name of contenderNames) if (versions[name] !== undefined) console.log(`${name}: ${versions[name]}`);
  for (const line of absences) console.log(line);
  console.log(
    `\nmedians of rounds, in brackets their middle half: a quarter of the rounds lies below, a quarter above\n\n${
      formatRows(rows)
    }`,
  );
  if (device.memoryPeak !== undefined) console.log(`\n${formatMemoryShares(rows, device.memoryPeak)}`);
  if (garbage.length > 0) console.log(`\n${formatGarbage(garbage)}`);
  if (failures.length > 0) console.log(`\nNot measured:\n${failures.join("\n")}`);
}

/** Draws by a program of its own: its library is downloaded for nothing else. */
async function draw(file: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "bench:plot", file],
    env: { NO_COLOR: "1" },
    stdout: "inherit",
    stderr: "piped",
  }).output();
  if (success) return;
  const reason = new TextDecoder().decode(stderr).split("\n").find((line) => line.startsWith("error: "));
  console.log(`not drawn (${reason ?? "no error is told"}); elsewhere: deno task bench:plot ${file}`);
}

/** Beside what earlier runs have written, never over it. */
async function write(report: Report, out: string): Promise<string> {
  await Deno.mkdir(out, { recursive: true });
  const name = report.device.isSoftware ? "software" : report.device.uuid.slice(0, "GPU-12345678".length);
  for (let run = 1;; run++) {
    const file = `${out}/${name}${run === 1 ? "" : `-${run}`}.json`;
    try {
      await Deno.writeTextFile(file, `${JSON.stringify(report, undefined, 2)}\n`, { createNew: true });
    } catch (error) {
      if (error instanceof Deno.errors.AlreadyExists) continue;
      throw error;
    }
    console.log(`\nwritten to ${file}`);
    return file;
  }
}

function parseOptions(args: readonly string[]): Options {
  const { rounds, only, quick, out, _: rest, ...unknown } = parseArgs([...args], {
    string: ["rounds", "only", "out"],
    boolean: ["quick"],
    collect: ["only"],
  });
  const count = Number(rounds ?? (quick ? quickRounds : 8));
  const isKnown = rest.length === 0 && Object.keys(unknown).length === 0;
  if (!isKnown || !Number.isInteger(count) || count < 1) {
    const usage = "deno task bench [--rounds 8] [--only ROW]... [--quick] [--out FOLDER]";
    throw new TypeError(`Cannot take the arguments: usage: ${usage}`);
  }
  return { rounds: count, only: only.map(String), isQuick: quick, out };
}

const options = parseOptions(Deno.args);
const device: DeviceDescription = describeDevice();
const host = `${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores`;
const head = {
  date: new Date().toISOString(),
  host,
  device,
  nvidiaDriver: device.isSoftware ? undefined : nvidiaDriver(),
};
printHead(head);
const isChosen = (name: string) => options.only.length === 0 || options.only.some((part) => name.includes(part));
const folder = await Deno.makeTempDir();
const roster = new Roster({ ...device, folder });
try {
  const chosen = allRows(device).filter(({ name }) => isChosen(name));
  const rows = await measureRows(chosen, { roster, rounds: options.rounds });
  const garbage = isChosen("garbage") ? await tryGarbage(options, roster) : [];
  const { versions, absences, failures } = roster;
  const report: Report = { ...head, versions, rows, garbage, absences, failures };
  print(report);
  const isKept = !device.isSoftware && options.only.length === 0 && !options.isQuick;
  const out = options.out ?? (isKept ? path("../results") : undefined);
  if (out !== undefined) await draw(await write(report, out));
  if (failures.length > 0) Deno.exitCode = 1;
} finally {
  await Deno.remove(folder, { recursive: true });
}
