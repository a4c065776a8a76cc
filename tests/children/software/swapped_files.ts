/**
 * Does to this process's own shared memory what a hostile process could: takes a lease on its file, or puts another
 * file in the place of its descriptor.
 *
 * @module
 */
import { dlopen } from "../../../ffi/native/host.ts";
import { closeDescriptor, openDescriptor, openPath, readLink } from "../../../ffi/native/shim/descriptors.ts";
import { cString, unwrap } from "../../../ffi/native/shim/shim.ts";

const setLease = 1024;
const getLease = 1025;
const setSignal = 10;
const writeLock = 1;
/** Ignored by default, unlike SIGIO, which tells the holder of a lease that somebody opens the file. */
const sigurg = 23;
/** More descriptors than this process has. */
const maximumDescriptor = 1024;

const { fcntl, dup2, mkfifo } = dlopen("libc.so.6", {
  fcntl: { parameters: ["i32", /* int fd */ "i32", /* int op */ "i32" /* int arg */], result: "i32" },
  dup2: { parameters: ["i32", /* int from */ "i32" /* int to */], result: "i32" },
  mkfifo: { parameters: ["buffer", /* const char *path */ "u32" /* mode_t mode */], result: "i32" },
}).symbols as Record<string, (...args: (number | Uint8Array)[]) => number>;

/** Takes a lease on the memory's file. Only a file that was opened by a path can have one. */
export function leaseMemory(): void {
  lease(openDescriptor(`/proc/self/fd/${findMemory()}`, { writable: true }));
}

/** Puts a file at a path, with a lease on it, in the place of the memory's descriptor. */
export function replaceMemory(path: string): void {
  const opened = openDescriptor(path, { writable: true });
  unwrap(dup2!(opened, findMemory()), "dup2");
  closeDescriptor(opened);
}

/** Creates a FIFO. */
export function createFifo(path: string): void {
  unwrap(mkfifo!(cString(path), 0o600), "mkfifo");
}

/** Takes a lease on a file that `replaceMemory` put in the memory's place, and returns its descriptor. */
export function leaseFile(path: string): number {
  const memory = findMemory();
  replaceMemory(path);
  lease(memory);
  return memory;
}

/** Whether the lease on a file was not broken by anybody who opened it. */
export function hasLease(fd: number): boolean {
  return fcntl!(fd, getLease, 0) === writeLock;
}

function lease(fd: number): void {
  unwrap(fcntl!(fd, setSignal, sigurg), "F_SETSIG");
  unwrap(fcntl!(fd, setLease, writeLock), "F_SETLEASE");
}

/** The descriptor of memory that has a handle. */
function findMemory(): number {
  for (let fd = 0; fd < maximumDescriptor; fd++) {
    try {
      const link = openPath(`/proc/self/fd/${fd}`);
      const name = readLink(link);
      closeDescriptor(link);
      if (name.startsWith("/memfd:poolpass-memory")) return fd;
    } catch {
      // There is no such descriptor.
    }
  }
  throw new Error("There is no memory");
}
