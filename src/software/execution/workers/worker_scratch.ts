/**
 * The scratch ranges of worker threads. They have the size that the job needs, which for most jobs is much smaller than
 * that of the main thread's.
 *
 * @module
 */
import { sharedSpan } from "../../abi/addresses.ts";
import { launchRecordByteLength, threadRecordByteLength } from "../../abi/launch_record.ts";
import type { ScratchRanges } from "../../memory/memory_layout.ts";
import { alignedBytes } from "../residency/block_places.ts";
import type { JobFields } from "./job_board.ts";

/** The sizes in bytes of the ranges of a thread that runs blocks of a launch, and the number of a block's threads. */
export interface ScratchSizes {
  readonly shared: number;
  readonly threads: number;
  /** The size of the threads' local memory and saved registers, and of the save areas of gangs. */
  readonly local: number;
}

/** Returns the size in bytes of the scratch ranges of one worker. */
export function scratchBytesOf({ shared, threads, local }: ScratchSizes): number {
  return sharedOffset + alignedBytes(shared) + alignedBytes(threads * threadRecordByteLength) + alignedBytes(local);
}

/** The offset of the block's shared memory, after the launch record and the reserved part of shared memory. */
const sharedOffset = alignedBytes(launchRecordByteLength) + alignedBytes(sharedSpan.reserved);

/** Returns the scratch ranges of a worker that runs a job. */
export function scratchOfWorker(
  { parameters, scratchBegin, scratchBytes, blockX, blockY, blockZ }: JobFields,
  { worker, sharedBytes }: { worker: number; sharedBytes: number },
): ScratchRanges {
  const launch = scratchBegin + worker * scratchBytes;
  const shared = launch + sharedOffset;
  const threads = shared + alignedBytes(sharedBytes);
  const local = threads + alignedBytes(blockX * blockY * blockZ * threadRecordByteLength);
  return {
    parameters: { begin: parameters },
    launch: { begin: launch },
    shared: { begin: shared },
    threads: { begin: threads },
    local: { begin: local },
  };
}
