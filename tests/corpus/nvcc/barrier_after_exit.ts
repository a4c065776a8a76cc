import type { CorpusProgram } from "../corpus_program.ts";

const size = 128;
const blocks = 3;

function blockOf(block: number): number[] {
  const threads = Array.from({ length: size }, (_, thread) => thread);
  const leavesFirst = (thread: number) => Math.floor(thread / 32) === 1 || thread % 3 === block;
  const afterOne = threads.map((thread) => leavesFirst(thread) ? 1000 + thread : thread * 2);
  const atEnd = afterOne.map((word, thread) => leavesFirst(thread) || thread > 100 ? word : word + 5);
  return threads.map((thread) => {
    if (leavesFirst(thread)) return 7;
    return thread > 100 ? 0 : afterOne[127 - thread]! * 4096 + atEnd[(thread + 64) % 128]!;
  });
}

/** Barriers after threads have exited. */
export const program: CorpusProgram = {
  covers: "bar.sync after some threads of the block have exited",
  buffers: () => ({ out: new Uint32Array(size * blocks) }),
  launches: [{ kernel: "barrier_after_exit", grid: blocks, block: size, arguments: ["out"] }],
  expected: () => ({ out: Uint32Array.from(Array.from({ length: blocks }, (_, block) => blockOf(block)).flat()) }),
};
