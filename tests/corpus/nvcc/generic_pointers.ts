import type { CorpusProgram } from "../corpus_program.ts";

const threads = 32;

export const program: CorpusProgram = {
  covers: "generic pointers to shared, local, global and constant memory, selected at run time and passed to functions",
  buffers: () => ({
    parameters: Int32Array.of(5, 60, 700, 8000),
    out: new Int32Array(threads + 5).fill(-1),
  }),
  launches: [{ kernel: "every_space", grid: 1, block: threads, arguments: ["parameters", "out"] }],
  expected({ parameters }) {
    const source = [...parameters as Int32Array];
    const localOf = (thread: number) => {
      const [a, b, c, d] = source.map((value) => value + thread + 7);
      return [d!, b!, c!, a!];
    };
    const shared = [0, 100, 200, 300];
    const sum = (numbers: readonly number[]) => numbers.reduce((total, value) => total + value, 0);
    const sums = Array.from({ length: threads }, (_, thread) => {
      const chosen = [shared, localOf(thread), [1, 2, 3, 4], [11, 22, 33, 44]][thread % 4]!;
      return sum(chosen) + chosen[Math.floor(thread / 4) % 4]!;
    });
    const [, second, third] = localOf(0);
    const swapped = [second!, ...shared.slice(1).map((value) => value + 1)];
    return { out: Int32Array.of(...sums, third!, second!, 1, -1, sum(swapped)) };
  },
};
