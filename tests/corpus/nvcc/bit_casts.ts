import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords } from "./contents.ts";

const threads = 64;

export const program: CorpusProgram = {
  covers: "unions and casts of bits between types of the same size, and single bytes of larger types",
  buffers: () => ({
    words: randomWords(threads, 21),
    places: randomWords(threads, 22),
    castWords: new Uint32Array(2 * threads),
    wides: new BigUint64Array(randomBytes(8 * threads, 23)),
    castWides: new BigUint64Array(3 * threads),
  }),
  launches: [
    { kernel: "cast_words", grid: 1, block: threads, arguments: ["words", "castWords", "places"] },
    { kernel: "cast_wides", grid: 1, block: threads, arguments: ["wides", "castWides"] },
  ],
  expected({ words, places, wides }) {
    return {
      castWords: Uint32Array.from([...words as Uint32Array].flatMap((word, thread) => {
        const view = new DataView(new ArrayBuffer(4));
        view.setUint32(0, word, true);
        view.setUint8(Number(places![thread]) % 4, 0x5a);
        const swapped = view.getUint16(0, true) * 0x1_0000 + view.getUint16(2, true);
        const number = word & 0x7f7fffff;
        const exponent = (number >>> 23) - 127;
        return [swapped, (exponent ^ (number < 0x3f800000 ? 0x80000000 : 0)) >>> 0];
      })),
      castWides: BigUint64Array.from([...wides as BigUint64Array].flatMap((word) => {
        const number = word & 0x7fefffffffffffffn;
        const swapped = (number & 0xffffffffn) << 32n | number >> 32n;
        const view = new DataView(new ArrayBuffer(8));
        view.setBigUint64(0, word, true);
        return [swapped, swapped, view.getBigUint64(0, false)];
      })),
    };
  },
};
