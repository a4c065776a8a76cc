/**
 * The version of the library, the runtimes that it runs on, and the state that all copies of it on one thread share.
 *
 * @module
 */

/** The version of poolpass, such as `"0.1.0"`. */
export const version: string = "0.1.0";

/** Formats a version number as `cuDriverGetVersion` returns it: `"13.0"` for 13000. */
export function formatVersion(version: number): string {
  return `${Math.floor(version / 1000)}.${version % 1000 / 10}`;
}

/** The globals by which runtimes are recognized. */
export interface RuntimeGlobals {
  readonly Uint8Array: { readonly prototype: object };
  readonly DisposableStack?: unknown;
  readonly Deno?: { readonly version: { readonly deno: string } };
  readonly process?: { readonly versions: { readonly bun?: string; readonly node?: string } };
}

/**
 * Throws if this runtime is too old. The packages begin with the text of this function, so that their import says it
 * before anything fails for want of a feature: it uses no other names, and syntax that old runtimes know.
 */
export function checkRuntime(globals: RuntimeGlobals = globalThis as unknown as RuntimeGlobals): void {
  let name = "this runtime";
  let isNew = true;
  // In Deno, the first access to `process` loads much of Node's library, so it is not asked for there.
  if (globals.Deno !== undefined) name = `Deno ${globals.Deno.version.deno}`;
  else if (globals.process !== undefined) {
    const { bun, node } = globals.process.versions;
    if (bun !== undefined) name = `Bun ${bun}`;
    else if (node !== undefined) {
      name = `Node ${node}`;
      // Node's version tells whether it has FFI without a flag, and its features do not.
      const [major = 0, minor = 0] = node.split(".").map(Number);
      isNew = major > 26 || (major === 26 && minor >= 10);
    }
  }
  if (isNew && "toHex" in globals.Uint8Array.prototype && globals.DisposableStack !== undefined) return;
  throw new Error(`Cannot run here: ${name} is too old; use Deno 2.9, Bun 1.4, Node 26.10 or newer`);
}

/** The value that all copies on this thread share under `name`. The first copy to ask for it creates it. */
export function sharedAmongCopies<T>(name: string, make: () => T): T {
  return ((globalThis as unknown as Record<symbol, T>)[Symbol.for(`poolpass.${name}`)] ??= make());
}
