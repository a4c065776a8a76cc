/**
 * Files with names in a folder, with no permission but the one for FFI: unlike memory files, other processes find them
 * by their path.
 *
 * @module
 */
import { dlopen, foreignBuffer, type NativeFunctions } from "../host.ts";
import { closeDescriptor, openDescriptor } from "./descriptors.ts";
import type { FileRange } from "./memory_files.ts";
import { cString, shimRefusal } from "./shim.ts";
import { errno, SystemError } from "./system_error.ts";

const symbols = {
  open: {
    parameters: ["buffer", /* const char *path */ "i32", /* int flags */ "u32" /* mode_t mode */],
    result: "i32",
  },
  rename: { parameters: ["buffer", /* const char *from */ "buffer" /* const char *to */], result: "i32" },
  unlink: { parameters: ["buffer" /* const char *path */], result: "i32" },
  mkdir: { parameters: ["buffer", /* const char *path */ "u32" /* mode_t mode */], result: "i32" },
  futimens: { parameters: ["i32", /* int fd */ "buffer" /* const struct timespec times[2] */], result: "i32" },
  // Older C libraries have it, too, unlike getdents64.
  getdirentries64: {
    parameters: [
      "i32", // int fd
      "buffer", // char *entries
      "u64", // size_t n
      "buffer", // off64_t *base
    ],
    result: "i64",
  },
  statx: {
    parameters: [
      "i32", // int dirfd
      "buffer", // const char *pathname
      "i32", // int flags
      "u32", // unsigned int mask
      "buffer", // struct statx *statxbuf
    ],
    result: "i32",
  },
  posix_fallocate: {
    parameters: ["i32", /* int fd */ "i64", /* off_t offset */ "i64" /* off_t length */],
    result: "i32",
  },
  __errno_location: { parameters: [], result: "u64" },
} as const;

/** `O_RDWR | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC`, the same on x86-64 and aarch64. */
const creating = 0o2000702;
const ownAlone = 0o600;
const ownFolder = 0o700;
/** `AT_EMPTY_PATH`, which asks about the descriptor itself. */
const emptyPath = 0x1000;
/** `STATX_NLINK | STATX_MTIME`, and where the number and the time are in `struct statx`. */
const statusPlaces = { mask: 0x44, links: 16, modified: 112, byteLength: 256 } as const;
/** Room for the entries of a folder that one call returns, in bytes. */
const entriesByteLength = 65_536;
/** Where an entry has its length, and where its name begins. */
const entryPlaces = { byteLength: 16, name: 19 } as const;

let libc: NativeFunctions<typeof symbols> | undefined;

/**
 * Creates a file that only this user can open, and returns its descriptor.
 *
 * @throws {SystemError} `EEXIST` if there is something of that name, or any other that the system has
 */
export function createFile(path: string): number {
  return checked(functions().open(cString(path), creating, ownAlone), `creation of ${path}`);
}

/**
 * Creates a folder that only this user can use. Does nothing if there is something of that name.
 *
 * @throws {SystemError}
 */
export function createFolder(path: string): void {
  try {
    checked(functions().mkdir(cString(path), ownFolder), `creation of ${path}`);
  } catch (error) {
    if (!(error instanceof SystemError && error.errno === errno.EEXIST)) throw error;
  }
}

/**
 * Gives a file another name in one step, in place of a file that has it.
 *
 * @throws {SystemError} `ENOENT` if there is no such file
 */
export function renameFile(from: string, to: string): void {
  checked(functions().rename(cString(from), cString(to)), `rename of ${from}`);
}

/** Removes a file's name. Those who have the file open or mapped keep it. Returns false if that is not possible. */
export function removeFile(path: string): boolean {
  return functions().unlink(cString(path)) === 0;
}

/**
 * Lists the names of a folder's entries.
 *
 * @throws {SystemError} If the folder cannot be read
 */
export function namesIn(folder: string): string[] {
  const fd = openDescriptor(folder);
  try {
    const names: string[] = [];
    const bytes = new Uint8Array(entriesByteLength);
    const view = new DataView(bytes.buffer);
    const base = new Uint8Array(BigInt64Array.BYTES_PER_ELEMENT);
    for (;;) {
      const result = functions().getdirentries64(fd, bytes, BigInt(bytes.length), base);
      const end = checked(Number(result), `read of folder ${folder}`);
      if (end === 0) return names;
      for (let at = 0; at < end; at += view.getUint16(at + entryPlaces.byteLength, true)) {
        const begin = at + entryPlaces.name;
        names.push(new TextDecoder().decode(bytes.subarray(begin, bytes.indexOf(0, begin))));
      }
    }
  } finally {
    closeDescriptor(fd);
  }
}

/**
 * When a file was written to or touched last, in milliseconds since 1970. Undefined where the system does not say.
 *
 * @param fd may have been opened with `O_PATH`
 */
export function lastWrite(fd: number): number | undefined {
  const status = statusOf(fd);
  const at = statusPlaces.modified;
  return status && Number(status.getBigInt64(at, true)) * 1000 + status.getUint32(at + 8, true) / 1e6;
}

/** How many names a file has. Undefined where the system does not say. */
export function linkCount(fd: number): number | undefined {
  return statusOf(fd)?.getUint32(statusPlaces.links, true);
}

function statusOf(fd: number): DataView | undefined {
  const status = new Uint8Array(statusPlaces.byteLength);
  const result = functions().statx?.(fd, cString(""), emptyPath, statusPlaces.mask, status);
  return result === 0 ? new DataView(status.buffer) : undefined;
}

/** Sets the time of a file's last write to now, if it belongs to this user. */
export function touchFile(fd: number): void {
  functions().futimens(fd, null);
}

/**
 * Makes a file's system keep room for a range, which is zero where nothing was written, and makes the file longer if
 * necessary: otherwise an access to mapped memory ends the process if the file system is full by then.
 *
 * @throws {SystemError} `ENOSPC` if there is no room
 */
export function reserveRange(fd: number, { offset, byteLength }: FileRange): void {
  for (;;) {
    // The result is the number of the error itself.
    const number = functions().posix_fallocate(fd, BigInt(offset), BigInt(byteLength));
    if (number === 0) return;
    if (number !== errno.EINTR) throw new SystemError(number, `posix_fallocate of descriptor ${fd}`);
  }
}

function checked(result: number, call: string): number {
  if (result >= 0) return result;
  const [number] = new Int32Array(foreignBuffer(functions().__errno_location(), Int32Array.BYTES_PER_ELEMENT));
  throw new SystemError(number!, call);
}

function functions(): NativeFunctions<typeof symbols> {
  if (libc === undefined) {
    const refusal = shimRefusal();
    if (refusal !== undefined) throw new Error(`Cannot use files of a folder: ${refusal}`);
    libc = dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  }
  return libc;
}
