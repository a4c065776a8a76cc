/**
 * Device memory that is allocated, freed and shared with other processes.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import type { Operation } from "../operation.ts";
import type { OtherProcesses } from "../processes/other_processes.ts";
import type { ObservedStreams } from "./observed_streams.ts";
import type { ObservedWork } from "./observed_work.ts";

/** The device memory of a program. */
export class ObservedDeviceMemory {
  readonly #streams: ObservedStreams;
  readonly #work: ObservedWork;
  readonly #processes: OtherProcesses;
  /** The sizes of allocations that may be shared, by address. */
  readonly #byteLengths = new Map<number, number | undefined>();

  constructor(streams: ObservedStreams, work: ObservedWork) {
    this.#streams = streams;
    this.#work = work;
    this.#processes = streams.processes;
  }

  /** The calls to make instead of the driver's own. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#allocationCalls(driver), ...this.#mappingCalls(driver), ...this.#sharingCalls(driver) };
  }

  #allocationCalls(driver: Driver): Partial<Driver> {
    const work = this.#work;
    return {
      mallocFromPoolAsync: (device, byteLength, pool, stream) => {
        const address = driver.mallocFromPoolAsync(device, byteLength, pool, stream);
        this.#allocated(work.next("allocate", device, stream), Number(address), byteLength);
        return address;
      },
      freeAsync: (device, address, stream) => {
        driver.freeAsync(device, address, stream);
        this.#freed(work.next("free", device, stream), Number(address));
      },
      malloc: (device, byteLength) => {
        const address = driver.malloc(device, byteLength);
        this.#allocated(work.nextOfHost("allocate"), Number(address), byteLength);
        return address;
      },
      free: (device, address) => {
        driver.free(device, address);
        this.#streams.hostKnowsDevice(device);
        this.#freed(work.nextOfHost("free"), Number(address));
      },
    };
  }

  /** Mapped memory is new, although it may hold what was there before: nothing is known of other mappings. */
  #mappingCalls(driver: Driver): Partial<Driver> {
    return {
      memMap: (address, byteLength, memory) => {
        driver.memMap(address, byteLength, memory);
        this.#allocated(this.#work.nextOfHost("map"), Number(address), byteLength);
      },
      memUnmap: (address, byteLength) => {
        driver.memUnmap(address, byteLength);
        this.#freed(this.#work.nextOfHost("unmap"), Number(address));
      },
    };
  }

  #sharingCalls(driver: Driver): Partial<Driver> {
    return {
      memPoolExportPointer: (address) => {
        const exportData = driver.memPoolExportPointer(address);
        this.#exported(exportData, address);
        return exportData;
      },
      ipcGetMemHandle: (device, address) => {
        const handle = driver.ipcGetMemHandle(device, address);
        this.#exported(handle, address);
        return handle;
      },
      memPoolImportPointer: (device, pool, exportData) => {
        const address = driver.memPoolImportPointer(device, pool, exportData);
        this.#imported(exportData, address, driver.memGetAddressRange(device, address).byteLength);
        return address;
      },
      ipcOpenMemHandle: (device, handle) => {
        const address = driver.ipcOpenMemHandle(device, handle);
        this.#imported(handle, address, driver.memGetAddressRange(device, address).byteLength);
        return address;
      },
      ipcCloseMemHandle: (device, address) => {
        driver.ipcCloseMemHandle(device, address);
        this.#freed(this.#work.nextOfHost("free"), Number(address));
      },
    };
  }

  #allocated(operation: Operation, address: number, byteLength: number): void {
    this.#byteLengths.set(address, byteLength);
    this.#work.allocated(operation, address, byteLength);
  }

  #freed(operation: Operation, address: number): void {
    this.#byteLengths.set(address, undefined);
    this.#processes.freed(operation, address);
    this.#work.freed(operation, address);
  }

  #exported(handle: Uint8Array, address: bigint): void {
    const byteLength = this.#byteLengths.get(Number(address));
    if (byteLength !== undefined) this.#processes.exported(handle, address, byteLength);
  }

  #imported(handle: Uint8Array, address: bigint, byteLength: number): void {
    this.#work.allocated(this.#work.nextOfHost("import"), Number(address), byteLength);
    this.#processes.imported(handle, address, byteLength);
  }
}
