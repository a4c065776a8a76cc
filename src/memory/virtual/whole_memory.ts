/**
 * Memory of another process that is mapped as a whole, at addresses of its own.
 *
 * @module
 */
import { memHandleType } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/cuda_stream.ts";
import type { OpenedObject } from "../../objects/opened_objects.ts";
import type { Session } from "../../session.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { countOf } from "../../support/printing.ts";
import { Allocation, type AllocationOwner } from "../allocation.ts";
import { DeviceBuffer } from "../device_buffer.ts";
import type { Access } from "../pool_access.ts";
import type { ShareableHandle } from "../shareable_handle.ts";
import { descriptionsOf, finishWorkWith } from "./address_range.ts";
import { isOfOtherSize, otherPlaceOf } from "./physical_memory.ts";

/** What to map, and how. */
export interface WholeMemoryParts {
  /** Borrowed. */
  readonly handle: ShareableHandle;
  /** What all processes call the memory. */
  readonly name: string;
  /** All bytes of the memory: a multiple of the granularity. */
  readonly byteLength: number;
  /** The bytes that the buffer has, from the first on. */
  readonly used: number;
  readonly access: Exclude<Access, "none">;
  /** The buffer's stream. */
  readonly stream: CudaStream;
  /** Called when the memory was unmapped. */
  readonly onUnmapped: () => void;
}

/** Memory that is mapped as a whole. */
export class WholeMemory {
  readonly buffer: DeviceBuffer;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #address: bigint;
  readonly #byteLength: number;
  #access: Exclude<Access, "none">;

  /**
   * Imports memory and maps it, in as few calls as CUDA takes. Freeing the buffer blocks until the work that uses it is
   * done, because mappings are not stream-ordered.
   *
   * @throws {RangeError} If the memory has another size, or is on another device
   * @throws {CudaError} If the descriptor does not refer to memory, or CUDA refuses
   */
  constructor(session: Session, device: CudaDevice, parts: WholeMemoryParts) {
    const { byteLength, used, access, stream, onUnmapped } = parts;
    this.#session = session;
    this.#device = device;
    this.#byteLength = byteLength;
    this.#access = access;
    const address = this.#address = this.#map(parts);
    const opened: OpenedObject = {
      release: (driver) => {
        driver.memUnmap(address, byteLength);
        driver.memAddressFree(address, byteLength);
      },
    };
    session.opened.add(opened);
    const owner: AllocationOwner = {
      release: (_address, _byteLength, stream, allocation) => {
        const { driver } = session;
        driver.streamSynchronize(stream.device.ordinal, stream.unsafeHandle);
        finishWorkWith(allocation);
        session.opened.delete(opened);
        driver.memUnmap(address, byteLength);
        driver.memAddressFree(address, byteLength);
        onUnmapped();
      },
      accessOf: (other) => other === device ? this.#access : "none",
    };
    this.buffer = new DeviceBuffer(new Allocation(session, owner, undefined, address, used, device, stream));
  }

  /** Sets what the device may do with the memory. The work that uses it otherwise must be done. */
  setAccess(access: Exclude<Access, "none">): void {
    this.#session.driver.memSetAccess(this.#address, this.#byteLength, descriptionsOf([this.#device], access));
    this.#access = access;
  }

  #map({ handle, name, byteLength, access }: WholeMemoryParts): bigint {
    const { driver } = this.#session;
    const what = `map ${countOf(byteLength, "byte")} of another process on device ${this.#device.ordinal}`;
    using undo = new DisposableStack();
    const attempt = <Result>(call: () => Result, hint?: string): Result => {
      try {
        return call();
      } catch (error) {
        throw cannot(what, error, hint);
      }
    };
    const memory = attempt(
      () => driver.memImportFromShareableHandle(handle.fd, memHandleType.posixFileDescriptor, name),
      "its descriptor must be one of memory on the same machine",
    );
    // The mapping keeps the memory.
    using release = new DisposableStack();
    release.defer(() => ignoreLoss(() => driver.memRelease(memory)));
    const place = attempt(() => otherPlaceOf(this.#session, { memory, device: this.#device }));
    if (place !== undefined) throw new RangeError(`Cannot ${what}: it is ${place}`);
    const address = attempt(() => driver.memAddressReserve(byteLength, 0));
    undo.defer(() => ignoreLoss(() => driver.memAddressFree(address, byteLength)));
    try {
      driver.memMap(address, byteLength, memory);
    } catch (cause) {
      throw isOfOtherSize(cause)
        ? new RangeError(`Cannot ${what}: it has another size`, { cause })
        : cannot(what, cause);
    }
    undo.defer(() => ignoreLoss(() => driver.memUnmap(address, byteLength)));
    attempt(() => driver.memSetAccess(address, byteLength, descriptionsOf([this.#device], access)));
    undo.move();
    return address;
  }
}
