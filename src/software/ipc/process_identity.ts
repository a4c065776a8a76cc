/**
 * Identifies processes across namespaces. A process number alone is not enough: the system reuses numbers, and the same
 * number identifies other processes in other PID namespaces and on other machines.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import {
  inodeOfProcess,
  isGone,
  isProcOfOwnNamespace,
  ownProcessInode,
  readSmallFile,
} from "../../../ffi/native/shim/processes.ts";
import { errno, shim, SystemError } from "../../../ffi/native/shim/shim.ts";

/** The identity of a process, by which other processes can find it and detect that it has exited. */
export interface ProcessIdentity {
  /** The process's number in its own PID namespace. */
  readonly pid: number;
  /**
   * The inode of the process's pidfd, which is unique until the machine restarts. On systems before Linux 6.9, where
   * pidfds have no unique inodes, the start time of the process in clock ticks since boot, as seen in the process's
   * time namespace.
   */
  readonly unique: bigint;
  /** A hash of the scope in which `unique` is valid: the boot ID and, for a start time, the time namespace. */
  readonly scope: number;
  /** The inode of the process's PID namespace, or 0 if the system has no PID namespaces. */
  readonly pidNamespace: number;
}

/**
 * The state of a process:
 *
 * - `"exists"`, possibly as a zombie;
 * - `"gone"`;
 * - `"unseen"`: unknown, because the process belongs to another PID namespace or machine, or `/proc` shows another
 *   namespace.
 */
export type ProcessState = "exists" | "gone" | "unseen";

/** The index of the start time among the fields of `/proc/PID/stat` after the program's name. */
const startTimeIndex = 19;

let cachedIdentity: ProcessIdentity | undefined;

/** Returns the identity of this process. */
export function ownIdentity(): ProcessIdentity {
  return cachedIdentity ??= findOwnIdentity();
}

/** Returns whether two identities identify the same process. */
export function isSameProcess(one: ProcessIdentity, other: ProcessIdentity): boolean {
  return one.pid === other.pid && one.unique === other.unique && isSameNamespace(one, other);
}

/**
 * Returns the state of a process, as far as this process can determine it. If the result is `"exists"`, `/proc/PID`
 * belongs to the process.
 *
 * @throws {SystemError} If the system denies access to the identity of the process
 */
export function stateOfProcess(process: ProcessIdentity): ProcessState {
  if (!isSameNamespace(process, ownIdentity()) || !isProcOfOwnNamespace()) return "unseen";
  return uniqueOf(process.pid) === process.unique ? "exists" : "gone";
}

function isSameNamespace(one: ProcessIdentity, other: ProcessIdentity): boolean {
  return one.scope === other.scope && one.pidNamespace === other.pidNamespace;
}

function findOwnIdentity(): ProcessIdentity {
  const pid = shim().poolpass_getpid();
  const pidNamespace = inodeOfNamespace("pid");
  const inode = ownProcessInode();
  if (inode !== undefined) return { pid, unique: inode, scope: hashOf("pidfs", bootId()), pidNamespace };
  // Without `/proc/self`, the start time is unknown. The value 0 never equals the start time of another process.
  const unique = startTimeOf("self") ?? 0n;
  return { pid, unique, scope: hashOf(`time ${inodeOfNamespace("time")}`, bootId()), pidNamespace };
}

/** Returns the value of `unique` for a process, or undefined if this PID namespace has no process with this number. */
function uniqueOf(pid: number): bigint | undefined {
  if (ownProcessInode() === undefined) return startTimeOf(pid);
  try {
    return inodeOfProcess(pid);
  } catch (error) {
    // `EINVAL` is returned if the number belongs to a thread, or is so large that the system interprets it as negative.
    const isNoProcess = error instanceof SystemError && error.errno === errno.EINVAL;
    if (isGone(error) || isNoProcess) return undefined;
    throw error;
  }
}

/** Returns a string that identifies the current boot of this machine. */
function bootId(): string {
  // Without a boot ID, returns a random ID, so that identities of other processes never seem to be from this machine.
  return readSmallFile("/proc/sys/kernel/random/boot_id") ?? crypto.randomUUID();
}

/** Returns a 32-bit FNV-1a hash of the strings. */
function hashOf(...strings: readonly string[]): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(strings.join(" "))) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** Returns the inode of this process's namespace of the given kind, or 0 if the system has no such namespaces. */
function inodeOfNamespace(kind: "pid" | "time"): number {
  let fd: number;
  try {
    fd = openDescriptor(`/proc/self/ns/${kind}`);
  } catch (error) {
    if (isGone(error)) return 0;
    throw error;
  }
  try {
    return Number(describeDescriptor(fd).inode);
  } finally {
    closeDescriptor(fd);
  }
}

function startTimeOf(name: "self" | number): bigint | undefined {
  const line = readSmallFile(`/proc/${name}/stat`);
  // The program's name is in parentheses and may contain any characters, including parentheses and spaces.
  const fields = line?.slice(line.lastIndexOf(")") + 2).split(" ");
  return fields && BigInt(fields[startTimeIndex] ?? 0);
}
