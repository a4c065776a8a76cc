import { crc32 } from "node:zlib";
import { RandomBits } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const stride = 64;
const count = 40;

function messages(): Uint8Array {
  const random = new RandomBits(81);
  return Uint8Array.from({ length: stride * count }, () => Number(random.next(8)));
}

const lengths = (): Uint32Array => Uint32Array.from({ length: count }, (_, index) => index + index % 24);

export const program: CorpusProgram = {
  covers: "CRC-32 bit by bit, and with a table in shared memory after a barrier",
  buffers: () => ({ messages: messages(), lengths: lengths(), results: new Uint32Array(3 * count) }),
  launches: [{ kernel: "crc32", grid: 2, block: 32, arguments: ["messages", stride, "lengths", "results", count] }],
  expected: () => ({
    results: Uint32Array.from(
      Array.from(lengths()).flatMap((length, index) => {
        const crc = crc32(messages().subarray(index * stride, index * stride + length));
        return [crc, crc, crc];
      }),
    ),
  }),
};
