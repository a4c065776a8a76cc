/**
 * The records of a warp's threads.
 *
 * @module
 */
import { threadRecordByteLength } from "../../abi/launch_record.ts";

/** The number of threads in a warp. */
export const warpSize = 32;

const words = threadRecordByteLength / 4;

/** The records of a warp's threads, as 32-bit numbers, from the first thread's record on. */
export class WarpRecords {
  /** The shadows of the records, if the kernel tracks uninitialized values. */
  readonly shadows: WarpRecords | undefined;
  readonly #records: Int32Array;

  constructor(records: Int32Array, shadows?: WarpRecords) {
    this.#records = records;
    this.shadows = shadows;
  }

  get(lane: number, field: number): number {
    return this.#records[lane * words + field / 4]!;
  }

  set(lane: number, field: number, value: number): void {
    this.#records[lane * words + field / 4] = value;
  }

  /** All of linear memory, as 16-bit numbers. */
  get memory(): Uint16Array {
    return new Uint16Array(this.#records.buffer);
  }
}

/** Calls a function for each lane that has a bit in `group`, in ascending order. */
export function forEachLane(group: number, action: (lane: number) => void): void {
  for (let rest = group; rest !== 0; rest &= rest - 1) action(31 - Math.clz32(rest & -rest));
}
