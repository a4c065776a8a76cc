/**
 * Runs a benchmark.
 *
 *     deno task bench NAME [OPTION...]
 *
 * Without a name, prints the names of all. `deno task bench NAME --help` says what a benchmark measures, what it needs and
 * which options it has.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatTable } from "../examples/table.ts";
import { didYouMean } from "../src/support/validation.ts";

/** A benchmark, which is a program of its own. */
interface Benchmark {
  /** What it measures, for the list. */
  readonly measures: string;
  /** Its program, if that is not `main.ts` in the folder of its name. */
  readonly file?: string;
  /** The permissions that it needs, if it needs fewer than those to run any program. */
  readonly permissions?: readonly string[];
  /** Its configuration, if it uses a package that the others do not. */
  readonly configuration?: readonly string[];
}

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

const configuration = ["--import-map", path("../import_map.json"), "--lock", path("../deno.lock"), "--frozen"];

/** By name, in the order of the list. */
export const benchmarks: Readonly<Record<string, Benchmark>> = {
  cuda: { measures: "calls, copies, kernels and sharing on a GPU, beside C++ and Python" },
  plot: {
    measures: "nothing: draws what cuda has written to FILE.json",
    file: "cuda/plot.ts",
    permissions: ["--allow-env", "--allow-read", "--allow-write"],
    configuration: ["--no-config", `--lock=${path("cuda/plot.lock")}`, "--frozen"],
  },
  channel: { measures: "channels on a GPU, beside Python and C++" },
  collectives: { measures: "all-reduces of several GPUs, beside C++ and PyTorch" },
  large: { measures: "mapping a buffer of more than 4 GiB on a GPU, beside C++" },
  store: { measures: "mapping from a store, beside C++; listing; what being watched costs" },
  compiling: { measures: "the time from CUDA C++ to the first result, beside cuda.core and CuPy" },
  sanitizer: { measures: "what the sanitizer costs a call, and a kernel on the software device" },
  yardsticks: { measures: "what the sanitizer and compute-sanitizer find among kernels on graphs" },
  overhead: { measures: "what poolpass adds to each native call, without a GPU" },
  start: { measures: "what a start costs from npm, from JSR and from a checkout, without a GPU" },
  waking: { measures: "what waiting for another process costs in each runtime, without a GPU" },
  software: { measures: "the software device on one core, beside the same loops in C" },
  cores: { measures: "the software device on several cores, beside one core, C and POCL" },
  divergent: {
    measures: "kernels whose threads diverge on the software device, beside JavaScript",
    permissions: ["--allow-ffi", "--allow-read", "--allow-env", "--allow-sys"],
  },
  opencl: { measures: "the software device beside POCL, both on one core" },
  scaling: { measures: "how loading and first launches on the software device grow with a kernel's lines" },
  attacks: { measures: "how long an honest importer waits beside an attack, without a GPU" },
  unfired: { measures: "what events of a hostile importer cost that never fire, without a GPU" },
};

/** The path of a benchmark's program within `bench/`. */
export function fileOf(name: string): string {
  return benchmarks[name]!.file ?? `${name}/main.ts`;
}

/** Runs a benchmark in a process of its own. Resolves to its exit code. */
async function run(name: string, args: readonly string[]): Promise<number> {
  const { permissions = ["--allow-all"], ...own } = benchmarks[name]!;
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...permissions, ...own.configuration ?? configuration, path(fileOf(name)), ...args],
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).spawn().status;
  return code;
}

/** Prints the names of all. */
function list(): void {
  console.log("Usage: deno task bench NAME [OPTION...], where NAME --help lists the options\n");
  console.log(formatTable(Object.entries(benchmarks).map(([name, { measures }]) => [name, measures])));
}

if (import.meta.main) {
  const [name, ...args] = Deno.args;
  if (name !== undefined && Object.hasOwn(benchmarks, name)) {
    Deno.exitCode = await run(name, args);
  } else {
    if (name !== undefined && !["--help", "-h"].includes(name)) {
      console.error(`There is no benchmark ${name}${didYouMean(name, Object.keys(benchmarks))}\n`);
      Deno.exitCode = 2;
    }
    list();
  }
}
