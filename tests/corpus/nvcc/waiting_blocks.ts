import type { CorpusProgram } from "../corpus_program.ts";

const length = 5000;
const values = Uint32Array.from({ length }, (_, index) => Math.imul(index, 2654435761) >>> 20);
/** As many blocks of 64 threads as any device runs at once. */
const blocks = 24;
const threads = 64;
const rounds = 3;
const depth = 8;
const items = 2 ** depth - 1;

function prefixSums(): Uint32Array {
  let sum = 0;
  return values.map((value) => sum = sum + value >>> 0);
}

/** What each block of a chain gives, from the last one to the first. */
function chain(next: (value: number, block: number) => number): Uint32Array {
  const out = new Uint32Array(blocks);
  let value = 0;
  for (let block = blocks - 1; block >= 0; block--) out[block] = value = next(value, block);
  return out;
}

/** Blocks that wait for other blocks without a cooperative launch. */
export const program: CorpusProgram = {
  covers: "spinning on values that other blocks of the grid store, at barriers, locks, flags and queues",
  buffers: () => ({
    count: new Uint32Array(1),
    sense: new Uint32Array(1),
    from: values.slice(),
    to: new Uint32Array(length),
    lock: new Uint32Array(2),
    sum: new BigUint64Array(1),
    ready: new Uint32Array(1),
    item: new Uint32Array(threads),
    consumed: new Uint32Array(blocks * threads),
    done: new Uint32Array(blocks),
    sums: new Uint32Array(blocks),
    products: new Uint32Array(blocks),
    doneByWarps: new Uint32Array(blocks),
    queue: Uint32Array.from({ length: items }, (_, place) => place === 0 ? depth : 0),
    head: new Uint32Array(1),
    tail: Uint32Array.of(1),
    finished: new Uint32Array(1),
    depths: new Uint32Array(depth + 1),
  }),
  launches: [
    { kernel: "scan", grid: blocks, block: threads, arguments: ["count", "sense", "from", "to", length] },
    { kernel: "ticket_lock", grid: blocks, block: 96, arguments: ["lock", "sum", rounds] },
    { kernel: "produce_and_consume", grid: blocks + 1, block: threads, arguments: ["ready", "item", "consumed"] },
    { kernel: "chain", grid: blocks, block: 96, arguments: ["done", "sums"] },
    { kernel: "chain_of_warps", grid: blocks, block: 96, arguments: ["doneByWarps", "products"] },
    {
      kernel: "work_queue",
      grid: blocks,
      block: threads,
      arguments: ["queue", "head", "tail", "finished", items, "depths"],
    },
  ],
  expected: () => {
    let sum = 0n;
    for (let turn = 0; turn < blocks * rounds; turn++) sum = BigInt.asUintN(64, sum * 3n + 1n);
    return {
      to: prefixSums(),
      lock: new Uint32Array(2).fill(blocks * rounds),
      sum: BigUint64Array.of(sum),
      consumed: Uint32Array.from({ length: blocks * threads }, (_, i) => {
        return (i % threads) ** 2 + Math.floor(i / threads);
      }),
      sums: chain((value, block) => value + block),
      products: chain((value, block) => Math.imul(value, 3) + block >>> 0),
      finished: Uint32Array.of(items),
      depths: Uint32Array.from({ length: depth + 1 }, (_, level) => level === 0 ? 0 : 2 ** (depth - level)),
    };
  },
};
