/**
 * Measures the software device beside POCL, which compiles OpenCL C for the processor. Both run on one core.
 *
 *     deno task bench opencl [--only NAME] [--rounds 10]
 *
 * Needs gcc and, on Debian or Ubuntu, `apt-get install pocl-opencl-icd ocl-icd-opencl-dev opencl-headers`. Where they
 * are missing, nothing is measured and the output says what is missing. Prints a table and writes no files.
 *
 * @module
 */
import process from "node:process";
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { type CudaDevice, open } from "../../mod.ts";
import { reportFailures, rowOf } from "../harness/failures.ts";
import { describeProcessor, describeRuntime } from "../harness/machine.ts";
import { compareTimes } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { prepareWorkload } from "../software/prepared_workload.ts";
import { type Workload, workloads } from "../software/workloads.ts";
import { loadOpenCl, MissingError, type OpenCl, prepareOpenCl } from "./opencl.ts";

const { only, rounds } = readOptions(import.meta.url, { only: "", rounds: 10 });

function measure(workload: Workload, { opencl, device }: { opencl: OpenCl; device: CudaDevice }): string[] {
  using ours = prepareWorkload(device, workload);
  const theirs = prepareOpenCl(opencl, workload);
  ours.run();
  theirs.run();
  ours.assertEqual(theirs.read());
  const { ratio, cells } = compareTimes(theirs.run, ours.run, { rounds });
  ours.assertEqual(theirs.read());
  return [...cells, ratio > 1 ? "yes" : "NO"];
}

/** Runs this program again on one core, with one thread in POCL. */
function runOnOneCore(): number {
  const args = ["-c", "0", Deno.execPath(), "run", "--allow-all", "--no-check", "--import-map", "import_map.json"];
  const { code } = new Deno.Command("taskset", {
    args: [...args, fileURLToPath(import.meta.url), ...Deno.args],
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    // The name of the variable differs between versions of POCL.
    env: { POCL_MAX_PTHREAD_COUNT: "1", POCL_CPU_MAX_CU_COUNT: "1", POOLPASS_BENCH_ON_ONE_CORE: "1" },
    stdout: "inherit",
    stderr: "inherit",
  }).outputSync();
  return code;
}

async function main(): Promise<void> {
  const { opencl, version } = loadOpenCl();
  console.log(`${describeProcessor()}, of which one is used`);
  console.log(`${describeRuntime()}; ${version}`);
  console.log(`medians of ${rounds} rounds, with minimum and maximum in parentheses\n`);
  using cuda = open({ driver: "software", softwareThreads: 1 });
  const rows = [["kernel", "POCL, ms", "software device, ms", "POCL / device", "faster"]];
  for (const workload of workloads.filter(({ name }) => name.includes(only))) {
    rows.push(await rowOf(workload.name, () => measure(workload, { opencl, device: cuda.device(0) })));
  }
  console.log(formatTable(rows));
  reportFailures();
}

if (Deno.env.get("POOLPASS_BENCH_ON_ONE_CORE") === undefined) {
  process.exitCode = runOnOneCore();
} else {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof MissingError)) throw error;
    console.log(
      `Skipped: POCL cannot be measured, because ${error.message}. On Debian or Ubuntu, ` +
        "apt-get install pocl-opencl-icd ocl-icd-opencl-dev opencl-headers installs what is needed.",
    );
  }
}
