/**
 * What it costs to start with poolpass, from each place where a program can have it, beside an empty program.
 *
 *     deno task bench start [--rounds 20] [--runtimes deno,bun,node]
 *
 * Needs no GPU, and npx, which builds the packages. A runtime is found by its name, or where the variables POOLPASS_BUN
 * and POOLPASS_NODE say. Prints a table, writes nothing but dist/.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { buildPackages } from "../../packaging/build.ts";
import { installFromJsr, installFromNpm } from "../../packaging/install.ts";
import { describeProcessor } from "../harness/machine.ts";
import { formatSpread, median, type Times } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { commandIn } from "../harness/runtimes.ts";

/** Where a program has poolpass from. */
interface Origin {
  readonly name: string;
  /** What the program imports, but for the empty program. */
  readonly specifier?: string;
  /** The runtimes that can have it from there, where not all can. */
  readonly only?: string;
  /** Makes the folder that the program lies in. */
  prepare(folder: string): Promise<unknown>;
}

/** A program in one runtime. */
interface Contender {
  readonly runtime: string;
  readonly origin: Origin;
  readonly folder: string;
  /** Milliseconds from its start to its end, in each round. */
  readonly times: number[];
}

const origins: readonly Origin[] = [
  { name: "an empty program", prepare: (folder) => Deno.mkdir(folder) },
  { name: "npm package", specifier: "poolpass", prepare: installFromNpm },
  { name: "JSR package", specifier: "@poolpass/poolpass", only: "deno", prepare: installFromJsr },
  {
    name: "checkout",
    specifier: fileURLToPath(new URL("../../mod.ts", import.meta.url)),
    prepare: (folder) => Deno.mkdir(folder),
  },
];

/** Runtimes have caches, which are filled in the first rounds. */
const warmUpRounds = 2;

async function prepare(origin: Origin, folder: string): Promise<void> {
  await origin.prepare(folder);
  const program = origin.specifier === undefined ? "" : `import { open } from "${origin.specifier}";

using cuda = open({ driver: "software" });
using pool = cuda.device(0).createPool();
pool.allocate(1024).free();
`;
  await Deno.writeTextFile(`${folder}/start.js`, program);
}

/** Starts each in turn, and each time another one first: whatever else the machine does falls on all of them alike. */
async function measure(contenders: readonly Contender[], rounds: number): Promise<void> {
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const index of contenders.keys()) {
      const contender = contenders[(index + round + warmUpRounds) % contenders.length]!;
      const elapsed = await timeProcess(contender);
      if (round >= 0) contender.times.push(elapsed);
    }
  }
}

async function timeProcess({ runtime, folder }: Contender): Promise<number> {
  const [command, ...args] = commandIn(runtime, "start.js", ["--allow-ffi"]);
  const options = { args, cwd: folder, stdin: "null", stdout: "null", stderr: "piped" } as const;
  const start = performance.now();
  const { success, stderr } = await new Deno.Command(command, options).output();
  const elapsed = performance.now() - start;
  if (!success) throw new Error(new TextDecoder().decode(stderr).trim().split("\n", 1)[0]);
  return elapsed;
}

/** The runtimes of those that can be measured: where one cannot, that is a line of the output. */
async function measurable(contenders: readonly Contender[]): Promise<Contender[]> {
  const measured: Contender[] = [];
  for (const contender of contenders) {
    try {
      await timeProcess(contender);
      measured.push(contender);
    } catch (error) {
      const reason = error instanceof Error ? error.message : error;
      console.log(`${contender.runtime}, ${contender.origin.name}: not measured: ${reason}`);
    }
  }
  return measured;
}

function rowOf({ runtime, origin, times }: Contender, empty: Times): string[] {
  const ratios = times.map((time, round) => time / empty[round]!);
  const more = times.map((time, round) => time - empty[round]!);
  return [runtime, origin.name, formatSpread(times), median(ratios).toFixed(2), median(more).toFixed(0)];
}

const { rounds, runtimes } = readOptions(import.meta.url, { rounds: 20, runtimes: "deno,bun,node" });
console.log(describeProcessor());
const folder = await Deno.makeTempDir({ prefix: "poolpass-start-" });
try {
  await buildPackages();
  for (const [index, origin] of origins.entries()) await prepare(origin, `${folder}/${index}`);
  const all = runtimes.split(",").flatMap((runtime: string) =>
    [...origins.entries()].filter(([, { only = runtime }]) => only === runtime)
      .map(([index, origin]): Contender => ({ runtime, origin, folder: `${folder}/${index}`, times: [] }))
  );
  const contenders = await measurable(all);
  await measure(contenders, rounds);
  const emptyOf = new Map(contenders.filter(({ origin }) => origin === origins[0]).map((one) => [one.runtime, one]));
  const rows = contenders.filter(({ runtime }) => emptyOf.has(runtime))
    .map((contender) => rowOf(contender, emptyOf.get(contender.runtime)!.times));
  const head = ["", "", "ms, median (least to most)", "beside an empty program", "ms more"];
  console.log(`\n${formatTable([head, ...rows])}`);
} finally {
  await Deno.remove(folder, { recursive: true });
}
