/**
 * What two processes agree on to share a software pool: a sealed memfd whose first page says what it is, and the export
 * data that name an allocation in it.
 *
 * The header and the export data are little-endian. Header: 8 bytes of magic, the pool's id (16 random bytes), the
 * device's UUID (16 bytes, zeros where the memory is the host's), its handle types (u32), the type of its location
 * (u32). Later in the same page importers say what they have mapped: see `mapping_leases.ts`. Export data: 8 bytes of
 * another magic, the pool's id, the allocation's offset in the file and its length in bytes (u64 each), zeros up to 64
 * bytes.
 *
 * @module
 */
import { exportDataByteLength, memLocationType } from "../../driver.ts";

/** Bytes at the begin of the file that hold no allocation. */
export const poolFileHeaderByteLength = 65536;
/** Bytes of the header that mean something. */
export const poolFileHeaderUsedByteLength = 48;

const headerMagic = 0x31304c4f4f504c50n;
const exportMagic = 0x3130525450504c50n;
const uuidByteLength = 16;
const exportDataUsedByteLength = 40;

/** What a pool's file says of the pool. */
export interface PoolFileHeader {
  /** 16 random bytes, as hexadecimal digits. */
  readonly id: string;
  /** Undefined where the memory is the host's. */
  readonly deviceUuid: Uint8Array | undefined;
  readonly handleTypes: number;
}

/** What export data say of an allocation. */
export interface ExportedPointer {
  readonly poolId: string;
  readonly fileOffset: number;
  readonly byteLength: number;
}

/** A new pool's id. */
export function createPoolId(): string {
  return crypto.getRandomValues(new Uint8Array(16)).toHex();
}

export function encodePoolFileHeader({ id, deviceUuid, handleTypes }: PoolFileHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(poolFileHeaderUsedByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, headerMagic, true);
  bytes.set(Uint8Array.fromHex(id), 8);
  if (deviceUuid !== undefined) bytes.set(deviceUuid, 24);
  view.setUint32(40, handleTypes, true);
  view.setUint32(44, deviceUuid === undefined ? memLocationType.hostNuma : memLocationType.device, true);
  return bytes;
}

/** Undefined where the bytes are no pool's header. */
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
  };
}

export function encodeExportData({ poolId, fileOffset, byteLength }: ExportedPointer): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(exportDataByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, exportMagic, true);
  bytes.set(Uint8Array.fromHex(poolId), 8);
  view.setBigUint64(24, BigInt(fileOffset), true);
  view.setBigUint64(32, BigInt(byteLength), true);
  return bytes;
}

/** Undefined where the bytes are no export data. */
export function decodeExportData(bytes: Uint8Array): ExportedPointer | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength !== exportDataByteLength || view.getBigUint64(0, true) !== exportMagic) return undefined;
  if (bytes.subarray(exportDataUsedByteLength).some((byte) => byte !== 0)) return undefined;
  return {
    poolId: bytes.slice(8, 24).toHex(),
    fileOffset: Number(view.getBigUint64(24, true)),
    byteLength: Number(view.getBigUint64(32, true)),
  };
}
