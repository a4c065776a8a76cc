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
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { type CudaDevice, open } from "../../mod.ts";
import { reportFailures, rowOf } from "../harness/failures.ts";
import { describeProcessor, describeRuntime } from "../harness/machine.ts";
import { compareTimes } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { type Arrays, prepareWorkload } from "../software/prepared_workload.ts";
import { type Workload, workloads } from "../software/workloads.ts";

const { only, rounds } = readOptions(import.meta.url, { only: "", rounds: 10 });

const symbols = {
  opencl_open: { parameters: ["buffer", "buffer", "u32"], result: "i32" },
  opencl_kernel: { parameters: ["buffer"], result: "pointer" },
  opencl_copy: { parameters: ["buffer", "u64"], result: "pointer" },
  opencl_read: { parameters: ["pointer", "buffer", "u64"], result: "i32" },
  opencl_pass_buffer: { parameters: ["pointer", "u32", "pointer"], result: "i32" },
  opencl_pass: { parameters: ["pointer", "u32", "buffer", "u32"], result: "i32" },
  opencl_run: { parameters: ["pointer", "u32", "u32", "u32", "u32"], result: "i32" },
} as const;

type OpenCl = Deno.DynamicLibrary<typeof symbols>["symbols"];

/** The types of the numbers among each kernel's arguments, in order. */
const numberTypes: Readonly<Record<string, readonly ("u32" | "u64" | "f32")[]>> = {
  saxpy: ["u32", "f32"],
  fill: ["u64", "u32"],
  matrix_multiply_16: ["u32"],
  matrix_multiply_32: ["u32"],
  block_reduction: ["u32"],
  mandelbrot: ["u32", "u32", "f32", "f32", "f32", "u32"],
  xorshift: ["u32", "u32"],
  sha256: ["u32"],
};

/** Why nothing can be measured here. */
class MissingError extends Error {}

function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

function check(error: number, call: string): void {
  if (error !== 0) throw new Error(`Cannot measure POCL: ${call} gives the error ${error} of OpenCL`);
}

/** Compiles the host program and the kernels. Returns the library and POCL's version. */
function loadOpenCl(): { opencl: OpenCl; version: string } {
  const folder = Deno.makeTempDirSync();
  try {
    const library = `${folder}/host.so`;
    const args = ["-O2", "-shared", "-fPIC", "-o", library, pathOf("host.c"), "-lOpenCL"];
    let compiled: Deno.CommandOutput;
    try {
      compiled = new Deno.Command("gcc", { args }).outputSync();
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) throw new MissingError("there is no gcc");
      throw error;
    }
    if (!compiled.success) {
      throw new MissingError(`gcc cannot compile host.c: ${new TextDecoder().decode(compiled.stderr)}`);
    }
    const opencl = Deno.dlopen(library, symbols).symbols;
    const text = new Uint8Array(65536);
    const error = opencl.opencl_open(cString(readFileSync(pathOf("kernels.cl"), "utf8")), text, text.length);
    const message = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
    // CL_PLATFORM_NOT_FOUND_KHR and CL_DEVICE_NOT_FOUND
    if (error === -1001 || error === -1) throw new MissingError("OpenCL finds no POCL");
    if (error !== 0) throw new Error(`Cannot compile kernels.cl (error ${error}): ${message}`);
    return { opencl, version: message };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function pathOf(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

function prepareOpenCl(opencl: OpenCl, workload: Workload): { run: () => void; read: () => Arrays } {
  const isFused = workload.name.includes("fused");
  const kernel = opencl.opencl_kernel(cString(isFused ? `${workload.kernel}_fused` : workload.kernel));
  if (kernel === null) throw new Error(`Cannot find the kernel ${workload.kernel} in kernels.cl`);
  const arrays = workload.arrays();
  const buffers = new Map(
    Object.entries(arrays).map(([name, array]) => {
      return [name, opencl.opencl_copy(new Uint8Array(array.buffer), BigInt(array.byteLength))];
    }),
  );
  const types = [...numberTypes[workload.kernel]!];
  workload.arguments.forEach((argument, index) => {
    if (typeof argument === "string") {
      check(opencl.opencl_pass_buffer(kernel, index, buffers.get(argument)!), "clSetKernelArg");
      return;
    }
    const type = types.shift()!;
    const value = type === "u64"
      ? new BigUint64Array([BigInt(argument)])
      : type === "u32"
      ? new Uint32Array([argument])
      : new Float32Array([argument]);
    check(opencl.opencl_pass(kernel, index, new Uint8Array(value.buffer), value.byteLength), "clSetKernelArg");
  });
  const [gridX, gridY = 1] = [workload.launch.grid].flat() as number[];
  const [blockX, blockY = 1] = [workload.launch.block].flat() as number[];
  return {
    run: () => check(opencl.opencl_run(kernel, gridX!, gridY, blockX!, blockY), "clEnqueueNDRangeKernel"),
    read: () => {
      for (const [name, array] of Object.entries(arrays)) {
        const bytes = new Uint8Array(array.buffer);
        check(opencl.opencl_read(buffers.get(name)!, bytes, BigInt(bytes.length)), "clEnqueueReadBuffer");
      }
      return arrays;
    },
  };
}

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
  using cuda = open({ driver: "software" });
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
