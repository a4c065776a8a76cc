/**
 * Builds NVRTC's part of the corpus: from each `NAME.cu` in this folder the PTX in `NAME.ptx`.
 *
 * `deno run -A tests/corpus/nvrtc/build.ts [--check] [NAME...]` writes the files of the named programs, or of all. With
 * `--check` it compares the files with what it would write, and exits with status 1 if one differs. It needs ptxas,
 * NVRTC 13.0 and the headers of CUDA and of cuRAND; other versions write other PTX. `CURAND_INCLUDE` may name cuRAND's.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { open } from "../../../src/open.ts";
import { buildCorpus, checkPtx, type Corpus, withShortNames } from "../nvcc/build.ts";
import { answerHelp } from "../../support/program_help.ts";

/** The programs that NVRTC compiles. */
export const nvrtcCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  sourceExtension: ".cu",
  script: "tests/corpus/nvrtc/build.ts",
  variants: [
    { name: "default", extension: ".ptx", options: [] },
  ],
  build: buildWithNvrtc,
};

/** The architecture that the device has, for everything that the headers have for it. */
const architecture = "compute_90";

async function buildWithNvrtc(program: string): Promise<string[]> {
  const ptx = compileWithNvrtc(program);
  await checkPtx(ptx, "/tmp");
  return [ptx];
}

/** Compiles a program, and returns its PTX. */
export function compileWithNvrtc(program: string, debug = false): string {
  using cuda = open({ driver: "software" });
  const source = readFileSync(new URL(`${program}.cu`, nvrtcCorpus.folder), "utf8");
  const curand = process.env.CURAND_INCLUDE;
  const { ptx, compiler } = cuda.compile(source, {
    name: `${program}.cu`,
    architecture,
    debug,
    lineInfo: false,
    includePaths: curand === undefined ? [] : [curand],
  });
  return withoutUnusedTables(withShortNames(`// ${compiler}\n${ptx}`)).trimEnd() + "\n";
}

/** Removes large variables that nothing names, such as the tables of cuRAND's other generators. */
function withoutUnusedTables(ptx: string): string {
  return ptx.replaceAll(/^\.global[^\n]* (\w+)\[\d+\] = \{[^}]{10000,}\};\n/gm, (variable, name: string) => {
    return ptx.split(name).length === 2 ? "" : variable;
  });
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await buildCorpus(nvrtcCorpus, Deno.args);
}
