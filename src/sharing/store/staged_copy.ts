/**
 * Copies between device memory and memory files, staged through page-locked memory.
 *
 * @module
 */
import { isSafeToMap, readAside, writeAside } from "../../../ffi/native/file_transfers.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { copyInThreads } from "../../memory/transfers/threaded_copies.ts";
import { SharingError } from "../../support/errors.ts";
import { moveInLanes } from "../../support/waiting/waiting.ts";

/** The size of a piece in bytes. */
const pieceByteLength = 4 * 2 ** 20;
/** The number of pieces in flight: while some are read or written, others are copied. */
const maximumLanes = 8;

/**
 * Copies a buffer to the beginning of a file, or back. Resolves when the copy is complete. All earlier work that uses
 * the buffer must be complete.
 *
 * @param file.fd a descriptor of the file, which must stay open
 * @param file.direction whether the file is written or read
 * @throws {SharingError} `bad-message` if the file is shorter than the buffer
 */
export async function copyStaged(
  buffer: DeviceBuffer,
  { fd, direction, signal, onProgress }: {
    readonly fd: number;
    readonly direction: "to file" | "from file";
    readonly signal: AbortSignal | undefined;
    /** Called repeatedly with the number of bytes at the beginning that have all been copied. */
    readonly onProgress?: ((byteLength: number) => void) | undefined;
  },
): Promise<void> {
  const { device, byteLength } = buffer;
  const what = "the move of an entry";
  // A large copy is made by threads, if the driver can.
  if (direction === "from file" || isSafeToMap(fd, byteLength)) {
    const copied = await copyInThreads(buffer, { fd, direction, signal, what, onProgress });
    if (copied === byteLength) return;
    if (copied !== undefined) throw tooShort(byteLength);
  }
  const count = Math.min(maximumLanes, Math.ceil(byteLength / pieceByteLength));
  using resources = new DisposableStack();
  const lanes = Array.from({ length: count }, () => {
    const memory = resources.use(device.cuda.allocateHost(Math.min(byteLength, pieceByteLength)));
    return { memory, stream: resources.use(device.createStream({ nonBlocking: true })) };
  });
  const pieces = Array.from({ length: Math.ceil(byteLength / pieceByteLength) }, (_, index) => index * pieceByteLength);
  await moveInLanes(pieces, {
    lanes,
    signal,
    what,
    move: async (offset, { memory, stream }) => {
      const length = Math.min(pieceByteLength, byteLength - offset);
      const bytes = new Uint8Array(memory.buffer, 0, length);
      const view = buffer.subarray(offset, offset + length);
      if (direction === "from file") {
        if (await readAside(fd, bytes, { offset }) < length) throw tooShort(byteLength);
        view.copyFrom(bytes, stream);
        await stream.finished();
      } else {
        view.copyTo(memory, stream);
        await stream.finished();
        await writeAside(fd, bytes, { offset });
      }
    },
    settle: ({ stream }) => stream.finished(),
  });
}

function tooShort(byteLength: number): SharingError {
  return new SharingError("bad-message", `Cannot copy ${byteLength} bytes from host memory: it is shorter`);
}
