/**
 * Mutations of the debugging sections of PTX.
 *
 * @module
 */
import type { Random } from "../support/ptx_mutations.ts";

/** Changes, removes and exchanges a few of the data directives of PTX. */
export function mutateSections(ptx: string, random: Random): string {
  const begin = ptx.search(/^\s*\.section/m);
  const lines = ptx.slice(begin).split("\n");
  for (let count = 1 + random.below(4); count > 0; count--) {
    const at = random.below(lines.length);
    const number = String(
      random.pick([0, 1, 2, 3, 5, 8, 15, 16, 19, 22, 33, 46, 63, 127, 128, 255, random.below(256)]),
    );
    const change = random.below(8);
    if (change < 4) lines[at] = lines[at]!.replace(/\d+(?=\D*$)/, number);
    else if (change === 4) lines.splice(at, 1 + random.below(3));
    else if (change === 5) lines.splice(at, 0, `.b8 ${number}`);
    else if (change === 6) lines[at] = lines[random.below(lines.length)]!;
    else lines[at] = `.b32 ${random.pick([number, "-1", "4294967295", "$L__func_begin0", ".debug_info+7", "name"])}`;
  }
  return ptx.slice(0, begin) + lines.join("\n");
}
