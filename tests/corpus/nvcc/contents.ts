import type { BufferContents } from "../corpus_program.ts";

/** Returns pseudorandom 32-bit words by xorshift, the same for each seed. The seed must not be 0. */
export function randomWords(length: number, seed = 0x2545f491): Uint32Array {
  let state = seed;
  return Uint32Array.from({ length }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  });
}

/** Returns pseudorandom bytes, for views of any type. The length must be a multiple of 4. */
export function randomBytes(length: number, seed?: number): ArrayBuffer {
  return randomWords(length / 4, seed).buffer as ArrayBuffer;
}

/** Returns zeros of the same type, `times` as many. */
export function zerosLike(contents: BufferContents, times = 1): BufferContents {
  return new (contents.constructor as { new (length: number): BufferContents })(times * contents.length);
}
