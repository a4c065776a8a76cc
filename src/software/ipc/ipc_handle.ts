/**
 * The 64 bytes with which one process names one of its memory files to another process: `cudaIpcMemHandle_t` and
 * `cudaIpcEventHandle_t`. The other process opens the file through `/proc/PID/fd/N`. The file therefore ends with the
 * process that owns it, and leaves no name behind.
 *
 * A handle consists of, little-endian: 8 bytes of magic, which tell its kind; process number (u32); descriptor (u32);
 * the inode of the process's pidfd, or its start time (u64); a hash of the machine's boot ID (u32); the inode of its PID
 * namespace (u32); 8 random bytes; the device's UUID (16 bytes); length in bytes (u64). A process elsewhere, which
 * cannot find the owner by its number, can therefore tell that from an owner that has ended. The file starts with the same magic, random bytes, UUID and length, so that no other file is mistaken for it.
 *
 * @module
 */
import { ipcHandleByteLength } from "../../driver.ts";
import type { ProcessIdentity } from "./process_identity.ts";

/** The kinds of handles, each with its magic. */
export const ipcKind = {
  memory: 0x31304d454d504c50n,
  event: 0x3130544e56504c50n,
  /** What a rank of a communicator posts for the others. */
  mailbox: 0x3130584f4d504c50n,
} as const;

/** The size of the file's header, in bytes. */
export const ipcHeaderByteLength = 40;

/** The fields that both the handle and the start of its file contain. */
export interface IpcHeader {
  /** One of `ipcKind`. */
  readonly kind: bigint;
  /** 8 random bytes. */
  readonly id: bigint;
  /** 16 bytes. */
  readonly deviceUuid: Uint8Array;
  /** The number of shared bytes. */
  readonly byteLength: number;
}

/** The path by which the other process can open a file. */
export interface FileLocation extends ProcessIdentity {
  readonly fd: number;
}

const locationByteLength = ipcHandleByteLength - ipcHeaderByteLength;

export function encodeIpcHeader({ kind, id, deviceUuid, byteLength }: IpcHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipcHeaderByteLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, kind, true);
  view.setBigUint64(8, id, true);
  bytes.set(deviceUuid, 16);
  view.setBigUint64(32, BigInt(byteLength), true);
  return bytes;
}

export function encodeIpcHandle(header: IpcHeader, location: FileLocation): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ipcHandleByteLength);
  const encoded = encodeIpcHeader(header);
  bytes.set(encoded.subarray(0, 8));
  bytes.set(encoded.subarray(8), 8 + locationByteLength);
  const view = new DataView(bytes.buffer, 8, locationByteLength);
  view.setUint32(0, location.pid, true);
  view.setUint32(4, location.fd, true);
  view.setBigUint64(8, location.unique, true);
  view.setUint32(16, location.scope, true);
  view.setUint32(20, location.pidNamespace, true);
  return bytes;
}

/** Returns undefined if the bytes are not a handle of the kind. */
export function decodeIpcHandle(
  kind: bigint,
  bytes: Uint8Array,
): { header: IpcHeader; location: FileLocation } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.byteLength !== ipcHandleByteLength || view.getBigUint64(0, true) !== kind) return undefined;
  const location = {
    pid: view.getUint32(8, true),
    fd: view.getUint32(12, true),
    unique: view.getBigUint64(16, true),
    scope: view.getUint32(24, true),
    pidNamespace: view.getUint32(28, true),
  };
  const header = {
    kind,
    id: view.getBigUint64(32, true),
    deviceUuid: bytes.slice(40, 56),
    byteLength: Number(view.getBigUint64(56, true)),
  };
  return { header, location };
}
