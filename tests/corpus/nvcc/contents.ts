import type { BufferContents } from "../corpus_program.ts";

/** Contents for the buffers of programs: numbers without pattern, the same on every call. */

/** Words of 32 bits by xorshift. A seed may be any number but 0. */
export function randomWords(length: number, seed = 0x2545f491): Uint32Array {
  let state = seed;
  return Uint32Array.from({ length }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  });
}

/** Bytes, of which there must be a multiple of four, for views of any type. */
export function randomBytes(length: number, seed?: number): ArrayBuffer {
  return randomWords(length / 4, seed).buffer as ArrayBuffer;
}

/** As many zeros of the same type, or some times as many. */
export function zerosLike(contents: BufferContents, times = 1): BufferContents {
  return new (contents.constructor as { new (length: number): BufferContents })(times * contents.length);
}
