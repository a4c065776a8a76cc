/**
 * Memory without an address, which can be mapped in an `AddressRange`.
 *
 * @module
 */
import { allocationGranularity, memHandleType, memLocationType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { OpenedObject } from "../../objects/opened_objects.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { countOf, printAs } from "../../support/printing.ts";
import { roundUp } from "../../support/rounding.ts";
import {
  checkByteLength,
  checkOptions,
  type KnownOptions,
  refuseConstruction,
  whatIs,
} from "../../support/validation.ts";
import { checkHandleType, type PoolHandleType } from "../pools/handle_types.ts";
import { fabricHint, fabricImportHint, ShareableHandle } from "../handles/shareable_handle.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of physical memory, which has no address until it is mapped. */
export interface PhysicalMemoryOptions {
  /** How other processes can import the memory. Defaults to `"none"`: they cannot. */
  handleType?: PoolHandleType;
}

const memoryOptions: KnownOptions<PhysicalMemoryOptions> = {
  action: "create memory",
  names: { handleType: true },
};

/** Parameters of the constructor of `PhysicalMemory`. */
interface PhysicalMemoryParts {
  readonly device: CudaDevice;
  readonly handle: bigint;
  readonly byteLength: number;
  readonly handleType: PoolHandleType;
  readonly isImported: boolean;
}

/**
 * Device memory that has no address until it is mapped in an `AddressRange`. It can be mapped at several addresses at
 * once, also by other processes. The memory exists as long as any process has a handle, a descriptor or a mapping of
 * it, even if the process that created it is killed. A fabric handle does not count: memory with `handleType: "fabric"`
 * is freed with the process that created it. Comes from `CudaDevice.createMemory` and `CudaDevice.importMemory`.
 *
 * A process that has a descriptor of the memory can map it for writing.
 *
 * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 *
 * @example Memory at two addresses
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using memory = gpu.createMemory(2 ** 21);
 * using range = cuda.reserveAddresses(2 * memory.byteLength);
 * const writable = range.map(memory);
 * const readable = range.map(memory, { access: "read" });
 * writable.fill(7);
 * gpu.synchronize();
 * console.log((await readable.read(Uint8Array, { length: 1 }))[0]); // 7
 * ```
 */
export class PhysicalMemory implements Disposable {
  /** The device that the memory is on. */
  readonly device: CudaDevice;
  /** Size in bytes, a multiple of the device's granularity. */
  readonly byteLength: number;
  /** How other processes can import the memory. `"none"` for imported memory, which cannot be exported again. */
  readonly handleType: PoolHandleType;
  readonly #session: Session;
  readonly #opened: OpenedObject;
  readonly #isImported: boolean;
  #handle: bigint | undefined;

  static {
    printAs(this, "PhysicalMemory", (memory) => {
      const state = memory.#isDisposed ? "disposed" : memory.#isImported ? "imported" : memory.handleType;
      return `PhysicalMemory { device ${memory.device.ordinal}, ${countOf(memory.byteLength, "byte")}, ${state} }`;
    }, ["device", "byteLength", "handleType", ["disposed", (memory) => memory.#isDisposed]]);
  }

  /**
   * Comes from `CudaDevice.createMemory` and `CudaDevice.importMemory`.
   *
   * @ignore
   */
  constructor(session: Session, parts: PhysicalMemoryParts) {
    if (session?.opened === undefined) refuseConstruction("PhysicalMemory", "CudaDevice.createMemory");
    const { device, handle, byteLength, handleType, isImported } = parts;
    this.#session = session;
    this.device = device;
    this.byteLength = byteLength;
    this.handleType = handleType;
    this.#isImported = isImported;
    this.#handle = handle;
    this.#opened = { kind: "physical memory", release: (driver) => driver.memRelease(handle) };
    session.opened.add(this.#opened);
  }

  get #isDisposed(): boolean {
    return this.#handle === undefined || this.#session.hasEnded;
  }

  /**
   * The driver's handle, a `CUmemGenericAllocationHandle`, for calling CUDA directly. It is still owned by this object.
   *
   * @throws {ReferenceError} If the memory was disposed
   */
  get unsafeHandle(): bigint {
    if (this.#handle !== undefined) return this.#handle;
    throw new ReferenceError(`Cannot use the memory of ${countOf(this.byteLength, "byte")}: it was disposed`);
  }

  /**
   * Exports a handle with which another process can import the memory with `CudaDevice.importMemory`. Any process that
   * has the handle can read and write the memory.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   * @throws {TypeError} If the memory was created with handleType "none", or was imported
   * @throws {CudaError} `cudaErrorOperatingSystem` if the process has no descriptor left
   */
  exportHandle(): ShareableHandle {
    const memory = this.unsafeHandle;
    if (this.handleType === "none") {
      const why = this.#isImported
        ? "it was imported; pass on the handle that it was imported from"
        : 'it was created with handleType "none"; create it with "posix-fd"';
      throw new TypeError(`Cannot export the memory on device ${this.device.ordinal}: ${why}`);
    }
    const { fabric, posixFileDescriptor } = memHandleType;
    const type = this.handleType === "fabric" ? fabric : posixFileDescriptor;
    try {
      const handle = this.#session.driver.memExportToShareableHandle(memory, type);
      return typeof handle === "number" ? ShareableHandle.fromFd(handle) : ShareableHandle.fromBytes(handle);
    } catch (error) {
      const hint = this.handleType === "fabric" ? fabricHint(error) : undefined;
      throw cannot(`export the memory on device ${this.device.ordinal}`, error, hint);
    }
  }

  /**
   * Releases the handle. The memory is kept while it is mapped, and while another process has a handle, a descriptor or
   * a mapping of it.
   */
  [Symbol.dispose](): void {
    const handle = this.#handle;
    if (handle === undefined) return;
    this.#handle = undefined;
    if (this.#session.hasEnded) return;
    ignoreLoss(() => this.#session.driver.memRelease(handle));
    this.#session.opened.delete(this.#opened);
  }
}

/** Allocates physical memory with `cuMemCreate`. It has no address until it is mapped. */
export function createMemory(
  session: Session,
  device: CudaDevice,
  { byteLength, options }: { byteLength: number; options: PhysicalMemoryOptions },
): PhysicalMemory {
  checkByteLength(byteLength, "the size of memory", 1);
  checkOptions(options, memoryOptions);
  const { handleType = "none" } = options;
  const handleTypes = checkHandleType(session, handleType, "memory");
  const props = { handleTypes, location: { type: memLocationType.device, id: device.ordinal } };
  const what = `create memory of ${countOf(byteLength, "byte")} on device ${device.ordinal}`;
  try {
    const whole = roundUp(
      byteLength,
      session.driver.memGetAllocationGranularity(props, allocationGranularity.minimum),
    );
    const handle = session.driver.memCreate(props, whole);
    return new PhysicalMemory(session, { device, handle, byteLength: whole, handleType, isImported: false });
  } catch (error) {
    throw cannot(what, error, handleType === "fabric" ? fabricHint(error) : undefined);
  }
}

/** Imports another process's memory with `cuMemImportFromShareableHandle`. */
export function importMemory(
  session: Session,
  device: CudaDevice,
  { handle, byteLength }: { handle: ShareableHandle; byteLength: number },
): PhysicalMemory {
  if (!(handle instanceof ShareableHandle)) {
    throw new TypeError(
      `Cannot import memory from ${
        whatIs(handle, "ShareableHandle")
      }: give the ShareableHandle of the exporter's exportHandle, ` +
        "or one that ShareableHandle.fromFd made of a descriptor",
    );
  }
  checkByteLength(byteLength, "the size of imported memory", 1);
  const { driver } = session;
  const isFd = handle.type === "posix-fd";
  const what = `import memory from ${isFd ? `the descriptor ${handle.fd}` : "a fabric handle"}`;
  let memory: bigint;
  try {
    memory = driver.memImportFromShareableHandle(
      isFd ? handle.fd : handle.bytes,
      isFd ? memHandleType.posixFileDescriptor : memHandleType.fabric,
    );
  } catch (error) {
    const hint = "it must come from a PhysicalMemory's exportHandle on the same machine";
    throw cannot(what, error, isFd ? hint : fabricImportHint(error, "a PhysicalMemory"));
  }
  try {
    const place = otherPlaceOf(session, { memory, device });
    if (place !== undefined) {
      throw new RangeError(`Cannot ${what} on device ${device.ordinal}: the memory is ${place}`);
    }
    checkSize(session, { memory, byteLength, what });
    return new PhysicalMemory(session, { device, handle: memory, byteLength, handleType: "none", isImported: true });
  } catch (error) {
    ignoreLoss(() => driver.memRelease(memory));
    throw error instanceof RangeError ? error : cannot(what, error);
  }
}

/** Returns the location of imported memory if it is not on `device`, such as `"on device 1"`; otherwise undefined. */
export function otherPlaceOf(
  { driver }: Session,
  { memory, device }: { memory: bigint; device: CudaDevice },
): string | undefined {
  const { location: { type, id } } = driver.memGetAllocationPropertiesFromHandle(memory);
  if (type !== memLocationType.device) return "not on a device";
  return id === device.ordinal ? undefined : `on device ${id}`;
}

/**
 * Throws unless imported memory has the expected size. CUDA does not report the size, but refuses to map memory with
 * any other size.
 */
function checkSize(
  { driver }: Session,
  { memory, byteLength, what }: { memory: bigint; byteLength: number; what: string },
): void {
  let address: bigint;
  try {
    address = driver.memAddressReserve(byteLength, 0);
  } catch (cause) {
    if (!isCode(cause, "cudaErrorInvalidValue")) throw cannot(what, cause, "its size is checked at free addresses");
    throw new RangeError(`Cannot ${what}: memory cannot have ${byteLength} bytes`, { cause });
  }
  try {
    driver.memMap(address, byteLength, memory);
    driver.memUnmap(address, byteLength);
  } catch (cause) {
    if (!isOfOtherSize(cause)) throw cause;
    throw new RangeError(
      `Cannot ${what}: it has another size than ${byteLength} bytes; the exporting process knows it as the memory's ` +
        "byteLength",
      { cause },
    );
  } finally {
    driver.memAddressFree(address, byteLength);
  }
}

/** Returns whether `memMap` has failed because the size of the memory differs from the size to map. */
export function isOfOtherSize(error: unknown): boolean {
  return isCode(error, "cudaErrorNotSupported");
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof CudaError && error.code === code;
}
