/**
 * Where a program called the library.
 *
 * @module
 */

/** A call stack, which is only written out if it is asked for: that takes longer than to note it. */
export interface CallSite {
  readonly stack?: string;
}

/**
 * The frames to note at least: as many as engines do unless they are told otherwise. Up to seven of the library come
 * first, mostly two to four. Each one takes V8 a quarter to half a microsecond, for each call of the program.
 */
export const frameCount = 10;
/** V8's and JavaScriptCore's `Error`; TypeScript's own library does not declare the limit. */
export const errors = Error as unknown as { stackTraceLimit: number };
const engineFrame = /\(?(?:ext|node|bun|native):|\[native code\]|<anonymous>\)?$/;

/** Notes where the library was called. */
export function callSiteHere(): CallSite {
  const limit = errors.stackTraceLimit;
  if (!(limit > frameCount)) errors.stackTraceLimit = frameCount;
  // JavaScriptCore's captureStackTrace writes the stack out at once.
  const site = new Error();
  errors.stackTraceLimit = limit;
  return site;
}

/** The stacks that were written out: reports ask for the same sites many times. */
const stacks = new WeakMap<CallSite, string>();
/** Matches a frame of the library's own files; null if they are bundled into one, and undefined until it is needed. */
let libraryFrame: RegExp | null | undefined;

/** The lines of a call stack, from the line that called the library on. */
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
