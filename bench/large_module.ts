/**
 * A module as large as a big library's: different kernels' text, again and again under other names.
 *
 * @module
 */

/** One module of at least `lines` lines with all that the given ones have, as often as it takes. */
export function largeModule(modules: readonly string[], { lines }: { lines: number }): string {
  const variables = modules.flatMap((ptx) => [...ptx.matchAll(/^\.(?:const|global) [^;]*;/gm)].map(([text]) => text));
  const kernels = modules.flatMap((ptx) => [...ptx.matchAll(/^\.visible \.entry (\w+)\([^]*?^}/gm)]);
  const parts = [".version 9.0\n.target sm_75\n.address_size 64\n", ...variables];
  for (let copy = 0; lineCount(parts) < lines; copy++) {
    for (const [text, name] of kernels) {
      parts.push(text.replace(`.entry ${name}(`, `.entry ${name}_${copy}_${parts.length}(`));
    }
  }
  return parts.join("\n") + "\n";
}

function lineCount(parts: readonly string[]): number {
  return parts.reduce((count, part) => count + part.split("\n").length, 0);
}
