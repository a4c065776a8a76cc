/**
 * Reserved address ranges, in which memory is mapped.
 *
 * @module
 */
import { allocationGranularity, type MemAccessDesc, memLocationType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import { checkDevice } from "../../objects/device_sessions.ts";
import type { OpenedObject } from "../../objects/opened_objects.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { countOf, hexOf, printAs } from "../../support/printing.ts";
import { errorsOf } from "../../support/errors.ts";
import { roundUp } from "../../support/rounding.ts";
import {
  checkByteLength,
  checkOptions,
  type KnownOptions,
  refuseConstruction,
  whatIs,
} from "../../support/validation.ts";
import { Allocation, type AllocationOwner } from "../allocation.ts";
import { DeviceBuffer } from "../device_buffer.ts";
import { type Access, checkAccess, flagsByAccess } from "../pools/pool_attributes.ts";
import { PhysicalMemory } from "./physical_memory.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Options of an address range. */
export interface ReserveOptions {
  /** The alignment of the first address in bytes: a power of two. Defaults to the granularity of memory. */
  alignment?: number;
}

/** The offset, access and devices of a mapping. */
export interface MapMemoryOptions {
  /** Offset in the range in bytes, a multiple of the granularity. Defaults to the end of the last mapping. */
  byteOffset?: number;
  /** The access of the devices to the memory. Defaults to `"read-write"`. */
  access?: Exclude<Access, "none">;
  /** The devices that get access. Defaults to the device that the memory is on. */
  devices?: CudaDevice | readonly CudaDevice[];
}

/** A part of an address range. */
export interface RangePart {
  /** Offset of the part in the range, in bytes. Defaults to 0. */
  byteOffset?: number;
  /**
   * Size in bytes. For `buffer`, defaults to the contiguous mapped memory that begins at `byteOffset`; for `setAccess`,
   * to the rest of the range.
   */
  byteLength?: number;
}

const reserveOptions: KnownOptions<ReserveOptions> = { action: "reserve addresses", names: { alignment: true } };
const mapOptions: KnownOptions<MapMemoryOptions> = {
  action: "map memory",
  names: { byteOffset: true, access: true, devices: true },
};
const partOptions: KnownOptions<RangePart> = {
  action: "use a part of an address range",
  names: { byteOffset: true, byteLength: true },
};

/** Memory that is mapped in a range. */
interface Mapping {
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly device: CudaDevice;
  readonly allocation: Allocation;
  /** The access of each device to the memory. Devices that are not in the map have no access. */
  readonly access: Map<CudaDevice, Access>;
}

/** A view of one or more mappings. It becomes unusable when one of them is unmapped. */
interface View {
  readonly begin: number;
  readonly end: number;
  readonly allocation: Allocation;
  readonly owner: AllocationOwner;
}

/**
 * A reserved range of addresses, in which memory can be mapped and unmapped. A range can be larger than the memory that
 * is mapped in it: more memory can be mapped at the following addresses later, without moving the memory that is mapped
 * already. Comes from `Cuda.reserveAddresses`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 *
 * @example A buffer that grows and keeps its address
 * ```ts
 * import { open } from "./mod.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using range = cuda.reserveAddresses(2 ** 26);
 * for (let piece = 1; piece <= 3; piece++) {
 *   using memory = gpu.createMemory(2 ** 21); // stays while it is mapped
 *   range.map(memory).fill(piece);
 * }
 * const all = range.buffer();
 * console.log(all.address === range.address, all.byteLength); // true 6291456
 * ```
 */
export class AddressRange implements Disposable {
  /** The first address. */
  readonly address: bigint;
  /** Size in bytes, a multiple of the granularity of memory. */
  readonly byteLength: number;
  readonly #session: Session;
  readonly #opened: OpenedObject;
  /** The mappings, sorted by offset. */
  readonly #mappings: Mapping[] = [];
  /** The views, keyed by the part of the range that they show. */
  readonly #views = new Map<string, View>();
  #isDisposed = false;
  #hasAddresses = true;

  static {
    printAs(this, "AddressRange", (range) => {
      const isGone = range.#isDisposed || range.#session.hasEnded;
      const state = isGone ? "disposed" : `${range.mappedByteLength} mapped`;
      return `AddressRange { ${hexOf(range.address)}, ${countOf(range.byteLength, "byte")}, ${state} }`;
    }, ["address", "byteLength", ["mappedByteLength", (range) => range.mappedByteLength], [
      "disposed",
      (range) => range.#isDisposed || range.#session.hasEnded,
    ]]);
  }

  /**
   * Address ranges come from `Cuda.reserveAddresses`.
   *
   * @ignore
   */
  constructor(session: Session, range: { address: bigint; byteLength: number }) {
    if (session?.opened === undefined) refuseConstruction("AddressRange", "Cuda.reserveAddresses");
    const { address, byteLength } = range;
    this.#session = session;
    this.address = address;
    this.byteLength = byteLength;
    this.#opened = {
      kind: "address range",
      release: (driver) => {
        for (const mapping of this.#mappings) driver.memUnmap(this.#addressOf(mapping), mapping.byteLength);
        driver.memAddressFree(address, byteLength);
      },
      unfreed: () => {
        if (this.#isDisposed) return undefined;
        const mapped = this.#mappings.map((mapping) => ({
          at: this.#addressOf(mapping),
          byteLength: mapping.byteLength,
        }));
        if (mapped.length === 0) return undefined;
        return { kind: "mapped buffer", count: mapped.length, byteLength: this.mappedByteLength, pieces: () => mapped };
      },
    };
    session.opened.add(this.#opened);
  }

  /** Number of bytes that are mapped. */
  get mappedByteLength(): number {
    return this.#mappings.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /**
   * Maps an entire `PhysicalMemory` at free addresses of the range, and gives devices access to it. The
   * `PhysicalMemory` may be disposed afterwards.
   *
   * Freeing the returned buffer unmaps the memory. The free blocks until the work that uses the memory is done, because
   * mappings are not stream-ordered. Disposing of the range does the same for all of its buffers.
   *
   * With access `"read"`, a copy or a fill that would write the memory is refused with `cudaErrorInvalidValue`, and a
   * kernel that writes it fails with `cudaErrorIllegalAddress`.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   * @throws {TypeError} If `memory` is not a `PhysicalMemory`, or an option is not valid
   * @throws {RangeError} If there is not enough free space at the requested offset
   * @throws {ReferenceError} If the range or the memory was disposed
   * @throws {CudaError} If CUDA cannot map the memory or grant the access, for instance because a device is not a peer
   *   of the device that holds the memory
   */
  map(memory: PhysicalMemory, options: MapMemoryOptions = {}): DeviceBuffer {
    this.#check();
    if (!(memory instanceof PhysicalMemory)) {
      throw new TypeError(
        `Cannot map ${whatIs(memory, "PhysicalMemory")}: give memory from CudaDevice.createMemory or importMemory`,
      );
    }
    checkOptions(options, mapOptions);
    const { byteOffset = this.#end, access = "read-write", devices = memory.device } = options;
    const { byteLength, device } = memory;
    checkDevice(device, this.#session);
    const handle = memory.unsafeHandle;
    const list = checkAccess(this.#session, devices, access);
    this.#checkFree(byteOffset, byteLength);
    const what = `map ${countOf(byteLength, "byte")} at byte ${byteOffset} of the address range`;
    const { driver } = this.#session;
    const address = this.address + BigInt(byteOffset);
    try {
      driver.memMap(address, byteLength, handle);
    } catch (error) {
      throw cannot(what, error);
    }
    try {
      driver.memSetAccess(address, byteLength, descriptionsOf(list, access));
    } catch (error) {
      ignoreLoss(() => driver.memUnmap(address, byteLength));
      throw cannot(what, error, "every device must be the memory's own, or a peer of it");
    }
    const owner: AllocationOwner = {
      release: (_address, _byteLength, stream) => this.#unmap(mapping, stream),
      accessOf: (device) => mapping.access.get(device) ?? "none",
    };
    const allocation = this.#allocationAt(byteOffset, { byteLength, device, owner });
    const allowed = new Map(list.map((device) => [device, access]));
    const mapping: Mapping = { byteOffset, byteLength, device, allocation, access: allowed };
    this.#mappings.push(mapping);
    this.#mappings.sort((a, b) => a.byteOffset - b.byteOffset);
    return new DeviceBuffer(allocation);
  }

  /**
   * Returns a view of contiguous mapped memory as one buffer: by default, of all memory from the range's first address
   * to the first gap. The view becomes unusable when any of its memory is unmapped. After mapping more memory, call
   * this again for a longer view at the same address.
   *
   * If the view spans memory of several devices, kernels can access all of it, but each copy or fill must stay within
   * the memory of one device.
   *
   * @throws {RangeError} If a byte of the part is not mapped
   * @throws {ReferenceError} If the range was disposed
   */
  buffer(options: RangePart = {}): DeviceBuffer {
    this.#check();
    checkOptions(options, partOptions);
    const { byteOffset: begin, byteLength } = this.#part(options);
    const end = begin + byteLength;
    const known = this.#views.get(`${begin} ${end}`);
    if (known !== undefined) return new DeviceBuffer(known.allocation);
    const { device } = this.#within(begin, end)[0]!;
    const owner: AllocationOwner = {
      release() {},
      freeRefusal: "it is a view of an address range; free the buffers that map has returned, or dispose of the range",
      accessOf: (device) => leastOf(this.#within(begin, end).map(({ access }) => access.get(device) ?? "none")),
    };
    const allocation = this.#allocationAt(begin, { byteLength, device, owner });
    this.#views.set(`${begin} ${end}`, { begin, end, allocation, owner });
    return new DeviceBuffer(allocation);
  }

  /**
   * Sets the access of devices to mapped memory. The part must consist of whole mappings; by default, it is the entire
   * range. Blocks until the work that uses the memory is done, because this work was enqueued with the earlier access.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
   * @throws {TypeError} If the devices or the access are not valid
   * @throws {RangeError} If no memory is mapped in the range, or at a given `byteOffset`, or if `byteLength` is given
   *   and the part is not entirely mapped
   * @throws {CudaError} If CUDA cannot set the access, for instance because a device is not a peer of the device that
   *   holds the memory. The access is then unchanged.
   */
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access, options: RangePart = {}): void {
    this.#check();
    checkOptions(options, partOptions);
    const list = checkAccess(this.#session, devices, access);
    // Checks that the part is mapped. Without `byteLength`, it may have gaps: at least its start must be mapped or, for
    // the entire range, any memory.
    const { byteOffset, byteLength } = options.byteLength === undefined && options.byteOffset === undefined
      ? this.#whole()
      : this.#part(options);
    const end = options.byteLength === undefined ? this.byteLength : byteOffset + byteLength;
    const mappings = this.#within(byteOffset, end);
    this.#finishWork(byteOffset, end);
    const { driver } = this.#session;
    const done: Mapping[] = [];
    try {
      for (const mapping of mappings) {
        // The driver refuses a part that begins or ends within a mapping.
        const from = Math.max(mapping.byteOffset, byteOffset);
        const address = this.address + BigInt(from);
        driver.memSetAccess(address, Math.min(endOf(mapping), end) - from, descriptionsOf(list, access));
        done.push(mapping);
      }
    } catch (error) {
      for (const mapping of done) {
        for (const device of list) {
          const before = descriptionsOf([device], mapping.access.get(device) ?? "none");
          ignoreLoss(() => driver.memSetAccess(this.#addressOf(mapping), mapping.byteLength, before));
        }
      }
      const ordinals = list.map(({ ordinal }) => ordinal).join(", ");
      const hint = "the part must consist of whole mappings, and every device must be the memory's own or a peer of it";
      throw cannot(`set access to "${access}" for device ${ordinals} in the address range`, error, hint);
    }
    for (const mapping of mappings) {
      for (const device of list) mapping.access.set(device, access);
    }
  }

  /**
   * Unmaps all memory and frees the addresses. Blocks until the work that uses the memory is done. Memory is freed if
   * no other handle, descriptor or mapping refers to it.
   */
  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    if (this.#session.hasEnded) return;
    const errors = errorsOf([...this.#mappings].map(({ allocation }) => () => {
      // If the memory was freed, it is still mapped only because of pending reads, which unmap it when they complete.
      if (allocation.isFreed) return;
      const { stream } = allocation;
      ignoreLoss(() => stream.disposed ? allocation.freeAfterDisposed(stream) : allocation.free(stream));
    }));
    this.#freeAddresses();
    if (errors.length > 0) throw errors[0];
  }

  /** Frees the addresses of a disposed range once nothing is mapped: pending reads keep their memory mapped. */
  #freeAddresses(): void {
    if (!this.#isDisposed || this.#mappings.length > 0 || !this.#hasAddresses) return;
    this.#hasAddresses = false;
    ignoreLoss(() => this.#session.driver.memAddressFree(this.address, this.byteLength));
    this.#session.opened.delete(this.#opened);
  }

  #check(): void {
    if (this.#isDisposed) throw new ReferenceError("Cannot use the address range: it was disposed");
  }

  get #end(): number {
    const last = this.#mappings.at(-1);
    return last === undefined ? 0 : last.byteOffset + last.byteLength;
  }

  #within(begin: number, end: number): Mapping[] {
    return this.#mappings.filter((mapping) => mapping.byteOffset < end && begin < endOf(mapping));
  }

  #addressOf({ byteOffset }: Pick<Mapping, "byteOffset">): bigint {
    return this.address + BigInt(byteOffset);
  }

  #allocationAt(
    byteOffset: number,
    { byteLength, device, owner }: { byteLength: number; device: CudaDevice; owner: AllocationOwner },
  ): Allocation {
    const address = this.#addressOf({ byteOffset });
    return new Allocation(this.#session, owner, undefined, address, byteLength, device, device.defaultStream);
  }

  #checkFree(byteOffset: number, byteLength: number): void {
    checkByteLength(byteOffset, "a byteOffset");
    const end = byteOffset + byteLength;
    const what = `Cannot map ${countOf(byteLength, "byte")} at byte ${byteOffset} of the address range`;
    if (end > this.byteLength) {
      throw new RangeError(`${what}: it has ${countOf(this.byteLength, "byte")}; reserve more addresses`);
    }
    const [other] = this.#within(byteOffset, end);
    if (other === undefined) return;
    const hint = other.allocation.isFreed ? "; they were freed, and stay until the reads of them are done" : "";
    throw new RangeError(`${what}: ${countOf(other.byteLength, "byte")} are mapped at byte ${other.byteOffset}${hint}`);
  }

  /** Fills in the defaults of a part. Throws unless the entire part is mapped. */
  #part({ byteOffset = 0, byteLength }: RangePart): { byteOffset: number; byteLength: number } {
    checkByteLength(byteOffset, "a byteOffset");
    const mapped = this.#mappedFrom(byteOffset) - byteOffset;
    if (byteLength !== undefined) checkByteLength(byteLength, "a byteLength", 1);
    if (mapped > 0 && (byteLength ?? mapped) <= mapped) return { byteOffset, byteLength: byteLength ?? mapped };
    throw new RangeError(
      `Cannot use ${
        byteLength === undefined ? "the memory" : countOf(byteLength, "byte")
      } from byte ${byteOffset} of ` +
        `the address range on: ${mapped > 0 ? `only ${mapped} are mapped there` : "nothing is mapped there"}`,
    );
  }

  /** Returns the entire range. Throws unless some memory is mapped in it. */
  #whole(): { byteOffset: number; byteLength: number } {
    const live = this.#mappings.filter(({ allocation }) => !allocation.isFreed);
    if (live.length === 0) this.#part({});
    return { byteOffset: 0, byteLength: this.byteLength };
  }

  /** Returns the end of the contiguous mapped memory that begins at an offset. */
  #mappedFrom(byteOffset: number): number {
    let end = byteOffset;
    for (const mapping of this.#mappings) {
      // Freed memory stays mapped while it is being read, but cannot be used.
      if (!mapping.allocation.isFreed && mapping.byteOffset <= end && endOf(mapping) > end) end = endOf(mapping);
    }
    return end;
  }

  /** Blocks until the work that uses memory of a range through any buffer is done. */
  #finishWork(begin: number, end: number): void {
    for (const { allocation } of this.#within(begin, end)) finishWorkWith(allocation);
    for (const view of this.#views.values()) {
      if (view.begin < end && begin < view.end) finishWorkWith(view.allocation);
    }
  }

  #unmap(mapping: Mapping, stream: CudaStream): void {
    const { driver } = this.#session;
    const { byteOffset, byteLength, allocation } = mapping;
    driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle);
    // Waits for all work that uses the allocation, not only for the work of `stream`: unmapping is not stream-ordered,
    // unlike a free in a pool.
    finishWorkWith(allocation);
    this.#endViews(byteOffset, byteOffset + byteLength);
    // If the device is lost, the memory stays mapped, and its addresses stay in use.
    driver.memUnmap(this.#addressOf(mapping), byteLength);
    this.#mappings.splice(this.#mappings.indexOf(mapping), 1);
    this.#freeAddresses();
  }

  /** Waits for the work that uses views of a range, and makes the views unusable. */
  #endViews(begin: number, end: number): void {
    for (const [part, view] of this.#views) {
      if (view.end <= begin || end <= view.begin) continue;
      const { allocation, owner } = view;
      finishWorkWith(allocation);
      owner.useEnd = "memory of the address range that it is a view of was unmapped";
      allocation.unload();
      this.#views.delete(part);
    }
  }
}

/** Blocks until the work that uses memory through a buffer is done, including work of disposed streams. */
export function finishWorkWith(allocation: Allocation): void {
  const { stream, device, session: { driver } } = allocation;
  if (stream.disposed) allocation.noteUseBefore(stream, Infinity);
  const last = allocation.releaseStream(stream.disposed ? device.defaultStream : stream);
  driver.streamSynchronize(last.device.ordinal, last.unsafeHandle);
}

/**
 * Returns the most restricted of several accesses, which is the access that a device has to all of the mappings
 * together.
 */
function leastOf(accesses: readonly Access[]): Access {
  if (accesses.includes("none")) return "none";
  return accesses.includes("read") ? "read" : "read-write";
}

function endOf({ byteOffset, byteLength }: Mapping): number {
  return byteOffset + byteLength;
}

/** Builds the driver's access descriptors that grant each device the given access. */
export function descriptionsOf(devices: readonly CudaDevice[], access: Access): MemAccessDesc[] {
  return devices.map(({ ordinal }) => ({
    location: { type: memLocationType.device, id: ordinal },
    flags: flagsByAccess[access],
  }));
}

/** Reserves addresses with `cuMemAddressReserve`. */
export function reserveAddresses(
  session: Session,
  { byteLength, options }: { byteLength: number; options: ReserveOptions },
): AddressRange {
  checkByteLength(byteLength, "the size of an address range", 1);
  checkOptions(options, reserveOptions);
  const { alignment = 0 } = options;
  checkByteLength(alignment, "an alignment");
  if (alignment !== 0 && !Number.isInteger(Math.log2(alignment))) {
    throw new RangeError(`Cannot reserve addresses with the alignment ${alignment}: it must be a power of two`);
  }
  const { driver } = session;
  try {
    const props = { handleTypes: 0, location: { type: memLocationType.device, id: 0 } };
    const whole = roundUp(byteLength, driver.memGetAllocationGranularity(props, allocationGranularity.minimum));
    return new AddressRange(session, { address: driver.memAddressReserve(whole, alignment), byteLength: whole });
  } catch (error) {
    throw cannot(`reserve ${countOf(byteLength, "byte")} of addresses`, error);
  }
}
