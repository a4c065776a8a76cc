import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;

function measured(i: number): number {
  const by = i % 7;
  const [area, edges, areaGrown, edgesGrown] = [
    [i * 9, 4, (i + by) * 9, 4],
    [i * 2, i, i * 2 + by * 2, i + by],
    [i + 1005, 6, i + 1005 + by * 2, 6 + by],
  ][i % 3] as [number, number, number, number];
  return (area * 16 + edges) * 3 + areaGrown + edgesGrown;
}

/** Objects with virtual functions. */
export const program: CorpusProgram = {
  covers: "virtual functions: tables of function addresses in .global, indirect call, objects in local memory",
  buffers: () => ({ out: new Int32Array(size) }),
  launches: [{ kernel: "virtual_functions", grid: 2, block: size / 2, arguments: ["out"] }],
  expected: () => ({ out: Int32Array.from({ length: size }, (_, i) => measured(i)) }),
};
