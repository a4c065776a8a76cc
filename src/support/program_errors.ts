/**
 * Errors whose call stacks begin at the program's call into the library. For an uncaught error, runtimes print the
 * source line of the topmost frame, which would otherwise be in the library and reveal nothing about the program.
 *
 * In V8, this module never reads the `stack` property as a string, because Deno would then resolve the source lines
 * immediately: that opens files, and panics if the process has no descriptor left. Bun prints the string as it is.
 *
 * @module
 */

/** The maximum number of library frames above the program's frames in a call stack. */
const maximumLibraryFrames = 20;
/** Matches the source names that runtimes use for their own functions and for WebAssembly. */
const isOfRuntime = /^(?:(?:ext|node|bun|native|wasm):|\[|$)/;

type AnyFunction = (...given: never[]) => unknown;

/** A frame of a call stack. All three runtimes support these methods, and the methods do not open any files. */
interface CallSite {
  getFunctionName(): string | null;
  getScriptNameOrSourceURL(): string | null | undefined;
}

/** The members that `Error` has in all three runtimes, but not in TypeScript's standard library. */
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

/** Sets whether stacks keep the library's frames from now on, which helps to debug the library itself. */
export function keepLibraryFrames(keep: boolean): void {
  keepsLibraryFrames = keep;
}

/**
 * Makes an error's stack begin at the program's call into the library, even if that call was to an asynchronous
 * function that has awaited something since. Takes about 50 microseconds, so call this only after a failure.
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
    // JavaScriptCore identifies functions by name, but several of the library's functions share a name. So remove the
    // frames here.
    const { frames } = partsOf(capture(startStackAtProgram, errors.prepareStackTrace));
    if (frames.length === sites.length) replaceFrames(error, frames.slice(own, own + errors.stackTraceLimit));
    return error;
  }
  functionsByName ??= collectFunctions();
  // Methods of different classes may have the same name. Try each of them.
  for (const called of functionsByName.get(nameOf(entered)) ?? []) {
    const [first] = callSites(called);
    if (first === undefined || isLibrary(first)) continue;
    errors.captureStackTrace(error, called);
    break;
  }
  return error;
}

function replaceFrames(error: Error, frames: readonly string[]): void {
  // Bun prints a stack unchanged only if every frame has parentheses, which frames outside of functions lack.
  const named = frames.map((frame) => frame.replace(/^( +at (?:async )?)([^(]+:\d+)$/, "$1<anonymous> ($2)"));
  const stack = [...partsOf(error.stack).title, ...named].join("\n");
  Object.defineProperty(error, "stack", { value: stack, configurable: true, writable: true });
}

/** Splits a stack into the lines of the error's message and the lines of the frames. */
function partsOf(stack: unknown): { readonly title: readonly string[]; readonly frames: readonly string[] } {
  const lines = typeof stack === "string" ? stack.split("\n") : [];
  const begin = lines.findIndex((line) => /^ +at /.test(line));
  return begin < 0 ? { title: lines, frames: [] } : { title: lines.slice(0, begin), frames: lines.slice(begin) };
}

/** Returns the frames of the current call stack that are outside the function `above`. */
function callSites(above: AnyFunction): readonly CallSite[] {
  const sites = capture(above, (_: unknown, sites: unknown) => sites);
  return Array.isArray(sites) ? sites : [];
}

/**
 * Returns the frames of the current call stack that are outside the function `above`, in the form that `format`
 * produces. Undefined if the program has frozen `Error`.
 */
function capture(above: AnyFunction, format: unknown): unknown {
  const { stackTraceLimit: limit, prepareStackTrace: prepare } = errors;
  const holder: { stack?: unknown } = {};
  if (!Reflect.set(Error, "prepareStackTrace", format)) return undefined;
  Reflect.set(Error, "stackTraceLimit", limit + maximumLibraryFrames);
  errors.captureStackTrace(holder, above);
  const { stack } = holder;
  Reflect.set(Error, "stackTraceLimit", limit);
  // Assign the previous value even if it is undefined: if the property were deleted, Bun would keep using `format`.
  Reflect.set(Error, "prepareStackTrace", prepare);
  return stack;
}

function scriptOf(site: CallSite): string {
  return site.getScriptNameOrSourceURL() ?? "";
}

/**
 * Returns the common prefix of the names of the library's files: its folder, or the name of the bundle that contains
 * it.
 */
function libraryOf(site: CallSite): string {
  return scriptOf(site).replace(/src\/support\/program_errors\.[jt]s$/, "src/");
}

/** Returns the name of a frame's function, without the prefix "get " or "set " that V8 adds for accessors. */
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

/** A `TypeError` whose stack begins at the program. */
export const TypeError: typeof globalThis.TypeError = startingAtProgram(globalThis.TypeError);
/** A `RangeError` whose stack begins at the program. */
export const RangeError: typeof globalThis.RangeError = startingAtProgram(globalThis.RangeError);
/** A `ReferenceError` whose stack begins at the program. */
export const ReferenceError: typeof globalThis.ReferenceError = startingAtProgram(globalThis.ReferenceError);
