/**
 * The formats with which two processes share a software pool: a sealed memfd whose first page describes the pool, and
 * export data that names an allocation in that file.
 *
 * All fields are little-endian.
 *
 * - Header of the file: 8 bytes of magic, the pool's id (16 random bytes), the device's UUID (16 bytes, zeros for host
 *   memory), the pool's handle types (u32), the type of its location (u32), the ID of the process that created it (u64).
 * - Export data: that process ID (u64), the pool's id, the allocation's offset in the file and its length in bytes (u64
 *   each), 8 bytes of another magic, zeros up to 64 bytes. The process ID, the offset and the length have the places that
 *   they have in CUDA's export data.
 *
 * @module
 */
import { exportDataByteLength, memLocationType } from "../../driver.ts";

/** The size of the file's first page, in bytes. It contains no allocation. */
export const poolFileHeaderByteLength = 65536;
/**
 * The size of a unit, in bytes. Pools reserve and release memory in whole units, the first of which follows the first
 * page.
 */
export const unitByteLength: number = 32 * 2 ** 20;
/** The size of the header's fields, in bytes. */
export const poolFileHeaderUsedByteLength = 56;

const headerMagic = 0x32304c4f4f504c50n;
const exportMagic = 0x3230525450504c50n;
const uuidByteLength = 16;
const exportDataUsedByteLength = 48;

/** The description of a pool in its file. */
export interface PoolFileHeader {
  /** 16 random bytes, as hexadecimal digits. */
  readonly id: string;
  /** Undefined for host memory. */
  readonly deviceUuid: Uint8Array | undefined;
  readonly handleTypes: number;
  /** The process that created the pool. */
  readonly processId: number;
}

/** The content of export data: an allocation in a pool's file. */
export interface ExportedPointer {
  readonly processId: number;
  readonly poolId: string;
  readonly fileOffset: number;
  readonly byteLength: number;
}

/** Returns a random id for a new pool. */
export function createPoolId(): string {
  return crypto.getRandomValues(new Uint8Array(16)).toHex();
}

export function encodePoolFileHeader(
  { id, deviceUuid, handleTypes, processId }: PoolFileHeader,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(poolFileHeaderUsedByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, headerMagic, true);
  bytes.set(Uint8Array.fromHex(id), 8);
  if (deviceUuid !== undefined) bytes.set(deviceUuid, 24);
  view.setUint32(40, handleTypes, true);
  view.setUint32(44, deviceUuid === undefined ? memLocationType.hostNuma : memLocationType.device, true);
  view.setBigUint64(48, BigInt(processId), true);
  return bytes;
}

/** Returns undefined if the bytes are not the header of a pool's file. */
export function decodePoolFileHeader(bytes: Uint8Array): PoolFileHeader | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength < poolFileHeaderUsedByteLength || view.getBigUint64(0, true) !== headerMagic) return undefined;
  const location = view.getUint32(44, true);
  const isHost = location === memLocationType.hostNuma;
  if (!isHost && location !== memLocationType.device) return undefined;
  return {
    id: bytes.slice(8, 24).toHex(),
    deviceUuid: isHost ? undefined : bytes.slice(24, 24 + uuidByteLength),
    handleTypes: view.getUint32(40, true),
    processId: Number(view.getBigUint64(48, true)),
  };
}

export function encodeExportData(
  { processId, poolId, fileOffset, byteLength }: ExportedPointer,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(exportDataByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(processId), true);
  bytes.set(Uint8Array.fromHex(poolId), 8);
  view.setBigUint64(24, BigInt(fileOffset), true);
  view.setBigUint64(32, BigInt(byteLength), true);
  view.setBigUint64(40, exportMagic, true);
  return bytes;
}

/** Returns undefined if the bytes are not export data. */
export function decodeExportData(bytes: Uint8Array): ExportedPointer | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength !== exportDataByteLength || view.getBigUint64(40, true) !== exportMagic) return undefined;
  if (bytes.subarray(exportDataUsedByteLength).some((byte) => byte !== 0)) return undefined;
  return {
    processId: Number(view.getBigUint64(0, true)),
    poolId: bytes.slice(8, 24).toHex(),
    fileOffset: Number(view.getBigUint64(24, true)),
    byteLength: Number(view.getBigUint64(32, true)),
  };
}
