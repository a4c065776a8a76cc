/**
 * Memory that is not from a pool: from `cudaMalloc`, or opened from another process by a legacy handle. Neither is
 * stream-ordered.
 *
 * @module
 */
import type { Driver, MemoryRange } from "../driver.ts";
import type { OpenedObject } from "../objects/opened_objects.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { CudaStream } from "../objects/streams/cuda_stream.ts";
import { Allocation, type AllocationOwner } from "./allocation.ts";
import { DeviceBuffer } from "./device_buffer.ts";
import { SharingError } from "../support/errors.ts";
import { cannot, isLoss, openingHint } from "../support/driver_errors.ts";
import { refusedImport } from "../support/refusals.ts";
import type { Session } from "../session.ts";
import { originOf } from "../support/leaks.ts";
import { checkByteLength, checkOptions, type KnownOptions, shown } from "../support/validation.ts";
import { allocateShareable } from "./virtual/whole_memory.ts";

/** Options of memory that is not from a pool. */
export interface AllocateOptions {
  /**
   * How other processes can import the memory. Defaults to `"none"`: only by the legacy handle of
   * `DeviceBuffer.exportHandle`. With `"posix-fd"`, an `Exporter` offers it by a descriptor.
   */
  handleType?: "none" | "posix-fd";
}

const withoutStream = "call a pool's allocate, or leave the stream out";
const allocateOptions: KnownOptions<AllocateOptions> = {
  action: "allocate",
  names: { handleType: true },
  instead: { stream: withoutStream },
  meantBy: (value) => typeof value === "string" ? `{ handleType: ${shown(value)} }` : undefined,
};

/** Allocates memory by `cudaMalloc`, or for other processes by `cuMemCreate`. */
export function allocateMemory(
  session: Session,
  device: CudaDevice,
  { byteLength, options }: { byteLength: number; options: AllocateOptions },
): DeviceBuffer {
  if (options instanceof CudaStream) {
    throw new TypeError(`Cannot allocate on a stream without a pool: ${withoutStream}`);
  }
  checkOptions(options, allocateOptions);
  checkByteLength(byteLength, "an allocation's size", 1);
  const { handleType = "none" } = options;
  if (handleType === "posix-fd") return allocateShareable(session, device, byteLength);
  if (handleType !== "none") {
    throw new TypeError(
      `Cannot allocate memory with handleType ${shown(handleType)}: it must be "none" or "posix-fd"`,
    );
  }
  const { ordinal } = device;
  let address: bigint;
  try {
    address = session.driver.malloc(ordinal, byteLength);
  } catch (error) {
    throw cannot(`allocate ${byteLength} bytes on device ${ordinal}`, error);
  }
  const { sites } = session.memory;
  sites?.addAllocated(address, byteLength, originOf(byteLength));
  const owner: AllocationOwner = {
    ...unpooledOwner(session, { address, byteLength }, {
      synchronize(stream) {
        // cudaFree waits only for the work of its own device.
        if (stream.device !== device) session.driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle);
      },
      free(driver) {
        driver.free(ordinal, address);
        sites?.addFreed(address);
      },
    }),
    exportHandle: (address) => session.driver.ipcGetMemHandle(ordinal, address),
  };
  const allocation = new Allocation(session, owner, undefined, address, byteLength, device, device.defaultStream);
  return new DeviceBuffer(allocation);
}

/** Opens memory of another process by `cudaIpcOpenMemHandle`, and checks that it has at least `byteLength` bytes. */
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
    session.ipcHandleLayouts.checkMemory(ordinal, handle);
    address = driver.ipcOpenMemHandle(ordinal, handle);
  } catch (error) {
    throw cannot(what, error, openingHint(error, "memory"));
  }
  try {
    const range = driver.memGetAddressRange(ordinal, address);
    const available = Number(range.base + BigInt(range.byteLength) - address);
    if (available < byteLength) {
      throw refusedImport(
        new SharingError(
          "size-mismatch",
          `Cannot open ${byteLength} bytes: the other process has allocated ${available}`,
        ),
      );
    }
  } catch (error) {
    driver.ipcCloseMemHandle(ordinal, address);
    throw cannot(what, error);
  }
  const owner = unpooledOwner(session, { address, byteLength }, {
    synchronize: (stream) => session.driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle),
    free: (driver) => driver.ipcCloseMemHandle(ordinal, address),
  });
  const allocation = new Allocation(session, owner, undefined, address, byteLength, device, device.defaultStream);
  return new DeviceBuffer(allocation);
}

/** How memory outside any pool is freed. */
interface UnpooledMemory {
  /** Waits for a stream whose work `free` does not wait for itself. */
  synchronize(stream: CudaStream): void;
  free(driver: Driver): void;
}

/**
 * Returns an owner of memory that the session reports as leaked, and frees, if it is not freed. If the context is lost,
 * the memory is gone and not reported.
 */
function unpooledOwner(
  session: Session,
  { address, byteLength }: MemoryRange,
  { synchronize, free }: UnpooledMemory,
): AllocationOwner {
  let isLeak = true;
  const pieces = () => [{ at: address, byteLength }];
  const opened: OpenedObject = {
    unfreed: () => isLeak ? { kind: "unpooled buffer", count: 1, byteLength, pieces } : undefined,
    release: free,
  };
  session.opened.add(opened);
  return {
    awaitRelease() {
      isLeak = false;
    },
    release(_address, _byteLength, stream) {
      try {
        synchronize(stream);
        free(session.driver);
      } catch (error) {
        if (isLoss(error)) session.opened.delete(opened);
        throw error;
      }
      session.opened.delete(opened);
    },
  };
}
