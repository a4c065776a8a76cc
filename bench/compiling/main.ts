/**
 * Measures the time from a string of CUDA C++ to the first result, beside cuda.core and CuPy.
 *
 *     deno task bench compiling [--rounds 10] [--runtimes deno,bun,node]
 *
 * Needs NVRTC. Without a GPU, only poolpass is measured, on the software device. Each round starts each program anew,
 * in turn, with empty caches: the programs' own, and that of the driver's JIT. The columns are the whole process, the
 * first source within it, the median of those after it, which differ in one number, and the same source in a process
 * that finds it in a cache on disk.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { median } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { outputOf, python } from "../harness/programs.ts";
import { commandIn } from "../harness/runtimes.ts";

/** A program that compiles sources. */
interface Contender {
  readonly name: string;
  /** The command that compiles `count` sources; with a folder for a cache, if the program takes one. */
  command(count: number, cache: string): readonly [string, ...string[]];
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

const { rounds, runtimes } = readOptions(import.meta.url, { rounds: 10, runtimes: "deno,bun,node" });
const program = fileURLToPath(new URL("./first_result.ts", import.meta.url));
const pythonProgram = fileURLToPath(new URL("./first_result.py", import.meta.url));

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
    command: (count) => [python(), pythonProgram, library, String(count)],
    environment: (folder) => ({ CUPY_CACHE_DIR: `${folder}/cupy` }),
  })),
];

async function run(
  { command, environment }: Contender,
  count: number,
  folder: string,
  cache = "",
): Promise<[number, number[]]> {
  const start = performance.now();
  // The driver keeps what its JIT has compiled.
  const env = { ...environment(folder), CUDA_CACHE_PATH: `${folder}/jit` };
  const output = await outputOf(command(count, cache), { env });
  return [performance.now() - start, JSON.parse(output).milliseconds];
}

async function sample(contender: Contender): Promise<Sample> {
  const folder = Deno.makeTempDirSync();
  try {
    const [whole, [first]] = await run(contender, 1, folder);
    const [, [, ...next]] = await run(contender, sources, folder);
    // Poolpass keeps programs only if it is given a folder. The other caches have been filled.
    await run(contender, 1, folder, `${folder}/programs`);
    const [, [cached]] = await run(contender, 1, folder, `${folder}/programs`);
    return { whole, first: first!, next: median(next), cached: cached! };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const samples = new Map<string, Sample[]>();
const failed = new Set<string>();
for (let round = -1; round < rounds; round++) {
  for (const contender of contenders) {
    const { name } = contender;
    if (failed.has(name)) continue;
    try {
      const taken = await sample(contender);
      // The first round reads the programs and libraries from the disk.
      if (round >= 0) samples.set(name, [...samples.get(name) ?? [], taken]);
    } catch (error) {
      failed.add(name);
      console.log(`${name}: not measured: ${error instanceof Error ? error.message : error}`);
    }
  }
}
const columns = ["whole", "first", "next", "cached"] as const;
const rows = [...samples].map(([name, taken]) => [
  name,
  ...columns.map((column) => median(taken.map((each) => each[column])).toFixed(1)),
]);
console.log(formatTable([["milliseconds, median", "process", "first source", "next sources", "cached"], ...rows]));
