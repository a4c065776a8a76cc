/**
 * Copies between device memory and files in threads outside JavaScript.
 *
 * @module
 */
import { type FileRangeOnDevice, ThreadedCopy } from "../../../ffi/native/threaded_copies.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { pause } from "../../support/waiting/timer.ts";
import { disposedMeanwhile, throwIfAborted, waitUntil } from "../../support/waiting/waiting.ts";
import { allocationOf, type DeviceBuffer } from "../device_buffer.ts";

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
  const { byteLength, address, device } = buffer;
  const { session } = allocationOf(buffer);
  // A sanitizer observes the copies of the driver.
  if (byteLength < minimumByteLength || session.sanitizer !== undefined) return undefined;
  const calls = session.driver.threadCalls?.(device.ordinal);
  if (calls === undefined) return undefined;
  throwIfAborted(signal, what);
  const range: FileRangeOnDevice = { fd, fileOffset: 0, byteLength, address };
  const copy = new ThreadedCopy(calls, [range], direction === "to file" ? fd : undefined);
  const release = allocationOf(buffer).hold();
  let outcome: ReturnType<ThreadedCopy["end"]> | undefined;
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
  try {
    await waitUntil(() => {
      if (outcome !== undefined) return true;
      const isOver = copy.isOver;
      onProgress?.(copy.byteLength);
      return isOver;
    });
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  if (outcome !== undefined) throw disposedMeanwhile(`complete ${what}`, "the Cuda object");
  session.opened.delete(opened);
  outcome = copy.end();
  release();
  throwIfAborted(signal, what);
  const { error, offset } = outcome;
  if (error > 0) throw cannot(`copy ${byteLength} bytes ${direction}`, new CudaError(error, "cudaMemcpyAsync"));
  if (error < 0 && error !== -errno.ENODATA) throw new SystemError(-error, what);
  return error < 0 ? offset : byteLength;
}
