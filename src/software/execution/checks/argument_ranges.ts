/**
 * The exact ranges of memory that the arguments of a launch point into. An access whose address a kernel computes from
 * an argument must lie in that argument's range, even if other allocated memory adjoins it.
 *
 * @module
 */
import { argumentRangesByteLength, unboundedLength } from "../../abi/launch_record.ts";
import type { SoftwareAllocation } from "../../memory/allocations.ts";
import { offsetOfAddress } from "../../memory/linear_memory.ts";

/** The memory of the program at the time of the launch. */
export interface ProgramMemory {
  /**
   * The range that the program allocated at an offset in linear memory: the innermost one if the allocation was
   * divided.
   */
  allocationAt(offset: number): SoftwareAllocation | undefined;
  /** Whether an argument is a buffer that begins at an offset in linear memory. */
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

/** The range that a pointer points into. Undefined if the pointer may also be the end of another range. */
function rangeAt(offset: number, memory: ProgramMemory): SoftwareAllocation | undefined {
  const found = memory.allocationAt(offset);
  if (found?.begin !== offset || memory.isBuffer(offset)) return found;
  const before = memory.allocationAt(offset - 1);
  return before === undefined || before === found ? found : undefined;
}
