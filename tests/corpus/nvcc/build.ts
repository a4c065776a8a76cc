/**
 * Builds nvcc's part of the corpus: from each `NAME.cu` in this folder the PTX in `NAME.ptx` (nvcc's defaults),
 * `NAME.nofma.ptx` (`-fmad=false`) and `NAME.debug.ptx` (`-G`), both of which are in `archive.br`.
 *
 * `deno run -A tests/corpus/nvcc/build.ts [--check] [NAME...]` writes the files of the named programs, or of all. With
 * `--check` it compares the files with what it would write, and exits with status 1 if one differs. It needs nvcc and
 * ptxas.
 *
 * @module
 */
import { execFile } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { answerHelp } from "../../support/program_help.ts";
import { ptxNames, readStoredPtx, writeStoredPtx } from "../stored_ptx.ts";

/** A way to compile a program. */
export interface Variant {
  /** The variant's name on command lines and in the names of tests. */
  readonly name: string;
  /** The extension of the PTX files. */
  readonly extension: string;
  readonly options: readonly string[];
}

/** The programs of one compiler. */
export interface Corpus {
  /** The folder of the programs and their PTX. */
  readonly folder: URL;
  /** The extension of the sources, such as `.cu`. */
  readonly sourceExtension: string;
  /** The script that builds the programs, relative to the repository's root. */
  readonly script: string;
  /** The variants that are built of each program. */
  readonly variants: readonly Variant[];
  /** Compiles a program and returns its PTX in the order of the variants. Throws if the compiler or ptxas fails. */
  build(program: string): Promise<string[]>;
}

/** The programs that nvcc compiles. */
export const nvccCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  sourceExtension: ".cu",
  script: "tests/corpus/nvcc/build.ts",
  variants: [
    { name: "default", extension: ".ptx", options: [] },
    { name: "nofma", extension: ".nofma.ptx", options: ["-fmad=false"] },
    { name: "debug", extension: ".debug.ptx", options: ["-G"] },
  ],
  build: buildWithNvcc,
};

/** The oldest architecture that nvcc 13 supports. */
const defaultArchitecture = "75";
/** The architecture that ptxas checks the PTX for: that of the newest device that the corpus runs on. */
export const checkedArchitecture = "90";
/**
 * The path of the build folder in stored PTX. `-G` writes the path and its length, so the path of the real folder has the
 * same length.
 */
const buildFolder = "/tmp/ptx-corpus";
const headerFolder = "/usr/local/cuda/include/";

/** Returns the names of a corpus's programs, without extension. */
export function programNames({ folder, sourceExtension }: Corpus): string[] {
  // A program has a reference, too; what has none is part of a build script.
  return filesIn(folder, sourceExtension).map((file) => file.slice(0, -sourceExtension.length))
    .filter((name) => sourceExtension === ".cu" || existsSync(new URL(`${name}.ts`, folder)));
}

/** Returns the stored PTX of a program. */
export function readPtx({ folder }: Corpus, program: string, { extension }: Variant): string {
  return readStoredPtx(folder, program + extension);
}

async function buildWithNvcc(program: string): Promise<string[]> {
  const here = nvccCorpus.folder;
  const folder = mkdtempSync(buildFolder.slice(0, -"XXXXXX".length));
  try {
    for (const file of [`${program}.cu`, ...filesIn(here, ".cuh")]) {
      copyFileSync(new URL(file, here), `${folder}/${file}`);
    }
    const architecture = architectureOf(readFileSync(new URL(`${program}.cu`, here), "utf8"));
    return await Promise.all(nvccCorpus.variants.map(async ({ extension, options }) => {
      const output = program + extension;
      await run("nvcc", ["-ptx", `-arch=compute_${architecture}`, ...options, "-o", output, `${program}.cu`], folder);
      await run("ptxas", [`-arch=sm_${checkedArchitecture}`, "-o", "/dev/null", output], folder);
      return withoutBuild(readFileSync(`${folder}/${output}`, "utf8"), folder);
    }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the architecture in the first line, such as `// nvcc -arch=compute_90`. */
function architectureOf(source: string): string {
  return /^\/\/ nvcc -arch=compute_(\w+)\n/.exec(source)?.[1] ?? defaultArchitecture;
}

/** Removes what depends on the folder and on the build of nvcc. */
function withoutBuild(compiled: string, folder: string): string {
  const begin = compiled.indexOf(".version");
  if (begin < 0) throw new Error("Cannot find the header of the PTX that nvcc wrote");
  let text = compiled.slice(begin)
    .replaceAll(/(\.file\s+[0-9]+ ")[^"]*\/bin\/\.\.\/targets\/[^/"]+\/include\//g, `$1${headerFolder}`);
  text = replaceString(text, folder, buildFolder);
  // Symbols without external linkage have a number in their names that differs between builds.
  const number = /_INTERNAL_([0-9a-f]{8})_/.exec(text)?.[1];
  return (number === undefined ? text : replaceString(text, `_${number}_`, "_00000000_")).trimEnd() + "\n";
}

/** Replaces a string by one of the same length, also where the sections of `-G` have it as bytes. */
function replaceString(ptx: string, string: string, replacement: string): string {
  const bytes = (of: string) => new TextEncoder().encode(of).join(",");
  return ptx.replaceAll(string, replacement).replaceAll(bytes(string), bytes(replacement));
}

/** Runs a compiler. Throws an error with its output if it fails. */
export async function run(program: string, args: readonly string[], folder: string): Promise<void> {
  await output(program, args, folder);
}

/** Runs a compiler that writes to standard output, and returns the text. Throws an error with its output if it fails. */
export async function output(program: string, args: readonly string[], folder: string): Promise<string> {
  try {
    return (await promisify(execFile)(program, args, { cwd: folder, maxBuffer: Infinity })).stdout;
  } catch (error) {
    const { stdout = "", stderr = error } = error as { stdout?: string; stderr?: string };
    throw new Error(`Cannot run ${program} ${args.join(" ")}: ${stdout}${stderr}`);
  }
}

/** Replaces long names, most of which are mangled and some of which differ between builds, by short ones. */
export function withShortNames(ptx: string): string {
  const names = new Map<string, string>();
  return ptx.replaceAll(/[$_A-Za-z][$\w]{39,}/g, (name) => {
    if (!names.has(name)) names.set(name, `long_name_${names.size}`);
    return names.get(name)!;
  });
}

/**
 * Removes the sections of debug information, which are most of the text and hold the paths of headers, and the target's
 * option that requires them.
 */
export function withoutDebugSections(ptx: string): string {
  return ptx.replaceAll(/[ \t]*\.section\s+\.debug_\w+\s*\{[^}]*\}\n?/g, "").replace(/^(\.target\s.*), debug$/m, "$1");
}

/** Throws an error if ptxas does not take the PTX for the newest device that the corpus runs on. */
export async function checkPtx(ptx: string, folder: string): Promise<void> {
  const target = /^\.target\s+sm_90a/m.test(ptx) ? `${checkedArchitecture}a` : checkedArchitecture;
  writeFileSync(`${folder}/checked.ptx`, ptx);
  await run("ptxas", [`-arch=sm_${target}`, "-o", "/dev/null", "checked.ptx"], folder);
}

function filesIn(folder: URL, extension: string): string[] {
  return readdirSync(folder).filter((file) => file.endsWith(extension)).sort();
}

/** Builds or checks the programs that the command line names, or all. Returns the exit status. */
export async function buildCorpus(corpus: Corpus, args: readonly string[]): Promise<number> {
  const check = args.includes("--check");
  const named = args.filter((argument) => !argument.startsWith("--"));
  const stored = new Set(ptxNames(corpus.folder));
  const built: Record<string, string> = {};
  let failures = 0;
  for (const program of named.length > 0 ? named : programNames(corpus)) {
    const texts = await corpus.build(program).catch((error: Error) => error);
    if (texts instanceof Error) {
      console.error(`${program}: ${texts.message}`);
      failures++;
      continue;
    }
    texts.forEach((text, index) => {
      const file = program + corpus.variants[index]!.extension;
      if (!check) {
        built[file] = text;
      } else if (!stored.has(file) || readStoredPtx(corpus.folder, file) !== text) {
        console.error(
          `${file} differs from the PTX of ${program}${corpus.sourceExtension}: run \`deno run -A ${corpus.script} ${program}\``,
        );
        failures++;
      }
    });
  }
  writeStoredPtx(corpus.folder, built);
  return failures === 0 ? 0 : 1;
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await buildCorpus(nvccCorpus, Deno.args);
}
