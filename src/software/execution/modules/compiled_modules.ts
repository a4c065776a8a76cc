/**
 * A cache of the process's compiled modules, by PTX, so that loading the same PTX again does not compile it again.
 *
 * Only immutable parts are cached. Every load has its own instance and variables.
 *
 * @module
 */
import type { KernelCheck } from "../../../kernel_checker.ts";
import {
  type CompiledKernel,
  type CompiledModule,
  compilePtx,
  type DeferredKernel,
  type GangKernel,
} from "../../compiler/compile.ts";
import { compileLinked, type NamedPtx } from "../../compiler/linking/link_ptx.ts";
import type { GangWidth } from "../../compiler/simd/gang_layout.ts";

/** A compiled module, and the WebAssembly engine's code for it. */
export interface CompiledCode {
  readonly module: CompiledModule;
  readonly code: WebAssembly.Module;
}

/** A kernel that was compiled by itself, and the WebAssembly engine's code for it. */
export interface CompiledKernelCode {
  readonly kernel: CompiledKernel;
  readonly code: WebAssembly.Module;
}

/** A kernel compiled for gangs, and the WebAssembly engine's code for it. */
export interface CompiledGangs {
  readonly compiled: GangKernel;
  readonly code: WebAssembly.Module;
}

/** The compiler options that affect a module's code. */
export interface CodeOptions {
  readonly boundsChecks: boolean;
  readonly gangs: boolean | "always";
  readonly observesAccesses: boolean;
  readonly variesThreads: boolean;
  readonly checksWrites: boolean;
  readonly kernelChecks: ReadonlySet<KernelCheck>;
  readonly stackBytes: number;
}

/**
 * A cache with strings as keys. If the total length of the keys exceeds the limit, the least recently used values are
 * evicted.
 */
export class RecentlyUsed<Value> {
  readonly #maximumLength: number;
  /** The values, least recently used first. */
  readonly #values = new Map<string, Value>();
  #length = 0;

  /** @param maximumLength the maximum total length of the keys, in UTF-16 code units */
  constructor(maximumLength: number) {
    this.#maximumLength = maximumLength;
  }

  /**
   * Returns the value of a key. If there is none, calls `create` and caches the result. If `create` throws, nothing is
   * cached.
   */
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
 * The maximum total length of the PTX of cached modules, in characters. A compiled module occupies about 20 bytes per
 * character of its PTX, or up to 200 bytes if kernels with barriers have been launched, so the cache occupies at most
 * 200 MB.
 */
const maximumPtxLength = 2 ** 20;

/**
 * The number of statements above which the kernels of a module are compiled when they are first used. A program uses few
 * kernels of a large module, as that of a library. Compiling a smaller module at once takes some 20 milliseconds.
 */
const deferredAbove = 1000;

const keptModules = new RecentlyUsed<CompiledCode>(maximumPtxLength);
/** The kernels that were compiled when they were first used. Kept as long as their modules exist. */
const keptKernels = new WeakMap<DeferredKernel, CompiledKernelCode>();
/** The versions of each kernel that were compiled for gangs, by gang width. Kept as long as the kernel exists. */
const keptGangs = new WeakMap<CompiledKernel, Map<GangWidth, CompiledGangs | undefined>>();

/**
 * Returns a compiled PTX module, or several modules linked into one, from the cache if possible.
 *
 * @throws {PtxError} if the PTX is not valid; a `LinkError` is thrown if linking fails
 */
export function compiledModule(ptx: string | readonly NamedPtx[], options: CodeOptions): CompiledCode {
  const text = typeof ptx === "string" ? ptx : JSON.stringify(ptx.map(({ name, ptx }) => [name, ptx]));
  const { boundsChecks, gangs, observesAccesses, variesThreads, checksWrites, kernelChecks, stackBytes } = options;
  const checks = [...kernelChecks].sort().join();
  const key = `${boundsChecks} ${gangs} ${observesAccesses} ${variesThreads} ${checksWrites} ${checks} ${stackBytes}`;
  return keptModules.get(`${key} ${typeof ptx} ${text}`, () => {
    const all = { ...options, deferredAbove };
    const module = typeof ptx === "string" ? compilePtx(ptx, all) : compileLinked(ptx, all);
    return { module, code: new WebAssembly.Module(module.wasm) };
  });
}

/** Compiles a kernel of a module, unless it has been compiled already. Throws like {@linkcode DeferredKernel.compile}. */
export function compiledKernel(deferred: DeferredKernel): CompiledKernelCode {
  let kept = keptKernels.get(deferred);
  if (kept === undefined) {
    const { wasm, kernel } = deferred.compile();
    keptKernels.set(deferred, kept = { kernel, code: new WebAssembly.Module(wasm) });
  }
  return kept;
}

/**
 * Returns a kernel compiled for gangs, from the cache if possible. Returns undefined if the kernel cannot run in gangs,
 * if gangs are not profitable, or if the engine fails to compile the code.
 */
export function compiledGangs(kernel: CompiledKernel, width: GangWidth): CompiledGangs | undefined {
  let versions = keptGangs.get(kernel);
  if (versions === undefined) keptGangs.set(kernel, versions = new Map());
  if (versions.has(width)) return versions.get(width);
  const compiled = kernel.compileGangs(width);
  const code = compiled && unlessRefused(() => new WebAssembly.Module(compiled.wasm));
  // Does not cache this failure: the engine may have been out of memory, and may succeed later.
  if (compiled !== undefined && code === undefined) return undefined;
  const version = compiled && code && { compiled, code };
  versions.set(width, version);
  return version;
}

/**
 * Returns the result of `create`, which calls the WebAssembly engine. Returns undefined if the engine throws, for
 * example because it is out of memory.
 */
export function unlessRefused<Created>(create: () => Created): Created | undefined {
  try {
    return create();
  } catch {
    return undefined;
  }
}
