/**
 * Deno, Bun or Node: one `dlopen`, and one way to see memory by address.
 *
 * The functions that `dlopen` gives are the runtime's own, with nothing between, so that a call costs what a call costs
 * there. Nothing is loaded, asked for or warned about before it is used.
 *
 * @module
 */

/** The type of a parameter or result: `u64` and `i64` are a `bigint`, a `buffer` is passed as its address. */
export type NativeType = "void" | "u8" | "i32" | "u32" | "i64" | "u64" | "buffer";

/** A C function's parameters and result. */
export interface NativeSymbol {
  /** In their order. */
  readonly parameters: readonly NativeType[];
  /** `"void"` for a function that returns nothing. */
  readonly result: NativeType;
  /** Run off the event loop's thread and return a promise where the runtime can: Deno. Elsewhere the call blocks. */
  readonly nonblocking?: true;
}

/** What TypeScript has for each native type. */
export interface NativeValues {
  void: void;
  u8: number;
  i32: number;
  u32: number;
  i64: bigint;
  u64: bigint;
  /** Memory that the call may read or write while it runs, or a null pointer. */
  buffer: Uint8Array | null;
}

/** The arguments of a C function with these parameters. */
export type NativeArguments<P extends readonly NativeType[]> = { -readonly [K in keyof P]: NativeValues[P[K]] };

/** A C function, as it is called. */
export type NativeFunction<S extends NativeSymbol> = (
  ...args: NativeArguments<S["parameters"]>
) => S extends { readonly nonblocking: true } ? NativeValues[S["result"]] | Promise<NativeValues[S["result"]]>
  : NativeValues[S["result"]];

/** The functions of a table of symbols. */
export type NativeFunctions<S extends Readonly<Record<string, NativeSymbol>>> = {
  readonly [K in keyof S]: NativeFunction<S[K]>;
};

/** An open library. */
export interface NativeLibrary<S extends Readonly<Record<string, NativeSymbol>>> {
  /** One function for each symbol that the library has; undefined for one that it lacks. */
  readonly symbols: { readonly [K in keyof S]: NativeFunctions<S>[K] | undefined };
  /** Where a function lies that is called by other native code; undefined where the library lacks it. */
  addressOfFunction(name: string): bigint | undefined;
  /** Unloads the library. Its functions must not be called any more. */
  close(): void;
}

/**
 * Why FFI may not be used here, or undefined when it may. In Deno this asks for the permission if nobody has decided on
 * it yet, once: never one prompt for each library.
 */
export function ffiRefusal(): string | undefined {
  refusal ??= { reason: findRefusal() };
  return refusal.reason;
}

/** An integer as native functions take it: of Deno and Node these do not take -0. */
export function withoutSign(integer: number): number {
  return integer + 0;
}

/** The operating system and the processor, as the runtime calls them. */
export function platform(): { readonly os: string; readonly processor: string } {
  if (deno !== undefined) return { os: deno.build.os, processor: deno.build.arch };
  return { os: process?.platform ?? "unknown", processor: process?.arch ?? "unknown" };
}

/** How a library is loaded. */
export interface DlopenOptions {
  /**
   * Whether a function may be bound at its first call, where that pays: in Deno, where to bind one takes 75 microseconds
   * and to find out whether the library has it takes two. The path must go on leading to the library.
   */
  readonly late?: boolean;
}

/**
 * Loads a library by name or path. A symbol that it lacks is undefined, not a failure.
 *
 * @param options.late Whether to bind a function at its first call, for a table of many that few programs call.
 * @throws {Error} when the library cannot be loaded, or FFI may not be used
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
 * The address of a view's first byte, 0 for an empty view. It is good for as long as the memory under the view stays
 * where it is: keep the view referenced, and do not resize or transfer its buffer.
 */
export function addressOf(view: ArrayBufferView): bigint {
  // Engines keep a small array's bytes among their own objects, where they can move, until its buffer is asked for.
  return view.buffer.byteLength === 0 || view.byteLength === 0 ? 0n : backend().addressOf(view);
}

/**
 * An `ArrayBuffer` over memory that is not the runtime's, without a copy. Nothing keeps that memory alive: before it
 * goes away, detach the buffer with its `transfer()` method.
 */
export function foreignBuffer(address: bigint, byteLength: number): ArrayBuffer {
  return byteLength === 0 ? new ArrayBuffer(0) : backend().foreignBuffer(address, byteLength);
}

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
/** What stands in for Deno's namespace in another runtime has no permissions. */
const deno = globals.Deno?.permissions === undefined ? undefined : globals.Deno;
/** Deno has it as well, and loads much of Node's library when it is first touched: that alone takes 9 milliseconds. */
const process = deno === undefined ? globals.process : undefined;

/** The runtime that this is running in. */
export const host: "deno" | "bun" | "node" = detectHost();

/** A library is unloaded when it is closed, not when nobody holds its object: its functions may be held alone. */
const openLibraries = new Set<OpenLibrary>();

let refusal: { readonly reason: string | undefined } | undefined;
let loadedBackend: Backend | undefined;

function detectHost(): "deno" | "bun" | "node" {
  if (deno !== undefined) return "deno";
  return process?.versions.bun === undefined ? "node" : "bun";
}

function findRefusal(): string | undefined {
  if (host === "deno") {
    if (deno!.dlopen === undefined) return "this Deno has no FFI";
    let { state } = deno!.permissions.querySync({ name: "ffi" });
    if (state === "prompt") ({ state } = deno!.permissions.requestSync({ name: "ffi" }));
    return state === "granted" ? undefined : "FFI is not permitted; run with --allow-ffi";
  }
  if (host === "bun") {
    return process!.getBuiltinModule?.("bun:ffi") === undefined
      ? "this Bun has no FFI; use Bun 1.4 or newer"
      : undefined;
  }
  // Loading node:ffi makes Node print a warning: look at the permission first.
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
    if (host === "deno") loadedBackend = denoBackend(deno!);
    else if (host === "bun") loadedBackend = bunBackend(process!.getBuiltinModule!("bun:ffi") as BunFfi);
    else loadedBackend = nodeBackend(process!.getBuiltinModule!("node:ffi") as NodeFfi);
  }
  return loadedBackend;
}

function denoBackend(deno: DenoNamespace): Backend {
  return {
    open(path, symbols, { late = false }) {
      const names = Object.keys(symbols);
      const bind = (name: string) => ({ ...symbols[name]!, optional: true }) as const;
      const find = () => ({ type: "pointer", optional: true }) as const;
      const describe = late ? find : bind;
      const library = deno.dlopen!(path, Object.fromEntries(names.map((name) => [name, describe(name)])));
      const libraries = [library];
      const functions: Record<string, unknown> = {};
      for (const name of names) {
        const symbol = library.symbols[name] ?? undefined;
        functions[name] = symbol === undefined || !late ? symbol : bindsItself(() => {
          const opened = deno.dlopen!(path, { [name]: bind(name) });
          libraries.push(opened);
          return opened.symbols[name] as UnknownFunction;
        });
      }
      return {
        symbols: functions,
        addressOfFunction(name) {
          const asPointer = deno.dlopen!(path, { [name]: find() });
          const pointer = asPointer.symbols[name] as object | null | undefined;
          asPointer.close();
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
 * Stands for a function that is bound when this is first called, and then puts that in its own place in the object that it
 * is called on: from the second call on there is nothing between.
 */
function bindsItself(bind: () => UnknownFunction): UnknownFunction {
  let bound: UnknownFunction | undefined;
  function late(this: Record<string, unknown> | undefined, ...args: unknown[]): unknown {
    const native = bound ??= bind();
    for (const name in this) if (this[name] === late) this[name] = native;
    return native(...args);
  }
  return late;
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
          throw new Error(loaderError(ffi, path) ?? messageOf(error), { cause: error });
        }
      }
      // Bun fails as a whole where one symbol is missing: what the library has is found one by one.
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
 * Why the system does not load a library. Bun tries the current folder in the end, and tells what came of that: not that
 * the library was found and lacks another, say.
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
  const lazily = 1;
  const isLoaded = BigInt(dlopen!(new TextEncoder().encode(`${path}\0`), lazily) as bigint) !== 0n;
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
