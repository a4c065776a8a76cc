import type { CorpusProgram } from "../corpus_program.ts";

const threads = 16;
const small = -100;
const medium = 65_530;

const int8 = (value: number) => value << 24 >> 24;
const uint8 = (value: number) => value & 0xff;
const int16 = (value: number) => value << 16 >> 16;
const uint16 = (value: number) => value & 0xffff;

interface Mixed {
  flag: boolean;
  small: number;
  medium: number;
  large: bigint;
  tail: readonly [number, number, number];
}

const first: Mixed = { flag: true, small: -7, medium: 300, large: -(2n ** 40n), tail: [100, 150, 250] };

function bytesOf({ flag, small, medium, large, tail }: Mixed): Uint8Array {
  const view = new DataView(new ArrayBuffer(24));
  view.setUint8(0, flag ? 1 : 0);
  view.setInt8(1, small);
  view.setInt16(2, medium, true);
  view.setBigInt64(8, large, true);
  tail.forEach((byte, index) => view.setUint8(16 + index, byte));
  return new Uint8Array(view.buffer);
}

function turn(mixed: Mixed, negate: boolean): Mixed {
  return {
    flag: !mixed.flag,
    small: int8(negate ? -mixed.small : mixed.medium),
    medium: mixed.small,
    large: BigInt.asIntN(64, mixed.large * 3n + BigInt(mixed.tail[1])),
    tail: [mixed.tail[2], mixed.tail[1], uint8(mixed.tail[0] + 200)],
  };
}

function rowOf(i: number): bigint[] {
  let mixed = first;
  for (let round = 0; round <= i % 4; round++) mixed = turn(mixed, round % 2 === 1);
  return [
    (i & 2 ? 0 : 1) | (i & 1 ? 2 : 0),
    int8(int8(small + i * 9) + uint8(i * 31)),
    uint16(uint16(medium + i) * int16(i * -1000)),
    int8(i * 17) + uint8(i * 17) * 3 + int16(i * 4099) * 5 + uint16(i * 4099) * 7,
    (mixed.flag ? 1 : 0) + 2 * mixed.small,
    mixed.medium,
    mixed.large,
    mixed.tail[0] | mixed.tail[1] << 8 | mixed.tail[2] << 16,
  ].map(BigInt);
}

const indices = Array.from({ length: threads }, (_, i) => i);

/** Clang's code for passing structs and values narrower than a register. */
export const program: CorpusProgram = {
  covers: ".param of 8 and 16 bits in kernels, .b32 for narrow arguments and results of functions, structs by value",
  buffers: () => ({ integers: new BigInt64Array(threads * 8), floats: new Float32Array(threads) }),
  launches: [{
    kernel: "narrow_parameters",
    grid: 2,
    block: threads / 2,
    arguments: [1, small, medium, bytesOf(first), new Uint8Array(Float32Array.of(0.75).buffer), "integers", "floats"],
  }],
  expected: () => ({
    integers: BigInt64Array.from(indices.flatMap(rowOf)),
    floats: Float32Array.from(indices, (i) => (0.75 + i) / 4),
  }),
};
