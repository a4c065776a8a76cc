/**
 * Errors whose stacks begin at the program's call of the library. Runtimes print an uncaught error with the source line
 * at which its stack begins, and the library's own frames say nothing about the program.
 *
 * @module
 */

/** The number of the library's frames that a call stack may have above those of the program. */
const maximumLibraryFrames = 20;
const isFrame = /^\s+at |@/;
/** Matches a frame in a file, and not in the engine or the runtime. */
const isInFile = /^(?!.*(?:\bext:|\bnode:|\bnative:|\bbun:)).*:\d+:\d+\)?$/;
/** Matches the function's name in a frame: `copyFrom` of `at DeviceBuffer.copyFrom (file:///...)`. */
const functionName = /^\s*at (?:async )?(?:new )?(?:[^ (]*\.)?(?:get |set |#)?([\w$]+)(?: \[as (\w+)\])? \(/;

/** What all runtimes have besides the standard library's types. */
const errors = Error as unknown as {
  stackTraceLimit: number;
  captureStackTrace(target: object, above?: unknown): void;
};

type AnyFunction = (...given: never[]) => unknown;

/** The classes and functions that programs call. */
const entries = new Set<object>();
/** The methods, accessors, constructors and functions of `entries`, by name. Undefined until the first failure. */
let functionsByName: Map<string, AnyFunction[]> | undefined;

/** Registers a class or a function that programs call. */
export function addEntry(entry: object): void {
  entries.add(entry);
  functionsByName = undefined;
}

/** Returns the frames of the current call stack, and the index of the first one of the program; -1 if there is none. */
export function callFrames(): { readonly frames: readonly string[]; readonly own: number } {
  const limit = errors.stackTraceLimit;
  errors.stackTraceLimit = limit + maximumLibraryFrames;
  const frames = linesOf(new Error()).filter((line) => isFrame.test(line));
  errors.stackTraceLimit = limit;
  if (frames.length === 0) return { frames, own: -1 };
  const library = libraryFrames(frames[0]!);
  return { frames, own: frames.findIndex((line) => isInFile.test(line) && !library.test(line)) };
}

/** Returns the lines of a stack; none if the program formats stacks in another way, by `Error.prepareStackTrace`. */
function linesOf({ stack }: { readonly stack?: unknown }): string[] {
  return typeof stack === "string" ? stack.split("\n") : [];
}

/** Returns a pattern of the library's frames: those of its files, or of the bundle that it is in. */
function libraryFrames(ownFrame: string): RegExp {
  const path = ownFrame.replace(/:\d+:\d+\)?$/, "").replace(/^.*[(@ ]/, "");
  const root = /^(.*)src\/support\/program_errors\.[jt]s$/.exec(path)?.[1];
  const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(root === undefined ? escape(path) : `${escape(root)}(?:src|ffi)/`);
}

/**
 * Makes an error's stack begin at the call with which the program has entered the library. Takes some 100 microseconds,
 * so use it only after a failure.
 */
export function startStackAtProgram<E extends Error>(error: E): E {
  const { frames, own } = callFrames();
  if (own <= 0) return error;
  const entered = functionName.exec(frames[own - 1]!);
  functionsByName ??= collectFunctions();
  // Functions of several classes have the same name. JavaScriptCore compares only names, and finds the innermost one.
  for (const called of functionsByName.get(entered?.[2] ?? entered?.[1] ?? "") ?? []) {
    const probe: { stack?: string } = {};
    errors.captureStackTrace(probe, called);
    if (linesOf(probe).find((line) => isFrame.test(line)) !== frames[own]) continue;
    errors.captureStackTrace(error, called);
    return error;
  }
  // The call has returned already, as in an asynchronous function after its first `await`, or has no name. The runtime
  // then shows the source line of the library, but the program's frame first.
  const lines = linesOf(error);
  const head = lines.slice(0, Math.max(0, lines.findIndex((line) => isFrame.test(line))));
  const stack = [...head, ...frames.slice(own, own + errors.stackTraceLimit)].join("\n");
  return Object.defineProperty(error, "stack", { value: stack, configurable: true, writable: true });
}

function collectFunctions(): Map<string, AnyFunction[]> {
  const found = new Map<string, AnyFunction[]>();
  const add = (name: string | symbol, value: unknown): void => {
    if (typeof value !== "function" || typeof name !== "string") return;
    found.set(name, [...found.get(name) ?? [], value as AnyFunction]);
  };
  for (const entry of entries) {
    add((entry as { name: string }).name, entry);
    for (const owner of [entry, (entry as { prototype?: object }).prototype ?? {}]) {
      for (const name of Reflect.ownKeys(owner)) {
        const { value, get, set } = Object.getOwnPropertyDescriptor(owner, name)!;
        for (const each of [value, get, set]) if (name !== "constructor") add(name, each);
      }
    }
  }
  return found;
}

function startingAtProgram<C extends new (...given: never[]) => Error>(constructor: C): C {
  return new Proxy(constructor, {
    construct: (target, given) => startStackAtProgram(Reflect.construct(target, given) as Error),
  });
}

/** `TypeError`, whose stack begins at the program. */
export const TypeError: typeof globalThis.TypeError = startingAtProgram(globalThis.TypeError);
/** `RangeError`, whose stack begins at the program. */
export const RangeError: typeof globalThis.RangeError = startingAtProgram(globalThis.RangeError);
/** `ReferenceError`, whose stack begins at the program. */
export const ReferenceError: typeof globalThis.ReferenceError = startingAtProgram(globalThis.ReferenceError);
