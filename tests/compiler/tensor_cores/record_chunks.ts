/**
 * Records a million elements of D of every form of products of matrices, as hashes of chunks:
 *
 *     deno run -A tests/compiler/tensor_cores/record_chunks.ts FILE [--driver cuda] [--processes 8] [--only TEXT]
 *
 * With --compare, computes the chunks again whose hashes are not those in FILE, compares them with the reference, and
 * prints the first elements that differ; FILE is not written. With --processes, as many processes share the forms.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { open } from "../../../mod.ts";
import { answerHelp } from "../../support/program_help.ts";
import { everyForm } from "./every_form.ts";
import { expectedOf, formOf, type Problem, type ProductForm } from "./problems.ts";
import { programOf } from "./program.ts";
import {
  type Chunk,
  chunkHashesOf,
  chunks,
  decodedHashes,
  encodedHashes,
  problemsOf,
  productsOn,
  type RecordedChunks,
  resultsOf,
  type RunProducts,
} from "./recording.ts";
import { warpgroupElement } from "./warpgroup.ts";

answerHelp(import.meta.url, ["driver", "processes", "part", "only", "compare"]);

const { values: options, positionals: [file] } = parseArgs({
  args: process.argv.slice(2),
  options: {
    driver: { type: "string", default: "cuda" },
    processes: { type: "string", default: "1" },
    // The part of the forms that this process records, printing them: given to processes by the first one.
    part: { type: "string" },
    only: { type: "string", default: "" },
    compare: { type: "boolean", default: false },
  },
  allowPositionals: true,
});
if (file === undefined) {
  console.error("Usage: deno run -A tests/compiler/tensor_cores/record_chunks.ts FILE [--driver cuda] [--processes 8]");
  process.exit(2);
}
const processes = Number(options.processes);
const wanted = everyForm.filter((text) => text.includes(options.only));

/** The number of elements of a chunk of which it is printed that they differ. */
const mostPrinted = 3;

/** Prints a line for each form of this process' part. */
async function recordPart(part: number): Promise<void> {
  const before = options.compare ? JSON.parse(readFileSync(file!, "utf8")) as RecordedChunks : undefined;
  using cuda = open({ driver: options.driver as "cuda" | "software" });
  const gpu = cuda.device(0);
  using products = productsOn(gpu);
  for (const text of wanted.filter((_, index) => index % processes === part)) {
    try {
      const found = await chunkHashesOf(text, products.run);
      const expected = before?.hashes[text];
      const differences = expected === undefined ? [] : await differencesOf(text, { found, expected, ...products });
      console.log(JSON.stringify({ device: gpu.name, text, hashes: encodedHashes(found), differences }));
    } catch (error) {
      console.log(JSON.stringify({ device: gpu.name, text, differences: [`${text}: ${(error as Error).message}`] }));
    }
  }
}

/** Describes the chunks whose hashes differ. */
async function differencesOf(
  text: string,
  { found, expected, run }: { found: Uint32Array; expected: string; run: RunProducts },
): Promise<string[]> {
  const form = formOf(text);
  const hashes = decodedHashes(expected);
  const lines: string[] = [];
  for (const [at, chunk] of chunks.entries()) {
    if (found[at] === hashes[at]) continue;
    lines.push(`${text}: another result in chunk ${chunk.index} of the class ${chunk.kind}`);
    lines.push(...await differencesInChunk(form, text, { chunk, run }));
  }
  return lines;
}

/** Describes elements of a chunk that are not the reference's. */
async function differencesInChunk(
  form: ProductForm,
  text: string,
  { chunk, run }: { chunk: Chunk; run: RunProducts },
): Promise<string[]> {
  const lines: string[] = [];
  const { outputs, read } = programOf(form);
  const problems = problemsOf(form, text, chunk);
  const words = await resultsOf(form, problems, run);
  for (const [index, problem] of problems.entries()) {
    const results = read(words.subarray(index * outputs, (index + 1) * outputs));
    const reference = referenceOf(form, problem);
    for (let at = 0; at < results.length; at++) {
      const expected = reference(at);
      if (results[at] === expected) continue;
      lines.push(`  problem ${index}, element ${at}: ${results[at]!.toString(16)}, expected ${expected.toString(16)}`);
      if (lines.length === mostPrinted) return lines;
    }
  }
  return lines;
}

/** Returns what the reference gives for each element of D. */
function referenceOf(form: ProductForm, problem: Problem): (at: number) => number | bigint {
  if (form.text.startsWith("wgmma")) return (at) => warpgroupElement(form, problem, at);
  const expected = expectedOf(form, problem);
  return (at) => expected[at]!;
}

/** Starts the processes, and writes what they print. */
async function recordAll(): Promise<void> {
  const hashes: Record<string, string> = {};
  let device = "", different = 0;
  await Promise.all(Array.from({ length: processes }, async (_, part) => {
    // deno run has its own options before the program: they are passed on.
    const program = [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
    const child = spawn(process.execPath, [...program, "--part", String(part)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    for await (const line of createInterface({ input: child.stdout })) {
      const found = JSON.parse(line);
      device = found.device;
      if (found.hashes !== undefined) hashes[found.text] = found.hashes;
      if (found.differences.length > 0) different++;
      for (const difference of found.differences) console.log(difference);
      // What has been recorded is written at once: recording may take longer than a machine is there.
      if (!options.compare) writeFileSync(file!, formatted({ device, hashes }));
    }
  }));
  const count = Object.keys(hashes).length;
  console.log(`${count} of ${wanted.length} forms on ${device}, ${different} with differences`);
}

/** JSON with a line for each form. */
function formatted({ device, hashes }: RecordedChunks): string {
  const lines = wanted.filter((text) => text in hashes).map((text) =>
    `${JSON.stringify(text)}: ${JSON.stringify(hashes[text])}`
  );
  return `{"device": ${JSON.stringify(device)}, "hashes": {\n${lines.join(",\n")}\n}}\n`;
}

if (options.part === undefined) await recordAll();
else await recordPart(Number(options.part));
