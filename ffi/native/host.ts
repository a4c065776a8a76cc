/**
 * One `dlopen` for Deno, Bun and Node, and one function to view memory by address.
 *
 * The functions that `dlopen` returns are the runtime's own, without a wrapper, so a call costs no more than in the
 * runtime itself. Before the first use, nothing is loaded, no permission is requested and no warning is printed.
 *
 * @module
 */

/** The type of a parameter or result. `u64` and `i64` are bigints; a `buffer` is passed as its address. */
export type NativeType = "void" | "u8" | "u16" | "i32" | "u32" | "i64" | "u64" | "buffer";

/** A C function's parameters and result. */
export interface NativeSymbol {
  readonly parameters: readonly NativeType[];
  /** `"void"` for a function that returns nothing. */
  readonly result: NativeType;
  /** In Deno, the call runs off the event loop's thread and returns a promise. In Bun and Node, it blocks. */
  readonly nonblocking?: true;
}

/** The TypeScript type of each native type. */
export interface NativeValues {
  void: void;
  u8: number;
  u16: number;
  i32: number;
  u32: number;
  i64: bigint;
  u64: bigint;
  /** Memory that the C function may read or write during the call, or null for a null pointer. */
  buffer: Uint8Array | null;
}

/** The arguments of a C function with the parameters `P`. */
export type NativeArguments<P extends readonly NativeType[]> = { -readonly [K in keyof P]: NativeValues[P[K]] };

/** A C function, callable from TypeScript. */
export type NativeFunction<S extends NativeSymbol> = (
  ...args: NativeArguments<S["parameters"]>
) => S extends { readonly nonblocking: true } ? NativeValues[S["result"]] | Promise<NativeValues[S["result"]]>
  : NativeValues[S["result"]];

/** The functions of a symbol table. */
export type NativeFunctions<S extends Readonly<Record<string, NativeSymbol>>> = {
  readonly [K in keyof S]: NativeFunction<S[K]>;
};

/** An open library. */
export interface NativeLibrary<S extends Readonly<Record<string, NativeSymbol>>> {
  /** A function for each symbol; undefined if the library lacks the symbol. */
  readonly symbols: { readonly [K in keyof S]: NativeFunctions<S>[K] | undefined };
  /** Returns the address of a function, for other native code to call; undefined if the library lacks the function. */
  addressOfFunction(name: string): bigint | undefined;
  /** Unloads the library. Its functions must not be called afterwards. */
  close(): void;
}

/**
 * Returns why FFI cannot be used here, or undefined if it can. In Deno, requests the permission if it is neither
 * granted nor denied yet. Requests it only once, so that the user is not prompted for each library.
 */
export function ffiRefusal(): string | undefined {
  refusal ??= { reason: findRefusal() };
  return refusal.reason;
}

/** Returns the integer, or 0 for -0: native functions in Deno and Node throw for -0. */
export function withoutSign(integer: number): number {
  return integer + 0;
}

/** Returns the operating system and the processor, under the names that the JavaScript runtime uses for them. */
export function platform(): { readonly os: string; readonly processor: string } {
  if (deno !== undefined) return { os: deno.build.os, processor: deno.build.arch };
  return { os: process?.platform ?? "unknown", processor: process?.arch ?? "unknown" };
}

/** Options for loading a library. */
export interface DlopenOptions {
  /**
   * Whether a function may be bound at its first call instead of when the library is loaded. Only Deno binds lazily:
   * there, binding a function takes 75 microseconds, and checking that the library has it takes 2 microseconds. The
   * path must keep referring to the same library, because it is opened again to bind a function.
   */
  readonly lazy?: boolean;
}

/**
 * Loads a library by name or path. Symbols that the library lacks are undefined in the result; they are not an error.
 *
 * @param options.lazy Whether to bind a function at its first call, for a large table of functions, of which a program
 * calls only a few.
 * @throws {Error} If the library cannot be loaded, or FFI cannot be used
 *
 * @example
 * ```ts
 * import { dlopen } from "./host.ts";
 *
 * const libc = dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } });
 * console.log(libc.symbols.getpid?.());
 * ```
 */
export function dlopen<const S extends Readonly<Record<string, NativeSymbol>>>(
  path: string,
  symbols: S,
  options: DlopenOptions = {},
): NativeLibrary<S> {
  const reason = ffiRefusal();
  if (reason !== undefined) throw new Error(`Cannot load the library ${path}: ${reason}`);
  let opened: OpenLibrary;
  try {
    opened = backend().open(path, symbols, options);
  } catch (cause) {
    throw new Error(`Cannot load the library ${path}: ${messageOf(cause)}`, { cause });
  }
  openLibraries.add(opened);
  return {
    symbols: opened.symbols as NativeLibrary<S>["symbols"],
    addressOfFunction: (name) => opened.addressOfFunction(name),
    close() {
      if (openLibraries.delete(opened)) opened.close();
    },
  };
}

/**
 * Keeps a loaded library loaded until the process exits. Otherwise the runtime unloads a Worker's libraries when the
 * Worker terminates, even libraries that have threads of their own and process-wide state. Does nothing where the
 * system's dynamic linker cannot be called.
 *
 * @param path the path or name by which the library was loaded
 */
export function keepLoaded(path: string): void {
  // This call increments the library's reference count, which is never decremented.
  withLoader(loaderSymbols, ({ dlopen }) => void dlopen(new TextEncoder().encode(`${path}\0`), bindLazily));
}

/**
 * Calls `use` with the libraries of a list that the system's dynamic linker can load, each tried only when `use` gets to
 * it. Passes the whole list if the linker cannot be called. Unlike `dlopen`, creates no `Error` for a missing library:
 * for the first error with a module's code on the call stack, V8 parses the module again, which takes 60 ms for a
 * program that is bundled with this library.
 */
export function withLoadable<Result>(paths: readonly string[], use: (loadable: Iterable<string>) => Result): Result {
  const used = withLoader({ ...loaderSymbols, ...unloaderSymbols }, ({ dlopen, dlclose }) => {
    const isLoadable = (path: string): boolean => {
      const handle = dlopen(new TextEncoder().encode(`${path}\0`), bindLazily);
      return handle !== 0n && dlclose(handle) === 0;
    };
    return { result: use(paths.values().filter(isLoadable)) };
  });
  return used === undefined ? use(paths) : used.result;
}

/**
 * Calls `call` with functions of the system's dynamic linker, and returns the result of `call`. Returns undefined if
 * these functions cannot be called.
 */
export function withLoader<const S extends Readonly<Record<string, NativeSymbol>>, Result>(
  symbols: S,
  call: (functions: NativeFunctions<S>) => Result,
): Result | undefined {
  for (const name of loaderNames) {
    let loader: NativeLibrary<S>;
    try {
      loader = dlopen(name, symbols);
    } catch {
      continue;
    }
    try {
      const isFound = Object.keys(symbols).every((name) => loader.symbols[name] !== undefined);
      if (isFound) return call(loader.symbols as NativeFunctions<S>);
    } finally {
      loader.close();
    }
  }
  return undefined;
}

/**
 * Returns the address of a view's first byte, or 0 for an empty view. The address is valid as long as the view's memory
 * does not move: keep the view referenced, and do not resize or transfer its buffer.
 */
export function addressOf(view: ArrayBufferView): bigint {
  // Accesses `view.buffer` first, because engines keep the bytes of a small array in their heap, where the bytes can
  // move, until the array's buffer is accessed.
  return view.buffer.byteLength === 0 || view.byteLength === 0 ? 0n : backend().addressOf(view);
}

/**
 * Returns an `ArrayBuffer` over memory that the runtime did not allocate, without a copy. Nothing keeps that memory
 * alive: detach the buffer with its `transfer()` method before the memory is freed.
 */
export function foreignBuffer(address: bigint, byteLength: number): ArrayBuffer {
  return byteLength === 0 ? new ArrayBuffer(0) : backend().foreignBuffer(address, byteLength);
}

/** The libraries that may export `dlopen`: libc since glibc 2.34, and libdl before. */
const loaderNames = ["libc.so.6", "libdl.so.2"];
const loaderSymbols = {
  dlopen: { parameters: ["buffer", /* const char *path */ "i32" /* int flags */], result: "u64" },
} as const;
const unloaderSymbols = { dlclose: { parameters: ["u64" /* void *handle */], result: "i32" } } as const;
/** The `dlopen` flag `RTLD_LAZY`. */
const bindLazily = 1;

interface OpenLibrary {
  readonly symbols: Readonly<Record<string, unknown>>;
  addressOfFunction(name: string): bigint | undefined;
  close(): void;
}

interface Backend {
  open(path: string, symbols: Readonly<Record<string, NativeSymbol>>, options: DlopenOptions): OpenLibrary;
  addressOf(view: ArrayBufferView): bigint;
  foreignBuffer(address: bigint, byteLength: number): ArrayBuffer;
}

interface DenoLibrary {
  readonly symbols: Readonly<Record<string, unknown>>;
  close(): void;
}

interface DenoNamespace {
  dlopen?(
    path: string,
    symbols: Record<string, (NativeSymbol | { type: "pointer" }) & { optional: true }>,
  ): DenoLibrary;
  UnsafePointer: {
    of(view: ArrayBufferView): object | null;
    create(address: bigint): object | null;
    value(pointer: object | null): bigint;
  };
  UnsafePointerView: new (pointer: object) => { getArrayBuffer(byteLength: number): ArrayBuffer };
  build: { os: string; arch: string };
  permissions: {
    querySync(descriptor: { name: "ffi" }): { state: string };
    requestSync(descriptor: { name: "ffi" }): { state: string };
  };
}

interface BunFfi {
  dlopen(
    path: string,
    symbols: Record<string, { args: string[]; returns: string }>,
  ): { symbols: Record<string, { readonly ptr: number }>; close(): void };
  ptr(view: ArrayBufferView): number;
  toArrayBuffer(address: number, byteOffset: number, byteLength: number): ArrayBuffer;
}

interface NodeFfi {
  DynamicLibrary: new (path: string) => {
    getFunction(name: string, definition: { arguments: readonly string[]; return: string }): unknown;
    getSymbol(name: string): bigint;
    close(): void;
  };
  getRawPointer(view: ArrayBufferView): bigint;
  toArrayBuffer(address: bigint, byteLength: number, copy: boolean): ArrayBuffer;
}

interface Globals {
  Deno?: DenoNamespace;
  process?: {
    platform: string;
    arch: string;
    versions: Record<string, string | undefined>;
    getBuiltinModule?(name: string): unknown;
    permission?: { has(scope: string): boolean };
  };
}

const globals = globalThis as unknown as Globals;
/** The Deno namespace; undefined in Bun and Node, where a polyfill of it may exist but lacks `permissions`. */
const deno = globals.Deno?.permissions === undefined ? undefined : globals.Deno;
/**
 * The `process` object; undefined in Deno, where the first access to it loads much of Node's library and takes 9
 * milliseconds.
 */
const process = deno === undefined ? globals.process : undefined;

/** The JavaScript runtime that this code runs in. */
export const jsRuntime: "deno" | "bun" | "node" = detectHost();

/**
 * The loaded libraries that are not closed. The set prevents a library from being garbage-collected, and thus unloaded,
 * while a program only references its functions.
 */
const openLibraries = new Set<OpenLibrary>();

let refusal: { readonly reason: string | undefined } | undefined;
let loadedBackend: Backend | undefined;

function detectHost(): "deno" | "bun" | "node" {
  if (deno !== undefined) return "deno";
  return process?.versions.bun === undefined ? "node" : "bun";
}

function findRefusal(): string | undefined {
  if (jsRuntime === "deno") {
    if (deno!.dlopen === undefined) return "this Deno has no FFI";
    let { state } = deno!.permissions.querySync({ name: "ffi" });
    if (state === "prompt") ({ state } = deno!.permissions.requestSync({ name: "ffi" }));
    return state === "granted" ? undefined : "FFI is not permitted; run with --allow-ffi";
  }
  if (jsRuntime === "bun") {
    return process!.getBuiltinModule?.("bun:ffi") === undefined
      ? "this Bun has no FFI; use Bun 1.4 or newer"
      : undefined;
  }
  // Loading node:ffi makes Node print a warning, so check the permission first.
  if (process?.permission !== undefined && !process.permission.has("ffi")) {
    return "FFI is not permitted; run with --allow-ffi";
  }
  return process?.getBuiltinModule?.("node:ffi") === undefined
    ? "this runtime has no FFI; use Deno, Bun 1.4 or newer, or Node 26.10 or newer"
    : undefined;
}

function backend(): Backend {
  if (loadedBackend === undefined) {
    const reason = ffiRefusal();
    if (reason !== undefined) throw new Error(`Cannot use native memory: ${reason}`);
    if (jsRuntime === "deno") loadedBackend = denoBackend(deno!);
    else if (jsRuntime === "bun") loadedBackend = bunBackend(process!.getBuiltinModule!("bun:ffi") as BunFfi);
    else loadedBackend = nodeBackend(process!.getBuiltinModule!("node:ffi") as NodeFfi);
  }
  return loadedBackend;
}

function denoBackend(deno: DenoNamespace): Backend {
  return {
    open(path, symbols, { lazy = false }) {
      const names = Object.keys(symbols);
      const asFunction = (name: string) => ({ ...symbols[name]!, optional: true }) as const;
      const asPointer = () => ({ type: "pointer", optional: true }) as const;
      const describe = lazy ? asPointer : asFunction;
      const library = deno.dlopen!(path, Object.fromEntries(names.map((name) => [name, describe(name)])));
      const libraries = [library];
      const functions: Record<string, unknown> = {};
      for (const name of names) {
        const symbol = library.symbols[name] ?? undefined;
        functions[name] = symbol === undefined || !lazy ? symbol : bindAtFirstCall(() => {
          const opened = deno.dlopen!(path, { [name]: asFunction(name) });
          libraries.push(opened);
          return opened.symbols[name] as UnknownFunction;
        });
      }
      return {
        symbols: functions,
        addressOfFunction(name) {
          const opened = deno.dlopen!(path, { [name]: asPointer() });
          const pointer = opened.symbols[name] as object | null | undefined;
          opened.close();
          return pointer ? deno.UnsafePointer.value(pointer) : undefined;
        },
        close: () => libraries.forEach((library) => library.close()),
      };
    },
    addressOf: (view) => deno.UnsafePointer.value(deno.UnsafePointer.of(view)),
    foreignBuffer: (address, byteLength) =>
      new deno.UnsafePointerView(deno.UnsafePointer.create(address)!).getArrayBuffer(byteLength),
  };
}

type UnknownFunction = (...args: unknown[]) => unknown;

/**
 * Returns a placeholder for a function that is bound at the first call. The first call also replaces the placeholder in
 * the object on which it is called, so that later calls go directly to the bound function.
 */
function bindAtFirstCall(bind: () => UnknownFunction): UnknownFunction {
  let bound: UnknownFunction | undefined;
  function placeholder(this: Record<string, unknown> | undefined, ...args: unknown[]): unknown {
    const native = bound ??= bind();
    for (const name in this) if (this[name] === placeholder) this[name] = native;
    return native(...args);
  }
  return placeholder;
}

function bunBackend(ffi: BunFfi): Backend {
  function definitionOf(symbol: NativeSymbol): { args: string[]; returns: string } {
    return { args: symbol.parameters.map((type) => type === "buffer" ? "ptr" : type), returns: symbol.result };
  }
  return {
    open(path, symbols) {
      const names = Object.keys(symbols);
      const definitions = Object.fromEntries(names.map((name) => [name, definitionOf(symbols[name]!)]));
      const addressOfFunction = (name: string) => {
        try {
          const library = ffi.dlopen(path, { [name]: { args: [], returns: "void" } });
          const address = BigInt(library.symbols[name]!.ptr);
          library.close();
          return address;
        } catch {
          return undefined;
        }
      };
      try {
        const library = ffi.dlopen(path, definitions);
        return { symbols: library.symbols, addressOfFunction, close: () => library.close() };
      } catch (error) {
        if ((error as { code?: string }).code === "ERR_DLOPEN_FAILED") {
          throw new Error(loaderError(ffi, path) ?? messageOf(error));
        }
      }
      // Bun's dlopen fails if any symbol is missing, so bind each symbol separately.
      const functions: Record<string, unknown> = {};
      const libraries: { close(): void }[] = [];
      for (const name of names) {
        try {
          const library = ffi.dlopen(path, { [name]: definitions[name]! });
          functions[name] = library.symbols[name];
          libraries.push(library);
        } catch {
          functions[name] = undefined;
        }
      }
      return { symbols: functions, addressOfFunction, close: () => libraries.forEach((library) => library.close()) };
    },
    addressOf: (view) => BigInt(ffi.ptr(view)),
    foreignBuffer: (address, byteLength) => ffi.toArrayBuffer(Number(address), 0, byteLength),
  };
}

/**
 * Returns the system's reason for not loading a library. Bun's own error describes only its last attempt, in the
 * current folder: it hides, for example, that the library was found but that one of its dependencies is missing.
 */
function loaderError(ffi: BunFfi, path: string): string | undefined {
  let libc: ReturnType<BunFfi["dlopen"]>;
  try {
    libc = ffi.dlopen("libc.so.6", {
      dlopen: { args: ["ptr", "i32"], returns: "u64" },
      dlerror: { args: [], returns: "cstring" },
    });
  } catch {
    return undefined;
  }
  const { dlopen, dlerror } = libc.symbols as unknown as Record<string, (...args: unknown[]) => unknown>;
  const isLoaded = BigInt(dlopen!(new TextEncoder().encode(`${path}\0`), bindLazily) as bigint) !== 0n;
  return isLoaded ? undefined : String(dlerror!());
}

function nodeBackend(ffi: NodeFfi): Backend {
  return {
    open(path, symbols) {
      const library = new ffi.DynamicLibrary(path);
      const functions: Record<string, unknown> = {};
      for (const [name, symbol] of Object.entries(symbols)) {
        try {
          functions[name] = library.getFunction(name, { arguments: symbol.parameters, return: symbol.result });
        } catch {
          functions[name] = undefined;
        }
      }
      return {
        symbols: functions,
        addressOfFunction(name) {
          try {
            return library.getSymbol(name);
          } catch {
            return undefined;
          }
        },
        close: () => library.close(),
      };
    },
    addressOf: (view) => ffi.getRawPointer(view),
    foreignBuffer: (address, byteLength) => ffi.toArrayBuffer(address, byteLength, false),
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
