import type { CorpusProgram } from "../corpus_program.ts";
import { randomBytes, randomWords } from "./contents.ts";

const threads = 64;

/** Returns the fields of a word, from the lowest bit on. A negative width is that of a signed field. */
function unpack(word: bigint, widths: readonly number[]): bigint[] {
  let rest = word;
  return widths.map((width) => {
    const field = width < 0 ? BigInt.asIntN(-width, rest) : BigInt.asUintN(width, rest);
    rest >>= BigInt(Math.abs(width));
    return field;
  });
}

function pack(fields: readonly bigint[], widths: readonly number[]): bigint {
  return fields.reduceRight((word, field, index) => {
    const width = Math.abs(widths[index]!);
    return word << BigInt(width) | BigInt.asUintN(width, field);
  }, 0n);
}

const widths = [3, -5, 17, 1, -6];
const wideWidths = [20, -33, 11];

export const program: CorpusProgram = {
  covers: "bit fields signed and unsigned, read and written, up to 33 bits wide",
  buffers: () => ({
    fields: randomWords(threads, 71),
    wides: new BigUint64Array(randomBytes(8 * threads, 72)),
    read: new BigInt64Array(8 * threads),
    numbers: new Int32Array(randomBytes(4 * threads, 73)),
  }),
  launches: [
    { kernel: "read_fields", grid: 1, block: threads, arguments: ["fields", "wides", "read"] },
    { kernel: "write_fields", grid: 1, block: threads, arguments: ["fields", "wides", "numbers"] },
  ],
  expected({ fields, wides, numbers }) {
    const [words, longs] = [fields as Uint32Array, wides as BigUint64Array];
    const number = (thread: number) => BigInt(numbers![thread]!);
    return {
      read: BigInt64Array.from(
        [...words].flatMap((word, thread) => [...unpack(BigInt(word), widths), ...unpack(longs[thread]!, wideWidths)]),
      ),
      fields: words.map((word, thread) => {
        const [, five, middle] = unpack(BigInt(word), widths);
        const next = BigInt.asIntN(5, five! + 1n);
        const changed = [
          number(thread),
          next,
          middle! ^ number(thread) >> 4n,
          number(thread) < 0n ? 1n : 0n,
          next - 1n,
        ];
        return Number(pack(changed, widths));
      }),
      wides: longs.map((word, thread) => {
        const [first, second] = unpack(word, wideWidths);
        return pack([first!, second! - number(thread), first!], wideWidths);
      }),
    };
  },
};
