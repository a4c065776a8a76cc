/**
 * Which process is which: numbers of processes are given again, a number together with the time of the start is not.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, openDescriptor, readAt } from "../../../ffi/shim/descriptors.ts";
import { errno, SystemError } from "../../../ffi/shim/system_error.ts";

/** A process that was started on this machine. */
export interface ProcessIdentity {
  readonly pid: number;
  /** In ticks of the clock since the machine was started. */
  readonly startTime: bigint;
}

/** Bytes that a line of `/proc/PID/stat` never reaches. */
const statByteLength = 4096;
/** The start time's place among the fields that follow the program's name. */
const startTimeIndex = 19;

let own: ProcessIdentity | undefined;
let namespace: number | undefined;

/** This process, under the number that `/proc` has for it. */
export function ownIdentity(): ProcessIdentity {
  return own ??= readIdentity("self");
}

/** The number of the namespace in which this process has its number; 0 where the system has none. */
export function ownNamespace(): number {
  return namespace ??= readNamespace();
}

/**
 * Whether a process of this namespace is still there, ended or not.
 *
 * @throws {SystemError} where the system does not let it be looked at
 */
export function exists({ pid, startTime }: ProcessIdentity): boolean {
  try {
    return readIdentity(pid).startTime === startTime;
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/** Whether what was thrown says that a process, or what it had, is there no more. Nothing else says so. */
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
    // The program's name, in parentheses, may have anything in it.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    return { pid: Number.parseInt(line), startTime: BigInt(fields[startTimeIndex] ?? 0) };
  } finally {
    closeDescriptor(fd);
  }
}
