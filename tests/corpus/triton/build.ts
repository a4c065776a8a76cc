/**
 * Builds Triton's part of the corpus: from each `NAME.py` in this folder the PTX in `NAME.ptx` (for `sm_90`, with the
 * number of warps that the program names) and `NAME.narrow.ptx` (for `sm_89`, with one warp, so that other data lies in
 * other threads).
 *
 * `deno run -A tests/corpus/triton/build.ts [--check] [NAME...]` writes the files of the named programs, or of all. With
 * `--check` it compares the files with what it would write, and exits with status 1 if one differs. It needs ptxas, no
 * GPU, and a Python with Triton 3.8.0, at the path in TRITON_PYTHON or on the PATH; other versions write other PTX.
 *
 * @module
 */
import { copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import process from "node:process";
import { buildCorpus, checkPtx, type Corpus, output } from "../nvcc/build.ts";
import { answerHelp } from "../../support/program_help.ts";

/** The programs that Triton compiles. */
export const tritonCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  sourceExtension: ".py",
  script: "tests/corpus/triton/build.ts",
  variants: [
    { name: "default", extension: ".ptx", options: ["90"] },
    { name: "narrow", extension: ".narrow.ptx", options: ["89", "1"] },
  ],
  build: buildWithTriton,
};

/** Its name is in the debug information. */
const buildFolder = "/tmp/triton-corpus";

async function buildWithTriton(program: string): Promise<string[]> {
  const sources = fileURLToPath(tritonCorpus.folder);
  const python = process.env.TRITON_PYTHON ?? "python3";
  rmSync(buildFolder, { recursive: true, force: true });
  mkdirSync(buildFolder);
  try {
    for (const file of readdirSync(sources).filter((file) => file.endsWith(".py"))) {
      copyFileSync(sources + file, `${buildFolder}/${file}`);
    }
    const texts: string[] = [];
    for (const { options } of tritonCorpus.variants) {
      const ptx = await output(python, ["compile_kernel.py", program, ...options], buildFolder);
      await checkPtx(ptx, buildFolder);
      texts.push(withoutPaths(ptx));
    }
    return texts;
  } finally {
    rmSync(buildFolder, { recursive: true });
  }
}

/** Removes the folder of Triton's own sources, also from the names of files in assertions. */
function withoutPaths(ptx: string): string {
  return ptx.replaceAll(/(\.file\s+\d+ ")[^"]*\/(site-packages\/)/g, "$1$2")
    .replaceAll(/(assertFile_\d+)\[\d+\] = \{([\d, ]+)\}/g, (_, name: string, bytes: string) => {
      const path = new TextDecoder().decode(Uint8Array.from(bytes.split(","), Number));
      const kept = [...new TextEncoder().encode(path.replace(/^.*\//, ""))];
      return `${name}[${kept.length}] = {${kept.join(", ")}}`;
    }).trimEnd() + "\n";
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await buildCorpus(tritonCorpus, Deno.args);
}
