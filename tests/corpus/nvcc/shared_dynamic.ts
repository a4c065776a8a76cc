import type { CorpusProgram } from "../corpus_program.ts";

const block = 24;
const grid = 2;
const length = grid * block;
const dynamicBytes = 4 * 77;

export const program: CorpusProgram = {
  covers: "dynamic shared memory with several arrays, with and without static shared memory",
  buffers: () => ({
    numbers: Float32Array.from({ length }, (_, index) => index / 3 - 5),
    doubles: new Float64Array(length),
    floats: new Float32Array(length),
    bytes: new Uint8Array(length),
    sums: new Int32Array(33),
  }),
  launches: [
    {
      kernel: "carve",
      grid,
      block,
      sharedMemoryBytes: block * (8 + 4 + 1),
      arguments: ["numbers", "doubles", "floats", "bytes"],
    },
    { kernel: "beside_static", grid: 1, block: 32, sharedMemoryBytes: dynamicBytes, arguments: ["sums"] },
  ],
  expected({ numbers }) {
    const source = numbers as Float32Array;
    const blockOf = (index: number) => Math.floor(index / block);
    const inBlock = (index: number, thread: number) => source[blockOf(index) * block + thread]!;
    const words = dynamicBytes / 4;
    const sum = words * 1000 + words * (words - 1) / 2;
    return {
      doubles: Float64Array.from(source, (_, index) => inBlock(index, block - 1 - index % block) / 2),
      floats: source.map((_, index) => inBlock(index, block - 1 - (index % block + 1) % block)),
      bytes: Uint8Array.from(source, (_, index) => (index % block ^ 1) * 3 + blockOf(index)),
      sums: Int32Array.from({ length: 33 }, (_, thread) => thread === 32 ? dynamicBytes : sum * 100 + thread % 16),
    };
  },
};
