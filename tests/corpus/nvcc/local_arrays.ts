import type { CorpusProgram } from "../corpus_program.ts";

const size = 64;
const input: Uint8Array = Uint8Array.from({ length: size + 40 }, (_, i) => Math.imul(i + 1, 0x9e3779b1) >>> 13);

function itemsOf(i: number): number[] {
  const bytes = [...input.slice(i, i + 40), ...input.slice(i, i + 20).map((byte) => byte ^ 0xa5).reverse()];
  const items = Array.from({ length: 16 }, (_, bin) => {
    const members = bytes.filter((byte) => byte % 16 === bin);
    return members.length * 256 + (members.at(-1) ?? 0);
  });
  items[items.indexOf(Math.max(...items))] = -1;
  const second = Math.max(...items);
  items[items.indexOf(second)] = second * 2;
  return items;
}

const threads = Array.from({ length: size }, (_, i) => i);

/** Arrays in local memory. */
export const program: CorpusProgram = {
  covers: "ld.local and st.local by computed index, local addresses passed to functions as generic ones",
  buffers: () => ({ input, out: new Int32Array(size), blended: new Float64Array(size) }),
  launches: [{ kernel: "local_arrays", grid: 2, block: size / 2, arguments: ["input", "out", "blended"] }],
  expected: () => ({
    out: Int32Array.from(threads, (i) => itemsOf(i).reduce((hash, item) => Math.imul(hash, 31) + item | 0, 0)),
    blended: Float64Array.from(threads, (i) => i * 1.5 + 0.1 * itemsOf(i)[3]! + 1e10 * 2),
  }),
};
