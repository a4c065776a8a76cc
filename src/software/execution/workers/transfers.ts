/**
 * Copies and fills of linear memory as jobs: each block of a job is a part of the range. Changes of a device's access are
 * jobs of one block.
 *
 * @module
 */
import { boundsTable } from "../../abi/addresses.ts";
import { changeAccess } from "../../memory/access.ts";
import { granuleByteLength, linearMemoryByteLength } from "../../memory/memory_layout.ts";
import { type Job, type JobFields, jobKinds } from "./job_board.ts";

/** The size in bytes of the part of a copy or a fill that a thread claims at once. */
export const partBytes: number = 2 ** 20;

const granuleCount = linearMemoryByteLength / granuleByteLength;

/** Copies or fills the parts that the calling thread has claimed of a job, or makes its change of access. */
export function transferParts(
  memory: WebAssembly.Memory,
  { kind, from, to, byteLength, elementBytes, value, bounds }: JobFields,
  { first, last }: Pick<Job, "first" | "last">,
): void {
  const buffer = memory.buffer as ArrayBuffer;
  const begin = first * partBytes, end = Math.min(last * partBytes, byteLength);
  if (kind === jobKinds.access) {
    const allocations = new Uint32Array(buffer, bounds, granuleCount);
    const lengths = new Uint32Array(buffer, bounds + boundsTable.lengths, granuleCount);
    changeAccess({ allocations, lengths }, { begin: to, byteLength, isAllowed: value === 1 });
  } else if (kind === jobKinds.copy) {
    new Uint8Array(buffer, to + begin, end - begin).set(
      new Uint8Array(buffer, from + begin, end - begin),
    );
  } else {
    const type = elementBytes === 4 ? Uint32Array : elementBytes === 2 ? Uint16Array : Uint8Array;
    new type(buffer, to + begin, (end - begin) / elementBytes).fill(value);
  }
}
