/**
 * Lines on standard error that never make this process wait: a terminal may be stopped, and whoever reads a pipe may
 * not read it.
 *
 * @module
 */
import { environmentVariable } from "../environment.ts";
import { dlopen, type NativeFunctions } from "../host.ts";
import { describeDescriptor } from "./descriptors.ts";
import { cString, errno, shim, shimRefusal } from "./shim.ts";
import { sendTo } from "./sockets.ts";

const symbols = {
  open: { parameters: ["buffer", /* const char *path */ "i32" /* int flags */], result: "i32" },
  write: { parameters: ["i32", /* int fd */ "buffer", /* const void *buf */ "u64" /* size_t n */], result: "i64" },
} as const;

const standardError = 2;
const noDescriptors: readonly number[] = [];
/** `O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC`, which are the same on x86-64 and aarch64. */
const writeWithoutWaiting = 0o2004401;
/** `POLLOUT`. */
const writable = 4;

/** Standard error of this process. */
export interface StandardError {
  /** The ID of this process. */
  readonly processId: number;
  /**
   * Writes a line, which includes its newline and has at most 4096 bytes, so that lines of several processes do not mix.
   * Returns false, and drops it, if that fails or would have to wait. Never throws.
   */
  write(line: string): boolean;
}

/** Where the log goes that `POOLPASS_LOG=1` turns on; undefined without it. */
export function openLog(): StandardError | undefined {
  return environmentVariable("POOLPASS_LOG") === "1" ? openStandardError() : undefined;
}

/** Opens standard error. Where the shim cannot be used, the runtime's console writes it, and may wait. */
function openStandardError(): StandardError {
  if (shimRefusal() !== undefined) return { processId: 0, write: writeToConsole };
  try {
    return { processId: shim().poolpass_getpid(), write: writerOfLines(sender()) };
  } catch {
    return { processId: 0, write: writeToConsole };
  }
}

function writerOfLines(send: (bytes: Uint8Array) => number): (line: string) => boolean {
  /** The rest of a line of which only a part was written. */
  let rest: Uint8Array = new Uint8Array(0);
  return (line) => {
    try {
      if (rest.length > 0) rest = rest.subarray(Math.max(0, send(rest)));
      if (rest.length > 0) return false;
      const bytes = new TextEncoder().encode(line);
      const count = send(bytes);
      if (count > 0) rest = bytes.subarray(count);
      return count > 0;
    } catch {
      return false;
    }
  };
}

/** A function that writes bytes and returns how many of them, or a number below 0. Which one depends on the file. */
function sender(): (bytes: Uint8Array) => number {
  let type: string;
  try {
    type = describeDescriptor(standardError).type;
  } catch {
    return () => -errno.EBADF;
  }
  // Node's children and systemd's services have sockets.
  if (type === "socket") return (bytes) => sendTo(standardError, bytes, noDescriptors);
  const libc = dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  const writeTo = (fd: number, bytes: Uint8Array): number => Number(libc.write(fd, bytes, BigInt(bytes.length)));
  // A file does not wait. Opening it once more would not append to it.
  if (type === "file") return (bytes) => writeTo(standardError, bytes);
  // O_NONBLOCK of the descriptor itself would affect the processes that share it.
  const own = libc.open(cString(`/proc/self/fd/${standardError}`), writeWithoutWaiting);
  if (own >= 0) return (bytes) => writeTo(own, bytes);
  // A pipe of another user. If another process fills it between the two calls, this one waits.
  return (bytes) => isWritable() ? writeTo(standardError, bytes) : -errno.EAGAIN;
}

function isWritable(): boolean {
  // struct pollfd { int fd; short events; short revents; }
  const interest = new Uint16Array([standardError, 0, writable, 0]);
  return shim().poolpass_poll(new Uint8Array(interest.buffer), 1, 0) > 0;
}

function writeToConsole(line: string): boolean {
  try {
    console.error(line.trimEnd());
    return true;
  } catch {
    return false;
  }
}
