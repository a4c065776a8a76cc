/**
 * Memory that is mapped in its entirety, in an address range of its own: another process's memory, or memory for other
 * processes.
 *
 * @module
 */
import { type Driver, memHandleType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { OpenedObject } from "../../objects/opened_objects.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { countOf } from "../../support/printing.ts";
import { checkByteLength } from "../../support/validation.ts";
import { Allocation, type AllocationOwner } from "../allocation.ts";
import { allocationOf, DeviceBuffer } from "../device_buffer.ts";
import type { Access } from "../pools/pool_attributes.ts";
import type { ShareableHandle } from "../handles/shareable_handle.ts";
import { descriptionsOf, finishWorkWith } from "./address_range.ts";
import { createMemory, isOfOtherSize, otherPlaceOf } from "./physical_memory.ts";
import { RangeError } from "../../support/program_errors.ts";

/** The memory to map, and how to map it. */
export interface WholeMemoryParts {
  /** The handle of the memory. The caller still owns it. */
  readonly handle: ShareableHandle;
  /** A name of the memory that is the same in all processes, if it has one. */
  readonly name?: string;
  /** The size of the whole memory in bytes: a multiple of the granularity. */
  readonly byteLength: number;
  /** The size in bytes of the buffer, which begins at the first byte of the memory. */
  readonly used: number;
  readonly access: Exclude<Access, "none">;
  /** The stream of the buffer. */
  readonly stream: CudaStream;
  /** Called after the memory was unmapped. */
  readonly onUnmapped: () => void;
}

/** Memory that is mapped in its entirety. */
export class WholeMemory {
  readonly buffer: DeviceBuffer;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #address: bigint;
  readonly #byteLength: number;
  #access: Exclude<Access, "none">;

  /**
   * Imports memory and maps it, with as few CUDA calls as possible. Freeing the buffer blocks until the work that uses
   * it is done, because mappings are not stream-ordered.
   *
   * @throws {RangeError} If the memory's size is not `byteLength`, or the memory is on another device
   * @throws {CudaError} If the descriptor does not refer to memory, or CUDA cannot map it
   */
  constructor(session: Session, device: CudaDevice, parts: WholeMemoryParts) {
    const { byteLength, used, access, stream, onUnmapped } = parts;
    this.#session = session;
    this.#device = device;
    this.#byteLength = byteLength;
    this.#access = access;
    const address = this.#address = this.#map(parts);
    const opened: OpenedObject = {
      release: (driver) => unmapWhole(driver, address, byteLength),
    };
    session.opened.add(opened);
    const owner: AllocationOwner = {
      release: (_address, _byteLength, stream, allocation) => {
        finishAllWork(allocation, stream);
        session.driver.memUnmap(address, byteLength);
        session.opened.delete(opened);
        onUnmapped();
        session.driver.memAddressFree(address, byteLength);
      },
      accessOf: (other) => other === device ? this.#access : "none",
    };
    this.buffer = new DeviceBuffer(new Allocation(session, owner, undefined, address, used, device, stream));
  }

  /** Sets the device's access to the memory. Earlier work that the new access would not permit must be complete. */
  setAccess(access: Exclude<Access, "none">): void {
    this.#session.driver.memSetAccess(this.#address, this.#byteLength, descriptionsOf([this.#device], access));
    this.#access = access;
  }

  #map({ handle, name, byteLength, access }: WholeMemoryParts): bigint {
    const { driver } = this.#session;
    const device = this.#device;
    const what = `map ${countOf(byteLength, "byte")} of another process on device ${device.ordinal}`;
    const memory = attempt(
      what,
      () => driver.memImportFromShareableHandle(handle.fd, memHandleType.posixFileDescriptor, name),
      "its descriptor must be one of memory on the same machine",
    );
    try {
      const place = attempt(what, () => otherPlaceOf(this.#session, { memory, device }));
      if (place !== undefined) throw new RangeError(`Cannot ${what}: it is ${place}`);
      return mapAnywhere(this.#session, device, { memory, byteLength, access, what });
    } finally {
      // The handle is no longer needed: the memory stays allocated while it is mapped.
      ignoreLoss(() => driver.memRelease(memory));
    }
  }
}

/** Maps another process's memory once, for all buffers of this memory. */
export class SharedMapping {
  #mapped: { readonly buffer: DeviceBuffer; users: number } | undefined;

  /** Whether the memory is mapped, so that `map` needs no handle. */
  get isMapped(): boolean {
    return this.#mapped !== undefined;
  }

  /**
   * Returns a buffer of the whole memory. Freeing it blocks until the work that uses it is done; the last free unmaps
   * the memory.
   *
   * @param memory.handle The handle of the memory, which the caller still owns. Not needed if the memory is mapped.
   * @param memory.byteLength The size of the whole memory in bytes.
   * @throws {RangeError} If the memory's size is not `byteLength`, or the memory is on another device
   * @throws {CudaError} If the descriptor does not refer to memory, or CUDA cannot map it
   */
  map(
    session: Session,
    device: CudaDevice,
    memory: { handle: ShareableHandle | undefined; byteLength: number },
  ): DeviceBuffer {
    const { byteLength } = memory;
    const stream = device.defaultStream;
    const onUnmapped = (): void => void (this.#mapped = undefined);
    const parts = { byteLength, used: byteLength, access: "read-write", stream, onUnmapped } as const;
    const mapped = this.#mapped ??= {
      buffer: new WholeMemory(session, device, { ...parts, handle: memory.handle! }).buffer,
      users: 0,
    };
    mapped.users++;
    const { buffer } = mapped;
    const { owner } = allocationOf(buffer);
    const ownerOfUse: AllocationOwner = {
      ...owner,
      release: (_address, _byteLength, onto, allocation) => {
        finishAllWork(allocation, onto);
        // `users` is decremented after the free, so that the buffer still counts as a user if the free throws.
        if (mapped.users === 1) buffer.free(onto);
        mapped.users--;
      },
    };
    return new DeviceBuffer(new Allocation(session, ownerOfUse, undefined, buffer.address, byteLength, device, stream));
  }
}

/**
 * Allocates memory with `cuMemCreate` that other processes can import. Any size is possible. Freeing it blocks until
 * the work that uses it is done.
 *
 * @throws {TypeError} If file descriptors cannot be used: without FFI, or on a system other than Linux
 * @throws {CudaError} `cudaErrorMemoryAllocation` if too little memory is left
 */
export function allocateShareable(session: Session, device: CudaDevice, byteLength: number): DeviceBuffer {
  checkByteLength(byteLength, "an allocation's size", 1);
  const memory = createMemory(session, device, { byteLength, options: { handleType: "posix-fd" } });
  const { unsafeHandle, byteLength: whole } = memory;
  let address: bigint;
  try {
    const what = `map ${countOf(whole, "byte")} on device ${device.ordinal}`;
    address = mapAnywhere(session, device, { memory: unsafeHandle, byteLength: whole, access: "read-write", what });
  } catch (error) {
    memory[Symbol.dispose]();
    throw error;
  }
  let isLeak = true;
  const opened: OpenedObject = {
    unfreed: () => {
      const pieces = () => [{ at: address, byteLength }];
      return isLeak ? { kind: "unpooled buffer", count: 1, byteLength, pieces } : undefined;
    },
    release: (driver) => unmapWhole(driver, address, whole),
  };
  session.opened.add(opened);
  const owner: AllocationOwner = {
    awaitRelease() {
      isLeak = false;
    },
    release(_address, _byteLength, stream, allocation) {
      finishAllWork(allocation, stream);
      session.driver.memUnmap(address, whole);
      session.opened.delete(opened);
      memory[Symbol.dispose]();
      session.driver.memAddressFree(address, whole);
    },
    accessOf: (other) => other === device ? "read-write" : "none",
    physical: memory,
  };
  const stream = device.defaultStream;
  return new DeviceBuffer(new Allocation(session, owner, undefined, address, byteLength, device, stream));
}

/** The memory to map, and its name in error messages. */
interface Mapped {
  readonly memory: bigint;
  readonly byteLength: number;
  readonly access: Exclude<Access, "none">;
  readonly what: string;
}

/** Maps an entire memory at addresses that the driver chooses. Returns the first address. */
function mapAnywhere(session: Session, device: CudaDevice, { memory, byteLength, access, what }: Mapped): bigint {
  const { driver } = session;
  using undo = new DisposableStack();
  const address = attempt(what, () => driver.memAddressReserve(byteLength, 0));
  undo.defer(() => ignoreLoss(() => driver.memAddressFree(address, byteLength)));
  try {
    driver.memMap(address, byteLength, memory);
  } catch (cause) {
    throw isOfOtherSize(cause) ? new RangeError(`Cannot ${what}: it has another size`, { cause }) : cannot(what, cause);
  }
  undo.defer(() => ignoreLoss(() => driver.memUnmap(address, byteLength)));
  attempt(what, () => driver.memSetAccess(address, byteLength, descriptionsOf([device], access)));
  undo.move();
  return address;
}

function unmapWhole(driver: Driver, address: bigint, byteLength: number): void {
  driver.memUnmap(address, byteLength);
  driver.memAddressFree(address, byteLength);
}

/** Blocks until a stream and all work that uses an allocation have finished. */
function finishAllWork(allocation: Allocation, stream: CudaStream): void {
  allocation.session.driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle);
  finishWorkWith(allocation);
}

function attempt<Result>(what: string, call: () => Result, hint?: string): Result {
  try {
    return call();
  } catch (error) {
    throw cannot(what, error, hint);
  }
}
