/**
 * A copy, a fill, or a change of access, which worker threads run in parts.
 *
 * @module
 */
import { sliceMilliseconds } from "../launching/pace.ts";
import type { LaunchSharing } from "./shared_launch.ts";
import { SharedJob } from "./shared_job.ts";
import type { PitchedCopy, PitchedMemory } from "../../../driver.ts";
import type { AccessChange } from "../../memory/access.ts";
import { type Job, type JobFields, jobKinds } from "./job_board.ts";
import { partCount, transferParts } from "./transfers.ts";
import type { Workers } from "./workers.ts";

/** A copy or a fill within linear memory, or a change of the access to it. */
export type Transfer =
  & Pick<JobFields, "kind" | "to" | "byteLength" | "value">
  & Partial<Pick<JobFields, "from" | "elementBytes" | "bounds">>
  & Partial<Pick<JobFields, "rows" | "height" | "fromPitch" | "fromRows" | "toPitch" | "toRows">>;

/** The size in bytes from which workers run a copy or a fill that follows nothing that they run. */
const leastSharedBytes = 2 ** 22;

/** Whether workers run a transfer that follows nothing that they run. */
export function takesLong({ byteLength, rows = 1 }: Transfer): boolean {
  return byteLength * rows >= leastSharedBytes;
}

/** Returns a fill of elements of linear memory with a value. */
export function fillOf(to: Uint8Array | Uint16Array | Uint32Array, value: number): Transfer {
  const { byteOffset, byteLength, BYTES_PER_ELEMENT: elementBytes } = to;
  return { kind: jobKinds.fill, to: byteOffset, byteLength, elementBytes, value };
}

/** Returns a copy between two ranges of linear memory. Undefined if they overlap. */
export function copyOf(to: Uint8Array, from: Uint8Array): Transfer | undefined {
  const { byteLength } = to;
  if (Math.abs(to.byteOffset - from.byteOffset) < byteLength) return undefined;
  return { kind: jobKinds.copy, from: from.byteOffset, to: to.byteOffset, byteLength, elementBytes: 1, value: 0 };
}

/** Returns a fill of the first `width` elements of rows, which begin `pitch` elements apart. */
export function fillOfRows(
  { byteOffset, BYTES_PER_ELEMENT: elementBytes }: Uint8Array | Uint16Array | Uint32Array,
  { value, width, pitch, height }: { value: number; width: number; pitch: number; height: number },
): Transfer {
  return {
    kind: jobKinds.fillRows,
    to: byteOffset,
    byteLength: width * elementBytes,
    elementBytes,
    value,
    rows: height,
    height,
    toPitch: pitch * elementBytes,
  };
}

/** The distances of rows, and of slices in rows. */
export type RowDistances = Pick<PitchedMemory, "pitch" | "rows">;

/** A copy of rows, without its memory. */
export interface CopiedRows extends Pick<PitchedCopy, "width" | "height" | "depth"> {
  readonly destination: RowDistances;
  readonly source: RowDistances;
}

/**
 * Returns a copy of rows between two ranges of linear memory, which begin with the first row. Undefined unless it is
 * certain that no row of one is a part of a row of the other.
 */
export function copyOfRows(
  to: Uint8Array,
  from: Uint8Array,
  { destination, source, width, height, depth }: CopiedRows,
): Transfer | undefined {
  const distance = to.byteOffset - from.byteOffset;
  const { pitch } = source;
  // The rows of two parts of the same rows lie beside each other.
  const between = (distance % pitch + pitch) % pitch;
  const areBeside = pitch === destination.pitch && between >= width && between <= pitch - width;
  if (distance < from.byteLength && -distance < to.byteLength && !areBeside) return undefined;
  return {
    kind: jobKinds.copyRows,
    from: from.byteOffset,
    to: to.byteOffset,
    byteLength: width,
    value: 0,
    rows: height * depth,
    height,
    fromPitch: pitch,
    fromRows: source.rows,
    toPitch: destination.pitch,
    toRows: destination.rows,
  };
}

/** Returns a change of the access that the kernels of the device have whose bounds table is at `bounds`. */
export function accessTo({ begin, byteLength, isAllowed }: AccessChange, bounds: number): Transfer {
  return { kind: jobKinds.access, to: begin, byteLength, value: isAllowed ? 1 : 0, bounds };
}

/** A transfer that threads share. */
export class SharedTransfer extends SharedJob {
  readonly #memory: WebAssembly.Memory;
  readonly #onEnd: (() => void) | undefined;

  private constructor(
    memory: WebAssembly.Memory,
    workers: Workers,
    { onEnd, ...job }: { job: Job; threads: number; onEnd: (() => void) | undefined },
  ) {
    super(workers, job);
    this.#memory = memory;
    this.#onEnd = onEnd;
  }

  /**
   * Shares a transfer. Returns undefined if no other thread can run it, or there is no room for it.
   *
   * @param options.after the jobs after which it may begin
   * @param options.onEnd called when it was done, and is ended
   */
  static begin(
    transfer: Transfer,
    { after, onEnd }: { after: readonly Job[]; onEnd?: () => void },
    sharing: LaunchSharing,
  ): SharedTransfer | undefined {
    // Counting the threads takes a while for the first time.
    if (!sharing.workers.areReady || sharing.threads === 1) return undefined;
    const { workers, threads, isAwaited, linearMemory } = sharing;
    const parts = partCount(transfer);
    const woken = Math.min(parts, isAwaited ? threads - 1 : threads);
    const job = workers.openTransfer(transfer, { parts, after, threads, workers: woken });
    return job && new SharedTransfer(linearMemory.memory, workers, { job, threads, onEnd });
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
    this.#onEnd?.();
  }
}
