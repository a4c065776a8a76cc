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
/** How the engine names the folder of the library's sources in call stacks. Undefined if they are bundled. */
const root = /([^\s(@]*)src\/sanitizer\/call_sites\./.exec(new Error().stack ?? "")?.[1];
/** The library's own files. */
const libraryFrame = root === undefined ? undefined : new RegExp(`(?<![^\\s(@])${escaped(root)}(?:src/|ffi/|mod\\.)`);
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

/** What was written out: the same sites are asked for again and again. */
const stacks = new WeakMap<CallSite, string>();

/** The lines of a call stack, from the line that called the library on. */
export function stackOf(site: CallSite): string {
  let stack = stacks.get(site);
  if (stack === undefined) stacks.set(site, stack = ownFrames(site));
  return stack;
}

function ownFrames(site: CallSite): string {
  const frames = (site.stack ?? "").split("\n").filter((line) => /^\s+at |@/.test(line)).map((line) => line.trim());
  const own = frames.filter((line) => !libraryFrame?.test(line) && !engineFrame.test(line));
  return own.map((line) => line.startsWith("at ") ? line : `at ${line}`).join("\n");
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
