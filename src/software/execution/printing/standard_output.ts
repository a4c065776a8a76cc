/**
 * The process's standard output and standard error, for what kernels print. Writes are synchronous and complete, and
 * need no permission.
 *
 * @module
 */

/** Writes bytes from the first on, and returns how many were written. */
export type WriteSome = (bytes: Uint8Array) => number;

interface Globals {
  Deno?: { stdout: { writeSync: WriteSome }; stderr: { writeSync: WriteSome } };
  process?: { getBuiltinModule?(name: string): unknown };
}

interface NodeFileSystem {
  writeSync(descriptor: number, bytes: Uint8Array): number;
}

const globals = globalThis as unknown as Globals;
const { Deno: deno } = globals;
const sleeping = new Int32Array(new SharedArrayBuffer(4));
const retryMilliseconds = 1;
/** What fits in Deno's buffer for its standard output, and what a pipe accepts whole or not at all. */
const pieceByteLength = 1023;
const lineFeed = 10;

/** Writes to the process's standard output. */
export function writeStandardOutput(text: Uint8Array): void {
  if (deno === undefined) writeWhole(toDescriptor(1), text);
  else writeThroughLineBuffer((bytes) => deno.stdout.writeSync(bytes), text);
}

/** Writes to the process's standard error. */
export function writeStandardError(text: Uint8Array): void {
  writeWhole(deno === undefined ? toDescriptor(2) : (bytes) => deno.stderr.writeSync(bytes), text);
}

/**
 * Writes all bytes, in as many writes as it takes, and waits while a pipe is full. What cannot be written, for instance
 * because the reader is gone, is lost: printing does not make a kernel fail.
 */
export function writeWhole(write: WriteSome, text: Uint8Array): void {
  let written = 0;
  while (written < text.length) {
    const outcome = attempt(write, text.subarray(written));
    if (outcome === "lost") return;
    if (outcome === "full") wait();
    else written += outcome;
  }
}

/**
 * Does the same through Deno's buffer. The buffer accepts what does not end a line even if the pipe is full, and then
 * only has to be flushed. Whole lines bypass the buffer, and must be written again.
 */
export function writeThroughLineBuffer(write: WriteSome, text: Uint8Array): void {
  let written = 0;
  while (written < text.length) {
    const most = text.subarray(written, written + pieceByteLength);
    const linesEnd = most.lastIndexOf(lineFeed) + 1;
    const piece = linesEnd > 0 ? most.subarray(0, linesEnd) : most;
    const outcome = attempt(write, piece);
    if (outcome === "lost") return;
    if (outcome !== "full") {
      written += outcome;
    } else if (linesEnd > 0) {
      wait();
    } else {
      do wait(); while (attempt(write, new Uint8Array()) === "full");
      written += piece.length;
    }
  }
}

/** The number of bytes written, or why there were none. */
function attempt(write: WriteSome, bytes: Uint8Array): number | "full" | "lost" {
  try {
    return write(bytes);
  } catch (error) {
    return (error as { code?: unknown }).code === "EAGAIN" ? "full" : "lost";
  }
}

function wait(): void {
  Atomics.wait(sleeping, 0, 0, retryMilliseconds);
}

/** Not for Deno, where this function starts over if a pipe is full, so that what was written before appears twice. */
function toDescriptor(descriptor: number): WriteSome {
  const fileSystem = globals.process?.getBuiltinModule?.("node:fs") as NodeFileSystem | undefined;
  if (fileSystem === undefined) return (bytes) => bytes.length;
  return (bytes) => fileSystem.writeSync(descriptor, bytes);
}
