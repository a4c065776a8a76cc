/**
 * A copy or a fill whose parts worker threads run.
 *
 * @module
 */
import { sliceMilliseconds } from "../launching/pace.ts";
import type { LaunchSharing } from "./shared_launch.ts";
import { SharedJob } from "./shared_job.ts";
import { type Job, type JobFields, jobKinds } from "./job_board.ts";
import { partBytes, transferParts } from "./transfers.ts";
import type { Workers } from "./workers.ts";

/** A copy or a fill within linear memory. */
export type Transfer = Pick<JobFields, "kind" | "from" | "to" | "byteLength" | "elementBytes" | "value">;

/** The size in bytes from which workers run a copy or a fill that follows nothing that they run. */
const leastSharedBytes = 2 ** 22;

/** Returns a fill of elements of linear memory with a value. */
export function fillOf(to: Uint8Array | Uint16Array | Uint32Array, value: number): Transfer {
  const { byteOffset, byteLength, BYTES_PER_ELEMENT: elementBytes } = to;
  return { kind: jobKinds.fill, from: 0, to: byteOffset, byteLength, elementBytes, value };
}

/** Returns a copy between two ranges of linear memory. Undefined if they overlap. */
export function copyOf(to: Uint8Array, from: Uint8Array): Transfer | undefined {
  const { byteLength } = to;
  if (Math.abs(to.byteOffset - from.byteOffset) < byteLength) return undefined;
  return { kind: jobKinds.copy, from: from.byteOffset, to: to.byteOffset, byteLength, elementBytes: 1, value: 0 };
}

/** A copy or a fill that threads share. */
export class SharedTransfer extends SharedJob {
  readonly #memory: WebAssembly.Memory;

  private constructor(memory: WebAssembly.Memory, workers: Workers, job: { job: Job; threads: number }) {
    super(workers, job);
    this.#memory = memory;
  }

  /** Shares a transfer. Returns undefined if there is no room for it, or if it is too short to be worth it. */
  static begin(
    transfer: Transfer,
    after: readonly Job[],
    sharing: LaunchSharing,
  ): SharedTransfer | undefined {
    const { byteLength } = transfer;
    if (byteLength === 0 || after.length === 0 && byteLength < leastSharedBytes) return undefined;
    // Counting the threads takes a while for the first time.
    if (!sharing.workers.areReady || sharing.threads === 1) return undefined;
    const { workers, threads, isAwaited, linearMemory } = sharing;
    const parts = Math.ceil(byteLength / partBytes);
    const job = workers.openTransfer(transfer, { parts, after, threads, workers: isAwaited ? threads - 1 : threads });
    return job && new SharedTransfer(linearMemory.memory, workers, { job, threads });
  }

  protected override mayHelp(): boolean {
    return true;
  }

  protected override runParts(job: Job): boolean {
    const start = performance.now();
    const fields = job.fields();
    let hasRun = false;
    while (performance.now() - start < sliceMilliseconds && job.claim(1, this.threads)) {
      transferParts(this.#memory, fields, job);
      hasRun = true;
    }
    return hasRun;
  }

  /** Ends the transfer, which is done. */
  end(): void {
    this.close();
  }
}
