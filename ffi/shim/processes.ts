/**
 * What identifies a process on this machine.
 *
 * @module
 */
import { closeDescriptor } from "./descriptors.ts";
import { shim, unwrap } from "./shim.ts";
import { SystemError } from "./system_error.ts";

/** The inode of this process's pidfd; null if the system gives pidfds no inodes. */
let ownInode: bigint | null | undefined;

/**
 * The inode of a pidfd. It identifies the process in every namespace, and no other process has it until the machine
 * restarts. Returns undefined if the system gives pidfds no inodes of their own: before Linux 6.9.
 *
 * @throws {SystemError} if the descriptor is not open
 */
export function inodeOfPidfd(pidfd: number): bigint | undefined {
  const inode = new BigUint64Array(1);
  const isOwn = unwrap(shim().poolpass_pidfd_inode(pidfd, new Uint8Array(inode.buffer)), "fstatfs of a pidfd") === 1;
  return isOwn ? inode[0] : undefined;
}

/**
 * The inode of the pidfd of a process of this PID namespace, or undefined if the system gives pidfds no inodes.
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

/** The inode of this process's pidfd, or undefined if the system gives pidfds no inodes or refuses to open one. */
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
