/**
 * What rows about pools begin with.
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

/** Bytes. */
export const mebibyte: number = 2 ** 20;
/** Everything that a pool may keep. */
export const infinite: bigint = 2n ** 64n - 1n;
/** A pool attribute's name. */
export type AttributeName = keyof typeof memPoolAttribute;
/** All of a pool's attributes, by CUDA's numbers. */
export const attributeNames: readonly AttributeName[] = Object.keys(memPoolAttribute) as AttributeName[];

/** What a row's pool is like; a pool on device 0 that is not to be shared unless it says otherwise. */
export interface PoolTraits {
  readonly handleTypes?: number;
  readonly location?: MemLocation;
  readonly maxSize?: bigint;
}

/** A device, as a location. */
export function onDevice(ordinal: number): MemLocation {
  return { type: memLocationType.device, id: ordinal };
}

/** Host memory of the first NUMA node. */
export const onFirstNode: MemLocation = { type: memLocationType.hostNuma, id: 0 };

/** A new pool. */
export function createPool(driver: Driver, traits: PoolTraits = {}): bigint {
  const { handleTypes = memHandleType.none, location = onDevice(0), maxSize = 0n } = traits;
  return driver.memPoolCreate({ handleTypes, location, maxSize });
}

/** A new pool that can be exported as a descriptor. */
export function createShareablePool(driver: Driver, traits: PoolTraits = {}): bigint {
  return createPool(driver, { handleTypes: memHandleType.posixFileDescriptor, ...traits });
}

/** Memory from a pool, on device 0's default stream unless another of its streams is named. */
export function allocate(driver: Driver, pool: bigint, byteLength: number, stream: bigint = defaultStream): bigint {
  return driver.mallocFromPoolAsync(0, byteLength, pool, stream);
}

/** Memory from a pool, filled with a byte, and the work done. */
export function allocateFilled(driver: Driver, pool: bigint, byteLength: number, byte: number): bigint {
  const address = allocate(driver, pool, byteLength);
  driver.memsetAsync(0, address, byte, byteLength, defaultStream);
  driver.streamSynchronize(0, defaultStream);
  return address;
}

/** Gives memory back on device 0's default stream, unless another of its streams is named. */
export function free(driver: Driver, address: bigint, stream: bigint = defaultStream): void {
  driver.freeAsync(0, address, stream);
}

/** A stream of device 0 that no other waits for. */
export function createStream(driver: Driver): bigint {
  return driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
}

/** A pool's attribute, as a number where that is exact and as text where it is not. */
export function attributeOf(driver: Driver, pool: bigint, name: AttributeName): number | string {
  const value = driver.memPoolGetAttribute(pool, memPoolAttribute[name]);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
}

/** What each attribute of a pool is, or the error that asking gives. */
export function attributesOf(driver: Driver, pool: bigint): Attempts {
  return attemptEach(Object.fromEntries(attributeNames.map((name) => [name, () => attributeOf(driver, pool, name)])));
}

/** Sets a pool's attribute. */
export function setAttribute(driver: Driver, pool: bigint, name: AttributeName, value: bigint): void {
  driver.memPoolSetAttribute(pool, memPoolAttribute[name], value);
}

/** The descriptor of a pool that can be exported as one. */
export function exportPool(driver: Driver, pool: bigint): number {
  return driver.memPoolExportToShareableHandle(pool, memHandleType.posixFileDescriptor) as number;
}

/** A pool imported through device 0 from a descriptor. */
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

/** Shares an allocation of one mebibyte, filled with a byte, with the same process. */
export function shareWithSelf(driver: Driver, byte: number = 1): Shared {
  const pool = createShareablePool(driver);
  const address = allocateFilled(driver, pool, mebibyte, byte);
  const imported = importPool(driver, exportPool(driver, pool));
  const exportData = driver.memPoolExportPointer(address);
  const mapping = driver.memPoolImportPointer(0, imported, exportData);
  return { pool, address, exportData, imported, mapping };
}

/** The first byte of memory, once the work of device 0's default stream is done. */
export function firstByte(driver: Driver, address: bigint): number {
  return readBytes(driver, 0, address, 1)[0]!;
}
