/**
 * Throws if this runtime is too old. The packages begin with the text of this function, so that their import says it
 * before anything fails for want of a feature: it uses no other names, and syntax that old runtimes know.
 */
export function checkRuntime(): void {
  if ("toHex" in Uint8Array.prototype && "DisposableStack" in globalThis) return;
  const { Deno, process } = globalThis as {
    Deno?: { version: { deno: string } };
    process?: { versions: { bun?: string; node?: string } };
  };
  let name = "this runtime";
  if (Deno !== undefined) name = `Deno ${Deno.version.deno}`;
  else if (process?.versions.bun !== undefined) name = `Bun ${process.versions.bun}`;
  else if (process?.versions.node !== undefined) name = `Node ${process.versions.node}`;
  throw new Error(`Cannot run here: ${name} is too old; use Deno 2.9, Bun 1.4, Node 26.10 or newer`);
}
