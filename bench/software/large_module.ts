/**
 * A module as large as that of a big library: copies of several kernels under different names.
 *
 * @module
 */

/** Returns a module of at least `lines` lines, which repeats the kernels of all given modules. */
export function largeModule(modules: readonly string[], { lines }: { lines: number }): string {
  const variables = modules.flatMap((ptx) => [...ptx.matchAll(/^\.(?:const|global) [^;]*;/gm)].map(([line]) => line));
  const kernels = modules.flatMap((ptx) => [...ptx.matchAll(/^\.visible \.entry (\w+)\([^]*?^}/gm)]);
  const parts = [".version 9.0\n.target sm_75\n.address_size 64\n", ...variables];
  for (let copy = 0; lineCount(parts) < lines; copy++) {
    for (const [kernel, name] of kernels) {
      parts.push(kernel.replace(`.entry ${name}(`, `.entry ${name}_${copy}_${parts.length}(`));
    }
  }
  return parts.join("\n") + "\n";
}

function lineCount(parts: readonly string[]): number {
  return parts.reduce((count, part) => count + part.split("\n").length, 0);
}
