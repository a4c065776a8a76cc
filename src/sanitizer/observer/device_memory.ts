/**
 * Observes device memory: allocations, frees, and sharing with other processes.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import type { Operation } from "../order/timelines.ts";
import type { OtherProcesses } from "../processes/other_processes.ts";
import type { ObservedStreams } from "./observed_streams.ts";
import type { ObservedWork } from "./observed_work.ts";
import { ObservedVirtualMemory } from "./virtual_memory.ts";

/** The device memory of a program. */
export class ObservedDeviceMemory {
  readonly #streams: ObservedStreams;
  readonly #work: ObservedWork;
  readonly #processes: OtherProcesses;
  readonly #virtualMemory: ObservedVirtualMemory;
  /** The sizes of allocations that may be shared, by address. */
  readonly #byteLengths = new Map<number, number | undefined>();

  constructor(streams: ObservedStreams, work: ObservedWork) {
    this.#streams = streams;
    this.#work = work;
    this.#processes = streams.processes;
    this.#virtualMemory = new ObservedVirtualMemory(streams.processes, work);
  }

  /** The driver's calls, observed. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#allocationCalls(driver), ...this.#sharingCalls(driver), ...this.#virtualMemory.calls(driver) };
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
        this.#streams.syncHostWithDevice(device);
        this.#freed(work.nextOfHost("free"), Number(address));
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
    this.#work.allocated(operation, { address, byteLength });
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
    // In the process that exported it, the memory now has two addresses.
    const own = this.#processes.ownAddressOf(handle);
    const contents = own === undefined ? undefined : () => this.#work.order.contentsAt(own);
    this.#work.allocated(this.#work.nextOfHost("import"), { address: Number(address), byteLength }, contents);
    if (own === undefined) this.#processes.imported(handle, address, byteLength);
  }
}
