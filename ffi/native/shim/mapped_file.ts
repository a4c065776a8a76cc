/**
 * Files that a process maps into its memory, where other processes can read what it writes.
 *
 * @module
 */
import { dlopen, type NativeFunctions } from "../host.ts";
import { closeDescriptor } from "./descriptors.ts";
import { createFile, openOwnFile, removeFile, reserveRange } from "./folder_files.ts";
import { isRangeLocked, lockRange, mapShared } from "./memory_files.ts";
import { cString } from "./shim.ts";

const symbols = {
  link: { parameters: ["buffer", /* const char *from */ "buffer" /* const char *to */], result: "i32" },
} as const;
/** The size of the units of WebAssembly memory in bytes. */
const unit = 65_536;

let libc: NativeFunctions<typeof symbols> | undefined;

/**
 * Creates a file of at least `byteLength` zero bytes that only this user can open, and maps it until the process ends.
 * What is written to the returned bytes stays in the file if the process is killed. The storage is reserved, so a file
 * system that is full later cannot end the process.
 *
 * @param paths the file gets the first of these paths that does not exist, or that names a file of this user which no
 * running process has mapped by this function; such a file is replaced
 * @throws {SystemError} If the file cannot be created
 * @throws {Error} If none of the paths is free; the message contains only the reason
 */
export function createMappedFile(paths: readonly string[], byteLength: number): Uint8Array<ArrayBuffer> {
  const size = Math.ceil(byteLength / unit) * unit;
  const temporary = `${paths[0]}.${crypto.randomUUID()}`;
  const fd = createFile(temporary);
  try {
    reserveRange(fd, { offset: 0, byteLength: size });
    // The lock shows that the file is in use. It ends with the process, even if that is killed.
    lockRange(fd, { offset: 0, byteLength: size });
    const memory = new WebAssembly.Memory({ initial: size / unit, maximum: size / unit });
    const bytes = new Uint8Array(memory.buffer);
    mapShared(bytes, fd, { at: 0, offset: 0, byteLength: size });
    if (!paths.some((path) => isFree(path) && isNamed(temporary, path))) {
      throw new Error(`running processes, or others than files of this user, have ${paths.join(" and ")}`);
    }
    return bytes.subarray(0, byteLength) as Uint8Array<ArrayBuffer>;
  } catch (error) {
    closeDescriptor(fd);
    throw error;
  } finally {
    removeFile(temporary);
  }
}

/** Gives a file another name. Returns false if there is a file of that name, which may be a symbolic link. */
function isNamed(file: string, path: string): boolean {
  libc ??= dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
  return libc.link(cString(file), cString(path)) === 0;
}

/** Returns whether a path is free. Removes a file of this user that no running process has mapped. */
function isFree(path: string): boolean {
  const older = openOwnFile(path, { writable: true });
  // For a link or a file of another user, `isNamed` finds that the path is taken.
  if (older === undefined) return true;
  try {
    return !isRangeLocked(older.fd, { offset: 0, byteLength: older.byteLength }) && removeFile(path);
  } finally {
    closeDescriptor(older.fd);
  }
}
