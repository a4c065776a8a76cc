/**
 * The process's standard output and standard error, for the output of kernels. Writes are synchronous and complete, and
 * need no permission.
 *
 * @module
 */

/** Writes as many of the bytes as possible, from the start, and returns the number of bytes written. */
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
/** The maximum bytes per write: small enough for Deno's stdout buffer and for an atomic write to a pipe. */
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
 * Writes all bytes, in as many writes as necessary, and waits while a pipe is full. Discards bytes that cannot be
 * written, for example because the reader has closed the pipe: printing must not make a kernel fail.
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
 * Writes all bytes like {@linkcode writeWhole}, but through Deno's line buffer. If a write of text without a line break
 * fails because the pipe is full, the text is already in the buffer, and only the buffer has to be flushed. Text with
 * line breaks bypasses the buffer, and has to be written again.
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

/**
 * Tries to write bytes. Returns the number of bytes written, "full" if the pipe is full, or "lost" if writing is
 * impossible.
 */
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

/**
 * Returns a function that writes to a file descriptor with `writeSync` of `node:fs`. Not used in Deno, whose
 * `writeSync` starts over if a pipe is full, so that bytes that were already written appear twice.
 */
function toDescriptor(descriptor: number): WriteSome {
  const fileSystem = globals.process?.getBuiltinModule?.("node:fs") as NodeFileSystem | undefined;
  if (fileSystem === undefined) return (bytes) => bytes.length;
  return (bytes) => fileSystem.writeSync(descriptor, bytes);
}
