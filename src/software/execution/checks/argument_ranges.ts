/**
 * The memory that the arguments of a launch point into, to the byte: accesses that a kernel computes from an argument
 * must lie there, even if other memory is beside it.
 *
 * @module
 */
import { argumentRangesByteLength, unboundedLength } from "../../abi/launch_record.ts";
import type { Allocation } from "../../memory/allocations.ts";
import { offsetOfAddress } from "../../memory/linear_memory.ts";

/** The memory of the program at the time of the launch. */
export interface ProgramMemory {
  /** What the program has allocated at an offset in linear memory: the smallest part, if it was divided. */
  allocationAt(offset: number): Allocation | undefined;
  /** Whether an argument is a buffer, whose memory begins at an offset. */
  isBuffer(offset: number): boolean;
}

/** The ranges in the form in which kernels find them: see `argumentRanges` of the launch record. */
export function argumentRangesOf(parameters: DataView, memory: ProgramMemory): Uint32Array {
  const byteLength = Math.min(parameters.byteLength, argumentRangesByteLength);
  const ranges = new Uint32Array(2 * Math.floor(byteLength / 8));
  for (let word = 0; word < ranges.length; word += 2) {
    const offset = offsetOfAddress(parameters.getBigUint64(4 * word, true));
    const range = offset === undefined ? undefined : rangeAt(offset, memory);
    ranges[word] = range?.begin ?? 0;
    ranges[word + 1] = range?.byteLength ?? unboundedLength;
  }
  return ranges;
}

/** The memory that a pointer points into. Undefined if it may be the end of other memory as well. */
function rangeAt(offset: number, memory: ProgramMemory): Allocation | undefined {
  const found = memory.allocationAt(offset);
  if (found?.begin !== offset || memory.isBuffer(offset)) return found;
  const before = memory.allocationAt(offset - 1);
  return before === undefined || before === found ? found : undefined;
}
