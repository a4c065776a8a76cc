/**
 * Measures mapping a buffer that is larger than a pool's allocations can be, beside C++ that makes the same calls.
 *
 *     deno task bench:large [--size 64GiB] [--rounds 5]
 *
 * Both exporters allocate `--size`. On the software device, only poolpass runs, with 64 MiB. Exits with 1 if something
 * cannot be measured. A missed goal does not change the exit code.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { parseBytes } from "../examples/command_line.ts";
import { formatTable } from "../examples/table.ts";
import { answerHelp } from "../tests/support/program_help.ts";
import { type Contender, scriptProgram } from "./contender.ts";
import { describeDevice } from "./cuda/device.ts";
import { median } from "./measurement.ts";
import type { Answer } from "./sharing/contract.ts";
import { buildNative, Programs } from "./store/programs.ts";
import { type Measure, measureRow, type Row } from "./store/rows.ts";

answerHelp(import.meta.url, ["size", "rounds"]);

const samples = { repetitions: 10, warmUp: 3 };
const goal = 1.5;

const { size, rounds } = parseArgs(Deno.args, { string: ["size", "rounds"], default: { size: "64GiB", rounds: "5" } });
const device = describeDevice();
const byteLength = device.isSoftware ? 64 * 2 ** 20 : parseBytes(size);
const folder = Deno.makeTempDirSync({ prefix: "poolpass-large-" });
try {
  await using programs = new Programs();
  const script = (file: string, args: readonly string[]) =>
    scriptProgram("poolpass", new URL(`large/${file}`, import.meta.url), args);
  await programs.start(script("exporter.ts", [`${folder}/exporter.sock`, String(byteLength)]));
  const { contender: importer } = await programs.start(script("importer.ts", [`${folder}/exporter.sock`]));
  const row: Row = {
    name: `map ${byteLength / 2 ** 20} MiB of another process`,
    goal,
    unit: "ms",
    rounds: Number(rounds),
    measure: asking(importer),
    reference: device.isSoftware ? undefined : asking(await startNative(programs)),
  };
  const { cells, failures } = await measureRow(row);
  console.log(`${device.name}\n\n${formatTable([["", "goal", "poolpass", "C++", "ratio"], cells])}`);
  if (failures.length > 0) {
    console.log(`\nNot measured:\n${failures.join("\n")}`);
    Deno.exitCode = 1;
  }
} finally {
  Deno.removeSync(folder, { recursive: true });
}

async function startNative(programs: Programs): Promise<Contender> {
  const command = await buildNative(folder);
  const path = `${folder}/native.sock`;
  await programs.start({ name: "C++", command, args: ["serve", path, String(byteLength)] });
  return (await programs.start({ name: "C++", command, args: ["client", path, ""] })).contender;
}

function asking(contender: Contender): Measure {
  return async () => {
    const answer = await contender.ask<Answer>(JSON.stringify({ work: "map", ...samples }));
    if ("error" in answer) throw new Error(`${contender.name}: ${answer.error}`);
    return median(answer.nanoseconds);
  };
}
