/**
 * Measures mapping a buffer that is larger than a pool's allocations can be, beside C++ that makes the same calls.
 *
 *     deno task bench large [--size 64GiB] [--rounds 5]
 *
 * Both exporters allocate `--size`. On the software device, only poolpass runs, with 64 MiB. Exits with 1 if something
 * cannot be measured. A missed goal does not change the exit code.
 *
 * @module
 */
import { parseBytes } from "../../examples/command_line.ts";
import { formatTable } from "../../examples/table.ts";
import { type Contender, scriptProgram } from "../harness/contender.ts";
import { reportFailures } from "../harness/failures.ts";
import { describeDevice } from "../harness/machine.ts";
import { readOptions } from "../harness/options.ts";
import { Programs } from "../harness/programs.ts";
import { asking, measureRow, type Row } from "../harness/rows.ts";
import { buildNative } from "../store/programs.ts";

const request = { work: "map", repetitions: 10, warmUp: 3 };
const goal = 1.5;

const { size, rounds } = readOptions(import.meta.url, { size: "64GiB", rounds: 5 });
const device = describeDevice();
const byteLength = device.isSoftware ? 64 * 2 ** 20 : parseBytes(size);
const folder = Deno.makeTempDirSync({ prefix: "poolpass-large-" });
try {
  await using programs = new Programs();
  const script = (file: string, args: readonly string[]) =>
    scriptProgram("poolpass", new URL(file, import.meta.url), args);
  await programs.start(script("exporter.ts", [`${folder}/exporter.sock`, String(byteLength)]));
  const { contender: importer } = await programs.start(script("importer.ts", [`${folder}/exporter.sock`]));
  const row: Row = {
    name: `map ${byteLength / 2 ** 20} MiB of another process`,
    goal,
    unit: "ms",
    rounds,
    measure: asking(importer, request),
    reference: device.isSoftware ? undefined : asking(await startNative(programs), request),
  };
  const cells = await measureRow(row);
  console.log(`${device.name}\n\n${formatTable([["", "goal", "poolpass", "C++", "ratio"], cells])}`);
  reportFailures();
} finally {
  Deno.removeSync(folder, { recursive: true });
}

async function startNative(programs: Programs): Promise<Contender> {
  const command = await buildNative(folder);
  const path = `${folder}/native.sock`;
  await programs.start({ name: "C++", command, args: ["serve", path, String(byteLength)] });
  return (await programs.start({ name: "C++", command, args: ["client", path, ""] })).contender;
}
