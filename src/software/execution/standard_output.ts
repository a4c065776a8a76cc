/**
 * The process's standard output and standard error, for what kernels print: written at once and whole, with no permission
 * asked for.
 *
 * @module
 */

/** Writes some bytes, from the first on, and returns how many. */
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
/** What fits in the buffer that Deno has for its standard output, and what a pipe takes whole or not at all. */
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
 * Writes all of the text, however many writes that takes, and waits where a pipe is full. What cannot be written, because
 * nobody reads it any more for one, is lost: a kernel does not fail because of what it prints.
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
 * Does the same by way of Deno's buffer. That takes what does not end a line even where the pipe is full, and to pass it on
 * is all that is left to do then; lines go past it, and are to be written again.
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

/** How many bytes were written, or why none were. */
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

/** Not for Deno: there this function starts over where a pipe is full, and what was written before is there twice. */
function toDescriptor(descriptor: number): WriteSome {
  const fileSystem = globals.process?.getBuiltinModule?.("node:fs") as NodeFileSystem | undefined;
  if (fileSystem === undefined) return (bytes) => bytes.length;
  return (bytes) => fileSystem.writeSync(descriptor, bytes);
}
