/**
 * Compiles CUDA C++.
 *
 * @module
 */
import { type CompiledProgram, type CompileOptions, type Cuda, open } from "../../mod.ts";

/** A function with the same parameters, result and errors as `Cuda.compile`. */
export type Compile = (
  source: string,
  options: CompileOptions & { architecture: string },
) => CompiledProgram;

/**
 * Compiles CUDA C++ without a GPU. Searches for a compiler only at the first compilation, because binding PTX does not
 * need one.
 */
export class SourceCompiler implements Disposable {
  #cuda: Cuda | undefined;

  /** Compiles CUDA C++ to PTX. */
  readonly compile: Compile = (source, options) => {
    this.#cuda ??= open({ driver: "software", softwareDevices: 1 });
    return this.#cuda.compile(source, options);
  };

  [Symbol.dispose](): void {
    this.#cuda?.[Symbol.dispose]();
    this.#cuda = undefined;
  }
}
