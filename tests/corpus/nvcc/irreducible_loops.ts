import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const blocks = 4;
const input: Uint32Array = Uint32Array.from({ length: size * blocks }, (_, i) => Math.imul(i + 1, 0xc2b2ae35));

function loops(word: number): [value: number, steps: number] {
  let value = word;
  let steps = 0;
  for (let place = value & 1 ? "second" : "first"; place !== "done";) {
    if (place === "first") {
      value = Math.imul(value, 5) + 1 >>> 0;
      steps++;
      place = value % 16 === 3 ? "third" : "second";
    } else if (place === "second") {
      value = (value ^ value >>> 7) >>> 0;
      place = ++steps > 50 ? "done" : value & 2 ? "first" : "third";
    } else {
      value = value + steps * steps >>> 0;
      steps += 2;
      place = steps >= 60 ? "done" : value & 4 ? "second" : "first";
    }
  }
  return [value, steps];
}

/** The votes are the same in all lanes, so a warp does not diverge. */
function states(warp: Uint32Array, startsWithVote: boolean): Uint32Array {
  let values = warp;
  let votes = 0;
  let mixes = !startsWithVote;
  for (let round = 0; round < 6; round++) {
    if (mixes) values = values.map((value) => Math.imul(value, 9) + 7);
    else if (round > 0) values = values.map((value) => value - votes);
    votes = Math.imul(votes, 3) + values.filter((value) => value & 8).length;
    values = values.map((value) => value >>> 1 | value << 31);
    mixes = votes % 2 === 1;
  }
  return values.map((value) => value + votes);
}

/** Loops with several entries. */
export const program: CorpusProgram = {
  covers: "bra: irreducible loops, with divergent threads and with vote.sync inside",
  buffers: () => ({ input, loops: new Uint32Array(input.length * 2), states: new Uint32Array(input.length) }),
  launches: [
    { kernel: "irreducible_loops", grid: blocks, block: size, arguments: ["input", "loops"] },
    { kernel: "irreducible_states", grid: blocks, block: size, arguments: ["input", "states"] },
  ],
  expected: () => ({
    loops: Uint32Array.from([...input].flatMap(loops)),
    states: input.map((_, i) => {
      const first = i - i % 32;
      return states(input.slice(first, first + 32), input[Math.floor(i / size)]! % 2 === 1)[i % 32]!;
    }),
  }),
};
