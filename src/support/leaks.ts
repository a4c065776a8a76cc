import { listOf } from "./printing.ts";

/** Buffers that were not freed before the object that allocated them was disposed. */
export interface UnfreedBuffers {
  readonly count: number;
  readonly byteLength: number;
  /** The disposal that ended the buffers' lifetime, phrased to follow "before": "the pool on device 0 was disposed". */
  readonly before: string;
  /** The call site of each buffer's allocation, if it was recorded. */
  readonly origins?: readonly string[];
  /** Advice for the end of the warning. */
  readonly advice?: string;
}

/** Warns about buffers that can no longer be freed, or that the program seems to have leaked. */
export function reportLeak({ count, byteLength, before, origins = [], advice }: UnfreedBuffers): void {
  if (count === 0) return;
  const buffers = count === 1 ? "1 buffer was" : `${count} buffers were`;
  const lines = origins.map((origin) => `\n${origin}`).join("");
  const end = advice === undefined ? "" : `; ${advice}`;
  console.warn(`poolpass: ${buffers} not freed before ${before}, ${byteLength} bytes${end}${lines}`);
}

/**
 * Warns about launches that were dropped because the program did not wait for them. A fault of such a launch would go
 * unnoticed.
 *
 * @param kernels The name of each launch's kernel.
 */
export function reportDroppedLaunches(kernels: readonly string[]): void {
  if (kernels.length === 0) return;
  const counts = Array.from(Map.groupBy(kernels, (kernel) => kernel), ([kernel, { length }]) => {
    return length === 1 ? kernel : `${kernel} x ${length}`;
  });
  const launches = kernels.length === 1 ? "1 launch was" : `${kernels.length} launches were`;
  console.warn(
    `poolpass: ${launches} dropped, because the Cuda object was disposed before anything had waited for ` +
      `${kernels.length === 1 ? "it" : "them"}: ${listOf(counts)}; await stream.finished() first`,
  );
}

/**
 * Warns about a wait for an event that was never recorded, which CUDA treats as complete.
 *
 * @param wait The waiter and the event: "a stream waits for an event of device 0".
 * @param origin The call stack of the event's creation.
 */
export function reportUnrecordedEvent(wait: string, origin: string): void {
  const stacks = `${callStack("waited for")}\n${origin}`;
  console.warn(`poolpass: ${wait} that was never recorded, which does not wait for anything\n${stacks}`);
}

/**
 * Warns that the owner of a wrapped stream destroyed it while a `CudaStream` still used it. A GPU's driver may crash
 * instead of reporting this mistake.
 */
export function reportDestroyedStream(device: number): void {
  console.warn(
    `poolpass: a stream of device ${device} was destroyed by its owner while a CudaStream from wrapStream still used it; ` +
      "dispose the CudaStream first",
  );
}

/** Returns the call stack of an allocation as a string for the leak report. */
export function originOf(byteLength: number): string {
  return callStack(`${byteLength} bytes allocated`);
}

/** Returns the call site of a function on the call stack: "main (file:///home/me/script.ts:12:8)". */
export function callSite(callee: (...given: never[]) => unknown): string | undefined {
  const holder: { stack?: string } = {};
  // V8 and JavaScriptCore have captureStackTrace, but TypeScript's standard library does not declare it.
  (Error as unknown as { captureStackTrace(target: object, above: unknown): void }).captureStackTrace(holder, callee);
  return /^ +at (.*)$/m.exec(holder.stack ?? "")?.[1];
}

/** The maximum number of library frames above the program's frames in a call stack. */
const maximumLibraryFrames = 20;
const isFrame = /^\s+at |@/;

/**
 * Returns the current call stack as a string, with `what` as the first line. Begins with the program's own frame: the
 * library's frames above it say nothing about the program.
 */
export function callStack(what: string): string {
  const errors = Error as unknown as { stackTraceLimit: number };
  const limit = errors.stackTraceLimit;
  errors.stackTraceLimit = limit + maximumLibraryFrames;
  const lines = new Error(what).stack!.replace(/^Error: /, "").split("\n");
  errors.stackTraceLimit = limit;
  const begin = lines.findIndex((line) => isFrame.test(line));
  if (begin < 0) return lines.join("\n");
  const library = libraryFrames(lines[begin]!);
  const frames = lines.slice(begin);
  // If the program has no frame of its own, it is in the same bundle as the library.
  const own = Math.max(0, frames.findIndex((line) => !library.test(line)));
  return [...lines.slice(0, begin), ...frames.slice(own, own + limit)].join("\n");
}

/**
 * Returns a pattern that matches the library's stack frames: frames in its files, or in the bundle that contains it.
 */
function libraryFrames(ownFrame: string): RegExp {
  const path = ownFrame.replace(/:\d+:\d+\)?$/, "").replace(/^.*[(@ ]/, "");
  const root = /^(.*)src\/support\/leaks\.[jt]s$/.exec(path)?.[1];
  return new RegExp(root === undefined ? RegExp.escape(path) : `${RegExp.escape(root)}(?:src|ffi)/`);
}
