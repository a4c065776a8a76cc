/**
 * Memory-mapped files. Other processes can read them while this one writes.
 *
 * @module
 */
import { dlopen, foreignBuffer, type NativeFunctions } from "../host.ts";
import { closeDescriptor, describeDescriptor } from "./descriptors.ts";
import {
  checkFilePath,
  createFile,
  linkFile,
  openOwnFile,
  removeFile,
  reserveRange,
  statusAt,
} from "./folder_files.ts";
import { isRangeLocked, lockRange } from "./memory_files.ts";

const symbols = {
  mmap: {
    parameters: [
      "u64", // void *addr
      "u64", // size_t length
      "i32", // int prot
      "i32", // int flags
      "i32", // int fd
      "i64", // off_t offset
    ],
    result: "u64",
  },
} as const;
/** `PROT_READ | PROT_WRITE`, and `MAP_SHARED`. */
const [readAndWrite, shared] = [3, 1];
/** What `mmap` returns if it fails. */
const failed = 2n ** 64n - 1n;

let libc: NativeFunctions<typeof symbols> | undefined;

/**
 * Creates a file of `byteLength` zero bytes that only this user can open, and maps it until the process ends.
 * Bytes that were written stay in the file if the process is killed. The storage is reserved, so a file
 * system that is full later cannot end the process.
 *
 * @param paths the file gets the first of these paths that does not exist, or that names a file of this user which no
 * running process has mapped by this function; such a file is replaced
 * @throws {SystemError} If the file cannot be created
 * @throws {Error} If the first path names a folder, a pipe or the like, or none of the paths is free; the message
 * contains only the reason
 */
export function createMappedFile(paths: readonly string[], byteLength: number): Uint8Array<ArrayBuffer> {
  checkFilePath(paths[0]!);
  const temporary = `${paths[0]}.${crypto.randomUUID()}`;
  const fd = createFile(temporary);
  try {
    reserveRange(fd, { offset: 0, byteLength });
    // The lock shows that the file is in use. It ends with the process, even if that is killed.
    lockRange(fd, { offset: 0, byteLength });
    const bytes = mapFile(fd, byteLength);
    if (!paths.some((path) => isFree(path) && linkFile(temporary, path))) {
      throw new Error(`running processes use ${paths.join(", ")}, or these are no files of this user`);
    }
    return bytes;
  } catch (error) {
    closeDescriptor(fd);
    throw error;
  } finally {
    removeFile(temporary);
  }
}

/** Maps a file as external memory: Bun overwrites memory that it owns when a Worker ends. */
function mapFile(fd: number, byteLength: number): Uint8Array<ArrayBuffer> {
  libc ??= dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  const address = libc.mmap(0n, BigInt(byteLength), readAndWrite, shared, fd, 0n);
  if (address === failed) throw new Error(`there are no addresses for its ${byteLength} bytes`);
  return new Uint8Array(foreignBuffer(address, byteLength));
}

/**
 * Returns whether a path is free. Removes a file of this user that no running process has mapped. The path of a link or
 * of another user's file counts as free: `linkFile` finds that it exists.
 */
function isFree(path: string): boolean {
  const older = openOwnFile(path, { writable: true });
  if (older === undefined) return true;
  const { fd, byteLength } = older;
  try {
    // Two processes that find the same file at the same time see each other's locks, and remove nothing.
    lockRange(fd, { offset: 0, byteLength });
    if (isRangeLocked(fd, { offset: 0, byteLength })) return false;
    // Another process may have replaced the file before it was locked here.
    const [opened, found] = [describeDescriptor(fd), statusAt(path)];
    if (found?.inode === opened.inode && found.device === opened.device) removeFile(path);
    return true;
  } finally {
    closeDescriptor(fd);
  }
}
