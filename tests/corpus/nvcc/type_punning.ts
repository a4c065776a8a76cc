import { type Column, floatEdges, floatOperands, tableProgram, words64 } from "../arithmetic_operands.ts";
import type { CorpusProgram } from "../corpus_program.ts";
import { double, single } from "../float_reference.ts";

const [doubles] = floatOperands(double, { operands: 1, mixtures: 100 });
const pairs = floatEdges(single).flatMap((high) => [high << 32n | 0x3f80_0000n, 0x7f80_0001n << 32n | high]);
const values = words64([...doubles!, ...pairs]);

/** Each thread's index, which selects bytes. */
const threads = words64(Array.from(values, (_, index) => BigInt(index)));

const low = (value: bigint) => value & 0xffff_ffffn;
const high = (value: bigint) => value >> 32n;

const columns: readonly Column[] = [
  (value) => low(value!),
  (value) => high(value!),
  (value) => low(value!),
  (value) => high(value!),
  (value) => low(value!) << 32n | high(value!),
  (value) => value! & 0x7f_ffffn,
  (value) => value! >> 23n & 0xffn,
  (value) => value! >> 31n & 1n,
  (value, thread) => value! >> 8n * (thread! & 7n) & 0xffn,
  (value, thread) => {
    const place = 8n * (thread! >> 3n & 7n);
    return value! & ~(0xffn << place) | (thread! & 0xffn) << place;
  },
  (value) => {
    const exponent = (value! >> 23n) + 1n & 0xffn;
    return (value! & 0x7f_ffffn | exponent << 23n | value! & 0x8000_0000n) ^ 0x8000_0000n;
  },
  (value) => high(value!),
];

export const program: CorpusProgram = tableProgram(
  "reinterpreted bits of numbers: mov between types and halves, bit-fields, bytes in local memory",
  [{
    kernel: "pun",
    operands: [values, threads],
    width: 64,
    columns,
  }],
);
