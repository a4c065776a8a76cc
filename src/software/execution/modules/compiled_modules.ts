/**
 * Compiled modules of a process, kept by their PTX, so that loading the same PTX again does not compile it again.
 *
 * Only immutable parts are kept. Every load has its own instance and variables.
 *
 * @module
 */
import type { KernelCheck } from "../../../kernel_checker.ts";
import { type CompiledKernel, type CompiledModule, compilePtx, type GangKernel } from "../../compiler/compile.ts";
import { compileLinked, type NamedPtx } from "../../compiler/linking/link_ptx.ts";
import type { GangWidth } from "../../compiler/simd/gang_layout.ts";

/** A compiled module, and its code in the engine. */
export interface CompiledCode {
  readonly module: CompiledModule;
  readonly code: WebAssembly.Module;
}

/** A kernel's version for gangs, and its code in the engine. */
export interface CompiledGangs {
  readonly compiled: GangKernel;
  readonly code: WebAssembly.Module;
}

/** Options of the compiler on which a module's code depends. */
export interface CodeOptions {
  readonly boundsChecks: boolean;
  readonly gangs: boolean | "always";
  readonly observesAccesses: boolean;
  readonly variesThreads: boolean;
  readonly checksWrites: boolean;
  readonly kernelChecks: ReadonlySet<KernelCheck>;
}

/**
 * A cache of values by strings, limited by the total length of the strings. The least recently used value is evicted
 * first.
 */
export class RecentlyUsed<Value> {
  readonly #maximumLength: number;
  /** In the order of their last use. */
  readonly #values = new Map<string, Value>();
  #length = 0;

  /** @param maximumLength of all strings together, in UTF-16 code units */
  constructor(maximumLength: number) {
    this.#maximumLength = maximumLength;
  }

  /** Returns the value of a string, and creates it if it is not cached. If that throws, nothing is cached. */
  get(key: string, create: () => Value): Value {
    const kept = this.#values.get(key);
    const value = kept ?? create();
    if (kept === undefined) this.#length += key.length;
    else this.#values.delete(key);
    this.#values.set(key, value);
    for (const [oldest] of this.#values) {
      if (this.#length <= this.#maximumLength) break;
      this.#values.delete(oldest);
      this.#length -= oldest.length;
    }
    return value;
  }
}

/**
 * The PTX of all modules that are kept. A compiled module takes 40 bytes for each character, and up to 200 if its kernels
 * have been launched and have barriers: the modules that are kept take 200 MB at most.
 */
const maximumPtxLength = 2 ** 20;

const keptModules = new RecentlyUsed<CompiledCode>(maximumPtxLength);
/** The versions of kernels that run in gangs, which live as long as the kernels. */
const keptGangs = new WeakMap<CompiledKernel, Map<GangWidth, CompiledGangs | undefined>>();

/**
 * Compiles a PTX module, or several linked to one, unless the process has done so lately.
 *
 * @throws {PtxError} as `compilePtx` does, and `LinkError` as `compileLinked` does
 */
export function compiledModule(ptx: string | readonly NamedPtx[], options: CodeOptions): CompiledCode {
  const text = typeof ptx === "string" ? ptx : JSON.stringify(ptx.map(({ name, ptx }) => [name, ptx]));
  const { boundsChecks, gangs, observesAccesses, variesThreads, checksWrites, kernelChecks } = options;
  const checks = [...kernelChecks].sort().join();
  const key = `${boundsChecks} ${gangs} ${observesAccesses} ${variesThreads} ${checksWrites} ${checks}`;
  return keptModules.get(`${key} ${typeof ptx} ${text}`, () => {
    const module = typeof ptx === "string" ? compilePtx(ptx, options) : compileLinked(ptx, options);
    return { module, code: new WebAssembly.Module(module.wasm) };
  });
}

/** Compiles a kernel for gangs, unless that was done before. Undefined if gangs cannot run it or would not pay, or if the engine refuses. */
export function compiledGangs(kernel: CompiledKernel, width: GangWidth): CompiledGangs | undefined {
  let versions = keptGangs.get(kernel);
  if (versions === undefined) keptGangs.set(kernel, versions = new Map());
  if (versions.has(width)) return versions.get(width);
  const compiled = kernel.compileGangs(width);
  const code = compiled && unlessRefused(() => new WebAssembly.Module(compiled.wasm));
  // The engine may refuse for lack of memory, and succeed later.
  if (compiled !== undefined && code === undefined) return undefined;
  const version = compiled && code && { compiled, code };
  versions.set(width, version);
  return version;
}

/** Compiles in the engine. Undefined if it refuses, for instance for lack of memory. */
export function unlessRefused<Created>(create: () => Created): Created | undefined {
  try {
    return create();
  } catch {
    return undefined;
  }
}
