/**
 * Builds Numba's part of the corpus: from each `NAME.py` in this folder the PTX in `NAME.ptx` (optimized) and
 * `NAME.debug.ptx` (`debug=True, opt=False`), which is in `archive.br`.
 *
 * `deno run -A tests/corpus/numba/build.ts [--check] [NAME...]` writes the files of the named programs, or of all. With
 * `--check` it compares the files with what it would write, and exits with status 1 if one differs. It needs ptxas, no
 * GPU, CUDA 13.0 with libNVVM in CUDA_HOME, and a Python with Numba 0.68.0, at the path in NUMBA_PYTHON or on the PATH;
 * other versions write other PTX. Of a program with several functions, their order differs from build to build, which
 * `--check` reports.
 *
 * @module
 */
import { copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import process from "node:process";
import { buildCorpus, checkPtx, type Corpus, output, withoutDebugSections, withShortNames } from "../nvcc/build.ts";
import { answerHelp } from "../../support/program_help.ts";

/** The programs that Numba compiles. */
export const numbaCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  sourceExtension: ".py",
  script: "tests/corpus/numba/build.ts",
  variants: [
    { name: "default", extension: ".ptx", options: [] },
    { name: "debug", extension: ".debug.ptx", options: ["debug"] },
  ],
  build: buildWithNumba,
};

/** Its name is in the debug information. */
const buildFolder = "/tmp/numba-corpus";

async function buildWithNumba(program: string): Promise<string[]> {
  const sources = fileURLToPath(numbaCorpus.folder);
  rmSync(buildFolder, { recursive: true, force: true });
  mkdirSync(buildFolder);
  try {
    for (const file of readdirSync(sources).filter((file) => file.endsWith(".py"))) {
      copyFileSync(sources + file, `${buildFolder}/${file}`);
    }
    return await Promise.all(numbaCorpus.variants.map(async ({ name, options }) => {
      const python = process.env.NUMBA_PYTHON ?? "python3";
      const ptx = await output(python, ["compile_kernel.py", program, ...options], buildFolder);
      const folder = `${buildFolder}/${name}`;
      mkdirSync(folder);
      const kept = withKernelNamed(ptx, program).trimEnd() + "\n";
      await checkPtx(kept, folder);
      return kept;
    }));
  } finally {
    rmSync(buildFolder, { recursive: true });
  }
}

/** Gives the kernel the name of its function, and short names to everything else: all are mangled. */
function withKernelNamed(ptx: string, program: string): string {
  const kernel = /\.entry (\w+)\(/.exec(ptx)![1]!;
  const kept = withoutDebugSections(ptx).replaceAll(/(\.file\s+\d+ ")[^"]*\//g, "$1");
  return withShortNames(kept.replaceAll(new RegExp(`\\b${kernel}\\b`, "g"), program));
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await buildCorpus(numbaCorpus, Deno.args);
}
