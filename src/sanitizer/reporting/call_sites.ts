/**
 * Where a program called the library: call stacks, and the places that they name.
 *
 * @module
 */
import type { SanitizerAccess, SanitizerReport } from "./sanitizer_report.ts";

/** A captured call stack. Engines format `stack` only when it is read, which takes longer than the capture. */
export interface CallSite {
  readonly stack?: string;
}

/**
 * The least number of frames to capture: the engines' default. The first two to seven of them are the library's own. Each
 * frame takes V8 a quarter to half a microsecond, in each call of the program.
 */
export const frameCount = 10;
/** V8's and JavaScriptCore's `Error`; TypeScript's own library does not declare the limit. */
export const errors = Error as unknown as { stackTraceLimit: number };
const engineFrame = /\(?(?:ext|node|bun|native):|\[native code\]|<anonymous>\)?$/;

/** Captures where the library was called. */
export function callSiteHere(): CallSite {
  const limit = errors.stackTraceLimit;
  if (!(limit > frameCount)) errors.stackTraceLimit = frameCount;
  // Not Error.captureStackTrace: JavaScriptCore's formats the stack at once.
  const site = new Error();
  errors.stackTraceLimit = limit;
  return site;
}

/** The formatted stacks: reports read the same sites many times. */
const stacks = new WeakMap<CallSite, string>();
/** Matches a frame of the library's own files; null if they are bundled into one, and undefined until it is needed. */
let libraryFrame: RegExp | null | undefined;

/** The lines of a call stack, without the library's own. */
export function stackOf(site: CallSite): string {
  let stack = stacks.get(site);
  if (stack === undefined) stacks.set(site, stack = ownFrames(site));
  return stack;
}

function ownFrames(site: CallSite): string {
  const frames = (site.stack ?? "").split("\n").filter((line) => /^\s+at |@/.test(line)).map((line) => line.trim());
  if (libraryFrame === undefined) libraryFrame = framesOfLibrary();
  const own = frames.filter((line) => !libraryFrame?.test(line) && !engineFrame.test(line));
  return own.map((line) => line.startsWith("at ") ? line : `at ${line}`).join("\n");
}

/**
 * Returns what matches a frame of the library's own files; null if they are bundled. Not at import, because the first
 * call stack that an engine writes out costs 80 ms for a bundle: it looks for the start of each line in the source.
 */
function framesOfLibrary(): RegExp | null {
  const root = /([^\s(@]*)src\/sanitizer\/reporting\/call_sites\./.exec(callSiteHere().stack ?? "")?.[1];
  return root === undefined ? null : new RegExp(`(?<![^\\s(@])${escaped(root)}(?:src/|ffi/|mod\\.)`);
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** A line of a call stack. */
export interface StackFrame {
  /** The function, if it has a name. */
  readonly name: string | undefined;
  /** A path, or the URL of a module that is not a file. */
  readonly file: string;
  readonly line: number;
  readonly column: number | undefined;
}

/** `at name (file:line:column)`, the same without a name, or `at name@file:line:column`. */
const frame = /^at (?:async )?(?:(?:(.*?) \(|([^\s/]*)@)(.*?):(\d+)(?::(\d+))?\)?|(.*?):(\d+)(?::(\d+))?)$/;

/** The places of a call stack, from the innermost on. */
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

/** The innermost frame of a report: that of the later access, or of the earlier one if that has none. */
export function frameOfReport({ accesses }: SanitizerReport): StackFrame | undefined {
  for (const { stack } of accesses) {
    const [place] = framesOf(stack);
    if (place !== undefined) return place;
  }
  return undefined;
}

/** `script.ts:14`, or a line of the kernel for what threads do. Undefined if no place is known. */
export function shortLocationOf(report: SanitizerReport): string | undefined {
  const access: SanitizerAccess | undefined = report.accesses[0];
  if (access?.block !== undefined && access.source !== undefined) return access.source;
  const place = frameOfReport(report);
  return place && shortNameOf(place);
}

/** `script.ts:14`. */
export function shortNameOf({ file, line }: StackFrame): string {
  return `${file.slice(file.lastIndexOf("/") + 1)}:${line}`;
}

function pathOf(file: string): string {
  if (!file.startsWith("file://")) return file;
  try {
    // On Windows, what follows the host is "/C:/...".
    return decodeURIComponent(new URL(file).pathname).replace(/^\/(?=[A-Za-z]:)/, "");
  } catch {
    return file;
  }
}
