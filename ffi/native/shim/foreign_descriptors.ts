/**
 * Descriptors that other processes chose. Using one, and even closing it, can block for as long as they like.
 *
 * @module
 */
import { closeDescriptor, type DescriptorStatus, openDescriptor, readAt, typeOfMode } from "./descriptors.ts";
import { shim, unwrap } from "./shim.ts";
import { SystemError } from "./system_error.ts";

/** What a descriptor refers to, as far as that is known without asking its file system. */
export interface Judgement {
  readonly type: DescriptorStatus["type"];
  /**
   * Whether it is a memory file: one that cannot shrink or, if the descriptor was opened with `O_PATH`, any. Nothing
   * that is done with a memory file waits for another process.
   */
  readonly isMemoryFile: boolean;
  /** The major number of the device that it stands for. */
  readonly major: number;
}

/** The major number of `/dev/nvidiactl` and `/dev/nvidia0`. */
const nvidiaMajor = 195;
/** More than `/proc/devices` has, in bytes. */
const deviceListByteLength = 65_536;

let nvidiaMajors: ReadonlySet<number> | undefined;

/**
 * Judges what a descriptor refers to. Asks no file system and touches no file: a server of FUSE is not asked, and a
 * lease is not broken.
 *
 * @throws {SystemError} `EBADF` if it is not open; `EMFILE` or `ENFILE`
 */
export function judgeDescriptor(fd: number): Judgement {
  const out = new Uint32Array(3);
  unwrap(shim().poolpass_judge(fd, new Uint8Array(out.buffer)), `statx of descriptor ${fd}`);
  const [mode, major, isMemoryFile] = out as unknown as [number, number, number];
  return { type: typeOfMode(mode), major, isMemoryFile: isMemoryFile !== 0 };
}

/**
 * Whether a descriptor can be one that a pool was exported to, on any driver: a sealed memory file, or a device of
 * NVIDIA's. Such a descriptor can be closed without waiting for anybody.
 */
export function canBePool(fd: number): boolean {
  const judgement = judgeDescriptor(fd);
  return judgement.isMemoryFile || isNvidiaDevice(judgement);
}

/**
 * Whether a descriptor refers to a character device of NVIDIA's kernel modules. CUDA's libraries export a pool to one
 * that they open for that, in all likelihood `/dev/nvidiactl`; any other of the modules' devices is accepted, too.
 */
function isNvidiaDevice({ type, major }: Judgement): boolean {
  if (type !== "character device") return false;
  nvidiaMajors ??= readNvidiaMajors();
  return nvidiaMajors.has(major);
}

/**
 * Closes a descriptor, on another thread if it is not a sealed memory file. If the system has no memory for that, it
 * stays open: another process may have sent it, and no process may stop this one.
 */
export function closeAside(fd: number): void {
  shim().poolpass_close_aside(fd);
}

/**
 * Closes a socket, connected or listening. The kernel also closes the unread descriptors that it holds: if there may be
 * some, that happens on another thread.
 */
export function closeSocket(fd: number): void {
  shim().poolpass_close_socket(fd);
}

/** Whether all threads that close descriptors of other processes have been stuck for a second, each in one close. */
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
    // A sandbox may hide the list.
    if (!(error instanceof SystemError)) throw error;
  }
  return majors;
}
