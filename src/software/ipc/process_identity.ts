/**
 * Identifies processes by their number and start time. The number alone is not enough, because the system reuses it.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, openDescriptor, readAt } from "../../../ffi/shim/descriptors.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";

/** Identifies a process on this machine. */
export interface ProcessIdentity {
  readonly pid: number;
  /** In clock ticks since the machine started. */
  readonly startTime: bigint;
}

/** Larger than any `/proc/PID/stat`, in bytes. */
const statByteLength = 4096;
/** The index of the start time among the fields after the program's name. */
const startTimeIndex = 19;

let cachedIdentity: ProcessIdentity | undefined;
let cachedNamespace: number | undefined;

/** Returns the identity of this process, with the process number that `/proc` reports. */
export function ownIdentity(): ProcessIdentity {
  return cachedIdentity ??= readIdentity("self");
}

/** Returns the inode number of this process's PID namespace, or 0 if the system has no PID namespaces. */
export function ownNamespace(): number {
  return cachedNamespace ??= readNamespace();
}

/**
 * Whether a process of this PID namespace still exists, possibly as a zombie.
 *
 * @throws {SystemError} if the system denies access to its identity
 */
export function processExists({ pid, startTime }: ProcessIdentity): boolean {
  try {
    return readIdentity(pid).startTime === startTime;
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/** Whether an error means that a process, or something it owned, no longer exists. Other errors do not mean this. */
export function isGone(error: unknown): boolean {
  return error instanceof SystemError && (error.errno === errno.ENOENT || error.errno === errno.ESRCH);
}

function readNamespace(): number {
  let fd: number;
  try {
    fd = openDescriptor("/proc/self/ns/pid");
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

function readIdentity(name: "self" | number): ProcessIdentity {
  const fd = openDescriptor(`/proc/${name}/stat`);
  try {
    const bytes = new Uint8Array(statByteLength);
    const line = new TextDecoder().decode(bytes.subarray(0, readAt(fd, bytes)));
    // The program's name is in parentheses and may contain any characters, including parentheses and spaces.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return { pid: Number.parseInt(line), startTime: BigInt(fields[startTimeIndex] ?? 0) };
  } finally {
    closeDescriptor(fd);
  }
}
