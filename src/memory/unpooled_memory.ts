/**
 * Memory outside any pool: allocated by itself, opened from a legacy handle, or wrapped.
 *
 * @module
 */
import { type Driver, type MemoryRange, memoryType, type PointerAttributes } from "../driver.ts";
import type { OpenedObject } from "../objects/opened_objects.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, CudaStream } from "../objects/streams/cuda_stream.ts";
import { optionsOf, type OrStream } from "../objects/streams/stream_option.ts";
import { Allocation, type AllocationOwner } from "./allocation.ts";
import { DeviceBuffer } from "./device_buffer.ts";
import { adviceToOversubscribe } from "./managed/managed_budget.ts";
import { isOutOfMemory } from "./pools/pool_contents.ts";
import { CudaError, SharingError } from "../support/errors.ts";
import { cannot, isLoss, openingHint } from "../support/driver_errors.ts";
import { refusedImport } from "../support/refusals.ts";
import type { Session } from "../session.ts";
import { originOf } from "../support/leaks.ts";
import { checkByteLength, checkOptions, type KnownOptions, shown, whatIs } from "../support/validation.ts";
import { allocateShareable } from "./virtual/whole_memory.ts";
import { countOf } from "../support/printing.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** Options of memory that is not from a pool. */
export interface AllocateOptions {
  /**
   * How other processes can import the memory. Defaults to `"none"`: only with the legacy IPC handle that
   * `DeviceBuffer.exportHandle` returns. With `"posix-fd"`, an `Exporter` can offer the memory as a file descriptor.
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

/** Allocates memory with `cudaMalloc`, or with `cuMemCreate` if other processes can import it. */
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
        // Waits for the stream, because cudaFree waits only for work of the device that the memory is on.
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

/** Allocates managed memory with `cudaMallocManaged`. */
export function allocateManagedMemory(session: Session, device: CudaDevice, byteLength: number): DeviceBuffer {
  if (typeof byteLength === "object" && byteLength !== null) {
    throw new TypeError(`Cannot allocate ${whatIs(byteLength)} of managed memory: give a number of bytes`);
  }
  checkByteLength(byteLength, "an allocation's size", 1);
  const { ordinal } = device;
  const { managedBudget } = session;
  let address: bigint;
  try {
    managedBudget.check(byteLength, device, "cudaMallocManaged");
    address = session.driver.mallocManaged(ordinal, byteLength);
  } catch (error) {
    const hint = isOutOfMemory(error) ? adviceToOversubscribe : undefined;
    throw cannot(`allocate ${byteLength} bytes of managed memory on device ${ordinal}`, error, hint);
  }
  managedBudget.add(byteLength);
  const { sites } = session.memory;
  sites?.addAllocated(address, byteLength, originOf(byteLength));
  const owner: AllocationOwner = {
    ...unpooledOwner(session, { address, byteLength }, {
      // Waits for the stream, because cudaFree waits only for work of the device.
      synchronize: (stream) => session.driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle),
      free(driver) {
        driver.free(ordinal, address);
        managedBudget.delete(byteLength);
        sites?.addFreed(address);
      },
    }),
    isManaged: true,
  };
  const allocation = new Allocation(session, owner, undefined, address, byteLength, device, device.defaultStream);
  return new DeviceBuffer(allocation);
}

/** Opens memory of another process with `cudaIpcOpenMemHandle`, and checks that it has at least `byteLength` bytes. */
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

/** The functions that free memory outside any pool. */
interface UnpooledMemory {
  /** Waits for a stream's work if `free` would not. */
  synchronize(stream: CudaStream): void;
  free(driver: Driver): void;
}

/**
 * Returns the owner of an allocation. If the program does not free the memory, the session reports it as leaked and
 * frees it. If the context is lost, the memory is gone and not reported.
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

/** Options of `CudaDevice.wrap`. */
export interface WrapOptions {
  /** The stream that the buffer's methods use by default. Defaults to the device's default stream. */
  stream?: CudaStream;
}

const wrapOptions: KnownOptions<WrapOptions> = {
  action: "wrap memory",
  names: { stream: true },
};

const ownerOfDeviceMemory: AllocationOwner = { release() {}, isForeign: true };
const ownerOfHostMemory: AllocationOwner = { release() {}, isForeign: true, isHostMemory: true };
const ownerOfManagedMemory: AllocationOwner = { release() {}, isForeign: true, isManaged: true };

const unknownAddress = "CUDA knows no memory at this address: it was freed, or is pageable memory of the host";

/** A range of memory to be wrapped. */
interface Range {
  readonly address: bigint;
  readonly byteLength: number;
}

/** Creates a buffer over memory that other code owns. */
export function wrapMemory(
  session: Session,
  device: CudaDevice,
  range: Range,
  given: OrStream<WrapOptions>,
): DeviceBuffer {
  const { address, byteLength } = range;
  checkAddress(address);
  checkByteLength(byteLength, "the size of wrapped memory", 1);
  const options = optionsOf(given);
  checkOptions(options, wrapOptions);
  const { stream = device.defaultStream } = options;
  checkStream(stream, session);
  void stream.unsafeHandle;
  const what = `wrap ${countOf(byteLength, "byte")} at 0x${address.toString(16)} on device ${device.ordinal}`;
  let attributes: PointerAttributes;
  try {
    attributes = session.driver.pointerGetAttributes(device.ordinal, address);
  } catch (error) {
    const isUnknown = error instanceof CudaError && error.code === "cudaErrorInvalidValue";
    throw cannot(what, error, isUnknown ? unknownAddress : undefined);
  }
  const isHost = attributes.type === memoryType.host;
  if (!isHost && !attributes.isManaged && attributes.device !== device.ordinal) {
    throw new RangeError(`Cannot ${what}: the memory is on device ${attributes.device}; call wrap of that device`);
  }
  const available = Number(attributes.base + BigInt(attributes.byteLength) - address);
  if (byteLength > available) {
    throw new RangeError(
      `Cannot ${what}: the allocation there has ${countOf(attributes.byteLength, "byte")}, ${available} of them from ` +
        "this address on",
    );
  }
  const owner = attributes.isManaged ? ownerOfManagedMemory : isHost ? ownerOfHostMemory : ownerOfDeviceMemory;
  return new DeviceBuffer(new Allocation(session, owner, undefined, address, byteLength, device, stream));
}

function checkAddress(address: bigint): void {
  if (typeof address !== "bigint") {
    const isObject = typeof address === "object" && address !== null;
    const advice = isObject && "address" in address
      ? "give its address"
      : isObject && "buffer" in address
      ? "it is memory of the host; allocate a buffer and copyFrom it"
      : "it must be a bigint, such as 0x7f0000000000n";
    throw new TypeError(`Cannot wrap memory at ${whatIs(address)}: ${advice}`);
  }
  if (address === 0n) throw new RangeError("Cannot wrap memory at the address 0: it is the null pointer");
  if (BigInt.asUintN(64, address) === address) return;
  throw new RangeError(`Cannot wrap memory at the address ${address}: it must be from 1 to 2 ** 64 - 1`);
}
