/**
 * Options for reading files into device memory, and for writing device memory to files.
 *
 * @module
 */
import type { CachingAllocator, CudaDevice, CudaStream, MemoryPool, WaitOptions } from "../../mod.ts";
import { type OptionNames, shown, whatIs } from "../support/validation.ts";
import { TypeError } from "../support/program_errors.ts";

/** The progress of a read or write. */
export interface FileProgress {
  /** The number of bytes transferred so far, counted by their size in device memory. */
  readonly loaded: number;
  /** The total number of bytes to transfer. */
  readonly total: number;
}

/** Options of all transfers between files and device memory. */
export interface FileOptions extends WaitOptions {
  /** Called after each piece, for example to update a progress bar. The library itself prints nothing. */
  onProgress?: (progress: FileProgress) => void;
}

/** Options that select the memory into which a file is read. Either `pool` or `device` is required. */
export interface FileReadOptions extends FileOptions {
  /** The pool or allocator to allocate the memory from. Defaults to the device's current pool. */
  pool?: MemoryPool | CachingAllocator;
  /** The device to allocate the memory on, if no pool is given. */
  device?: CudaDevice;
  /** The stream on which the memory is allocated and filled. Defaults to the device's default stream. */
  stream?: CudaStream;
}

/** The option names that `checkOptions` accepts. */
export const fileOptionNames: OptionNames<FileOptions> = { signal: true, onProgress: true };
export const fileReadOptionNames: OptionNames<FileReadOptions> = {
  ...fileOptionNames,
  pool: true,
  device: true,
  stream: true,
};

/**
 * Returns the pool and the stream to allocate memory with.
 *
 * @param action the action that needs memory, as it follows "Cannot" in the error message
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

/**
 * Returns the names given by an option, without repetitions. Undefined if the option is not given.
 *
 * @throws {TypeError} If they are not a list of names
 */
export function namesOf(names: Iterable<string> | undefined): ReadonlySet<string> | undefined {
  if (names === undefined) return undefined;
  if (typeof names === "string") throw new TypeError(`Cannot use a string as names: give [${shown(names)}]`);
  if (typeof names?.[Symbol.iterator] !== "function") {
    throw new TypeError(`Cannot use ${whatIs(names)} as names: give an array of strings`);
  }
  return new Set(names);
}

/** Sums up transferred bytes, and reports the total to `onProgress`. */
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
