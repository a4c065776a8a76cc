/**
 * The library's version, the check of the JavaScript runtime, and state shared by all copies of the library on one
 * thread.
 *
 * @module
 */

/** The version of poolpass, such as `"0.1.0"`. */
export const version: string = "0.1.0";

/** Formats a version number as `cuDriverGetVersion` returns it: `"13.0"` for 13000. */
export function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}

/** The globals that identify a runtime. */
export interface RuntimeGlobals {
  readonly Uint8Array: { readonly prototype: object };
  readonly DisposableStack?: unknown;
  readonly Deno?: { readonly version: { readonly deno: string } };
  readonly process?: { readonly versions: { readonly bun?: string; readonly node?: string } };
}

/**
 * Throws if this runtime is too old. The published packages begin with the source text of this function, so that
 * importing them throws this error before a missing feature causes another error. The function must therefore not refer
 * to any name outside of itself, and must use only syntax that old runtimes support.
 */
export function checkRuntime(globals: RuntimeGlobals = globalThis as unknown as RuntimeGlobals): void {
  let name = "this runtime";
  let isNew = true;
  // Deno is checked first, because in Deno, the first access to `process` loads much of Node's library.
  if (globals.Deno !== undefined) name = `Deno ${globals.Deno.version.deno}`;
  else if (globals.process !== undefined) {
    const { bun, node } = globals.process.versions;
    if (bun !== undefined) name = `Bun ${bun}`;
    else if (node !== undefined) {
      name = `Node ${node}`;
      // Compares the version, because no feature of Node reveals whether FFI is available without a flag.
      const [major = 0, minor = 0] = node.split(".").map(Number);
      isNew = major > 26 || (major === 26 && minor >= 10);
    }
  }
  if (isNew && "toHex" in globals.Uint8Array.prototype && globals.DisposableStack !== undefined) return;
  const error = new Error(
    `Cannot run here: ${name} is too old; use Deno 2.9, Bun 1.4, Node 26.10 or newer, as in npx -y -p node@26.10 node FILE`,
  );
  // The message is sufficient, and a call stack would only obscure it.
  error.stack = String(error);
  throw error;
}

/**
 * Returns the value that all copies of this library on the thread share under `name`. The first copy to request the
 * value creates it.
 */
export function sharedAmongCopies<T>(name: string, make: () => T): T {
  return ((globalThis as unknown as Record<symbol, T>)[Symbol.for(`poolpass.${name}`)] ??= make());
}
