/**
 * Builds clang's part of the corpus: from every `NAME.cu` here the PTX in `NAME.ptx` (`-O2`), `NAME.o0.ptx` (`-O0`) and
 * `NAME.debug.ptx` (`-O0 -g`).
 *
 * `deno run -A tests/corpus/clang/build.ts [--check] [NAME...]` writes the files of the programs that are named, or of all;
 * with `--check` it compares them with what it would write and exits 1 if one differs. It needs clang 14 with the target
 * NVPTX, which no other version writes alike, and ptxas; of CUDA no headers and no libraries.
 *
 * @module
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildCorpus, checkedArchitecture, type Corpus, run } from "../nvcc/build.ts";

/** The programs that clang compiles. */
export const clangCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
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
  // Whatever CUDA is installed, clang finds none: it would choose another version of PTX by it.
  ...["--cuda-path=/nonexistent", "-nocudainc", "-nocudalib", "-Qunused-arguments"],
  // The folder's name would be in what is written for debuggers.
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

/** What the first line asks for, as in `// clang -ffp-contract=off`. */
function optionsOf(source: string): string[] {
  return /^\/\/ clang (.+)\n/.exec(source)?.[1]?.split(" ") ?? [];
}

if (import.meta.main) Deno.exitCode = await buildCorpus(clangCorpus, Deno.args);
