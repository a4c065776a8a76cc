import { createHash } from "node:crypto";
import { RandomBits } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";

const stride = 200;
const lengths = [0, 1, 3, 4, 54, 55, 56, 57, 62, 63, 64, 65, 100, 118, 119, 120, 127, 128, 129, 191, 192, 200];

function messages(): Uint8Array {
  const random = new RandomBits(71);
  return Uint8Array.from({ length: stride * lengths.length }, () => Number(random.next(8)));
}

function digest(message: Uint8Array): number[] {
  const bytes = createHash("sha256").update(message).digest();
  return Array.from({ length: 8 }, (_, word) => bytes.readUInt32BE(4 * word));
}

export const program: CorpusProgram = {
  covers: "SHA-256: rotations, logic of three operands, a table in constant memory, arrays in local memory",
  buffers: () => ({
    messages: messages(),
    lengths: Uint32Array.from(lengths),
    digests: new Uint32Array(8 * lengths.length),
  }),
  launches: [{
    kernel: "sha256",
    grid: 2,
    block: 16,
    arguments: ["messages", stride, "lengths", "digests", lengths.length],
  }],
  expected: () => ({
    digests: Uint32Array.from(
      lengths.flatMap((length, index) => digest(messages().subarray(index * stride, index * stride + length))),
    ),
  }),
};
