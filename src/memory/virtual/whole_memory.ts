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
import { RangeError, TypeError } from "../../support/program_errors.ts";

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
  /** What the buffer's errors say until the memory is mapped by `mapNow`. Undefined if it is mapped at once. */
  readonly unmapped?: string | undefined;
}

/** Memory that is mapped in its entirety. */
export class WholeMemory {
  readonly buffer: DeviceBuffer;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #address: bigint;
  readonly #byteLength: number;
  readonly #allocation: Allocation;
  #access: Exclude<Access, "none">;
  /**
   * The driver's handle of the memory that is mapped, with which it is mapped again if other memory could not be mapped
   * in its place. Undefined while nothing is mapped.
   */
  #memory: bigint | undefined;
  /** The driver's handle of memory that is not mapped yet. */
  #unmapped: bigint | undefined;

  /**
   * Imports memory and maps it, with as few CUDA calls as possible. Freeing the buffer blocks until the work that uses
   * it is done, because mappings are not stream-ordered.
   *
   * @throws {RangeError} If the memory's size is not `byteLength`, or the memory is on another device
   * @throws {CudaError} If the descriptor does not refer to memory, or CUDA cannot map it
   */
  constructor(session: Session, device: CudaDevice, parts: WholeMemoryParts) {
    const { byteLength, used, access, stream, onUnmapped, unmapped } = parts;
    this.#session = session;
    this.#device = device;
    this.#byteLength = byteLength;
    this.#access = access;
    const memory = this.#import(parts);
    try {
      const what = this.#what;
      this.#address = unmapped === undefined
        ? mapAnywhere(session, device, { memory, byteLength, access, what })
        : attempt(what, () => session.driver.memAddressReserve(byteLength, 0));
    } catch (error) {
      ignoreLoss(() => session.driver.memRelease(memory));
      throw error;
    }
    if (unmapped === undefined) this.#memory = memory;
    else this.#unmapped = memory;
    const address = this.#address;
    const opened: OpenedObject = {
      release: (driver) => {
        if (this.#memory !== undefined) {
          driver.memUnmap(address, byteLength);
          driver.memRelease(this.#memory);
        }
        if (this.#unmapped !== undefined) driver.memRelease(this.#unmapped);
        driver.memAddressFree(address, byteLength);
      },
    };
    session.opened.add(opened);
    const owner: AllocationOwner = {
      release: (_address, _byteLength, stream, allocation) => {
        if (this.#memory !== undefined) {
          finishAllWork(allocation, stream);
          session.driver.memUnmap(address, byteLength);
          ignoreLoss(() => session.driver.memRelease(this.#memory!));
          this.#memory = undefined;
        }
        if (this.#unmapped !== undefined) ignoreLoss(() => session.driver.memRelease(this.#unmapped!));
        session.opened.delete(opened);
        onUnmapped();
        session.driver.memAddressFree(address, byteLength);
      },
      accessOf: (other) => other === device ? this.#access : "none",
    };
    this.#allocation = new Allocation(session, owner, undefined, address, used, device, stream);
    this.buffer = new DeviceBuffer(this.#allocation);
    if (unmapped !== undefined) this.#allocation.suspend(unmapped);
  }

  /** Whether the memory is not mapped yet. */
  get isUnmapped(): boolean {
    return this.#unmapped !== undefined;
  }

  /** Maps memory that is not mapped yet. */
  mapNow(): void {
    this.#mapHere(this.#unmapped!);
    this.#unmapped = undefined;
    this.#allocation.resume();
  }

  /** The size of the whole memory in bytes: a multiple of the granularity. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** Sets the device's access to the memory. Earlier work that the new access would not permit must be complete. */
  setAccess(access: Exclude<Access, "none">): void {
    this.#session.driver.memSetAccess(this.#address, this.#byteLength, descriptionsOf([this.#device], access));
    this.#access = access;
  }

  /**
   * Unmaps the memory, and keeps its addresses. Until memory is mapped there again, the buffer and its views refuse any
   * use. Blocks until the work that uses the memory is done.
   *
   * @param why what the errors of the buffer say
   * @returns Ends the use of the memory: after this, `undo` does nothing. `undo` maps the memory again.
   * @throws {TypeError} If the buffer is being read or is lent to other processes
   */
  unmap(why: string): { release(): void; undo(): void } {
    const allocation = this.#allocation, { driver } = this.#session, memory = this.#memory!;
    this.#finishWork();
    driver.memUnmap(this.#address, this.#byteLength);
    this.#memory = undefined;
    allocation.suspend(why);
    let isOver = false;
    return {
      release: () => {
        if (isOver) return;
        isOver = true;
        if (!this.#session.hasEnded) ignoreLoss(() => driver.memRelease(memory));
      },
      undo: () => {
        if (isOver || this.#session.hasEnded) return;
        isOver = true;
        if (allocation.isGone) return ignoreLoss(() => driver.memRelease(memory));
        this.#mapHere(memory);
        allocation.resume();
      },
    };
  }

  /**
   * Maps other memory of the same size at the same addresses, in place of the memory that is mapped there, if any is.
   * If this fails, the previous memory stays mapped. Blocks until the work that uses the previous memory is done.
   *
   * @throws {RangeError} If the memory has another size, or is on another device
   * @throws {CudaError} If the descriptor does not refer to memory, or CUDA cannot map it
   * @throws {TypeError} If the buffer is being read or is lent to other processes
   */
  remap(memory: Pick<WholeMemoryParts, "handle" | "name">): void {
    const next = this.#import(memory);
    try {
      this.#exchange(next);
    } catch (error) {
      ignoreLoss(() => this.#session.driver.memRelease(next));
      throw error;
    }
  }

  /**
   * Maps the memory of `next` at these addresses, in place of the memory that is mapped there, if any is. The memory of
   * `next` need not be mapped. Nothing is mapped at the addresses of `next` afterwards. If this fails, both are as before. Blocks until the work that uses
   * either memory is done.
   *
   * @throws {RangeError} If the memory has another size, or is on another device
   * @throws {CudaError} If CUDA cannot map the memory
   * @throws {TypeError} If one of the buffers is being read or is lent to other processes
   */
  replaceBy(next: WholeMemory): void {
    const { driver } = this.#session;
    if (next.#device !== this.#device || next.#byteLength !== this.#byteLength) {
      const place = next.#device === this.#device ? "" : `, and is on device ${next.#device.ordinal}`;
      throw new RangeError(`Cannot ${this.#what}: it has ${countOf(next.#byteLength, "byte")}${place}`);
    }
    if (next.#unmapped !== undefined) {
      this.#exchange(next.#unmapped);
      next.#unmapped = undefined;
      return;
    }
    next.#finishWork();
    // The memory is mapped at both addresses for now.
    this.#exchange(next.#memory!, () => driver.memUnmap(next.#address, this.#byteLength));
    next.#memory = undefined;
    next.#allocation.suspend("its memory replaces another");
  }

  /**
   * Maps other memory in place of the memory that is mapped, if any is, and then calls `confirm`. If either throws, the
   * previous memory is mapped again.
   */
  #exchange(next: bigint, confirm = () => {}): void {
    const { driver } = this.#session;
    const last = this.#memory;
    if (last !== undefined) {
      this.#finishWork();
      driver.memUnmap(this.#address, this.#byteLength);
      this.#memory = undefined;
    }
    try {
      this.#mapHere(next);
      confirm();
    } catch (error) {
      if (this.#memory !== undefined) ignoreLoss(() => driver.memUnmap(this.#address, this.#byteLength));
      this.#memory = undefined;
      if (last !== undefined) this.#mapHere(last);
      throw error;
    }
    const replaced = last ?? this.#unmapped;
    this.#unmapped = undefined;
    if (replaced !== undefined) ignoreLoss(() => driver.memRelease(replaced));
    this.#allocation.resume();
  }

  /** Resolves when the work enqueued so far that uses the memory is done. */
  async idle(): Promise<void> {
    const { stream, device } = this.#allocation;
    if (stream.disposed) this.#allocation.noteUseBefore(stream, Infinity);
    await this.#allocation.releaseStream(stream.disposed ? device.defaultStream : stream).finished();
  }

  get #what(): string {
    return `map ${countOf(this.#byteLength, "byte")} of another process on device ${this.#device.ordinal}`;
  }

  #finishWork(): void {
    const allocation = this.#allocation;
    if (allocation.isBeingRead) {
      throw new TypeError("Cannot unmap the buffer: it is being read, or lent to other processes; wait for the reads");
    }
    finishWorkWith(allocation);
  }

  #mapHere(memory: bigint): void {
    mapAt(this.#session, this.#device, {
      address: this.#address,
      memory,
      byteLength: this.#byteLength,
      access: this.#access,
      what: this.#what,
    });
    this.#memory = memory;
  }

  #import({ handle, name }: Pick<WholeMemoryParts, "handle" | "name">): bigint {
    const { driver } = this.#session;
    const device = this.#device, what = this.#what;
    const memory = attempt(
      what,
      () => driver.memImportFromShareableHandle(handle.fd, memHandleType.posixFileDescriptor, name),
      "its descriptor must be one of memory on the same machine",
    );
    try {
      const place = attempt(what, () => otherPlaceOf(this.#session, { memory, device }));
      if (place !== undefined) throw new RangeError(`Cannot ${what}: it is ${place}`);
      return memory;
    } catch (error) {
      ignoreLoss(() => driver.memRelease(memory));
      throw error;
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
function mapAnywhere(session: Session, device: CudaDevice, mapped: Mapped): bigint {
  const { driver } = session;
  const { byteLength, what } = mapped;
  const address = attempt(what, () => driver.memAddressReserve(byteLength, 0));
  try {
    mapAt(session, device, { ...mapped, address });
  } catch (error) {
    ignoreLoss(() => driver.memAddressFree(address, byteLength));
    throw error;
  }
  return address;
}

/** Maps an entire memory at reserved addresses where nothing is mapped. */
function mapAt(
  { driver }: Session,
  device: CudaDevice,
  { address, memory, byteLength, access, what }: Mapped & { readonly address: bigint },
): void {
  try {
    driver.memMap(address, byteLength, memory);
  } catch (cause) {
    throw isOfOtherSize(cause) ? new RangeError(`Cannot ${what}: it has another size`, { cause }) : cannot(what, cause);
  }
  try {
    attempt(what, () => driver.memSetAccess(address, byteLength, descriptionsOf([device], access)));
  } catch (error) {
    ignoreLoss(() => driver.memUnmap(address, byteLength));
    throw error;
  }
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
