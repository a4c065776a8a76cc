/**
 * The 64 bytes by which one process names a memory file of its own to another: `cudaIpcMemHandle_t` and
 * `cudaIpcEventHandle_t`. The file is opened through `/proc/PID/fd/N`, so it is there as long as the process that has
 * it, and no name of it is left behind.
 *
 * Handle, little-endian: 8 bytes of magic, which say of what kind it is; process (u32); descriptor (u32); start time of
 * the process (u64); inode (u64); 8 random bytes; the device's UUID (16 bytes); length in bytes (u64). The file begins
 * with the magic, the random bytes, the UUID and the length, so that no other file is taken for it.
 *
 * @module
 */
import { ipcHandleByteLength } from "../../driver.ts";
import type { ProcessIdentity } from "./process_identity.ts";

/** What a handle names: its magic. */
export const ipcKind = { memory: 0x31304d454d504c50n, event: 0x3130544e56504c50n } as const;

/** Bytes of the file's header that mean something. */
export const ipcHeaderByteLength = 40;

/** What a handle and the begin of its file both say. */
export interface IpcHeader {
  /** One of `ipcKind`. */
  readonly kind: bigint;
  /** 8 random bytes. */
  readonly id: bigint;
  /** 16 bytes. */
  readonly deviceUuid: Uint8Array;
  /** Bytes of what is shared. */
  readonly byteLength: number;
}

/** Where a file is. */
export interface FilePlace extends ProcessIdentity {
  readonly fd: number;
  readonly inode: bigint;
}

const placeByteLength = ipcHandleByteLength - ipcHeaderByteLength;

export function encodeIpcHeader({ kind, id, deviceUuid, byteLength }: IpcHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipcHeaderByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, kind, true);
  view.setBigUint64(8, id, true);
  bytes.set(deviceUuid, 16);
  view.setBigUint64(32, BigInt(byteLength), true);
  return bytes;
}

export function encodeIpcHandle(header: IpcHeader, place: FilePlace): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipcHandleByteLength);
  const encoded = encodeIpcHeader(header);
  bytes.set(encoded.subarray(0, 8));
  bytes.set(encoded.subarray(8), 8 + placeByteLength);
  const view = new DataView(bytes.buffer, 8, placeByteLength);
  view.setUint32(0, place.pid, true);
  view.setUint32(4, place.fd, true);
  view.setBigUint64(8, place.startTime, true);
  view.setBigUint64(16, place.inode, true);
  return bytes;
}

/** Undefined where the bytes are no handle of the kind. */
export function decodeIpcHandle(kind: bigint, bytes: Uint8Array): { header: IpcHeader; place: FilePlace } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength !== ipcHandleByteLength || view.getBigUint64(0, true) !== kind) return undefined;
  const place = {
    pid: view.getUint32(8, true),
    fd: view.getUint32(12, true),
    startTime: view.getBigUint64(16, true),
    inode: view.getBigUint64(24, true),
  };
  const header = {
    kind,
    id: view.getBigUint64(32, true),
    deviceUuid: bytes.slice(40, 56),
    byteLength: Number(view.getBigUint64(56, true)),
  };
  return { header, place };
}
