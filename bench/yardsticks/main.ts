/**
 * Counts the mistakes that the sanitizer finds among kernels on graphs, right and wrong, and those that compute-sanitizer
 * finds in the same kernels, with the same input.
 *
 *     deno task bench yardsticks [--stored]
 *
 * The kernels are those of `tests/sanitizer/yardsticks/graph_kernels.ts`: all of them, which nvcc compiles, or with
 * `--stored` those whose PTX is stored. compute-sanitizer runs if there are a GPU and nvcc.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatTable } from "../../examples/table.ts";
import { compiledGraphKernels } from "../../tests/sanitizer/yardsticks/build.ts";
import {
  allGraphKernels,
  geometryOf,
  graph,
  type GraphKernel,
  isRacy,
  nameOf,
  storedGraphKernels,
} from "../../tests/sanitizer/yardsticks/graph_kernels.ts";
import { argumentsOf, foundIn } from "../../tests/sanitizer/yardsticks/run_graph_kernels.ts";
import { readOptions } from "../harness/options.ts";

const { stored } = readOptions(import.meta.url, { stored: false });
const kernels = stored ? storedGraphKernels() : allGraphKernels();
/** The kernels of a module. A kernel that faults ends its devices: a module is small, because it is loaded again then. */
const kernelsOfModule = 60;

interface Module {
  readonly ptx: string;
  readonly kernels: readonly GraphKernel[];
}

const modules: readonly Module[] = stored
  ? [{
    ptx: readFileSync(new URL("../../tests/sanitizer/yardsticks/graph_kernels.ptx", import.meta.url), "utf8"),
    kernels,
  }]
  : Array.from({ length: Math.ceil(kernels.length / kernelsOfModule) }, (_, index) => {
    const part = kernels.slice(index * kernelsOfModule, (index + 1) * kernelsOfModule);
    return { ptx: compiledGraphKernels(part), kernels: part };
  });

type Check = "race" | "memory";

/** Whether a kernel makes the mistake that a check looks for. */
function isWrong(kernel: GraphKernel, check: Check): boolean {
  return check === "race" ? isRacy(kernel) : kernel.mistake === "bounds";
}

function row(tool: string, check: Check, found: ReadonlySet<string>): string[] {
  const wrong = kernels.filter((kernel) => isWrong(kernel, check));
  const right = kernels.filter((kernel) => !isWrong(kernel, check));
  const countOf = (kernels: readonly GraphKernel[]) => kernels.filter((kernel) => found.has(nameOf(kernel))).length;
  const hits = countOf(wrong);
  for (const kernel of right) if (found.has(nameOf(kernel))) console.error(`${tool}, ${check}: ${nameOf(kernel)}`);
  return [tool, check, ...[wrong.length, hits, wrong.length - hits, right.length, countOf(right)].map(String)];
}

function ours(check: Check): string[] {
  const all = modules.flatMap(({ ptx, kernels }) => foundIn(ptx, kernels, [check]));
  const found = all.filter(({ reports }) => reports.length > 0);
  return row("poolpass", check, new Set(found.map(({ kernel }) => nameOf(kernel))));
}

/** One launch, as `yardsticks/launch_kernels.cu` reads it. */
function launchLine(kernel: GraphKernel): string {
  const { vertices } = graph();
  const { grid, block } = geometryOf(kernel, vertices);
  const hexadecimal = ({ buffer, byteOffset, byteLength }: ArrayBufferView) => {
    return `b${new Uint8Array(buffer, byteOffset, byteLength).toHex()}`;
  };
  return [nameOf(kernel), grid, block, ...argumentsOf(kernel).map(hexadecimal), `i${vertices}`].join(" ");
}

/** Builds what launches kernels for compute-sanitizer. Returns its path, or undefined if it cannot be built. */
function buildLauncher(folder: string): string | undefined {
  const program = join(folder, "launch_kernels");
  const source = new URL("launch_kernels.cu", import.meta.url).pathname;
  const built = spawnSync("nvcc", ["-std=c++17", "-o", program, source, "-l:libcuda.so.1"]);
  return built.status === 0 ? program : undefined;
}

/** Runs compute-sanitizer. Returns the names of the kernels of which it says something. Undefined if it cannot run. */
function theirs(program: string, check: Check): Set<string> | undefined {
  const tool = check === "race" ? "racecheck" : "memcheck";
  const module = join(folder, "kernels.ptx");
  // A kernel that accesses other memory ends its process.
  const isAlone = (kernel: GraphKernel) => check === "memory" && isWrong(kernel, check);
  const groups = modules.flatMap(({ ptx, kernels }) => {
    const alone = kernels.filter(isAlone);
    return [kernels.filter((kernel) => !isAlone(kernel)), ...alone.map((kernel) => [kernel])].map((group) => ({
      ptx,
      group,
    }));
  });
  const names = new Set(kernels.map(nameOf));
  const found = new Set<string>();
  for (const { ptx, group } of groups) {
    writeFileSync(module, ptx);
    const ran = spawnSync("compute-sanitizer", ["--tool", tool, "--print-limit", "1000000", program, module], {
      encoding: "utf8",
      input: group.map(launchLine).join("\n"),
      maxBuffer: 2 ** 30,
    });
    if (ran.status === null) return undefined;
    const words = ran.stdout.split("\n").filter((line) => line.startsWith("=========")).flatMap((line) =>
      line.match(/\w+/g) ?? []
    );
    for (const word of words) if (names.has(word)) found.add(word);
  }
  return found;
}

const rows = [["tool", "check", "wrong", "found", "missed", "right", "false"], ours("race"), ours("memory")];
const folder = mkdtempSync(join(tmpdir(), "yardsticks-"));
try {
  const launcher = buildLauncher(folder);
  for (const check of ["race", "memory"] as const) {
    const found = launcher === undefined ? undefined : theirs(launcher, check);
    if (found === undefined) console.error(`compute-sanitizer cannot check for "${check}" here`);
    else rows.push(row("compute-sanitizer", check, found));
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log(formatTable(rows));
