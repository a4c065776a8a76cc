/**
 * Measures kernels whose threads take different paths, compared with the same loops in JavaScript.
 *
 *     deno task bench divergent [--only NAME] [--rounds 10]
 *
 * `--only` selects the rows whose names contain NAME. Prints a table and writes no files. Exits with 1 if a row cannot
 * be measured or its results differ from JavaScript's in any bit.
 *
 * @module
 */
import { formatTable } from "../../examples/table.ts";
import { type CudaDevice, open } from "../../mod.ts";
import { reportFailures, rowOf } from "../harness/failures.ts";
import { describeProcessor, describeRuntime } from "../harness/machine.ts";
import { compareTimes } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { prepareWorkload } from "../software/prepared_workload.ts";
import { type DivergentWorkload, workloads } from "./workloads.ts";

function measure(workload: DivergentWorkload, { device, rounds }: { device: CudaDevice; rounds: number }): string[] {
  using prepared = prepareWorkload(device, workload);
  const arrays = workload.arrays();
  const { ratio, cells } = compareTimes(() => workload.loop(arrays), prepared.run, { rounds });
  prepared.assertEqual(arrays);
  return [...cells, ratio >= 1 ? "yes" : "NO"];
}

const { only, rounds } = readOptions(import.meta.url, { only: "", rounds: 10 });
console.log(`${describeProcessor()}\n${describeRuntime()}`);
console.log(`medians of ${rounds} rounds, with minimum and maximum in parentheses\n`);
using cuda = open({ driver: "software", softwareThreads: 1 });
const rows = [["kernel", "JavaScript, ms", "software device, ms", "JavaScript / device", "as fast"]];
for (const workload of workloads.filter(({ name }) => name.includes(only))) {
  rows.push(await rowOf(workload.name, () => measure(workload, { device: cuda.device(0), rounds })));
}
console.log(formatTable(rows));
reportFailures();
