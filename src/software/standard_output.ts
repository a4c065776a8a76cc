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

const { Deno: deno, process } = globalThis as unknown as Globals;
const sleeping = new Int32Array(new SharedArrayBuffer(4));
const retryMilliseconds = 1;

/** Writes to the process's standard output. */
export function writeStandardOutput(text: Uint8Array): void {
  writeWhole(deno === undefined ? toDescriptor(1) : (bytes) => deno.stdout.writeSync(bytes), text);
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
    try {
      written += write(text.subarray(written));
    } catch (error) {
      if ((error as { code?: unknown }).code !== "EAGAIN") return;
      Atomics.wait(sleeping, 0, 0, retryMilliseconds);
    }
  }
}

/** Not for Deno: there this function starts over where a pipe is full, and what was written before is there twice. */
function toDescriptor(descriptor: number): WriteSome {
  const fileSystem = process?.getBuiltinModule?.("node:fs") as NodeFileSystem | undefined;
  if (fileSystem === undefined) return (bytes) => bytes.length;
  return (bytes) => fileSystem.writeSync(descriptor, bytes);
}
