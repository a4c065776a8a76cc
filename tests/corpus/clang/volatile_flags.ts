import { randomWords } from "../nvcc/contents.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const warps = 32;

/** Clang's volatile variables. */
export const program: CorpusProgram = {
  covers: "ld.volatile and st.volatile of 8 to 64 bits in shared and global memory, warps that spin",
  buffers: () => ({
    input: new Int32Array(randomWords(warps)),
    out: new Int32Array(warps),
    mailbox: new Int32Array(3),
    tickets: new BigUint64Array(2),
  }),
  launches: [{
    kernel: "volatile_flags",
    grid: 1,
    block: 32 * warps,
    arguments: ["input", "out", "mailbox", "tickets"],
  }],
  expected({ input }) {
    const out = new Int32Array(warps);
    let total = 1;
    for (let warp = warps - 1; warp >= 0; warp--) {
      total = Math.imul(total, 3) + (Number(input![warp]) & 0xff) | 0;
      out[warp] = total;
    }
    const half = new BigUint64Array(Float64Array.of(0.5).buffer)[0]!;
    return {
      out,
      mailbox: Int32Array.of(1, 4711, 4711 + total),
      tickets: BigUint64Array.of(2n * (2n ** 16n - 1n), half),
    };
  },
};
