import type { CorpusProgram } from "../corpus_program.ts";

const amounts: Uint32Array = Uint32Array.of(1, 33, 7, 40, 31, 0xffffffff, 3, 17);
/** The clamp value in bits 0 to 4 and the segment mask in bits 8 to 12. Other bits are ignored. */
const controls: Uint32Array = Uint32Array.of(0x1f, 0, 0x181f, 0x1803, 0x0e0a, 0x1f1f, 0x1500, 0xffffe0e5);
const kinds = ["idx", "up", "down", "bfly"];

/** Returns the source lane by the manual's pseudocode, or undefined if it is out of range. */
function source(kind: string, lane: number, amount: number, control: number): number | undefined {
  const segment = control >> 8 & 31;
  const first = lane & segment;
  const clamp = first | control & 31 & ~segment;
  const distance = amount & 31;
  if (kind === "up") return lane - distance >= clamp ? lane - distance : undefined;
  const from = kind === "idx" ? first | distance & ~segment : kind === "down" ? lane + distance : lane ^ distance;
  return from <= clamp ? from : undefined;
}

/** Shuffles with the predicate that is true if the source lane is in range. */
export const program: CorpusProgram = {
  covers: "shfl.sync with a predicate result, amounts above 31, any segment mask and clamp",
  buffers: () => ({ amounts, controls, out: new Uint32Array(amounts.length * kinds.length * 32) }),
  launches: [{
    kernel: "shuffle_predicates",
    grid: 1,
    block: 32,
    arguments: ["amounts", "controls", amounts.length, "out"],
  }],
  expected: () => ({
    out: Uint32Array.from({ length: amounts.length * kinds.length * 32 }, (_, i) => {
      const lane = i % 32;
      const row = Math.floor(i / 128);
      const from = source(kinds[Math.floor(i / 32) % 4]!, lane, amounts[row]!, controls[row]!);
      return ((from ?? lane) * 3 + 1000) * 2 + (from === undefined ? 0 : 1);
    }),
  }),
};
