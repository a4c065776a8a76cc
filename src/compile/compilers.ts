/**
 * The interface of a compiler of CUDA C++, which NVRTC and compilers on the PATH implement; and finding one, and
 * compiling for a device with it.
 *
 * @module
 */
import { formatVersion } from "../support/version.ts";
import { checkProgram, type CompileOptions } from "./compile_options.ts";

/** A program to compile. All values have been checked. */
export interface CompilerInput {
  readonly source: string;
  /** The name that messages call the source by. */
  readonly name: string;
  /** Headers by the name that `#include` uses. */
  readonly headers: ReadonlyMap<string, string>;
  readonly includePaths: readonly string[];
  /** Macros and their values, as C++ writes them. */
  readonly defines: ReadonlyMap<string, string>;
  /** `compute_90a` for PTX, `sm_90a` for PTX and a cubin. */
  readonly architecture: string;
  readonly fusedMultiplyAdd: boolean;
  readonly lineInfo: boolean;
  readonly debug: boolean;
  readonly nameExpressions: readonly string[];
  /** Passed on as they are. */
  readonly flags: readonly string[];
}

/** The result of a compiler. */
export interface CompilerOutput {
  readonly ptx: string;
  /** Undefined if the architecture is a `compute_`. */
  readonly cubin: Uint8Array | undefined;
  /** Warnings; empty if there are none. */
  readonly log: string;
  /** The names in the PTX of the name expressions. */
  readonly loweredNames: ReadonlyMap<string, string>;
}

/** A compiler of CUDA C++. */
export interface Compiler {
  /** With its version: `nvrtc 13.0`. */
  readonly name: string;
  /**
   * Identifies the compiler and everything on which its results depend, other than the program and the compiler's own
   * files. Undefined if that is unknown: then its results are not cached.
   */
  readonly build: string | undefined;
  /** The version of CUDA whose PTX it writes: 13000 for CUDA 13.0. A driver refuses the PTX of a newer one. */
  readonly cudaVersion: number;
  /** The numbers of the architectures for which it compiles, such as 90. Undefined if it cannot be asked. */
  readonly architectures: readonly number[] | undefined;
  /**
   * Compiles a program.
   *
   * @throws {CompileError} If the compiler refuses the source
   * @throws {RangeError} If the compiler refuses an option
   */
  compile(input: CompilerInput): CompilerOutput;
}

/** Finds a compiler, or says why there is none. */
export type CompilerSearch = () => Compiler | { readonly reason: string };

/** A compiled program. */
export interface CompiledProgram {
  /** The PTX text. */
  readonly ptx: string;
  /** The compiler's warnings. Empty if there are none. */
  readonly log: string;
  /** The compiler with its version: `"nvrtc 13.0"`. */
  readonly compiler: string;
  /** The name in the PTX of each of the `nameExpressions`: `_Z5scaleIfEvPT_` for `scale<float>`. */
  readonly loweredNames: ReadonlyMap<string, string>;
}

/** What to compile for. */
export interface CompileTarget {
  readonly computeCapability: readonly [major: number, minor: number];
  /** The version of the driver that loads the result: 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /** Whether the device executes machine code, and the instructions that only its own architecture has. */
  readonly executesMachineCode: boolean;
}

const advice = [
  "install NVRTC with pip install nvidia-cuda-nvrtc in an active virtual environment, or give its path: " +
  "open({ nvrtc }) or POOLPASS_NVRTC",
  "or install the CUDA toolkit, and let nvcc be run (in Deno, with --allow-run=nvcc)",
  "or install clang and CUDA's headers, and let clang be run (--allow-run=clang)",
  "or compile to PTX elsewhere, with poolpass bind or nvcc -ptx, and load that with loadModule",
].join("; ");

/** The compilers of a program: the first that is found is used for all. */
export class Compilers {
  readonly #searches: readonly CompilerSearch[];
  #found: Compiler | undefined;

  /** @param searches Where to look, in order. */
  constructor(searches: readonly CompilerSearch[]) {
    this.#searches = searches;
  }

  /** Compiles a source to PTX for the architecture that the options name. */
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
   * Compiles a source for a device. If the device's driver would refuse the compiler's PTX because it is older than the
   * compiler, the output has a cubin, too.
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
    throw new Error(`Cannot compile CUDA C++: ${reasons.join("; ")}; ${advice}`);
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

/** The first compute capability that has instructions of its own, for which targets end in "a". */
const firstSpecificCapability = 90;

/** The device's own architecture, or the newest one that the compiler has for it. */
function architectureFor(target: CompileTarget, compiler: Compiler, needsCubin: boolean): string {
  const [major, minor] = target.computeCapability;
  const own = major * 10 + minor;
  const { architectures } = compiler;
  const isSpecific = target.executesMachineCode && own >= firstSpecificCapability;
  if (architectures === undefined || architectures.includes(own)) return `compute_${own}${isSpecific ? "a" : ""}`;
  // Machine code runs on later minor versions, PTX on all later devices.
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

/** Throws if the driver takes only machine code from the compiler, and that of an architecture does not run there. */
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

/** A `.file` directive: its beginning, the path, and the rest of the line. */
const fileDirective = /^(\s*\.file\s+\d+\s+")([^"\n]*)(".*)$/gm;

/**
 * Removes the folder in which the compiler ran from the paths of source files, which compilers put in front of the
 * source's name: PTX then is the same wherever it is compiled.
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
