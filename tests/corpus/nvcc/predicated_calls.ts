import type { CorpusProgram } from "../corpus_program.ts";

const flags: Uint32Array = Uint32Array.of(0, 1, 2, 3);

/** Guards on instructions other than arithmetic. */
export const program: CorpusProgram = {
  covers: "@p and @!p of call, call.uni, bar.sync, barrier.sync and ret, uniform and divergent",
  buffers: () => ({ flags, out: new Uint32Array(64 * flags.length) }),
  launches: [{ kernel: "predicated_calls", grid: flags.length, block: 64, arguments: ["flags", "out"] }],
  expected: () => ({
    out: Uint32Array.from([...flags].flatMap((flag) =>
      Array.from({ length: 64 }, (_, thread) => {
        const called = thread + (flag ? 63 - thread + flag : 0) + (thread < 20 ? 0 : 1000);
        return flag === 2 ? called : called + 100000;
      })
    )),
  }),
};
