/**
 * Copies and fills of linear memory as jobs: each block of a job is a part of the range.
 *
 * @module
 */
import { type Job, type JobFields, jobKinds } from "./job_board.ts";

/** The size in bytes of the part of a copy or a fill that a thread claims at once. */
export const partBytes: number = 2 ** 20;

/** Copies or fills the parts that the calling thread has claimed of a job. */
export function transferParts(
  memory: WebAssembly.Memory,
  { kind, from, to, byteLength, elementBytes, value }: JobFields,
  { first, last }: Pick<Job, "first" | "last">,
): void {
  const buffer = memory.buffer as ArrayBuffer;
  const begin = first * partBytes, end = Math.min(last * partBytes, byteLength);
  if (kind === jobKinds.copy) {
    new Uint8Array(buffer, to + begin, end - begin).set(
      new Uint8Array(buffer, from + begin, end - begin),
    );
  } else {
    const type = elementBytes === 4 ? Uint32Array : elementBytes === 2 ? Uint16Array : Uint8Array;
    new type(buffer, to + begin, (end - begin) / elementBytes).fill(value);
  }
}
