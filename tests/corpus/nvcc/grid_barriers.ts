import type { CorpusProgram } from "../corpus_program.ts";

const count = 10_007;
const input = Uint32Array.from({ length: count }, (_, index) => Math.imul(index, 2654435761) >>> 0);
const sum = input.reduce((sum, value) => sum + value >>> 0);
const [width, height, steps] = [37, 29, 21];
const plate = Float64Array.from({ length: width * height }, (_, i) => i < width ? 100 : i * 7 % 11);
const blocks = 12;

function jacobi(): Float64Array {
  let from = plate.slice();
  for (let step = 0; step < steps; step++) {
    const to = from.slice();
    for (let y = 1; y < height - 1; y++) {
      for (let x = 1; x < width - 1; x++) {
        const i = y * width + x;
        to[i] = ((from[i - 1]! + from[i + 1]!) + (from[i - width]! + from[i + width]!)) / 4;
      }
    }
    from = to;
  }
  return from;
}

/** Cooperative launches, whose blocks wait for each other at the barrier of cooperative_groups. */
export const program: CorpusProgram = {
  covers: "%envreg1 and %envreg2 with the barrier of a grid in a cooperative launch",
  buffers: () => ({
    input,
    partial: new Uint32Array(blocks),
    result: new Uint32Array(2),
    resultOfOne: new Uint32Array(2),
    from: plate,
    to: new Float64Array(width * height),
    turns: new Uint32Array(blocks),
    validAlone: Uint32Array.of(9),
  }),
  launches: [
    {
      kernel: "reduce",
      grid: [blocks / 4, 2, 2],
      block: [32, 2],
      sharedMemoryBytes: 64 * 4,
      cooperative: true,
      arguments: ["input", count, "partial", "result"],
    },
    {
      kernel: "reduce",
      grid: 1,
      block: 128,
      sharedMemoryBytes: 128 * 4,
      cooperative: true,
      arguments: ["input", count, "partial", "resultOfOne"],
    },
    {
      kernel: "jacobi",
      grid: [3, blocks / 3],
      block: [16, 5],
      cooperative: true,
      arguments: ["from", "to", width, height, steps, "turns"],
    },
    { kernel: "is_valid", grid: 1, block: 32, cooperative: true, arguments: ["validAlone"] },
  ],
  expected: () => ({
    result: Uint32Array.of(sum, 1),
    resultOfOne: Uint32Array.of(sum, 1),
    // The number of steps is odd.
    to: jacobi(),
    turns: new Uint32Array(blocks).fill(steps),
    validAlone: Uint32Array.of(1),
  }),
};
