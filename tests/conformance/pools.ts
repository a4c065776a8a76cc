/**
 * Helpers for rows about pools.
 *
 * @module
 */
import {
  defaultStream,
  type Driver,
  memHandleType,
  type MemLocation,
  memLocationType,
  memPoolAttribute,
  streamFlags,
} from "../../src/driver.ts";
import { attemptEach, type Attempts } from "./attempts.ts";
import { readBytes } from "./launch.ts";

/** The number of bytes of a mebibyte. */
export const mebibyte: number = 2 ** 20;
/** The maximum of a 64-bit attribute. A pool with this release threshold keeps all of its memory. */
export const infinite: bigint = 2n ** 64n - 1n;
/** The name of a pool attribute. */
export type AttributeName = keyof typeof memPoolAttribute;
/** All pool attributes, in the order of CUDA's numbers. */
export const attributeNames: readonly AttributeName[] = Object.keys(memPoolAttribute) as AttributeName[];

/** The properties of a row's pool. Default: a pool on device 0 that cannot be exported. */
export interface PoolProperties {
  readonly handleTypes?: number;
  readonly location?: MemLocation;
  readonly maxSize?: bigint;
}

/** Returns the location of a device. */
export function onDevice(ordinal: number): MemLocation {
  return { type: memLocationType.device, id: ordinal };
}

/** The host memory of the first NUMA node. */
export const onFirstNode: MemLocation = { type: memLocationType.hostNuma, id: 0 };

/** Creates a pool. */
export function createPool(driver: Driver, properties: PoolProperties = {}): bigint {
  const { handleTypes = memHandleType.none, location = onDevice(0), maxSize = 0n } = properties;
  return driver.memPoolCreate({ handleTypes, location, maxSize });
}

/** Creates a pool that can be exported as a descriptor. */
export function createShareablePool(driver: Driver, properties: PoolProperties = {}): bigint {
  return createPool(driver, { handleTypes: memHandleType.posixFileDescriptor, ...properties });
}

/** Allocates memory from a pool on a stream of device 0, by default on its default stream. */
export function allocate(driver: Driver, pool: bigint, byteLength: number, stream: bigint = defaultStream): bigint {
  return driver.mallocFromPoolAsync(0, byteLength, pool, stream);
}

/** Allocates memory from a pool and fills it with a byte. The fill is complete when this returns. */
export function allocateFilled(driver: Driver, pool: bigint, byteLength: number, byte: number): bigint {
  const address = allocate(driver, pool, byteLength);
  driver.memsetAsync(0, address, byte, byteLength, defaultStream);
  driver.streamSynchronize(0, defaultStream);
  return address;
}

/** Frees memory on a stream of device 0, by default on its default stream. */
export function free(driver: Driver, address: bigint, stream: bigint = defaultStream): void {
  driver.freeAsync(0, address, stream);
}

/** Creates a nonblocking stream of device 0. */
export function createStream(driver: Driver): bigint {
  return driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
}

/** Returns a pool attribute, as a number if that is exact and as a string otherwise. */
export function attributeOf(driver: Driver, pool: bigint, name: AttributeName): number | string {
  const value = driver.memPoolGetAttribute(pool, memPoolAttribute[name]);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
}

/** Returns each attribute of a pool, or the error of reading it. */
export function attributesOf(driver: Driver, pool: bigint): Attempts {
  return attemptEach(Object.fromEntries(attributeNames.map((name) => [name, () => attributeOf(driver, pool, name)])));
}

/** Sets a pool attribute. */
export function setAttribute(driver: Driver, pool: bigint, name: AttributeName, value: bigint): void {
  driver.memPoolSetAttribute(pool, memPoolAttribute[name], value);
}

/** Exports a pool as a descriptor. */
export function exportPool(driver: Driver, pool: bigint): number {
  return driver.memPoolExportToShareableHandle(pool, memHandleType.posixFileDescriptor) as number;
}

/** Imports a pool through device 0 from a descriptor. */
export function importPool(driver: Driver, descriptor: number): bigint {
  return driver.memPoolImportFromShareableHandle(0, descriptor, memHandleType.posixFileDescriptor);
}

/** Memory of a shareable pool, and its mapping in the same process. */
export interface Shared {
  readonly pool: bigint;
  readonly address: bigint;
  readonly exportData: Uint8Array<ArrayBuffer>;
  readonly imported: bigint;
  readonly mapping: bigint;
}

/** Shares an allocation of one mebibyte, filled with a byte, within this process. */
export function shareWithSelf(driver: Driver, byte: number = 1): Shared {
  const pool = createShareablePool(driver);
  const address = allocateFilled(driver, pool, mebibyte, byte);
  const imported = importPool(driver, exportPool(driver, pool));
  const exportData = driver.memPoolExportPointer(address);
  const mapping = driver.memPoolImportPointer(0, imported, exportData);
  return { pool, address, exportData, imported, mapping };
}

/** Returns the first byte of memory, after synchronizing the default stream of device 0. */
export function firstByte(driver: Driver, address: bigint): number {
  return readBytes(driver, 0, address, 1)[0]!;
}
