/**
 * Identifies processes across namespaces. A process number alone is not enough: the system reuses it, and it means
 * something else in another PID namespace and on another machine.
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

/** Identifies a process. */
export interface ProcessIdentity {
  /** Its number in its own PID namespace. */
  readonly pid: number;
  /**
   * The inode of its pidfd, which no other process has until the machine restarts. Where pidfds have none, before Linux
   * 6.9, its start time in clock ticks since the machine started, as its time namespace has it.
   */
  readonly unique: bigint;
  /** A hash of what `unique` is relative to: this start of the machine, and the time namespace of a start time. */
  readonly scope: number;
  /** The inode of its PID namespace, or 0 if the system has no PID namespaces. */
  readonly pidNamespace: number;
}

/**
 * - `"exists"`, possibly as a zombie;
 * - `"gone"`;
 * - `"unseen"`: it may exist in another PID namespace or on another machine, or `/proc` belongs to another namespace.
 */
export type ProcessState = "exists" | "gone" | "unseen";

/** The index of the start time among the fields after the program's name. */
const startTimeIndex = 19;

let cachedIdentity: ProcessIdentity | undefined;

/** Returns the identity of this process. */
export function ownIdentity(): ProcessIdentity {
  return cachedIdentity ??= findOwnIdentity();
}

/** Whether two identities are of the same process. */
export function isSameProcess(one: ProcessIdentity, other: ProcessIdentity): boolean {
  return one.pid === other.pid && one.unique === other.unique && isSameNamespace(one, other);
}

/**
 * Whether a process still exists, as far as this process can tell. If the result is `"exists"`, `/proc/PID` is the
 * process.
 *
 * @throws {SystemError} If the system denies access to its identity
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
  // Without /proc/self, no identity is the same as this one.
  const unique = startTimeOf("self") ?? 0n;
  return { pid, unique, scope: hashOf(`time ${inodeOfNamespace("time")}`, bootId()), pidNamespace };
}

/** Returns undefined if there is no such process in this PID namespace. */
function uniqueOf(pid: number): bigint | undefined {
  if (ownProcessInode() === undefined) return startTimeOf(pid);
  try {
    return inodeOfProcess(pid);
  } catch (error) {
    // The number is that of a thread, or so large that the system takes it for negative.
    const isNoProcess = error instanceof SystemError && error.errno === errno.EINVAL;
    if (isGone(error) || isNoProcess) return undefined;
    throw error;
  }
}

/** A string that identifies this start of this machine. */
function bootId(): string {
  // Without one, no identity of another process may be taken for one of this machine.
  return readSmallFile("/proc/sys/kernel/random/boot_id") ?? crypto.randomUUID();
}

/** An FNV-1a hash of 32 bits. */
function hashOf(...strings: readonly string[]): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(strings.join(" "))) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** Returns 0 if the system has no namespaces of the kind. */
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
