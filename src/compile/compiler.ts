/**
 * What a compiler of CUDA C++ does: the interface between `compile` and NVRTC, or a compiler on the PATH.
 *
 * @module
 */

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

/** What a compiler has made of a program. */
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
   * What tells it from any other compiler, with all that its results depend on beside the program and the files that come
   * with the compiler. Undefined if that cannot be told: then nothing that it compiles is kept.
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
