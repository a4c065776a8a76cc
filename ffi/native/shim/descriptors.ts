/**
 * File descriptors: their status, and operations that all of them support.
 *
 * @module
 */
import { cString, shim, unwrap } from "./shim.ts";
import { errno } from "./system_error.ts";

/** What a descriptor refers to. */
export interface DescriptorStatus {
  /** `"file"` for memory files too: they have seals. */
  readonly type: "file" | "folder" | "link" | "socket" | "pipe" | "character device" | "block device" | "other";
  readonly byteLength: number;
  /** The seals, as `F_GET_SEALS` returns them; undefined unless it is a memory file. */
  readonly seals: number | undefined;
  /** The device that the file is on. Together with the inode, it identifies the file. */
  readonly device: bigint;
  /** The file's number on its device. */
  readonly inode: bigint;
  /** The owner's user ID. */
  readonly owner: number;
  /** The low 12 bits of the mode, among them the sticky bit: 0o1777 for `/tmp`. */
  readonly permissions: number;
}

/** `F_SEAL_SEAL`: no seal can be added. */
export const sealSeal = 1;
/** `F_SEAL_SHRINK`: the file cannot be made shorter. */
export const sealShrink = 2;

/** `POLLIN`. */
const pollIn = 1;
/** More than `/proc/self/limits` has. */
const limitsByteLength = 4096;
/** The kernel's `PATH_MAX`. */
const maximumPathByteLength = 4096;

const typesByMode: Readonly<Record<number, DescriptorStatus["type"]>> = {
  0o010000: "pipe",
  0o020000: "character device",
  0o040000: "folder",
  0o060000: "block device",
  0o100000: "file",
  0o120000: "link",
  0o140000: "socket",
};

/** The type that the high bits of a file's mode stand for. */
export function typeOfMode(mode: number): DescriptorStatus["type"] {
  return typesByMode[mode & 0o170000] ?? "other";
}

/**
 * Describes what a descriptor refers to. Asks its file system, which may never answer: for a descriptor that another
 * process chose, see `judgeDescriptor`.
 *
 * @throws {SystemError} `EBADF` if the descriptor is not open
 */
export function describeDescriptor(fd: number): DescriptorStatus {
  const out = new BigUint64Array(6);
  unwrap(shim().poolpass_status(fd, new Uint8Array(out.buffer)), `fstat of descriptor ${fd}`);
  const [mode, size, seals, device, inode, owner] = out as unknown as [bigint, bigint, bigint, bigint, bigint, bigint];
  const signedSeals = Number(BigInt.asIntN(64, seals));
  return {
    type: typeOfMode(Number(mode)),
    byteLength: Number(size),
    seals: signedSeals < 0 ? undefined : signedSeals,
    device,
    inode,
    owner: Number(owner),
    permissions: Number(mode) & 0o7777,
  };
}

/**
 * Closes a descriptor of this process's own; `closeAside` is for those of other processes. Its number may be reused at
 * once, so never close a descriptor twice.
 *
 * @throws {SystemError} `EBADF` if it is not open. After all other errors, such as those of a file system that could
 * not write, it is closed.
 */
export function closeDescriptor(fd: number): void {
  const result = shim().poolpass_close(fd);
  if (result === -errno.EBADF) unwrap(result, `close of descriptor ${fd}`);
}

/** Duplicates a descriptor. The duplicate is closed in programs that this process starts. */
export function duplicateDescriptor(fd: number): number {
  return unwrap(shim().poolpass_duplicate(fd), `dup of descriptor ${fd}`);
}

/** Opens an existing file, and does not wait for it. The path may be a `/proc/PID/fd/N`. */
export function openDescriptor(path: string, options: { readonly writable?: boolean } = {}): number {
  return unwrap(shim().poolpass_open(cString(path), options.writable ? 1 : 0), `open of ${path}`);
}

/**
 * Opens any file with `O_PATH`, and a symbolic link itself unless `follow` is true: it can be described but not read.
 * This needs no permission except for the folders on the path, and has no effect on the file.
 */
export function openPath(path: string, options: { readonly follow?: boolean } = {}): number {
  return unwrap(shim().poolpass_open_path(cString(path), options.follow ? 1 : 0), `open of ${path}`);
}

/** The target of a symbolic link that `openPath` opened. */
export function readLink(fd: number): string {
  const bytes = new Uint8Array(maximumPathByteLength);
  const length = unwrap(shim().poolpass_read_link(fd, bytes, BigInt(bytes.length)), `read of link ${fd}`);
  return new TextDecoder().decode(bytes.subarray(0, length));
}

/** The number of descriptors that this process may have open. */
export function descriptorLimit(): number {
  const fd = shim().poolpass_open(cString("/proc/self/limits"), 0);
  if (fd < 0) return Infinity;
  try {
    const bytes = new Uint8Array(limitsByteLength);
    const text = new TextDecoder().decode(bytes.subarray(0, readAt(fd, bytes)));
    return Number(/^Max open files\s+(\d+)/m.exec(text)?.[1] ?? Infinity);
  } finally {
    closeDescriptor(fd);
  }
}

/** The number that the next descriptor of this process gets: the lowest that is free; Infinity if none is. */
export function lowestFreeDescriptor(): number {
  const fd = shim().poolpass_eventfd();
  if (fd < 0) return Infinity;
  closeDescriptor(fd);
  return fd;
}

/**
 * Whether a descriptor is readable now, or within `options.milliseconds`, for which the call then blocks. A pidfd is, once
 * its process has ended.
 */
export function isReadable(fd: number, options: { readonly milliseconds?: number } = {}): boolean {
  const pollfd = new Uint8Array(Int32Array.of(fd, pollIn).buffer);
  for (;;) {
    const result = shim().poolpass_poll(pollfd, 1, options.milliseconds ?? 0);
    // Even a poll that does not wait is interrupted by a signal.
    if (result !== -errno.EINTR) return unwrap(result, "poll") > 0;
  }
}

/**
 * Reads at an offset of a file. Returns the number of bytes read, which is less than `bytes.length` only at the end of
 * the file.
 */
export function readAt(fd: number, bytes: Uint8Array, options: { readonly offset?: number } = {}): number {
  const offset = options.offset ?? 0;
  let count = 0;
  while (count < bytes.length) {
    const rest = bytes.subarray(count);
    const result = shim().poolpass_pread(fd, rest, BigInt(rest.length), BigInt(offset + count));
    if (unwrap(result, `read of descriptor ${fd}`) === 0) break;
    count += result;
  }
  return count;
}

/** Writes all bytes at an offset of a file. */
export function writeAt(fd: number, bytes: Uint8Array, options: { readonly offset?: number } = {}): void {
  const offset = options.offset ?? 0;
  let count = 0;
  while (count < bytes.length) {
    const rest = bytes.subarray(count);
    const result = shim().poolpass_pwrite(fd, rest, BigInt(rest.length), BigInt(offset + count));
    count += unwrap(result, `write to descriptor ${fd}`);
  }
}
