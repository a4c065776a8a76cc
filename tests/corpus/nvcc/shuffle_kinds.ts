import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Int32Array = Int32Array.from({ length: size }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
const widths = [2, 4, 8, 16, 32];
const amounts = [0, 1, 2, 5, 13, 31];

/** The source lane of each kind. A lane whose source is outside its group reads its own value. */
const kinds: ((lane: number, amount: number, width: number) => number)[] = [
  (lane, amount, width) => lane - lane % width + amount % width,
  (lane, amount, width) => lane % width >= amount ? lane - amount : lane,
  (lane, amount, width) => lane % width + amount < width ? lane + amount : lane,
  (lane, amount, width) => Math.floor((lane ^ amount) / width) > Math.floor(lane / width) ? lane : lane ^ amount,
];

function row(source: (lane: number) => number): number[] {
  return Array.from(input, (_, thread) => input[(thread & 32) + source(thread % 32)]!);
}

function rowsOf(width: number): number[] {
  const [fromIndex, , down] = kinds as [typeof kinds[0], typeof kinds[0], typeof kinds[0]];
  return [
    ...amounts.flatMap((amount) => kinds.flatMap((kind) => row((lane) => kind(lane, amount, width)))),
    ...row((lane) => lane - lane % width + width - 1),
    ...row((lane) => fromIndex(lane, lane * 3 + 1, width)),
    ...row((lane) => down(lane, lane % 4, width)),
  ];
}

/** Shuffles of integers. */
export const program: CorpusProgram = {
  covers: "shfl.sync idx, up, down, bfly with widths 2 to 32",
  buffers: () => ({ input, out: new Int32Array(widths.length * (amounts.length * kinds.length + 3) * size) }),
  launches: [{ kernel: "shuffle_kinds", grid: 1, block: size, arguments: ["input", "out"] }],
  expected: () => ({ out: Int32Array.from(widths.flatMap(rowsOf)) }),
};
