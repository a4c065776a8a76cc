/**
 * Measures kernels whose threads take different paths, compared with the same loops in JavaScript.
 *
 *     deno task bench:divergent [--only NAME] [--rounds 10]
 *
 * `--only` selects the rows whose names contain NAME. Prints a table and writes no files. Exits with 1 if a row cannot
 * be measured or its results differ from JavaScript's in any bit.
 *
 * @module
 */
import { cpus } from "node:os";
import process from "node:process";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../../examples/table.ts";
import { type CudaDevice, open } from "../../mod.ts";
import { answerHelp } from "../../tests/support/program_help.ts";
import { formatTimes, median, timeInterleaved } from "../measurement.ts";
import { type DivergentWorkload, workloads } from "./workloads.ts";

answerHelp(import.meta.url, ["only", "rounds"]);

function measure(workload: DivergentWorkload, { device, rounds }: { device: CudaDevice; rounds: number }): string[] {
  using owned = new DisposableStack();
  const module = owned.use(device.loadModule(workload.ptx));
  const stream = owned.use(device.createStream());
  const pool = owned.use(device.createPool());
  const arrays = workload.arrays();
  const buffers = new Map(
    Object.entries(arrays).map(([name, array]) => {
      const buffer = owned.use(pool.allocate(array.byteLength, stream));
      buffer.copyFrom(array);
      return [name, buffer];
    }),
  );
  const args = workload.arguments.map((argument) => typeof argument === "string" ? buffers.get(argument)! : argument);
  const kernel = module.kernel(workload.kernel);
  const runLoop = () => workload.loop(arrays);
  const runKernel = () => {
    kernel.launch({ ...workload.launch, stream }, ...args);
    stream.synchronize();
  };
  const [loopTimes, kernelTimes] = timeInterleaved([runLoop, runKernel], { rounds });
  for (const [name, array] of Object.entries(arrays)) {
    const expected = new Uint8Array(array.buffer);
    const at = buffers.get(name)!.readSync(Uint8Array).findIndex((byte, index) => byte !== expected[index]);
    if (at >= 0) throw new Error(`"${name}" differs from the JavaScript loop's in byte ${at}`);
  }
  const ratio = median(loopTimes!) / median(kernelTimes!);
  return [
    workload.name,
    formatTimes(loopTimes!),
    formatTimes(kernelTimes!),
    ratio.toFixed(2),
    ratio >= 1 ? "yes" : "NO",
  ];
}

const { only, rounds } = parseArgs(Deno.args, { string: ["only", "rounds"], default: { only: "", rounds: "10" } });
console.log(cpus()[0]?.model ?? "unknown processor");
console.log(`Deno ${Deno.version.deno}, V8 ${Deno.version.v8}, ${Deno.build.target}`);
console.log(`medians of ${rounds} rounds, with minimum and maximum in parentheses\n`);
using cuda = open({ driver: "software" });
const rows = [["kernel", "JavaScript, ms", "software device, ms", "JavaScript / device", "as fast"]];
for (const workload of workloads.filter(({ name }) => name.includes(only))) {
  try {
    rows.push(measure(workload, { device: cuda.device(0), rounds: Number(rounds) }));
  } catch (error) {
    rows.push([workload.name, `not measured: ${error instanceof Error ? error.message : error}`]);
    process.exitCode = 1;
  }
}
console.log(formatTable(rows));
