/**
 * Copies between device memory and files in threads outside JavaScript.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { type EndOfCopy, type FileRangeOnDevice, ThreadedCopy } from "../../../ffi/native/threaded_copies.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { pause } from "../../support/waiting/timer.ts";
import { disposedMeanwhile, throwIfAborted, waitUntil } from "../../support/waiting/waiting.ts";
import { type EarlyEnd, type RangeReadOptions, type ReadRange, readsRanges } from "../../support/file_copies.ts";
import { allocationOf, DeviceBuffer } from "../device_buffer.ts";

/** The minimum size in bytes of a copy for which threads are started. */
const minimumByteLength = 16 * 2 ** 20;

/** A copy between a buffer and a file. */
export interface BufferCopy {
  /** A descriptor of the file, which must stay open. A file that is written must be sealed against shrinking. */
  readonly fd: number;
  readonly direction: "to file" | "from file";
  readonly signal: AbortSignal | undefined;
  /** What is copied, for error messages. */
  readonly what: string;
  /** Called repeatedly with the number of bytes at the beginning that have all been copied. */
  readonly onProgress?: ((byteLength: number) => void) | undefined;
}

/**
 * Copies a buffer to the beginning of a file, or back, in threads. All earlier work that uses the buffer must be
 * complete. The buffer is not freed before the copy has ended.
 *
 * @returns The number of bytes that the file had, which is less than the buffer's size if it ends early. Undefined if
 * nothing was copied: the buffer is small, or its driver has no such copies
 */
export async function copyInThreads(
  buffer: DeviceBuffer,
  { fd, direction, signal, what, onProgress }: BufferCopy,
): Promise<number | undefined> {
  const { byteLength, address } = buffer;
  const range = { fd, fileOffset: 0, byteLength, address };
  const target = direction === "to file" ? fd : undefined;
  const outcome = await runCopy([buffer], [range], { target, signal, what, onProgress });
  if (outcome === undefined) return undefined;
  return outcome.error === 0 ? byteLength : outcome.offset;
}

/** Implements `RangeReader`. */
async function readInThreads(
  ranges: readonly ReadRange<DeviceBuffer>[],
  options: RangeReadOptions,
): Promise<EarlyEnd | boolean> {
  if (allocationOf(ranges[0]!.buffer).session.driver.threadCalls === undefined) return false;
  using opened = new DisposableStack();
  const files = new Map<string, number>();
  try {
    for (const { path, identity } of ranges) {
      if (files.has(path)) continue;
      const fd = openDescriptor(path);
      opened.defer(() => closeDescriptor(fd));
      const { device, inode } = describeDescriptor(fd);
      if (`${device} ${inode}` !== identity) return false;
      files.set(path, fd);
    }
  } catch (error) {
    if (error instanceof SystemError) return false;
    throw error;
  }
  const buffers = [...new Set(ranges.map(({ buffer }) => buffer))];
  const places = ranges.map(({ path, fileOffset, byteLength, buffer, byteOffset }): FileRangeOnDevice => (
    { fd: files.get(path)!, fileOffset, byteLength, address: buffer.address + BigInt(byteOffset) }
  ));
  const outcome = await runCopy(buffers, places, { target: undefined, ...options });
  if (outcome === undefined) return false;
  const [cut] = [...files].find(([, fd]) => outcome.error !== 0 && fd === outcome.fd) ?? [];
  return cut === undefined || { path: cut, offset: outcome.offset };
}

// A property and no method, because only modules that cannot import this one use it.
Object.defineProperty(DeviceBuffer.prototype, readsRanges, { value: readInThreads });

/**
 * Copies ranges in threads. Rejects with the errors of the copy, but resolves if a file is too short. Resolves to
 * undefined if nothing was copied.
 */
async function runCopy(
  buffers: readonly DeviceBuffer[],
  ranges: readonly FileRangeOnDevice[],
  { target, signal, what, onProgress }: Pick<BufferCopy, "signal" | "what" | "onProgress"> & {
    readonly target: number | undefined;
  },
): Promise<EndOfCopy | undefined> {
  const allocations = buffers.map((buffer) => allocationOf(buffer));
  const { session, device } = allocations[0]!;
  const byteLength = ranges.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const needed = target === undefined ? ["read-write"] : ["read-write", "read"];
  const isUsual = allocations.every(({ owner }) =>
    owner.isHostMemory !== true && (owner.accessOf === undefined || needed.includes(owner.accessOf(device)))
  );
  // A sanitizer observes the copies of the driver. Copies that are not usual are refused or made where all others are.
  if (byteLength < minimumByteLength || session.sanitizer !== undefined || !isUsual) return undefined;
  const calls = session.driver.threadCalls?.(device.ordinal);
  if (calls === undefined) return undefined;
  throwIfAborted(signal, what);
  const copy = new ThreadedCopy(calls, ranges, target);
  const holds = allocations.map((allocation) => allocation.hold());
  let outcome: EndOfCopy | undefined;
  const opened = {
    release: (): void => {
      copy.stop();
      while (!copy.isOver) pause();
      outcome = copy.end();
    },
  };
  session.opened.add(opened);
  const stop = (): void => copy.stop();
  signal?.addEventListener("abort", stop, { once: true });
  const isOver = (): boolean => outcome !== undefined || copy.isOver;
  let failure: { readonly error: unknown } | undefined;
  try {
    await waitUntil(() => {
      const isLast = isOver();
      if (outcome === undefined) onProgress?.(copy.byteLength);
      return isLast;
    });
  } catch (error) {
    // `onProgress` has thrown, and the threads still run.
    failure = { error };
    copy.stop();
    await waitUntil(isOver);
  }
  signal?.removeEventListener("abort", stop);
  if (outcome !== undefined) throw disposedMeanwhile(`complete ${what}`, "the Cuda object");
  session.opened.delete(opened);
  outcome = copy.end();
  for (const release of holds) release();
  if (failure !== undefined) throw failure.error;
  throwIfAborted(signal, what);
  const { error } = outcome;
  if (error > 0) throw cannot(`copy ${byteLength} bytes for ${what}`, new CudaError(error, "cudaMemcpyAsync"));
  if (error < 0 && error !== -errno.ENODATA) throw new SystemError(-error, what);
  return outcome;
}
