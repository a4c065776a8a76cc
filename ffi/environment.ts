/**
 * The environment and the identity of this process, with no permission but that for FFI.
 *
 * @module
 */
import { cString, shim, shimRefusal, unwrap } from "./shim/shim.ts";

interface Globals {
  Deno?: { permissions: { querySync(descriptor: { name: "env"; variable: string }): { state: string } } };
  process?: { pid: number; env: Record<string, string | undefined> };
}

/**
 * The value of an environment variable, or undefined where it is not set. It is read as a C library such as CUDA's reads
 * it; where FFI cannot be used, as the runtime has it, and in Deno only if that is permitted already.
 */
export function environmentVariable(name: string): string | undefined {
  if (shimRefusal() !== undefined) return runtimeVariable(name);
  let buffer = new Uint8Array(256);
  for (;;) {
    const length = shim().poolpass_getenv(cString(name), buffer, BigInt(buffer.length));
    if (length < 0) return undefined;
    if (length <= buffer.length) return new TextDecoder().decode(buffer.subarray(0, length));
    buffer = new Uint8Array(length);
  }
}

/** The number of this process. */
export function processId(): number {
  return unwrap(shim().poolpass_getpid(), "getpid");
}

/** The number of the user that this process runs as. */
export function userId(): number {
  return shim().poolpass_getuid();
}

function runtimeVariable(name: string): string | undefined {
  const { Deno: deno, process } = globalThis as unknown as Globals;
  if (deno !== undefined && deno.permissions.querySync({ name: "env", variable: name }).state !== "granted") {
    return undefined;
  }
  return process?.env[name];
}
