/**
 * Measures how long it takes to load modules.
 *
 * @module
 */
import { ptx as fill } from "../../kernels/fill.ts";
import { ptx as saxpy } from "../../kernels/saxpy.ts";
import { largeModule } from "./large_module.ts";
import type { Times } from "../harness/measurement.ts";
import { measuredPtx } from "./workloads.ts";

/** Modules that are loaded together. */
export interface Loading {
  readonly name: string;
  /** The number of milliseconds that loading may take. */
  readonly goal: number;
  modules(): readonly string[];
}

/** All loadings, in the order of the table. */
export const loadings: readonly Loading[] = [
  { name: "load the shipped kernels", goal: 20, modules: () => [fill, saxpy] },
  { name: "load 5000 lines", goal: 500, modules: () => [largeModule(measuredPtx(), { lines: 5000 })] },
  // 3.3 MB with 407 kernels, of which programs use a few.
  { name: "load 100,000 lines", goal: 1300, modules: () => [largeModule(measuredPtx(), { lines: 100_000 })] },
];

/** Times a loading as the first thing that a program does, each time in a new process. */
export async function timeLoading({ modules }: Loading, { rounds }: { rounds: number }): Promise<Times> {
  const input = new TextEncoder().encode(JSON.stringify(modules()));
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) times.push(await loadInNewProcess(input));
  return times;
}

async function loadInNewProcess(input: Uint8Array<ArrayBuffer>): Promise<number> {
  const program = new URL("./load_modules.ts", import.meta.url).href;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-ffi", program],
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const [output] = await Promise.all([child.output(), ReadableStream.from([input]).pipeTo(child.stdin)]);
  const decoder = new TextDecoder();
  if (!output.success) throw new Error(decoder.decode(output.stderr).split("\n", 1)[0]);
  return Number(decoder.decode(output.stdout));
}
