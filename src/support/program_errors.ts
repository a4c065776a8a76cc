/**
 * Errors whose stacks begin at the program's call of the library. Runtimes print an uncaught error with the source line
 * at which its stack begins, and the library's own frames say nothing about the program.
 *
 * In V8, a stack is never read as a string here: Deno would look up its source lines at once, which opens files, and
 * panics if the process has no free descriptor. Bun prints what the string says.
 *
 * @module
 */

/** The number of the library's frames that a call stack may have above those of the program. */
const maximumLibraryFrames = 20;
/** Matches what runtimes name as the source of their own functions and of WebAssembly. */
const isOfRuntime = /^(?:(?:ext|node|bun|native|wasm):|\[|$)/;

type AnyFunction = (...given: never[]) => unknown;

/** A frame of a call stack. All three runtimes have these methods, and they open no files. */
interface CallSite {
  getFunctionName(): string | null;
  getScriptNameOrSourceURL(): string | null | undefined;
}

/** What all runtimes have besides the standard library's types. */
const errors = Error as unknown as {
  readonly stackTraceLimit: number;
  readonly prepareStackTrace?: unknown;
  captureStackTrace(target: object, above?: unknown): void;
};

/** The classes and functions that programs call. */
const entries = new Set<object>();
/** The methods, accessors, constructors and functions of `entries`, by name. Undefined until the first failure. */
let functionsByName: Map<string, AnyFunction[]> | undefined;
let keepsLibraryFrames = false;

/** Whether the runtime is Bun, whose `captureStackTrace` finds a function by its name. */
export const isBun: boolean = "Bun" in globalThis;

/** Registers classes and functions that programs call. */
export function addEntries(...added: readonly object[]): void {
  for (const entry of added) entries.add(entry);
  functionsByName = undefined;
}

/** Sets whether stacks keep the library's frames from now on, for a defect of the library itself. */
export function keepLibraryFrames(keep: boolean): void {
  keepsLibraryFrames = keep;
}

/**
 * Makes an error's stack begin at the call with which the program has entered the library, also if that was an
 * asynchronous function that has waited since. Takes some 50 microseconds, so use it only after a failure.
 */
export function startStackAtProgram<E extends Error>(error: E): E {
  if (keepsLibraryFrames) return error;
  const sites = callSites(startStackAtProgram);
  const [here] = callSites(callSites);
  if (here === undefined) return error;
  const library = libraryOf(here);
  const isLibrary = (site: CallSite): boolean => scriptOf(site).startsWith(library);
  const own = sites.findIndex((site) => !isLibrary(site) && !isOfRuntime.test(scriptOf(site)));
  const entered = sites.slice(0, Math.max(0, own)).findLast(isLibrary);
  if (entered === undefined) return error;
  if (isBun) {
    // JavaScriptCore skips functions by their names, which several of the library's functions share.
    const { frames } = partsOf(capture(startStackAtProgram, errors.prepareStackTrace));
    if (frames.length === sites.length) replaceFrames(error, frames.slice(own, own + errors.stackTraceLimit));
    return error;
  }
  functionsByName ??= collectFunctions();
  // Functions of several classes have the same name.
  for (const called of functionsByName.get(nameOf(entered)) ?? []) {
    const [first] = callSites(called);
    if (first === undefined || isLibrary(first)) continue;
    errors.captureStackTrace(error, called);
    break;
  }
  return error;
}

function replaceFrames(error: Error, frames: readonly string[]): void {
  // Bun prints a stack as it is only if each of its frames has parentheses, which those outside of functions lack.
  const named = frames.map((frame) => frame.replace(/^( +at (?:async )?)([^(]+:\d+)$/, "$1<anonymous> ($2)"));
  const stack = [...partsOf(error.stack).title, ...named].join("\n");
  Object.defineProperty(error, "stack", { value: stack, configurable: true, writable: true });
}

/** Returns the lines of a stack: those of the error's message, and those of the frames. */
function partsOf(stack: unknown): { readonly title: readonly string[]; readonly frames: readonly string[] } {
  const lines = typeof stack === "string" ? stack.split("\n") : [];
  const begin = lines.findIndex((line) => /^ +at /.test(line));
  return begin < 0 ? { title: lines, frames: [] } : { title: lines.slice(0, begin), frames: lines.slice(begin) };
}

/** Returns the frames of the current call stack above a function's. */
function callSites(above: AnyFunction): readonly CallSite[] {
  const sites = capture(above, (_: unknown, sites: unknown) => sites);
  return Array.isArray(sites) ? sites : [];
}

/** Returns the current call stack above a function's in a format; undefined if the program has frozen `Error`. */
function capture(above: AnyFunction, format: unknown): unknown {
  const { stackTraceLimit: limit, prepareStackTrace: prepare } = errors;
  const holder: { stack?: unknown } = {};
  if (!Reflect.set(Error, "prepareStackTrace", format)) return undefined;
  Reflect.set(Error, "stackTraceLimit", limit + maximumLibraryFrames);
  errors.captureStackTrace(holder, above);
  const { stack } = holder;
  Reflect.set(Error, "stackTraceLimit", limit);
  // Bun goes on using the format if the property is deleted.
  Reflect.set(Error, "prepareStackTrace", prepare);
  return stack;
}

function scriptOf(site: CallSite): string {
  return site.getScriptNameOrSourceURL() ?? "";
}

/** Returns what the names of the library's files begin with: its folder, or the name of the bundle that it is in. */
function libraryOf(site: CallSite): string {
  return scriptOf(site).replace(/src\/support\/program_errors\.[jt]s$/, "src/");
}

/** Returns the name of a frame's function, without V8's "get " of an accessor. */
function nameOf(site: CallSite): string {
  return (site.getFunctionName() ?? "").replace(/^[gs]et /, "");
}

function collectFunctions(): Map<string, AnyFunction[]> {
  const found = new Map<string, AnyFunction[]>();
  const add = (name: string, value: unknown): void => {
    if (typeof value === "function") found.set(name, [...found.get(name) ?? [], value as AnyFunction]);
  };
  for (const entry of entries) {
    add((entry as { name: string }).name, entry);
    for (const owner of [entry, (entry as { prototype?: object }).prototype ?? {}]) {
      for (const key of Reflect.ownKeys(owner)) {
        if (key === "constructor") continue;
        const { value, get, set } = Object.getOwnPropertyDescriptor(owner, key)!;
        for (const each of [value, get, set]) add(typeof key === "symbol" ? `[${key.description}]` : key, each);
      }
    }
  }
  return found;
}

function startingAtProgram<C extends new (...given: never[]) => Error>(constructor: C): C {
  return new Proxy(constructor, {
    construct: function construct(target, given, made) {
      const error = Reflect.construct(target, given, made) as Error;
      errors.captureStackTrace(error, construct);
      return startStackAtProgram(error);
    },
  });
}

/** `TypeError`, whose stack begins at the program. */
export const TypeError: typeof globalThis.TypeError = startingAtProgram(globalThis.TypeError);
/** `RangeError`, whose stack begins at the program. */
export const RangeError: typeof globalThis.RangeError = startingAtProgram(globalThis.RangeError);
/** `ReferenceError`, whose stack begins at the program. */
export const ReferenceError: typeof globalThis.ReferenceError = startingAtProgram(globalThis.ReferenceError);
