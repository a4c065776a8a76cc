/**
 * Compiles CUDA C++ by clang.
 *
 * @module
 */
import type { Compiler, CompilerInput, CompilerOutput } from "../../src/compile/compilers.ts";
import { environmentVariable } from "../native/environment.ts";
import { toolkitFolders } from "../toolkit_libraries.ts";
import {
  buildOf,
  type CommandCompiler,
  type CommandPaths,
  commandRefusal,
  compileByCommand,
  MemoryFiles,
  runCommand,
} from "./command_compiler.ts";

const command = "clang";
/** The GPU architecture that the trial compilation targets. All current versions of CUDA support it. */
const triedArchitecture = "sm_75";

/** Finds clang on the PATH and CUDA's headers, or returns the reason why clang cannot be used. */
export function findClang(): Compiler | { readonly reason: string } {
  const refusal = commandRefusal(command);
  if (refusal !== undefined) return { reason: refusal };
  const result = runCommand(command, ["--version"]);
  if (result === undefined) return { reason: "no clang is on the PATH" };
  const version = /\bclang version (\d+\.\d+)/.exec(result.output)?.[1];
  if (version === undefined) return { reason: `clang does not say its version: ${result.errors.trim()}` };
  // clang searches for CUDA and checks its version by itself, so only a trial compilation shows whether it works.
  using files = new MemoryFiles();
  const architecture = `--cuda-gpu-arch=${triedArchitecture}`;
  const tried = runCommand(command, [
    ...cudaArguments(files),
    "-S",
    "-o",
    "-",
    architecture,
    "-x",
    "cuda",
    "/dev/null",
  ]);
  const [, major, minor] = /^\.version (\d+)\.(\d+)/m.exec(tried?.output ?? "") ?? [];
  if (major === undefined) {
    const [said = "no PTX"] = /(?<=\berror: ).*$/m.exec(tried?.errors ?? "") ?? [];
    return { reason: `clang ${version} does not compile CUDA C++ (${said})` };
  }
  return new Clang(version, {
    cudaVersion: cudaVersionOf(Number(major), Number(minor)),
    build: result.output,
  });
}

class Clang implements Compiler, CommandCompiler {
  readonly command = command;
  readonly name: string;
  readonly cudaVersion: number;
  readonly build: string;
  #architectures: readonly number[] | undefined;

  constructor(version: string, { cudaVersion, build }: Pick<Clang, "cudaVersion" | "build">) {
    this.name = `${command} ${version}`;
    this.cudaVersion = cudaVersion;
    this.build = buildOf(build);
  }

  get architectures(): readonly number[] | undefined {
    if (this.#architectures === undefined) {
      // Depending on its version, clang prints the list of architectures to standard output or to standard error.
      const result = runCommand(command, ["--target=nvptx64", "-print-supported-cpus"]);
      const listed = `${result?.output}${result?.errors}`.matchAll(/^\s*sm_(\d+)$/gm);
      this.#architectures = Array.from(listed, ([, number]) => Number(number)).sort((a, b) => a - b);
    }
    return this.#architectures.length === 0 ? undefined : this.#architectures;
  }

  compile(input: CompilerInput): CompilerOutput {
    return compileByCommand(this, input);
  }

  argumentsFor(input: CompilerInput, { files, source, cubin }: CommandPaths): readonly string[] {
    const { architecture, fusedMultiplyAdd, debug, lineInfo, includePaths, flags } = input;
    return [
      ...cudaArguments(files),
      ...cubin === undefined ? ["-S", "-o", "-"] : ["-c", "-o", cubin],
      `--cuda-gpu-arch=${architecture.replace("compute_", "sm_")}`,
      `-ffp-contract=${fusedMultiplyAdd ? "fast" : "off"}`,
      ...debug ? ["-O0", "-g"] : ["-O3", lineInfo ? "-gline-directives-only" : "-g0"],
      // The option for ptxas is only passed if clang runs ptxas; otherwise clang would print a warning.
      ...debug && cubin !== undefined ? ["--cuda-noopt-device-debug"] : [],
      ...includePaths.flatMap((path) => ["-I", path]),
      ...flags,
      ...["-x", "cuda", source],
    ];
  }

  warningsIn(messages: string): string {
    return messages;
  }
}

/** Returns the version of CUDA that introduced a version of PTX: 11.0 for PTX 7.0, 12.5 for PTX 8.5. */
function cudaVersionOf(major: number, minor: number): number {
  return (major + 4) * 1000 + minor * 10;
}

/** Headers that clang's own headers include, but that CUDA 13 lacks. Empty files suffice. */
const absentHeaders = ["texture_fetch_functions.h", "curand_mtgp32_kernel.h"];
const absentHeaderFolder = "/poolpass-absent-headers";

function cudaArguments(files: MemoryFiles): readonly string[] {
  const contents = absentHeaders.map((name) => ({ type: "file", name, "external-contents": "/dev/null" }));
  const overlay = files.create("the headers that CUDA lacks");
  files.write(
    overlay,
    JSON.stringify({ version: 0, roots: [{ type: "directory", name: absentHeaderFolder, contents }] }),
  );
  const folder = environmentVariable("CUDA_HOME") || environmentVariable("CUDA_PATH");
  return [
    "--cuda-device-only",
    ...folder ? [`--cuda-path=${folder}`] : [],
    "-Wno-unknown-cuda-version",
    ...["-ivfsoverlay", overlay, "-idirafter", absentHeaderFolder],
    // clang does not search the folder that contains libcu++ in CUDA 13.
    ...toolkitFolders().flatMap((folder) => ["-idirafter", `${folder}/include/cccl`]),
  ];
}
