import type { CorpusProgram } from "../corpus_program.ts";

const size = 96;
/** The second warp has only one value; the third has large values. */
const input: Uint32Array = Uint32Array.from({ length: size }, (_, i) => {
  if (i >= 32 && i < 64) return 12345;
  return i < 64 ? i * i % 7 : 0xfffffff0 - i % 5;
});

function warpOf(values: Uint32Array): number[] {
  const lanes = Array.from({ length: 32 }, (_, lane) => lane);
  const maskOf = (members: number[]) => members.reduce((bits, lane) => bits | 1 << lane, 0) >>> 0;
  const sameAs = (members: number[], key: (value: number) => unknown, lane: number) =>
    maskOf(members.filter((other) => key(values[other]!) === key(values[lane]!)));
  const wide = (value: number) => BigInt(value % 3) << 40n | BigInt(value);
  return lanes.flatMap((lane) => {
    const uniform = new Set(values).size === 1;
    const upper = lanes.filter((other) => other >= 20);
    const whole = uniform ? 0xffffffff : 0;
    const row = [
      sameAs(lanes, (value) => value, lane),
      sameAs(lanes, (value) => wide(value) << BigInt(value & 1), lane),
      whole,
      whole,
      uniform ? 3 : 0,
    ];
    if (lane >= 20) return [...row, sameAs(upper, (value) => value >>> 1, lane), maskOf(upper), 1];
    const odd = lanes.filter((other) => other < 20 && other % 2);
    return [...row, lane % 2 ? sameAs(odd, (value) => value % 2, lane) : 0, 0, 0];
  });
}

/** Matches among the lanes of warps. */
export const program: CorpusProgram = {
  covers: "match.any.sync and match.all.sync of .b32 and .b64",
  buffers: () => ({ input, out: new Uint32Array(size * 8) }),
  launches: [{ kernel: "match_lanes", grid: 1, block: size, arguments: ["input", "out"] }],
  expected: () => ({
    out: Uint32Array.from([0, 32, 64].flatMap((first) => warpOf(input.slice(first, first + 32)))),
  }),
};
