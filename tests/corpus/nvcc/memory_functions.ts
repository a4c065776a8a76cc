import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes } from "./contents.ts";

const threads = 8;
const length = 37;
const from = 11;
const recordBytes = 24;

/** Calls `write` for each thread with the bytes that belong to it. */
function byThread(bytes: number, write: (own: Uint8Array, thread: number) => void): Uint8Array {
  const all = new Uint8Array(bytes * threads);
  for (let thread = 0; thread < threads; thread++) write(all.subarray(bytes * thread, bytes * (thread + 1)), thread);
  return all;
}

export const program: CorpusProgram = {
  covers: "memset and memcpy in device code, between state spaces and with a length known at run time",
  buffers: () => ({
    bytes: new Uint8Array(randomBytes(64 * threads, 51)),
    copies: new Uint8Array(128 * threads),
    reversed: new Uint8Array(64 * threads),
    // The padding of a record is 0, as it is in memory that was not written.
    records: byThread(recordBytes, (own, thread) => {
      own.set(new Uint8Array(randomBytes(recordBytes, 52 + thread)).subarray(0, recordBytes - 1));
    }),
    changed: new Uint8Array(recordBytes * threads),
  }),
  launches: [
    { kernel: "set_and_copy", grid: 1, block: threads, arguments: ["bytes", "copies", length] },
    { kernel: "through_local", grid: 1, block: threads, arguments: ["bytes", "reversed", from] },
    { kernel: "through_shared", grid: 1, block: threads, arguments: ["records", "changed"] },
  ],
  expected({ bytes, records }) {
    const source = bytes as Uint8Array;
    return {
      copies: byThread(128, (own, thread) => {
        own.fill(0xa0 + thread);
        own.set(source.subarray(2 * thread, 2 * thread + length), thread);
        own.set(source.subarray(0, 16), 64);
        own.fill(0, 96 + thread, 96 + thread + Math.floor(length / 2));
      }),
      reversed: byThread(64, (own, thread) => {
        own.set(source.subarray(64 * thread, 64 * thread + 40), from);
        own.reverse();
      }),
      changed: byThread(recordBytes, (own, thread) => {
        const at = recordBytes * (threads - 1 - thread);
        own.set((records as Uint8Array).subarray(at, at + recordBytes));
        const view = new DataView(own.buffer, own.byteOffset);
        view.setUint16(0, view.getUint16(0, true) + own[22]!, true);
        own.fill(own[2]!, 2, 5);
      }),
    };
  },
};
