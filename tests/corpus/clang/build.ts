/**
 * Builds clang's part of the corpus: from each `NAME.cu` in this folder the PTX in `NAME.ptx` (`-O2`), `NAME.o0.ptx`
 * (`-O0`) and `NAME.debug.ptx` (`-O0 -g`), which is in `archive.br`.
 *
 * `deno run -A tests/corpus/clang/build.ts [--check] [NAME...]` writes the files of the named programs, or of all. With
 * `--check` it compares the files with what it would write, and exits with status 1 if one differs. It needs ptxas and
 * clang 14 with the NVPTX target; other versions of clang write other PTX. It needs no headers or libraries of CUDA.
 *
 * @module
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildCorpus, checkedArchitecture, type Corpus, run } from "../nvcc/build.ts";
import { answerHelp } from "../../support/program_help.ts";

/** The programs that clang compiles. */
export const clangCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  sourceExtension: ".cu",
  script: "tests/corpus/clang/build.ts",
  variants: [
    { name: "O2", extension: ".ptx", options: ["-O2"] },
    { name: "O0", extension: ".o0.ptx", options: ["-O0"] },
    { name: "debug", extension: ".debug.ptx", options: ["-O0", "-g"] },
  ],
  build: buildWithClang,
};

const fixedOptions = [
  ...["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-Xclang", "-target-feature", "-Xclang", "+ptx72"],
  // Hides any installed CUDA from clang, which would choose the PTX version by it.
  ...["--cuda-path=/nonexistent", "-nocudainc", "-nocudalib", "-Qunused-arguments"],
  // Keeps the folder's name out of the debug information.
  ...["-Xclang", "-fdebug-compilation-dir=.", "-S"],
];

async function buildWithClang(program: string): Promise<string[]> {
  const sources = fileURLToPath(clangCorpus.folder);
  const source = readFileSync(`${sources}${program}.cu`, "utf8");
  const temporary = mkdtempSync("/tmp/clang-corpus-");
  try {
    return await Promise.all(clangCorpus.variants.map(async ({ extension, options }) => {
      const output = `${temporary}/${program}${extension}`;
      const all = [...fixedOptions, ...optionsOf(source), ...options, "-o", output, `${program}.cu`];
      await run("clang", all, sources);
      await run("ptxas", [`-arch=sm_${checkedArchitecture}`, "-o", "/dev/null", output], sources);
      return readFileSync(output, "utf8").trimEnd() + "\n";
    }));
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

/** Returns the options in the first line, such as `// clang -ffp-contract=off`. */
function optionsOf(source: string): string[] {
  return /^\/\/ clang (.+)\n/.exec(source)?.[1]?.split(" ") ?? [];
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await buildCorpus(clangCorpus, Deno.args);
}
