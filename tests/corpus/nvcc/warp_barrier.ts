import type { CorpusProgram } from "../corpus_program.ts";

function warpOf(warp: number): number[] {
  const lanes = Array.from({ length: 32 }, (_, lane) => lane);
  let values = lanes.map((lane) => warp * 32 + (lane ^ 31) + 1);
  values = lanes.map((lane) => values[lane]! + (lane < 16 ? values[lane ^ 5]! * 3 : values[lane ^ 9]! * 7));
  for (let round = 0; round < 3; round++) {
    values = values.map((value, lane) => lane < 4 ? value ^ (values[lane ^ 1]! + round) << 1 : value);
  }
  values = values.map((value, lane) => lane >= 16 && lane % 2 === 0 ? value - values[lane ^ 2]! : value);
  return values.map((value, lane) => values[(lane + 7) % 32]! * 2 + value >>> 0);
}

/** Lanes that read each other's shared memory. */
export const program: CorpusProgram = {
  covers: "bar.warp.sync with full and partial masks, volatile shared memory",
  buffers: () => ({ out: new Uint32Array(64) }),
  launches: [{ kernel: "warp_barrier", grid: 1, block: 64, arguments: ["out"] }],
  expected: () => ({ out: Uint32Array.from([...warpOf(0), ...warpOf(1)]) }),
};
