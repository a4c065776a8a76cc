/**
 * Builds all kernels in this folder: the PTX in `NAME.ptx` from `NAME.cu`, and the importable module `NAME.ts` from the
 * PTX.
 *
 * `deno task kernels` writes the files. With `--check`, it only compares them with what it would write, and exits with
 * 1 if a file differs.
 *
 * @module
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { answerHelp } from "../tests/support/program_help.ts";

/** The oldest architecture that nvcc 13 supports. `ptxas` then checks that the PTX uses nothing newer. */
const architecture = "75";
/** The header of the generated PTX, which every driver since CUDA 11.0 accepts. */
const ptxHeader = ".version 7.0\n.target sm_60\n";

/** The contents of a kernel's generated files. */
export interface GeneratedKernel {
  readonly ptx: string;
  /** The TypeScript module that exports the PTX. */
  readonly module: string;
}

/** Returns the names of the kernels' files, without extensions. */
export function kernelNames(): string[] {
  return readdirSync(new URL(".", import.meta.url)).filter((file) => file.endsWith(".cu")).map((file) =>
    file.slice(0, -3)
  ).sort();
}

/** Reads a file of this folder. */
export function readKernelFile(file: string): string {
  return readFileSync(new URL(file, import.meta.url), "utf8");
}

/** Resolves to the version of nvcc on this machine, for example `13.0.88`, or undefined if nvcc is not installed. */
export async function nvccVersion(): Promise<string | undefined> {
  try {
    return /\bV([0-9.]+)/.exec(await run("nvcc", ["--version"]))?.[1];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Returns the version of nvcc that is recorded in a generated module. */
export function recordedNvccVersion(module: string): string | undefined {
  return /built by nvcc ([0-9]+(?:\.[0-9]+)*)/.exec(module)?.[1];
}

/**
 * Compiles a kernel and checks the result.
 *
 * @throws {Error} if nvcc or ptxas is missing or fails
 */
export async function buildKernel(name: string): Promise<GeneratedKernel> {
  const nvcc = await nvccVersion();
  if (nvcc === undefined) throw new Error(`Cannot build ${name}.cu: nvcc was not found`);
  const file = new URL(`${name}.cu`, import.meta.url);
  const compiled = withStableHeader(
    await run("nvcc", [
      "-ptx",
      `-arch=compute_${architecture}`,
      "-fmad=false",
      "-lineinfo",
      "-o",
      "/dev/stdout",
      fileURLToPath(file),
    ]),
  );
  const ptx = withoutFolders(compiled);
  await run("ptxas", [`-arch=sm_${architecture}`, "-o", "/dev/null", "/dev/stdin"], ptx);
  return { ptx, module: moduleSource(name, { ptx, signatures: cSignatures(readKernelFile(`${name}.cu`)), nvcc }) };
}

async function run(program: string, args: readonly string[], input = ""): Promise<string> {
  const child = new Deno.Command(program, { args: [...args], stdin: "piped", stdout: "piped", stderr: "piped" })
    .spawn();
  const output = child.output();
  const stdin = child.stdin.getWriter();
  await stdin.write(new TextEncoder().encode(input));
  await stdin.close();
  const { success, stdout, stderr } = await output;
  if (!success) throw new Error(`Cannot run ${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Returns the source of the module that exports a kernel's PTX. */
export function moduleSource(
  name: string,
  { ptx, signatures, nvcc }: { ptx: string; signatures: readonly string[]; nvcc: string },
): string {
  const escaped = ptx.replaceAll("\\", "\\\\").replaceAll("`", "\\`").replaceAll("${", "\\${");
  return `// Generated from ${name}.cu by \`deno task kernels\`, built by nvcc ${nvcc}. Do not edit.

/**
 * PTX of the kernels in \`${name}.cu\`:
 *
 * \`\`\`c
${signatures.map((signature) => ` * ${signature};\n`).join("")} * \`\`\`
 */
export const ptx: string = \`${escaped}\`;
`;
}

/** Returns the signatures of the kernels in a CUDA source. */
export function cSignatures(source: string): string[] {
  return [...source.matchAll(/extern "C" __global__ (void \w+\([^)]*\))/g)].map((match) =>
    match[1]!.replace(/\s+/g, " ")
  );
}

/**
 * Removes nvcc's banner, which names the build of the compiler, and lowers the PTX version and target in the header.
 */
function withStableHeader(compiled: string): string {
  const begin = compiled.indexOf(".version");
  const header = /^\.version [0-9.]+\n\.target sm_[0-9]+\n/.exec(compiled.slice(begin));
  if (begin < 0 || header === null) throw new Error("Cannot find the header of the PTX that nvcc wrote");
  return ptxHeader + compiled.slice(begin + header[0].length).trimEnd() + "\n";
}

/** Removes the folders of the `.file` paths, which differ between machines. */
function withoutFolders(ptx: string): string {
  return ptx.replaceAll(/^(\s*\.file\s+\d+\s+")[^"\n]*\//gm, "$1");
}

async function main(check: boolean): Promise<number> {
  let outdated = 0;
  for (const name of kernelNames()) {
    const { ptx, module } = await buildKernel(name);
    for (const [file, content] of [[`${name}.ptx`, ptx], [`${name}.ts`, module]] as const) {
      if (!check) {
        writeFileSync(new URL(file, import.meta.url), content);
      } else if (readKernelFile(file) !== content) {
        console.error(`kernels/${file} differs from what ${name}.cu compiles to: run \`deno task kernels\``);
        outdated++;
      }
    }
  }
  return outdated === 0 ? 0 : 1;
}

if (import.meta.main) {
  answerHelp(import.meta.url, ["check"]);
  Deno.exitCode = await main(Deno.args.includes("--check"));
}
