import type { CorpusProgram } from "../corpus_program.ts";

const blocks = 2;
const threads = 512;
const none = new Uint32Array(2 * blocks * threads);

function tiles(size: number): Uint32Array {
  const out = none.slice();
  for (let block = 0; block < blocks; block++) {
    for (let first = 0; first < threads; first += size) {
      const ranks = Array.from({ length: size }, (_, rank) => first + rank);
      let values = ranks.map((rank) => rank * 3 + block);
      for (let step = 0; step <= first / size; step++) {
        const cells = values;
        values = cells.map((value, rank) => Math.imul(value, 5) + cells[(rank + 33) % size]! >>> 0);
      }
      const held = Number(ranks.includes(130));
      ranks.forEach((rank, index) => {
        out[block * threads + rank] = values[index]!;
        out[(blocks + block) * threads + rank] = values[40]! + held * 2;
      });
    }
  }
  return out;
}

/** Groups of cooperative_groups with more threads than a warp and fewer than a block. */
export const program: CorpusProgram = {
  covers: "%reserved_smem_offset_*, and barriers and exchange in the reserved shared memory",
  buffers: () => ({ of64: none, of256: none, reserved: new Uint32Array(2) }),
  launches: [
    { kernel: "tiles", grid: blocks, block: threads, arguments: ["of64", "of256"] },
    { kernel: "reserved", grid: 1, block: 64, arguments: ["reserved"] },
  ],
  expected: () => ({ of64: tiles(64), of256: tiles(256), reserved: Uint32Array.of(1, 154) }),
};
