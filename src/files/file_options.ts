/**
 * The options of reading files into device memory and of writing them from there.
 *
 * @module
 */
import type { CachingAllocator, CudaDevice, CudaStream, MemoryPool, WaitOptions } from "../../mod.ts";
import type { OptionNames } from "../support/validation.ts";
import { TypeError } from "../support/program_errors.ts";

/** How much of a file has been read or written. */
export interface FileProgress {
  /** Bytes so far, of those in device memory. */
  readonly loaded: number;
  /** Bytes in all. */
  readonly total: number;
}

/** Options of every transfer between files and device memory. */
export interface FileOptions extends WaitOptions {
  /** Called after each piece, for a progress bar. The library itself prints nothing. */
  onProgress?: (progress: FileProgress) => void;
}

/** Where the memory comes from that a file is read into. One of `pool` and `device` is needed. */
export interface FileReadOptions extends FileOptions {
  /** What the memory is allocated from. Defaults to the device's current pool. */
  pool?: MemoryPool | CachingAllocator;
  /** The device, if no pool is given. */
  device?: CudaDevice;
  /** The stream on which the memory is allocated and filled. Defaults to the device's default stream. */
  stream?: CudaStream;
}

/** The names of all options, for `checkOptions`. */
export const fileOptionNames: OptionNames<FileOptions> = { signal: true, onProgress: true };
export const fileReadOptionNames: OptionNames<FileReadOptions> = {
  ...fileOptionNames,
  pool: true,
  device: true,
  stream: true,
};

/**
 * Returns what the memory is allocated from, and the stream.
 *
 * @param action what needs memory, to follow "Cannot"
 * @throws {TypeError} If neither a pool nor a device is given
 */
export function memoryFor(
  { pool, device, stream }: FileReadOptions,
  action: string,
): { pool: MemoryPool | CachingAllocator; stream: CudaStream } {
  const from = pool ?? device?.currentPool ?? stream?.device.currentPool;
  if (from === undefined) {
    throw new TypeError(`Cannot ${action} without memory: give { pool }, or { device } for the device's current pool`);
  }
  const on = stream ?? ("device" in from ? from.device?.defaultStream : undefined) ?? device?.defaultStream;
  if (on === undefined) throw new TypeError(`Cannot ${action} without a stream: give { stream } for this pool`);
  return { pool: from, stream: on };
}

/** Adds up bytes and calls `onProgress`. */
export class ProgressCount {
  readonly #total: number;
  readonly #onProgress: FileOptions["onProgress"];
  #loaded = 0;

  constructor(total: number, { onProgress }: FileOptions) {
    this.#total = total;
    this.#onProgress = onProgress;
  }

  add(byteLength: number): void {
    this.#loaded += byteLength;
    this.#onProgress?.({ loaded: this.#loaded, total: this.#total });
  }
}
