import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const blocks = 2;
/** The words of the last two warps make their votes unanimous. */
const input: Uint32Array = Uint32Array.from({ length: size * blocks }, (_, i) => {
  const word = Math.imul(i + 1, 0x9e3779b1);
  return i < 64 ? word : i < 96 ? word & 0x7fffffff | 16 : word | 0xf0000011;
});

function warpOf(values: Uint32Array): number[] {
  const ballot = (mask: number, holds: (value: number, lane: number) => boolean) =>
    values.reduce((bits, value, lane) => mask >>> lane & 1 && holds(value, lane) ? bits | 1 << lane : bits, 0) >>> 0;
  const any = (mask: number, holds: (value: number) => boolean) => ballot(mask, holds) === 0 ? 0 : 1;
  const all = (mask: number, holds: (value: number) => boolean) => ballot(mask, holds) === mask ? 1 : 0;
  const whole = 0xffffffff;
  return Array.from(values).flatMap((value, lane) => {
    const row = [whole, ballot(whole, (value) => value % 2 === 1)];
    row.push(any(whole, (value) => value % 64 === 5) * 2 + all(whole, (value) => value < 0xf0000000));
    row.push(all(whole, (value) => value < 0x80000000) | all(whole, (value) => value >= 0x80000000));
    if (lane % 4 === 1) {
      row.push(
        ballot(0x22222222, (value) => (value & 2) !== 0) + all(0x22222222, (value) => (value & 16) !== 0),
        0,
      );
    } else if (lane < 12) {
      row.push(ballot(0xddd, (value) => (value & 4) !== 0), any(0xddd, (value) => (value & 8) !== 0));
    } else row.push(0, 0);
    let seen = 0;
    for (let round = 0; round < Math.floor(lane / 8); round++) {
      const staying = 0xffffff00 << 8 * round >>> 0;
      seen = (Math.imul(seen, 3) ^ ballot(staying, (value) => (value >>> round & 1) === 1)) >>> 0;
    }
    return [...row, seen, value & 32 ? 1 : 0];
  });
}

/** Votes of warps. */
export const program: CorpusProgram = {
  covers: "vote.sync ballot, any, all, uni and activemask, in straight code, branches and loops",
  buffers: () => ({ input, out: new Uint32Array(size * blocks * 8) }),
  launches: [{ kernel: "votes", grid: blocks, block: size, arguments: ["input", "out"] }],
  expected: () => ({
    out: Uint32Array.from([0, 32, 64, 96].flatMap((first) => warpOf(input.slice(first, first + 32)))),
  }),
};
