/**
 * Memory that is of no pool: `cudaMalloc`'s, and that of other processes by legacy handles. Both are outside the order of
 * any stream.
 *
 * @module
 */
import type { CudaDevice } from "../objects/cuda_device.ts";
import type { CudaStream } from "../objects/cuda_stream.ts";
import { type BufferOwner, DeviceBuffer } from "./device_buffer.ts";
import { SharingError } from "../support/errors.ts";
import { cannot, isLoss, openingHint } from "../support/error_wording.ts";
import type { Session } from "../session.ts";
import { checkByteLength } from "../support/validation.ts";

/** `cudaMalloc`. */
export function allocateMemory(session: Session, device: CudaDevice, byteLength: number): DeviceBuffer {
  checkByteLength(byteLength, "an allocation's size", 1);
  const { ordinal } = device;
  let address: bigint;
  try {
    address = session.driver.malloc(ordinal, byteLength);
  } catch (error) {
    throw cannot(`allocate ${byteLength} bytes on device ${ordinal}`, error);
  }
  const owner: BufferOwner = {
    ...ownerOfLoose(session, byteLength, (stream) => {
      // cudaFree waits for the work of its own device alone.
      if (stream.device !== device) session.driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle);
      session.driver.free(ordinal, address);
    }),
    exportHandle: (address) => session.driver.ipcGetMemHandle(ordinal, address),
  };
  return new DeviceBuffer(session, owner, undefined, address, byteLength, device.defaultStream);
}

/** `cudaIpcOpenMemHandle`, once the memory is known to be as long as it is said to be. */
export function openMemory(
  session: Session,
  device: CudaDevice,
  { handle, byteLength }: { handle: Uint8Array; byteLength: number },
): DeviceBuffer {
  checkByteLength(byteLength, "the size of opened memory", 1);
  const { driver } = session;
  const { ordinal } = device;
  const what = `open memory of another process on device ${ordinal}`;
  let address: bigint;
  try {
    address = driver.ipcOpenMemHandle(ordinal, handle);
  } catch (error) {
    throw cannot(what, error, openingHint(error, "memory"));
  }
  try {
    const range = driver.memGetAddressRange(ordinal, address);
    const available = Number(range.base + BigInt(range.byteLength) - address);
    if (available < byteLength) {
      throw new SharingError(
        "size-mismatch",
        `Cannot open ${byteLength} bytes: the other process has allocated ${available}`,
      );
    }
  } catch (error) {
    driver.ipcCloseMemHandle(ordinal, address);
    throw cannot(what, error);
  }
  const owner = ownerOfLoose(session, byteLength, (stream) => {
    session.driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle);
    session.driver.ipcCloseMemHandle(ordinal, address);
  });
  return new DeviceBuffer(session, owner, undefined, address, byteLength, device.defaultStream);
}

/** Memory that the session reports where nobody frees it. With a lost context there is nothing to free. */
function ownerOfLoose(session: Session, byteLength: number, free: (stream: CudaStream) => void): BufferOwner {
  const memory = { byteLength };
  session.unpooledMemory.add(memory);
  return {
    awaitRelease: () => void session.unpooledMemory.delete(memory),
    release(_address, _byteLength, stream) {
      try {
        free(stream);
      } catch (error) {
        if (isLoss(error)) session.unpooledMemory.delete(memory);
        throw error;
      }
      session.unpooledMemory.delete(memory);
    },
  };
}
