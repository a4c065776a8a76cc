/**
 * Captures and parses call stacks, to find where a program called the library.
 *
 * @module
 */
import type { SanitizerAccess, SanitizerReport } from "./sanitizer_report.ts";

/**
 * A captured call stack. JavaScript engines format `stack` when it is first read, which takes longer than the capture.
 */
export interface CallStack {
  readonly stack?: string;
}

/**
 * The minimum number of stack frames to capture: the default of the engines. The two to seven innermost frames are the
 * library's own. On V8, each captured frame adds 0.25 to 0.5 microseconds to every call that the program makes to the
 * library.
 */
export const frameCount = 10;
/** `Error`, typed with the property `stackTraceLimit` of V8 and JavaScriptCore, which TypeScript does not declare. */
export const errorConstructor = Error as unknown as { stackTraceLimit: number };
/** Matches a stack frame in code of a runtime or an engine. */
const engineFrame = /\(?(?:ext|node|bun|native):|\[native code\]|<anonymous>\)?$/;

/** Captures the current call stack. `count` is the minimum number of frames. */
export function captureCallStack(count: number = frameCount): CallStack {
  const limit = errorConstructor.stackTraceLimit;
  if (!(limit > count)) errorConstructor.stackTraceLimit = count;
  // Do not use Error.captureStackTrace, which formats the stack immediately in JavaScriptCore.
  const site = new Error();
  errorConstructor.stackTraceLimit = limit;
  return site;
}

/** The formatted stacks of call sites. Cached, because reports use the same call sites many times. */
const stacks = new WeakMap<CallStack, string>();
/** Matches a stack frame in a file of the library. Null if the library is bundled; undefined until the first use. */
let libraryFrame: RegExp | null | undefined;

/** Returns the lines of a call stack without the frames of the library and of the engine. */
export function stackOf(site: CallStack): string {
  let stack = stacks.get(site);
  if (stack === undefined) stacks.set(site, stack = ownFrames(site));
  return stack;
}

function ownFrames(site: CallStack): string {
  const frames = (site.stack ?? "").split("\n").filter((line) => /^\s+at |@/.test(line)).map((line) => line.trim());
  if (libraryFrame === undefined) libraryFrame = framesOfLibrary();
  const own = frames.filter((line) => !libraryFrame?.test(line) && !engineFrame.test(line));
  return own.map((line) => line.startsWith("at ") ? line : `at ${line}`).join("\n");
}

/**
 * Returns a pattern that matches a stack frame in a file of the library, or null if the library is bundled. Do not call
 * at import: formatting the first call stack of a bundle takes 80 ms, because the engine scans the source for line
 * breaks.
 */
function framesOfLibrary(): RegExp | null {
  const root = /([^\s(@]*)src\/sanitizer\/reporting\/call_stacks\./.exec(captureCallStack().stack ?? "")?.[1];
  return root === undefined ? null : new RegExp(`(?<![^\\s(@])${RegExp.escape(root)}(?:src/|ffi/|mod\\.)`);
}

/** A frame of a call stack. */
export interface StackFrame {
  /** The function's name. Undefined for an anonymous function. */
  readonly name: string | undefined;
  /** The file's path, or the module's URL if the module is not a local file. */
  readonly file: string;
  readonly line: number;
  readonly column: number | undefined;
}

/** Matches `at name (file:line:column)`, `at file:line:column` and `at name@file:line:column`. */
const frame = /^at (?:async )?(?:(?:(.*?) \(|([^\s/]*)@)(.*?):(\d+)(?::(\d+))?\)?|(.*?):(\d+)(?::(\d+))?)$/;

/** Returns the frames of a call stack, innermost first. */
export function framesOf(stack: string): StackFrame[] {
  return stack.split("\n").flatMap((line) => {
    const match = frame.exec(line.trim());
    if (match === null) return [];
    const [, name, otherName, file = match[6]!, row = match[7]!, column = match[8]] = match;
    return [{
      name: name ?? (otherName || undefined),
      file: pathOf(file),
      line: Number(row),
      column: column === undefined ? undefined : Number(column),
    }];
  });
}

/**
 * Returns the innermost stack frame of a report's later access, or of its earlier access if the later one has no stack.
 */
export function frameOfReport({ accesses }: SanitizerReport): StackFrame | undefined {
  for (const { stack } of accesses) {
    const [place] = framesOf(stack);
    if (place !== undefined) return place;
  }
  return undefined;
}

/**
 * Returns the location of a report for summaries: the kernel's source line if the report names the accessing block,
 * otherwise the innermost stack frame, such as `script.ts:14`. Undefined if the location is unknown.
 */
export function shortLocationOf(report: SanitizerReport): string | undefined {
  const access: SanitizerAccess | undefined = report.accesses[0];
  if (access?.block !== undefined && access.source !== undefined) return access.source;
  const place = frameOfReport(report);
  return place && shortNameOf(place);
}

/** Returns the file name and line of a frame: `script.ts:14`. */
export function shortNameOf({ file, line }: StackFrame): string {
  return `${file.slice(file.lastIndexOf("/") + 1)}:${line}`;
}

function pathOf(file: string): string {
  if (!file.startsWith("file://")) return file;
  try {
    // On Windows, the path of a file URL begins with a slash before the drive: "/C:/".
    return decodeURIComponent(new URL(file).pathname).replace(/^\/(?=[A-Za-z]:)/, "");
  } catch {
    return file;
  }
}
