/**
 * Identifies processes on this machine, and checks whether they have ended.
 *
 * @module
 */
import { closeDescriptor, isReadable, openDescriptor, readAt } from "./descriptors.ts";
import { errno, shim, SystemError, unwrap } from "./shim.ts";

/** The size in bytes of a buffer that is large enough for `/proc/PID/stat` and `/proc/PID/status`. */
const maximumSmallFile = 8192;

/** The inode of this process's pidfd; null if the system gives pidfds no inodes. */
let ownInode: bigint | null | undefined;
let isProcKnownToBeOwn = false;

/**
 * Returns the inode of a pidfd. The inode identifies the process in every namespace, and is not reused until the
 * machine restarts. Returns undefined if the system gives pidfds no inodes of their own: before Linux 6.9.
 *
 * @throws {SystemError} If the descriptor is not open
 */
export function inodeOfPidfd(pidfd: number): bigint | undefined {
  const inode = new BigUint64Array(1);
  const isOwn = unwrap(shim().poolpass_pidfd_inode(pidfd, new Uint8Array(inode.buffer)), "fstatfs of a pidfd") === 1;
  return isOwn ? inode[0] : undefined;
}

/**
 * Returns the inode of the pidfd of a process in this PID namespace, or undefined if the system gives pidfds no inodes.
 *
 * @throws {SystemError} `ESRCH` if there is no such process
 */
export function inodeOfProcess(pid: number): bigint | undefined {
  const pidfd = unwrap(shim().poolpass_pidfd_open(pid | 0), `pidfd_open of process ${pid}`);
  try {
    return inodeOfPidfd(pidfd);
  } finally {
    closeDescriptor(pidfd);
  }
}

/**
 * Returns the inode of this process's pidfd, or undefined if the system gives pidfds no inodes or refuses to open one.
 */
export function ownProcessInode(): bigint | undefined {
  if (ownInode === undefined) ownInode = findOwnInode();
  return ownInode ?? undefined;
}

function findOwnInode(): bigint | null {
  try {
    return inodeOfProcess(shim().poolpass_getpid()) ?? null;
  } catch (error) {
    if (error instanceof SystemError) return null;
    throw error;
  }
}

/**
 * Returns whether `/proc` shows this process's PID namespace. A container may see the `/proc` of the machine or of
 * another container.
 */
export function isProcOfOwnNamespace(): boolean {
  // The result changes only if `/proc` is mounted again in this process's own mount namespace.
  isProcKnownToBeOwn ||= hasOneNumber("self", shim().poolpass_getpid());
  return isProcKnownToBeOwn;
}

/**
 * Returns whether a process is known to be in this process's PID namespace. `pid` may be 0, for a process without a
 * visible ID.
 */
export function isInOwnPidNamespace(pid: number): boolean {
  return pid !== 0 && isProcOfOwnNamespace() && hasOneNumber(pid, pid);
}

/**
 * Returns whether a process of this PID namespace has open files. An exiting process first closes its files. Its pidfd
 * becomes readable only when all of its threads have exited, which may be later.
 */
export function hasOpenFiles(pid: number): boolean {
  const status = readSmallFile(`/proc/${pid}/status`);
  return Number(/^FDSize:\s*(\d+)$/m.exec(status ?? "")?.[1] ?? 0) > 0;
}

/**
 * Returns whether a process has exited, or no process in this PID namespace has this ID. Returns false for a `pid` of
 * 0, which stands for a process that is not visible in this namespace.
 */
export function hasEnded(pid: number): boolean {
  if (pid === 0) return false;
  const pidfd = shim().poolpass_pidfd_open(pid | 0);
  if (pidfd < 0) return pidfd === -errno.ESRCH;
  try {
    return isReadable(pidfd);
  } finally {
    closeDescriptor(pidfd);
  }
}

/** Reads a file of a few kilobytes. Returns undefined if it does not exist or its process has exited. */
export function readSmallFile(path: string): string | undefined {
  let fd: number | undefined;
  try {
    fd = openDescriptor(path);
    const bytes = new Uint8Array(maximumSmallFile);
    return new TextDecoder().decode(bytes.subarray(0, readAt(fd, bytes)));
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  } finally {
    if (fd !== undefined) closeDescriptor(fd);
  }
}

/** Returns whether an error means that a file does not exist or that its process has exited. */
export function isGone(error: unknown): boolean {
  return error instanceof SystemError && (error.errno === errno.ENOENT || error.errno === errno.ESRCH);
}

/**
 * Returns whether `pid` is the only process ID that `/proc` lists for a process. If so, the process is in the PID
 * namespace that `/proc` shows, and not in a nested namespace.
 */
function hasOneNumber(name: "self" | number, pid: number): boolean {
  const status = readSmallFile(`/proc/${name}/status`);
  const numbers = status && /^NSpid:(.*)$/m.exec(status)?.[1]?.trim();
  // On a system without PID namespaces, `/proc/PID/status` does not list the IDs.
  return status !== undefined && (numbers === undefined || numbers === String(pid));
}
