/**
 * Measures the time from a string of CUDA C++ to the first result, beside cuda.core and CuPy.
 *
 *     deno task bench:compiling [--rounds 10] [--runtimes deno,bun,node]
 *
 * Needs NVRTC. Without a GPU, only poolpass is measured, on the software device. Each round starts each program anew,
 * in turn, with empty caches: the programs' own, and that of the driver's JIT. The columns are the whole process, the
 * first source within it, the median of those after it, which differ in one number, and the same source in a process
 * that finds it in a cache on disk.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../examples/table.ts";
import { answerHelp } from "../tests/support/program_help.ts";
import { median } from "./measurement.ts";
import { commandIn } from "./runtimes.ts";

answerHelp(import.meta.url, ["rounds", "runtimes"]);

/** A program that compiles sources. */
interface Contender {
  readonly name: string;
  /** The command that compiles `count` sources; with a folder for a cache, if the program takes one. */
  command(count: number, cache: string): readonly string[];
  /** The variables that put its caches into a folder. */
  environment(folder: string): Record<string, string>;
}

/** What a round has measured, in milliseconds. */
interface Sample {
  readonly whole: number;
  readonly first: number;
  readonly next: number;
  readonly cached: number;
}

/** Sources that a process compiles for the median. */
const sources = 12;

const { rounds, runtimes } = parseArgs(Deno.args, {
  string: ["rounds", "runtimes"],
  default: { rounds: "10", runtimes: "deno,bun,node" },
});
const program = fileURLToPath(new URL("./compiling/first_result.ts", import.meta.url));
const pythonProgram = fileURLToPath(new URL("./compiling/first_result.py", import.meta.url));
const python = Deno.env.get("PYTHON") ?? "python3";

const contenders: readonly Contender[] = [
  ...runtimes.split(",").map((runtime: string): Contender => ({
    name: `poolpass in ${runtime}`,
    command: (count, cache) => [
      ...commandIn(runtime, program, ["--allow-ffi", "--allow-read", "--allow-write", "--allow-env"]),
      String(count),
      ...cache === "" ? [] : [cache],
    ],
    environment: () => ({}),
  })),
  ...["cuda.core", "cupy"].map((library): Contender => ({
    name: library,
    command: (count) => [python, pythonProgram, library, String(count)],
    environment: (folder) => ({ CUPY_CACHE_DIR: `${folder}/cupy` }),
  })),
];

function run({ command, environment }: Contender, count: number, folder: string, cache = ""): [number, number[]] {
  const [executable, ...args] = command(count, cache);
  const start = performance.now();
  const { success, stdout, stderr } = new Deno.Command(executable!, {
    args,
    // The driver keeps what its JIT has compiled.
    env: { ...environment(folder), CUDA_CACHE_PATH: `${folder}/jit` },
  }).outputSync();
  const whole = performance.now() - start;
  if (!success) throw new Error(new TextDecoder().decode(stderr).trim().split("\n").at(-1));
  return [whole, JSON.parse(new TextDecoder().decode(stdout)).milliseconds];
}

function sample(contender: Contender): Sample {
  const folder = Deno.makeTempDirSync();
  try {
    const [whole, [first]] = run(contender, 1, folder);
    const [, [, ...next]] = run(contender, sources, folder);
    // Poolpass keeps programs only if it is given a folder. The other caches have been filled.
    run(contender, 1, folder, `${folder}/programs`);
    const [, [cached]] = run(contender, 1, folder, `${folder}/programs`);
    return { whole, first: first!, next: median(next), cached: cached! };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const samples = new Map<string, Sample[]>();
const failures = new Map<string, string>();
for (let round = -1; round < Number(rounds); round++) {
  for (const contender of contenders) {
    const { name } = contender;
    if (failures.has(name)) continue;
    try {
      const taken = sample(contender);
      // The first round reads the programs and libraries from the disk.
      if (round >= 0) samples.set(name, [...samples.get(name) ?? [], taken]);
    } catch (error) {
      failures.set(name, error instanceof Error ? error.message : String(error));
    }
  }
}
const columns = ["whole", "first", "next", "cached"] as const;
const rows = [...samples].map(([name, taken]) => [
  name,
  ...columns.map((column) => median(taken.map((each) => each[column])).toFixed(1)),
]);
console.log(formatTable([["milliseconds, median", "process", "first source", "next sources", "cached"], ...rows]));
for (const [name, message] of failures) console.log(`${name}: not measured: ${message}`);
