/**
 * Runs one program of the corpus and prints the differences from the expected results.
 *
 * `deno run -A tests/corpus/run_program.ts NAME [--compiler NAME] [--driver software|cuda] [--variant NAME]`.
 * NAME of a compiler is that of a folder beside this file, by default nvcc. Without a variant, runs all of them. Exits with
 * status 1 if there are differences.
 *
 * @module
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { open } from "../../src/open.ts";
import { type Corpus, nvccCorpus, readPtx } from "./nvcc/build.ts";
import { clangCorpus } from "./clang/build.ts";
import { clangCudaCorpus } from "./clang_cuda/build.ts";
import { numbaCorpus } from "./numba/build.ts";
import { nvrtcCorpus } from "./nvrtc/build.ts";
import { tritonCorpus } from "./triton/build.ts";
import { differences, hasDefinedBits, loadProgram, runProgram } from "./corpus.ts";

const { values, positionals } = parseArgs({
  options: {
    compiler: { type: "string", default: "nvcc" },
    driver: { type: "string", default: "software" },
    variant: { type: "string" },
  },
  allowPositionals: true,
});
const [name] = positionals;
const corpus: Corpus | undefined = {
  nvcc: nvccCorpus,
  clang: clangCorpus,
  clang_cuda: clangCudaCorpus,
  numba: numbaCorpus,
  nvrtc: nvrtcCorpus,
  triton: tritonCorpus,
}[values.compiler];
const chosen = corpus?.variants.filter((variant) => (values.variant ?? variant.name) === variant.name) ?? [];
if (
  name === undefined || corpus === undefined || chosen.length === 0 ||
  (values.driver !== "software" && values.driver !== "cuda")
) {
  console.error("Usage: run_program.ts NAME [--compiler NAME] [--driver software|cuda] [--variant NAME]");
  process.exit(2);
}

const program = await loadProgram(corpus, name);
using cuda = open({ driver: values.driver });
for (const variant of chosen) {
  const ptx = readPtx(corpus, name, variant);
  const bits = hasDefinedBits(ptx) ? "all bits defined" : "some bits undefined";
  try {
    const begin = performance.now();
    const actual = await runProgram(cuda, program, ptx);
    const milliseconds = (performance.now() - begin).toFixed(0);
    const found = differences(program.expected(program.buffers()), actual, program.bounds);
    console.log(
      `${name} ${variant.name}: ${found.length === 0 ? "as expected" : "differs"}, ${milliseconds} ms, ${bits}`,
    );
    for (const line of found) console.log(`  ${line}`);
    if (found.length > 0) process.exitCode = 1;
  } catch (error) {
    console.log(`${name} ${variant.name}: ${error}`);
    process.exitCode = 1;
  }
}
