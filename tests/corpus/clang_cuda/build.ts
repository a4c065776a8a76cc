/**
 * Builds the part of the corpus that clang compiles with CUDA's headers: from each `NAME.cu` in this folder the PTX in
 * `NAME.ptx` (`-O3`), `NAME.o0.ptx` (`-O0`), `NAME.o1.ptx` (`-O1`) and `NAME.debug.ptx` (`-O0 -g`), which is in
 * `archive.br`.
 *
 * `deno run -A tests/corpus/clang_cuda/build.ts [--check] [NAME...]` writes the files of the named programs, or of all.
 * With `--check` it compares the files with what it would write, and exits with status 1 if one differs. It needs ptxas,
 * CUDA 13.0 in /usr/local/cuda, and clang 19.1.7, at the path in CLANG or on the PATH; other versions write other PTX.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import process from "node:process";
import { buildCorpus, checkPtx, type Corpus, run, withoutDebugSections, withShortNames } from "../nvcc/build.ts";
import { answerHelp } from "../../support/program_help.ts";

/** The programs that clang compiles with CUDA's headers. */
export const clangCudaCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  sourceExtension: ".cu",
  script: "tests/corpus/clang_cuda/build.ts",
  variants: [
    { name: "O3", extension: ".ptx", options: ["-O3", "-ffp-contract=off"] },
    { name: "O1", extension: ".o1.ptx", options: ["-O1", "-ffp-contract=off"] },
    { name: "O0", extension: ".o0.ptx", options: ["-O0"] },
    { name: "debug", extension: ".debug.ptx", options: ["-O0", "-g"] },
  ],
  build: buildWithClang,
};

/** Headers that clang's own headers include, and that CUDA 13 lacks. Empty ones do. */
const absentHeaders = ["texture_fetch_functions.h", "curand_mtgp32_kernel.h"];

async function buildWithClang(program: string): Promise<string[]> {
  const sources = fileURLToPath(clangCudaCorpus.folder);
  const temporary = mkdtempSync("/tmp/clang-corpus-");
  try {
    mkdirSync(`${temporary}/include`);
    for (const header of absentHeaders) writeFileSync(`${temporary}/include/${header}`, "");
    return await Promise.all(clangCudaCorpus.variants.map(async ({ extension, options }) => {
      const folder = `${temporary}/${extension}`;
      mkdirSync(folder);
      const output = `${folder}/${program}.ptx`;
      const fixed = [
        ...["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "--cuda-path=/usr/local/cuda"],
        ...["-Wno-unknown-cuda-version", "-idirafter", `${temporary}/include`, "-S"],
        ...["-Xclang", "-fdebug-compilation-dir=.", "-std=c++17"],
      ];
      await run(process.env.CLANG ?? "clang", [...fixed, ...options, "-o", output, `${program}.cu`], sources);
      const ptx = withShortNames(withoutDebugSections(readFileSync(output, "utf8"))).trimEnd() + "\n";
      await checkPtx(ptx, folder);
      return ptx;
    }));
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await buildCorpus(clangCudaCorpus, Deno.args);
}
