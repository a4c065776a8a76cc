/**
 * Compiles CUDA C++ by nvcc.
 *
 * @module
 */
import type { Compiler, CompilerInput, CompilerOutput } from "../../src/compile/compilers.ts";
import { formatVersion } from "../../src/support/version.ts";
import { shown } from "../../src/support/validation.ts";
import {
  buildOf,
  type CommandCompiler,
  type CommandPaths,
  commandRefusal,
  compileByCommand,
  runCommand,
} from "./command_compiler.ts";

const command = "nvcc";

/** Finds nvcc on the PATH, or returns the reason why nvcc cannot be used. */
export function findNvcc(): Compiler | { readonly reason: string } {
  const refusal = commandRefusal(command);
  if (refusal !== undefined) return { reason: refusal };
  const result = runCommand(command, ["--version"]);
  if (result === undefined) return { reason: "no nvcc is on the PATH" };
  const version = /\brelease (\d+)\.(\d+), V(\S+)/.exec(result.output);
  if (version === null) return { reason: `nvcc does not say its version: ${result.errors.trim()}` };
  return new Nvcc(Number(version[1]) * 1000 + Number(version[2]) * 10, result.output);
}

class Nvcc implements Compiler, CommandCompiler {
  readonly command = command;
  readonly name: string;
  readonly cudaVersion: number;
  readonly build: string;
  #architectures: readonly number[] | undefined;

  constructor(cudaVersion: number, build: string) {
    this.cudaVersion = cudaVersion;
    this.name = `${command} ${formatVersion(cudaVersion)}`;
    this.build = buildOf(build);
  }

  get architectures(): readonly number[] | undefined {
    if (this.#architectures === undefined) {
      const result = runCommand(command, ["--list-gpu-arch"]);
      const listed = Array.from(result?.output.matchAll(/^compute_(\d+)$/gm) ?? [], ([, number]) => Number(number));
      this.#architectures = listed.sort((a, b) => a - b);
    }
    // nvcc before CUDA 11 has no option that lists architectures.
    return this.#architectures.length === 0 ? undefined : this.#architectures;
  }

  compile(input: CompilerInput): CompilerOutput {
    for (const path of input.includePaths) checkFolder(path, this.name);
    return compileByCommand(this, input);
  }

  argumentsFor(input: CompilerInput, { source, cubin }: CommandPaths): readonly string[] {
    const { architecture, fusedMultiplyAdd, debug, lineInfo, includePaths, flags } = input;
    return [
      ...cubin === undefined ? ["-ptx", "-o", "-"] : ["-cubin", "-o", cubin],
      `-arch=${cubin === undefined ? architecture.replace("sm_", "compute_") : architecture}`,
      `-fmad=${fusedMultiplyAdd}`,
      ...debug ? ["-G"] : lineInfo ? ["-lineinfo"] : [],
      ...includePaths.flatMap((path) => ["-I", path]),
      ...flags,
      ...["-x", "cu", source],
    ];
  }

  warningsIn(messages: string): string {
    // Removes nvcc's own warnings about old architectures, which do not concern the source.
    return messages.split("\n").filter((line) => !/^nvcc (?:warning|info)\s*:/.test(line)).join("\n");
  }
}

/**
 * Throws if a folder's path has characters that nvcc would misinterpret: nvcc splits lists at commas, and runs its
 * tools in a shell.
 */
function checkFolder(path: string, name: string): void {
  const [special] = /[^\p{L}\p{N} @%+=:./_~-]/u.exec(path) ?? [];
  if (special === undefined) return;
  throw new RangeError(`Cannot use the folder ${shown(path)} of includePaths with ${name}: it contains ${special}`);
}
