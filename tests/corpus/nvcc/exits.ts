import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;

/** Returns the value with which a thread exits early, or undefined if the thread reaches the end. */
function leftBy(thread: number): number | undefined {
  if (thread % 4 === 3) return 2;
  for (let i = 0; i < 10; i++) if (i * thread > 200) return 1 + 10 * (i + 1);
  if (thread % 4 === 2) return 100;
  return thread > 19 ? 101 : undefined;
}

/** Threads that exit. */
export const program: CorpusProgram = {
  covers: "exit, also under a predicate, in called functions, and before a barrier of other threads",
  buffers: () => ({ out: new Uint32Array(size) }),
  launches: [{ kernel: "exits", grid: 1, block: size, arguments: ["out"] }],
  expected() {
    const threads = Array.from({ length: size }, (_, thread) => thread);
    const finished = threads.filter((thread) => leftBy(thread) === undefined).length;
    return { out: Uint32Array.from(threads, (thread) => leftBy(thread) ?? thread * 2 + finished * 1000) };
  },
};
