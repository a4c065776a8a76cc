/**
 * Builds every kernel here: from `NAME.cu` the PTX in `NAME.ptx`, and from that the module `NAME.ts` that code imports.
 *
 * `deno task kernels` writes the files; with `--check` it compares them with what it would write and exits 1 if one
 * differs.
 *
 * @module
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** nvcc 13 compiles for nothing older; `ptxas` then says whether the PTX uses anything newer. */
const architecture = "75";
/** What the PTX says of itself, so that every driver since CUDA 11.0 takes it. */
const ptxHeader = ".version 7.0\n.target sm_60\n";

/** A kernel's generated files. */
export interface GeneratedKernel {
  readonly ptx: string;
  /** The TypeScript module that exports it. */
  readonly module: string;
}

/** The names of the kernels, without extension. */
export function kernelNames(): string[] {
  return readdirSync(new URL(".", import.meta.url)).filter((file) => file.endsWith(".cu")).map((file) =>
    file.slice(0, -3)
  ).sort();
}

/** The text of one of the files here. */
export function readKernelFile(file: string): string {
  return readFileSync(new URL(file, import.meta.url), "utf8");
}

/** The version of nvcc on this machine, as `13.0.88`; undefined where there is none. */
export async function nvccVersion(): Promise<string | undefined> {
  try {
    return /\bV([0-9.]+)/.exec(await run("nvcc", ["--version"]))?.[1];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The version of nvcc that a generated module says it was built by. */
export function recordedNvccVersion(module: string): string | undefined {
  return /built by nvcc ([0-9]+(?:\.[0-9]+)*)/.exec(module)?.[1];
}

/** Compiles a kernel and checks the result. Throws where nvcc or ptxas is missing or refuses. */
export async function buildKernel(name: string): Promise<GeneratedKernel> {
  const nvcc = await nvccVersion();
  if (nvcc === undefined) throw new Error(`Cannot build ${name}.cu: nvcc was not found`);
  const file = new URL(`${name}.cu`, import.meta.url);
  const ptx = withStableHeader(
    await run("nvcc", [
      "-ptx",
      `-arch=compute_${architecture}`,
      "-fmad=false",
      "-o",
      "/dev/stdout",
      fileURLToPath(file),
    ]),
  );
  await run("ptxas", [`-arch=sm_${architecture}`, "-o", "/dev/null", "/dev/stdin"], ptx);
  return { ptx, module: moduleText(name, { ptx, signatures: cSignatures(readKernelFile(`${name}.cu`)), nvcc }) };
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

/** The module that exports PTX text. */
export function moduleText(
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

/** The kernels' heads, as the CUDA source writes them. */
export function cSignatures(source: string): string[] {
  return [...source.matchAll(/extern "C" __global__ (void \w+\([^)]*\))/g)].map((match) =>
    match[1]!.replace(/\s+/g, " ")
  );
}

/** Takes off nvcc's banner, which names the build of the compiler, and says how little the PTX needs. */
function withStableHeader(compiled: string): string {
  const begin = compiled.indexOf(".version");
  const header = /^\.version [0-9.]+\n\.target sm_[0-9]+\n/.exec(compiled.slice(begin));
  if (begin < 0 || header === null) throw new Error("Cannot find the header of the PTX that nvcc wrote");
  return ptxHeader + compiled.slice(begin + header[0].length).trimEnd() + "\n";
}

async function main(check: boolean): Promise<number> {
  let outdated = 0;
  for (const name of kernelNames()) {
    const { ptx, module } = await buildKernel(name);
    for (const [file, text] of [[`${name}.ptx`, ptx], [`${name}.ts`, module]] as const) {
      if (!check) {
        writeFileSync(new URL(file, import.meta.url), text);
      } else if (readKernelFile(file) !== text) {
        console.error(`kernels/${file} differs from what ${name}.cu gives: run \`deno task kernels\``);
        outdated++;
      }
    }
  }
  return outdated === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exitCode = await main(Deno.args.includes("--check"));
