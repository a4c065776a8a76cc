/**
 * Files that a process maps into its memory, where other processes can read what it writes.
 *
 * @module
 */
import { closeDescriptor, describeDescriptor, type DescriptorStatus, openPath } from "./descriptors.ts";
import { createFile, linkFile, openOwnFile, removeFile, reserveRange } from "./folder_files.ts";
import { isRangeLocked, lockRange, mapShared } from "./memory_files.ts";

/** The size of the units of WebAssembly memory in bytes. */
const unit = 65_536;

/**
 * Creates a file of at least `byteLength` zero bytes that only this user can open, and maps it until the process ends.
 * What is written to the returned bytes stays in the file if the process is killed. The storage is reserved, so a file
 * system that is full later cannot end the process.
 *
 * @param paths the file gets the first of these paths that does not exist, or that names a file of this user which no
 * running process has mapped by this function; such a file is replaced
 * @throws {SystemError} If the file cannot be created
 * @throws {Error} If the first path names a folder, a pipe or the like, or none of the paths is free; the message
 * contains only the reason
 */
export function createMappedFile(paths: readonly string[], byteLength: number): Uint8Array<ArrayBuffer> {
  checkType(statusAt(paths[0]!)?.type);
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
    if (!paths.some((path) => isFree(path) && linkFile(temporary, path))) {
      throw new Error(`running processes use ${paths.join(", ")}, or these are no files of this user`);
    }
    return bytes.subarray(0, byteLength) as Uint8Array<ArrayBuffer>;
  } catch (error) {
    closeDescriptor(fd);
    throw error;
  } finally {
    removeFile(temporary);
  }
}

/** Refuses what is neither a file nor a link: who names it does not expect a file beside it. */
function checkType(type: DescriptorStatus["type"] | undefined): void {
  if (type === undefined || type === "file" || type === "link") return;
  throw new Error(`it is a ${type}; give the path of ${type === "folder" ? "a file in it" : "a file"}`);
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

/** Returns the status of what a path names; undefined if nothing is found. */
function statusAt(path: string): DescriptorStatus | undefined {
  let fd: number;
  try {
    fd = openPath(path);
  } catch {
    // Creating a file there reports why.
    return undefined;
  }
  try {
    return describeDescriptor(fd);
  } finally {
    closeDescriptor(fd);
  }
}
