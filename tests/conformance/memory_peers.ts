/**
 * Helpers for rows about virtual memory, and the roles of their second processes.
 *
 * @module
 */
import { defaultStream, type Driver, memAccessFlags, memHandleType } from "../../src/driver.ts";
import { firstByte, mebibyte, onDevice } from "./pools.ts";
import type { Role } from "./situation.ts";

/** A size of memory that drivers accept. */
export const granule: number = 2 * mebibyte;

/** Creates memory on device 0, by default 2 MiB that can be exported as a descriptor. */
export function createMemory(
  driver: Driver,
  { handleTypes = memHandleType.posixFileDescriptor, byteLength = granule }: {
    handleTypes?: number;
    byteLength?: number;
  } = {},
): bigint {
  return driver.memCreate({ handleTypes, location: onDevice(0) }, byteLength);
}

/** Reserves addresses. */
export function reserveFor(driver: Driver, byteLength: number): bigint {
  return driver.memAddressReserve(byteLength, 0);
}

/** Maps memory, by default 2 MiB at an address of its own that device 0 may read and write. */
export function mapMemory(
  driver: Driver,
  memory: bigint,
  { byteLength = granule, at = reserveFor(driver, byteLength), flags = memAccessFlags.readWrite }: {
    byteLength?: number;
    at?: bigint;
    /** With "unset", no access is set. */
    flags?: number | "unset";
  } = {},
): bigint {
  driver.memMap(at, byteLength, memory);
  if (flags !== "unset") driver.memSetAccess(at, byteLength, [{ location: onDevice(0), flags }]);
  return at;
}

/** Exports memory as a descriptor. */
export function exportMemory(driver: Driver, memory: bigint): number {
  return driver.memExportToShareableHandle(memory, memHandleType.posixFileDescriptor) as number;
}

/** Imports memory from a descriptor. */
export function importMemory(driver: Driver, descriptor: number): bigint {
  return driver.memImportFromShareableHandle(descriptor, memHandleType.posixFileDescriptor);
}

/** The tasks of a holder, as the first byte of a request. */
export const memoryTask = { share: 0, read: 1 } as const;

/** The roles, by name. */
export const roles: Readonly<Record<string, Role>> = {
  "holder of memory": (driver) => {
    const memory = createMemory(driver);
    const address = mapMemory(driver, memory);
    driver.memsetAsync(0, address, 0x21, granule, defaultStream);
    driver.streamSynchronize(0, defaultStream);
    return ({ bytes }) =>
      bytes[0] === memoryTask.read
        ? { bytes: Uint8Array.of(firstByte(driver, address)) }
        : { descriptors: [exportMemory(driver, memory)] };
  },
};
