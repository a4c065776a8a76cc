/**
 * Copies between device memory and memory files, staged through page-locked memory.
 *
 * @module
 */
import { readAside, writerOf } from "../../../ffi/native/file_transfers.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { SharingError } from "../../support/errors.ts";
import { moveInLanes } from "../../support/waiting/waiting.ts";

/** The size of a piece in bytes. */
const pieceByteLength = 4 * 2 ** 20;
/** The number of pieces in flight: while some are read or written, others are copied. */
const maximumLanes = 20;

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
  { fd, direction, signal }: {
    readonly fd: number;
    readonly direction: "to file" | "from file";
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const { device, byteLength } = buffer;
  const count = Math.min(maximumLanes, Math.ceil(byteLength / pieceByteLength));
  await using writer = direction === "to file" ? writerOf(fd, byteLength) : undefined;
  using resources = new DisposableStack();
  const lanes = Array.from({ length: count }, () => {
    const memory = resources.use(device.cuda.allocateHost(Math.min(byteLength, pieceByteLength)));
    return { memory, stream: resources.use(device.createStream({ nonBlocking: true })) };
  });
  const pieces = Array.from({ length: Math.ceil(byteLength / pieceByteLength) }, (_, index) => index * pieceByteLength);
  await moveInLanes(pieces, {
    lanes,
    signal,
    what: "the move of an entry",
    move: async (offset, { memory, stream }) => {
      const length = Math.min(pieceByteLength, byteLength - offset);
      const bytes = new Uint8Array(memory.buffer, 0, length);
      const view = buffer.subarray(offset, offset + length);
      if (writer === undefined) {
        if (await readAside(fd, bytes, { offset }) < length) {
          throw new SharingError("bad-message", `Cannot copy ${byteLength} bytes from host memory: it is shorter`);
        }
        view.copyFrom(bytes, stream);
        await stream.finished();
      } else {
        view.copyTo(memory, stream);
        await stream.finished();
        await writer.write(bytes, offset);
      }
    },
    settle: ({ stream }) => stream.finished(),
  });
}
