/**
 * Measures the speed of calls, copies, kernels and sharing, compared with the same in C++ and Python.
 *
 *     deno task bench cuda [--rounds 8] [--only ROW]... [--quick] [--out FOLDER]
 *
 * `--only` selects the rows whose names contain ROW; "garbage" is one of them. Prints a table, and writes it to FOLDER
 * as NAME.json, with pictures next to it, or as NAME-2.json if there is one already. Without `--out`, writes to
 * `bench/results`, but only complete runs on a GPU that were not quick. On the software device, only poolpass runs.
 * Exits with 1 if something cannot be measured. A missed goal does not change the exit code.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { describeDevice, describeProcessor, type DeviceDescription } from "../harness/machine.ts";
import { median } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { writeReport } from "../harness/results.ts";
import { measureGarbage } from "./garbage.ts";
import {
  formatGarbage,
  formatMemoryShares,
  formatRows,
  type GarbageRow,
  type MeasuredRow,
  type Report,
  type Rounds,
  summarizeRow,
} from "./report.ts";
import { Roster } from "./roster.ts";
import { allRows, contenderNames, purposes, type Row } from "./rows.ts";

const quickRounds = 3;
const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** Measures a row with all contenders in turn, so that other load on the machine affects all of them equally. */
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
    const purposeRows = rows.filter((row) => row.purpose === purpose);
    if (purposeRows.length === 0) continue;
    const begin = performance.now();
    await roster.start(purpose);
    console.error(`${purpose}: programs started in ${secondsSince(begin)}`);
    for (const row of purposeRows) {
      const start = performance.now();
      const found = summarizeRow(row, await measure(row, { roster, rounds }));
      // With one device, or only the software device, some rows have no contender.
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

async function tryGarbage(roster: Roster): Promise<GarbageRow[]> {
  try {
    return await measureGarbage(isQuick ? 100_000 : 1_000_000);
  } catch (error) {
    roster.failures.push(`garbage: ${error instanceof Error ? error.message : error}`);
    return [];
  }
}

/** Returns the version of the driver, for example "580.159.04", or undefined if nvidia-smi does not report it. */
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
    "There is no GPU: only poolpass runs, on the software device. This only shows that the benchmark works.",
  );
}

function print({ device, versions, rows, garbage, absences, failures }: Report): void {
  for (const name of contenderNames) if (versions[name] !== undefined) console.log(`${name}: ${versions[name]}`);
  for (const line of absences) console.log(line);
  console.log(
    `\nmedians of rounds, with quartiles in parentheses: a quarter of the rounds lies below, a quarter above\n\n${
      formatRows(rows)
    }`,
  );
  if (device.memoryPeak !== undefined) console.log(`\n${formatMemoryShares(rows, device.memoryPeak)}`);
  if (garbage.length > 0) console.log(`\n${formatGarbage(garbage)}`);
  if (failures.length > 0) console.log(`\nNot measured:\n${failures.join("\n")}`);
}

/** Draws the pictures in a separate program, because only that program needs to download a library. */
async function draw(file: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "bench", "plot", file],
    env: { NO_COLOR: "1" },
    stdout: "inherit",
    stderr: "piped",
  }).output();
  if (success) return;
  const reason = new TextDecoder().decode(stderr).split("\n").find((line) => line.startsWith("error: "));
  console.log(`not drawn (${reason ?? "no error was reported"}); to draw it elsewhere: deno task bench plot ${file}`);
}

const { quick: isQuick, only, out: folderOfResults, ...given } = readOptions(import.meta.url, {
  rounds: 0,
  only: [] as string[],
  quick: false,
  out: "",
});
const rounds = given.rounds || (isQuick ? quickRounds : 8);
const device: DeviceDescription = describeDevice();
const host = describeProcessor();
const head = {
  date: new Date().toISOString(),
  host,
  device,
  nvidiaDriver: device.isSoftware ? undefined : nvidiaDriver(),
};
printHead(head);
const isChosen = (name: string) => only.length === 0 || only.some((part) => name.includes(part));
const folder = await Deno.makeTempDir();
const roster = new Roster({ ...device, folder });
try {
  const chosen = allRows(device).filter(({ name }) => isChosen(name));
  const rows = await measureRows(chosen, { roster, rounds });
  const garbage = isChosen("garbage") ? await tryGarbage(roster) : [];
  const { versions, absences, failures } = roster;
  const report: Report = { ...head, versions, rows, garbage, absences, failures };
  print(report);
  const isKept = !device.isSoftware && only.length === 0 && !isQuick;
  const out = folderOfResults || (isKept ? path("../results") : "");
  const name = device.isSoftware ? "software" : device.uuid.slice(0, "GPU-12345678".length);
  if (out !== "") await draw(await writeReport(report, out, name));
  if (failures.length > 0) Deno.exitCode = 1;
} finally {
  await Deno.remove(folder, { recursive: true });
}
