/**
 * Reads the environment of this process, with no permission other than the one for FFI.
 *
 * @module
 */
import { cString, stringAt } from "./shim/shim.ts";
import { dlopen, ffiRefusal, type NativeFunctions, platform } from "./host.ts";

interface Globals {
  Deno?: {
    permissions: { querySync(descriptor: { name: "env"; variable?: string }): { state: string } };
    env: { toObject(): Record<string, string> };
  };
  process?: { env: Record<string, string | undefined> };
}

const symbols = {
  getenv: { parameters: ["buffer" /* const char *name */], result: "u64" },
} as const;

/** The functions of libc; null if the library cannot be used. */
let libc: NativeFunctions<typeof symbols> | null | undefined;

/**
 * Returns the value of an environment variable, or undefined if it is not set. Reads it with libc's `getenv`, like
 * CUDA. If FFI cannot be used, reads the runtime's own copy; in Deno, only if permission to read the variable has
 * already been granted.
 */
export function environmentVariable(name: string): string | undefined {
  if (libc === undefined) libc = openLibc();
  if (libc === null) return runtimeVariable(name);
  const address = libc.getenv(cString(name));
  if (address === 0n) return undefined;
  return stringAt(address);
}

/**
 * Returns the names of all environment variables, as the runtime lists them; none in Deno unless reading all variables
 * is already permitted. libc's `environ` is not read, because another thread could move the array at the same time by
 * setting a variable.
 */
export function variableNames(): string[] {
  const globals = globalThis as unknown as Globals;
  // In Deno, `Deno.env` is read instead of `process.env`, because the first access to `process` takes 9 milliseconds. A
  // polyfill of the Deno namespace may lack `permissions`.
  const deno = globals.Deno;
  if (deno?.permissions === undefined) return Object.keys(globals.process?.env ?? {});
  return deno.permissions.querySync({ name: "env" }).state === "granted" ? Object.keys(deno.env.toObject()) : [];
}

function openLibc(): NativeFunctions<typeof symbols> | null {
  if (platform().os !== "linux" || ffiRefusal() !== undefined) return null;
  try {
    return dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  } catch {
    return null;
  }
}

function runtimeVariable(name: string): string | undefined {
  const { Deno: deno, process } = globalThis as unknown as Globals;
  if (deno !== undefined && deno.permissions.querySync({ name: "env", variable: name }).state !== "granted") {
    return undefined;
  }
  return process?.env[name];
}
