/**
 * The interface of a CUDA C++ compiler, which NVRTC and compilers on the PATH implement. Finds a compiler, and compiles
 * for a device with it.
 *
 * @module
 */
import { formatVersion } from "../support/version.ts";
import { checkProgram, type CompileOptions } from "./compile_options.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** A program to compile. All values were already checked. */
export interface CompilerInput {
  readonly source: string;
  /** The name of the source in messages. */
  readonly name: string;
  /** Headers by the name that `#include` uses. */
  readonly headers: ReadonlyMap<string, string>;
  readonly includePaths: readonly string[];
  /** Macros and their values in C++ syntax. */
  readonly defines: ReadonlyMap<string, string>;
  /** The architecture to compile for: for example, `compute_90a` requests PTX, and `sm_90a` PTX and a cubin. */
  readonly architecture: string;
  readonly fusedMultiplyAdd: boolean;
  readonly lineInfo: boolean;
  readonly debug: boolean;
  readonly nameExpressions: readonly string[];
  /** Flags that are passed to the compiler unchanged. */
  readonly flags: readonly string[];
}

/** The output of a compilation. */
export interface CompilerOutput {
  readonly ptx: string;
  /** The cubin; undefined if the architecture is virtual, such as `compute_90`. */
  readonly cubin: Uint8Array | undefined;
  /** The compiler's warnings; empty if there are none. */
  readonly log: string;
  /** The PTX symbol of each name expression. */
  readonly loweredNames: ReadonlyMap<string, string>;
}

/** A compiler of CUDA C++. */
export interface Compiler {
  /** The compiler's name with its version: `nvrtc 13.0`. */
  readonly name: string;
  /**
   * Identifies the compiler and everything on which its results depend, other than the program and the compiler's own
   * files. If undefined, the results are not cached.
   */
  readonly build: string | undefined;
  /** The version of CUDA whose PTX the compiler generates: 13000 for CUDA 13.0. An older driver rejects that PTX. */
  readonly cudaVersion: number;
  /** The numbers of the architectures that the compiler supports, such as 90. Undefined if they are not known. */
  readonly architectures: readonly number[] | undefined;
  /**
   * Compiles a program.
   *
   * @throws {CompileError} If the compiler refuses the source
   * @throws {RangeError} If the compiler refuses an option
   */
  compile(input: CompilerInput): CompilerOutput;
}

/** Finds a compiler, or returns why there is none. */
export type CompilerSearch = () => Compiler | { readonly reason: string };

/** A compiled program. */
export interface CompiledProgram {
  /** The PTX text. */
  readonly ptx: string;
  /** The compiler's warnings. Empty if there are none. */
  readonly log: string;
  /** The compiler with its version: `"nvrtc 13.0"`. */
  readonly compiler: string;
  /** The PTX symbol of each of the `nameExpressions`: `_Z5scaleIfEvPT_` for `scale<float>`. */
  readonly loweredNames: ReadonlyMap<string, string>;
}

/** The device and driver to compile for. */
export interface CompileTarget {
  readonly computeCapability: readonly [major: number, minor: number];
  /** The version of the driver that loads the result: 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /** Whether the device executes machine code and architecture-specific instructions. A software device does not. */
  readonly executesMachineCode: boolean;
}

const advice = `Do one of these:
- run pip install nvidia-cuda-nvrtc in an active virtual environment, or name libnvrtc.so with POOLPASS_NVRTC or ` +
  `open({ nvrtc })
- install the CUDA toolkit, which has nvcc (Deno also needs --allow-run=nvcc)
- install clang and CUDA's headers (Deno also needs --allow-run=clang)
- compile to PTX elsewhere, with poolpass bind or nvcc -ptx, and load it with loadModule`;

/** The compilers that may be installed. The first one that is found compiles all sources. */
export class Compilers {
  readonly #searches: readonly CompilerSearch[];
  #found: Compiler | undefined;

  /** @param searches functions that each search for a compiler, in order of preference */
  constructor(searches: readonly CompilerSearch[]) {
    this.#searches = searches;
  }

  /** Compiles a source to PTX for the architecture named in the options. */
  compile(source: string, options: CompileOptions = {}): CompiledProgram {
    const program = checkProgram(source, options);
    const { architecture } = program;
    if (architecture === undefined) {
      throw new TypeError(
        'Cannot compile without an architecture: give { architecture: "compute_90" }, or use compile of a device',
      );
    }
    const compiler = this.#find();
    const { ptx, log, loweredNames } = compileBy(compiler, { ...program, architecture });
    return { ptx, log, compiler: compiler.name, loweredNames };
  }

  /**
   * Compiles a source for a device. If the driver is older than the compiler and would reject its PTX, the output also
   * has a cubin.
   */
  compileFor(target: CompileTarget, source: string, options: CompileOptions): CompilerOutput {
    const program = checkProgram(source, options);
    const compiler = this.#find();
    const needsCubin = target.executesMachineCode && compiler.cudaVersion > target.driverVersion;
    const { architecture = architectureFor(target, compiler, needsCubin) } = program;
    if (needsCubin) checkMachineCode(architecture, target, compiler);
    return compileBy(compiler, {
      ...program,
      architecture: needsCubin ? architecture.replace("compute_", "sm_") : architecture,
    });
  }

  #find(): Compiler {
    if (this.#found !== undefined) return this.#found;
    const reasons: string[] = [];
    for (const search of this.#searches) {
      const found = search();
      if (!("reason" in found)) return this.#found = found;
      reasons.push(found.reason);
    }
    const list = reasons.map((reason) => `- ${reason}`).join("\n");
    throw new Error(`Cannot compile CUDA C++: no compiler was found\n${list}\n${advice}`);
  }
}

function compileBy(compiler: Compiler, input: CompilerInput): CompilerOutput {
  const output = compiler.compile(input);
  if (!/^\s*\.version\s/m.test(output.ptx)) {
    throw new RangeError(
      `Cannot compile ${input.name}: ${compiler.name} wrote no PTX; omit flags that ask for something else, such as -dlto`,
    );
  }
  return { ...output, ptx: removeWorkingFolder(output.ptx, input.name) };
}

/** The first compute capability with architecture-specific instructions, whose targets end in "a". */
const firstSpecificCapability = 90;

/** Returns the device's own architecture, or the newest one that the compiler supports for the device. */
function architectureFor(target: CompileTarget, compiler: Compiler, needsCubin: boolean): string {
  const [major, minor] = target.computeCapability;
  const own = major * 10 + minor;
  const { architectures } = compiler;
  const isSpecific = own >= firstSpecificCapability;
  if (architectures === undefined || architectures.includes(own)) return `compute_${own}${isSpecific ? "a" : ""}`;
  // Machine code also runs on later minor versions of the same compute capability, and PTX on all later devices.
  const usable = architectures.filter((each) => each < own && (!needsCubin || Math.floor(each / 10) === major));
  if (usable.length === 0) {
    throw new Error(
      `Cannot compile for compute capability ${major}.${minor}: ${compiler.name} compiles for ` +
        `${architectures.map((each) => formatCapability(each)).join(", ")}` +
        (needsCubin
          ? `, and its PTX is too new for the driver, which is for CUDA ${formatVersion(target.driverVersion)}`
          : ""),
    );
  }
  return `compute_${Math.max(...usable)}`;
}

/**
 * Throws if machine code for `architecture` does not run on the device. Called if the driver accepts only machine code
 * from the compiler, because the driver is older than the compiler's PTX.
 */
function checkMachineCode(architecture: string, target: CompileTarget, compiler: Compiler): void {
  const number = Number(/\d+/.exec(architecture));
  const [major, minor] = target.computeCapability;
  if (Math.floor(number / 10) === major && number % 10 <= minor) return;
  throw new RangeError(
    `Cannot compile for ${architecture} with ${compiler.name}: the driver is for CUDA ` +
      `${formatVersion(target.driverVersion)} and refuses its PTX, and its machine code would not run on compute ` +
      `capability ${major}.${minor}; omit architecture, or install a newer driver`,
  );
}

function formatCapability(number: number): string {
  return `${Math.floor(number / 10)}.${number % 10}`;
}

/** Matches a `.file` directive: its beginning, the path, and the rest of the line. */
const fileDirective = /^(\s*\.file\s+\d+\s+")([^"\n]*)(".*)$/gm;

/**
 * Removes the compiler's working folder, which compilers prepend to file names, from the paths in `.file` directives,
 * so that the PTX does not depend on where the source was compiled.
 */
function removeWorkingFolder(ptx: string, name: string): string {
  const paths = Array.from(ptx.matchAll(fileDirective), ([, , path]) => path!);
  const source = paths.find((path) => path.endsWith(`/${name}`));
  if (source === undefined) return ptx;
  const folder = source.slice(0, -name.length);
  return ptx.replaceAll(
    fileDirective,
    (_, begin: string, path: string, end: string) =>
      begin + (path.startsWith(folder) ? path.slice(folder.length) : path) + end,
  );
}
