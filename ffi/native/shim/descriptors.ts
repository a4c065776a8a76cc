/**
 * File descriptors: their status, and operations that all of them support. Using or even closing a descriptor that
 * another process chose can block for as long as that process likes, so such descriptors are checked first.
 *
 * @module
 */
import { cString, errno, shim, shimRefusal, SystemError, unwrap } from "./shim.ts";

/** The file that a descriptor refers to. */
export interface DescriptorStatus {
  /** The type of the file. A memory file is a `"file"`, but has `seals`. */
  readonly type: "file" | "folder" | "link" | "socket" | "pipe" | "character device" | "block device" | "other";
  readonly byteLength: number;
  /** The seals, as `F_GET_SEALS` returns them; undefined unless the file is a memory file. */
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

/** `F_SEAL_SEAL`: no further seals can be added. */
export const sealSeal = 1;
/** `F_SEAL_SHRINK`: the file cannot be made shorter. */
export const sealShrink = 2;

/** The event bit `POLLIN` of `poll`. */
const pollIn = 1;
/** The size in bytes of a buffer that is large enough for `/proc/self/limits`. */
const limitsByteLength = 4096;
/** The kernel's `PATH_MAX`, in bytes. */
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

/** Returns the file type that the high bits of a file's mode denote. */
function typeOfMode(mode: number): DescriptorStatus["type"] {
  return typesByMode[mode & 0o170000] ?? "other";
}

/**
 * Describes the file that a descriptor refers to. Queries the file's file system, which may never answer: for a
 * descriptor that another process chose, use `judgeDescriptor`.
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
 * Closes a descriptor that this process has opened; for descriptors from other processes, use `closeAside`. The number
 * may be reused at once, so never close a descriptor twice.
 *
 * @throws {SystemError} `EBADF` if the descriptor is not open. After any other error, such as a failure of the file
 *   system to write data, the descriptor is closed.
 */
export function closeDescriptor(fd: number): void {
  const result = shim().poolpass_close(fd);
  if (result === -errno.EBADF) unwrap(result, `close of descriptor ${fd}`);
}

/**
 * Duplicates a descriptor. The duplicate has the close-on-exec flag, so programs that this process starts do not
 * inherit it.
 */
export function duplicateDescriptor(fd: number): number {
  return unwrap(shim().poolpass_duplicate(fd), `dup of descriptor ${fd}`);
}

/** Opens an existing file without blocking. The path may be a `/proc/PID/fd/N`. */
export function openDescriptor(path: string, options: { readonly writable?: boolean } = {}): number {
  return unwrap(shim().poolpass_open(cString(path), options.writable ? 1 : 0), `open of ${path}`);
}

/**
 * Opens any file with `O_PATH`; if the path is a symbolic link, the link itself is opened unless `follow` is true. The
 * file can then be described but not read. Opening has no effect on the file. It needs no permission for the file, only
 * search permission for the folders on the path.
 */
export function openPath(path: string, options: { readonly follow?: boolean } = {}): number {
  return unwrap(shim().poolpass_open_path(cString(path), options.follow ? 1 : 0), `open of ${path}`);
}

/** Returns the target of a symbolic link that `openPath` opened. */
export function readLink(fd: number): string {
  const bytes = new Uint8Array(maximumPathByteLength);
  const length = unwrap(shim().poolpass_read_link(fd, bytes, BigInt(bytes.length)), `read of link ${fd}`);
  return new TextDecoder().decode(bytes.subarray(0, length));
}

/** Returns the maximum number of descriptors that this process may have open. */
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

/** Returns how many descriptors this process can open at most. Infinity where there is no C shim to ask. */
export function descriptorsLeft(): number {
  return shimRefusal() === undefined ? Math.max(0, descriptorLimit() - lowestFreeDescriptor()) : Infinity;
}

/**
 * Returns the number that the next descriptor of this process will get, which is the lowest unused one; Infinity if
 * there is none.
 */
export function lowestFreeDescriptor(): number {
  const fd = shim().poolpass_eventfd();
  if (fd < 0) return Infinity;
  closeDescriptor(fd);
  return fd;
}

/**
 * Returns whether a descriptor is readable. If it is not readable yet, blocks for at most `options.milliseconds` until
 * it is. A pidfd is readable once its process has exited.
 */
export function isReadable(fd: number, options: { readonly milliseconds?: number } = {}): boolean {
  const pollfd = new Uint8Array(Int32Array.of(fd, pollIn).buffer);
  for (;;) {
    const result = shim().poolpass_poll(pollfd, 1, options.milliseconds ?? 0);
    // Even a poll with a timeout of 0 can be interrupted by a signal.
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

/** The properties of a descriptor's file that can be determined without a query to its file system. */
export interface DescriptorProperties {
  readonly type: DescriptorStatus["type"];
  /**
   * Whether the file is a memory file that cannot shrink or, if the descriptor was opened with `O_PATH`, any memory
   * file. Operations on a memory file never wait for another process.
   */
  readonly isMemoryFile: boolean;
  /** The major number of the device that the file represents. */
  readonly major: number;
}

/** The major number of `/dev/nvidiactl` and `/dev/nvidia0`. */
const nvidiaMajor = 195;
/** The size in bytes of a buffer that is large enough for `/proc/devices`. */
const deviceListByteLength = 65_536;

let nvidiaMajors: ReadonlySet<number> | undefined;

/**
 * Determines the type of the file that a descriptor refers to, without querying its file system or accessing the file:
 * a FUSE server is not called, and a lease is not broken.
 *
 * @throws {SystemError} `EBADF` if the descriptor is not open; `EMFILE` or `ENFILE` if the system cannot open another
 * descriptor
 */
export function judgeDescriptor(fd: number): DescriptorProperties {
  const out = new Uint32Array(3);
  unwrap(shim().poolpass_judge(fd, new Uint8Array(out.buffer)), `statx of descriptor ${fd}`);
  const [mode, major, isMemoryFile] = out as unknown as [number, number, number];
  return { type: typeOfMode(mode), major, isMemoryFile: isMemoryFile !== 0 };
}

/**
 * Returns whether a descriptor may represent a pool that any kind of driver has exported: whether it is a sealed memory
 * file or an NVIDIA device. Such a descriptor can be closed without waiting for another process.
 */
export function canBePool(fd: number): boolean {
  return isPoolLike(judgeDescriptor(fd));
}

/** Returns what `canBePool` does, for a descriptor that was judged. */
export function isPoolLike(judgement: DescriptorProperties): boolean {
  return judgement.isMemoryFile || isNvidiaDevice(judgement);
}

/** The size in bytes from which a memory file takes long to free: 0.1 seconds or more. */
const largeByteLength = 2 ** 30;

/** Returns whether a memory file takes long to free when its last descriptor is closed. */
export function isLargeFile(fd: number): boolean {
  return describeDescriptor(fd).byteLength >= largeByteLength;
}

/**
 * Returns whether a descriptor refers to a character device of NVIDIA's kernel modules. CUDA's libraries represent an
 * exported pool by a descriptor of a device file, most likely `/dev/nvidiactl`; any other device of the modules is
 * accepted too.
 */
function isNvidiaDevice({ type, major }: DescriptorProperties): boolean {
  if (type !== "character device") return false;
  nvidiaMajors ??= readNvidiaMajors();
  return nvidiaMajors.has(major);
}

/**
 * Closes a descriptor that another process may have sent. Unless the descriptor is a sealed memory file, it is closed
 * on another thread, because closing it may block. If there is not enough memory for that, the descriptor stays open.
 */
export function closeAside(fd: number): void {
  shim().poolpass_close_aside(fd);
}

/**
 * Closes a socket, connected or listening. The kernel also closes the unread descriptors in the socket's queue: if
 * there may be some, the socket is closed on another thread.
 */
export function closeSocket(fd: number): void {
  shim().poolpass_close_socket(fd);
}

/**
 * Returns whether every thread that closes descriptors from other processes has been blocked in the same call of
 * `close` for at least a second.
 */
export function isClosingStuck(): boolean {
  return shim().poolpass_is_closing_stuck() !== 0;
}

function readNvidiaMajors(): ReadonlySet<number> {
  const majors = new Set([nvidiaMajor]);
  try {
    const fd = openDescriptor("/proc/devices");
    try {
      const bytes = new Uint8Array(deviceListByteLength);
      const [characterDevices] = new TextDecoder().decode(bytes.subarray(0, readAt(fd, bytes))).split("Block devices:");
      for (const [, major] of characterDevices!.matchAll(/^ *(\d+) nvidia/gm)) majors.add(Number(major));
    } finally {
      closeDescriptor(fd);
    }
  } catch (error) {
    // `/proc/devices` cannot be read: a sandbox may hide it.
    if (!(error instanceof SystemError)) throw error;
  }
  return majors;
}
