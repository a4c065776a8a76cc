/**
 * The 64 bytes with which a process names a pool or memory to the processes of its fabric: `cudaMemFabricHandle_t`.
 *
 * A handle consists of, little-endian: 8 bytes of magic; the file's id (16 random bytes, which its name has); the
 * device's UUID (16 bytes); the inode of the folder that is the fabric (u64); the size of the memory in bytes (u64,
 * 0 for a pool); what it is (u32); a checksum of all that (u32). The file has the same bytes.
 *
 * @module
 */
import { fabricHandleByteLength } from "../../../driver.ts";

/** What a handle names. */
export type FabricKind = "pool" | "memory";

/** The content of a handle. */
export interface FabricHandle {
  readonly kind: FabricKind;
  /** 16 random bytes, as hexadecimal digits. */
  readonly id: string;
  /** 16 bytes. */
  readonly deviceUuid: Uint8Array;
  /** The inode of the folder. A folder has the same in every container that mounts it. */
  readonly folder: bigint;
  /** Size of the memory in bytes, 0 for a pool. */
  readonly byteLength: number;
}

const magic = 0x3130425246504c50n;
const kinds: readonly (FabricKind | undefined)[] = [undefined, "pool", "memory"];
const checkedByteLength = 60;

export function encodeFabricHandle(handle: FabricHandle): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(fabricHandleByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, magic, true);
  bytes.set(Uint8Array.fromHex(handle.id), 8);
  bytes.set(handle.deviceUuid, 24);
  view.setBigUint64(40, handle.folder, true);
  view.setBigUint64(48, BigInt(handle.byteLength), true);
  view.setUint32(56, kinds.indexOf(handle.kind), true);
  view.setUint32(checkedByteLength, checksumOf(bytes), true);
  return bytes;
}

/** Returns undefined if the bytes are no handle of a software device, or were damaged. */
export function decodeFabricHandle(bytes: Uint8Array): FabricHandle | undefined {
  if (bytes.byteLength !== fabricHandleByteLength) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getBigUint64(0, true) !== magic || view.getUint32(checkedByteLength, true) !== checksumOf(bytes)) {
    return undefined;
  }
  const kind = kinds[view.getUint32(56, true)];
  const byteLength = Number(view.getBigUint64(48, true));
  if (kind === undefined || !Number.isSafeInteger(byteLength)) return undefined;
  return {
    kind,
    id: bytes.slice(8, 24).toHex(),
    deviceUuid: bytes.slice(24, 40),
    folder: view.getBigUint64(40, true),
    byteLength,
  };
}

/** FNV-1a. It finds damage, and nobody is kept from computing it: the file that a handle names has the same bytes. */
function checksumOf(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes.subarray(0, checkedByteLength)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
