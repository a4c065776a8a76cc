/**
 * Compiles CUDA C++.
 *
 * @module
 */
import { type CompiledProgram, type CompileOptions, type Cuda, open } from "../../mod.ts";

/** A function with the contract of `Cuda.compile`. */
export type Compile = (
  source: string,
  options: CompileOptions & { architecture: string },
) => CompiledProgram;

/** Compiles without a GPU. Searches for a compiler lazily, at the first compilation, because PTX needs none. */
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
