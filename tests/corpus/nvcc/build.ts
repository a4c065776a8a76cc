/**
 * Builds the corpus: from every `NAME.cu` here the PTX in `NAME.ptx` (nvcc's defaults), `NAME.nofma.ptx`
 * (`-fmad=false`) and `NAME.debug.ptx` (`-G`).
 *
 * `deno run -A tests/corpus/nvcc/build.ts [--check] [NAME...]` writes the files of the programs that are named, or of all; with
 * `--check` it compares them with what it would write and exits 1 if one differs. It needs nvcc and ptxas.
 *
 * @module
 */
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

/** How a compiler is run for one text of a program. */
export interface Variant {
  /** As it is called on command lines and in the names of tests. */
  readonly name: string;
  /** What follows the program's name. */
  readonly extension: string;
  readonly options: readonly string[];
}

/** The programs of one compiler. */
export interface Corpus {
  /** Where they lie, and the PTX beside them. */
  readonly folder: URL;
  /** The script that builds them, as it is called from the repository's root. */
  readonly script: string;
  /** All that are built of each program. */
  readonly variants: readonly Variant[];
  /** Compiles a program in each way, in the order of the variants. Throws where a compiler or ptxas refuses. */
  build(program: string): Promise<string[]>;
}

/** The programs that nvcc compiles. */
export const nvccCorpus: Corpus = {
  folder: new URL(".", import.meta.url),
  script: "tests/corpus/nvcc/build.ts",
  variants: [
    { name: "default", extension: ".ptx", options: [] },
    { name: "nofma", extension: ".nofma.ptx", options: ["-fmad=false"] },
    { name: "debug", extension: ".debug.ptx", options: ["-G"] },
  ],
  build: buildWithNvcc,
};

/** nvcc 13 compiles for nothing older. */
const defaultArchitecture = "75";
/** What the PTX must be good for: the newest device that the corpus is run on. */
export const checkedArchitecture = "90";
/** A folder of this name and as many letters as mkdtemp adds: `-G` writes its path, and counts its bytes. */
const buildFolder = "/tmp/ptx-corpus";
const headerFolder = "/usr/local/cuda/include/";

/** The names of a corpus's programs, without extension. */
export function programNames({ folder }: Corpus): string[] {
  return filesIn(folder, ".cu").map((file) => file.slice(0, -".cu".length));
}

/** The PTX of a program, as it lies there. */
export function readPtx({ folder }: Corpus, program: string, { extension }: Variant): string {
  return readFileSync(new URL(program + extension, folder), "utf8");
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

/** What the first line asks for, as in `// nvcc -arch=compute_90`. */
function architectureOf(source: string): string {
  return /^\/\/ nvcc -arch=compute_(\w+)\n/.exec(source)?.[1] ?? defaultArchitecture;
}

/** Takes out what depends on where and by which build of nvcc the PTX was made. */
function withoutBuild(compiled: string, folder: string): string {
  const begin = compiled.indexOf(".version");
  if (begin < 0) throw new Error("Cannot find the header of the PTX that nvcc wrote");
  let text = compiled.slice(begin)
    .replaceAll(/(\.file\s+[0-9]+ ")[^"]*\/bin\/\.\.\/targets\/[^/"]+\/include\//g, `$1${headerFolder}`);
  text = replaceText(text, folder, buildFolder);
  // What has no external linkage bears a number that differs each time.
  const number = /_INTERNAL_([0-9a-f]{8})_/.exec(text)?.[1];
  return (number === undefined ? text : replaceText(text, `_${number}_`, "_00000000_")).trimEnd() + "\n";
}

/** Puts a text in the place of one as long, also where it stands as bytes in the sections of `-G`. */
function replaceText(ptx: string, text: string, replacement: string): string {
  const bytes = (of: string) => new TextEncoder().encode(of).join(",");
  return ptx.replaceAll(text, replacement).replaceAll(bytes(text), bytes(replacement));
}

/** Runs a compiler. Throws what it said where it failed. */
export async function run(program: string, args: readonly string[], folder: string): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], cwd: folder }).output();
  const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  if (!success) throw new Error(`Cannot run ${program} ${args.join(" ")}: ${said}`);
}

function filesIn(folder: URL, extension: string): string[] {
  return readdirSync(folder).filter((file) => file.endsWith(extension)).sort();
}

/** Builds or checks the programs that the command line names, or all. Returns the exit status. */
export async function buildCorpus(corpus: Corpus, args: readonly string[]): Promise<number> {
  const check = args.includes("--check");
  const named = args.filter((argument) => !argument.startsWith("--"));
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
      const path = new URL(file, corpus.folder);
      if (!check) {
        writeFileSync(path, text);
      } else if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
        console.error(
          `${file} differs from what ${program}.cu gives: run \`deno run -A ${corpus.script} ${program}\``,
        );
        failures++;
      }
    });
  }
  return failures === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exitCode = await buildCorpus(nvccCorpus, Deno.args);
