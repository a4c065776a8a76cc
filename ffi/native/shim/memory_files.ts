/**
 * Memory files, and mapping them over ranges of the runtime's memory.
 *
 * @module
 */
import { openDescriptor } from "./descriptors.ts";
import { cString, shim, unwrap } from "./shim.ts";

/** A range of a file, in bytes. */
export interface FileRange {
  readonly offset: number;
  readonly byteLength: number;
}

/** Where a range of a file is mapped, in bytes. The offsets and the length are multiples of the page size, 4096. */
export interface MemoryMapping {
  /** The offset of the first byte in the memory that is mapped over. */
  readonly at: number;
  /** The offset of the first byte in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/**
 * Creates a memory file and returns its descriptor. The file can grow and have holes. It is sealed against shrinking,
 * so that no process can take away memory that another one has mapped.
 */
export function createMemoryFile(name: string, byteLength: number): number {
  return unwrap(shim().poolpass_memfd(cString(name), BigInt(byteLength)), "memfd_create");
}

/** Makes a memory file longer. The new part is zero, and takes no memory until it is touched. */
export function growMemoryFile(fd: number, byteLength: number): void {
  unwrap(shim().poolpass_grow(fd, BigInt(byteLength)), "ftruncate");
}

/** Returns the memory of a range of a memory file to the system. The range is zero when it is touched again. */
export function punchHole(fd: number, { offset, byteLength }: FileRange): void {
  unwrap(shim().poolpass_punch(fd, BigInt(offset), BigInt(byteLength)), "fallocate");
}

/**
 * Opens a memory file again and returns the descriptor. Unlike a duplicate or a descriptor that was received, it shares
 * neither its locks nor its flags with the original. Fails with `EWOULDBLOCK` rather than wait for a file lease.
 */
export function reopenMemoryFile(fd: number): number {
  return openDescriptor(`/proc/self/fd/${fd}`, { writable: true });
}

/**
 * Locks a range of a file until it is unlocked, or until the last descriptor that shares this one's open file
 * description is closed. Any number of descriptors can lock a range.
 */
export function lockRange(fd: number, range: FileRange): void {
  setLock(fd, range, 1);
}

/** Unlocks a range that was locked through the same open file description. */
export function unlockRange(fd: number, range: FileRange): void {
  setLock(fd, range, 0);
}

/** Whether any other open file description has locked a part of a range of a file. */
export function isRangeLocked(fd: number, { offset, byteLength }: FileRange): boolean {
  return unwrap(shim().poolpass_is_locked(fd, BigInt(offset), BigInt(byteLength)), "F_OFD_GETLK") === 1;
}

function setLock(fd: number, { offset, byteLength }: FileRange, locked: 0 | 1): void {
  unwrap(shim().poolpass_lock(fd, BigInt(offset), BigInt(byteLength), locked), "F_OFD_SETLK");
}

/**
 * Maps a range of a memory file over a range of `memory`, shared with every other process that maps it.
 *
 * @param memory the whole memory that `at` is an offset in; its address must be a multiple of the page size
 */
export function mapShared(memory: Uint8Array, fd: number, mapping: MemoryMapping): void {
  checkRange(memory, mapping);
  const { at, byteLength, offset } = mapping;
  unwrap(shim().poolpass_map(memory, BigInt(at), BigInt(byteLength), fd, BigInt(offset)), "mmap");
}

/** Removes a mapping from memory. The range is then zero, and private to this process. */
export function unmapShared(memory: Uint8Array, mapping: Pick<MemoryMapping, "at" | "byteLength">): void {
  checkRange(memory, mapping);
  unwrap(shim().poolpass_unmap(memory, BigInt(mapping.at), BigInt(mapping.byteLength)), "mmap");
}

function checkRange(memory: Uint8Array, { at, byteLength }: Pick<MemoryMapping, "at" | "byteLength">): void {
  // mmap would silently replace what lies beyond the end of the memory.
  if (!(at >= 0 && byteLength > 0 && at + byteLength <= memory.byteLength)) {
    throw new RangeError(`Cannot map ${byteLength} bytes at ${at}: the memory has ${memory.byteLength} bytes`);
  }
}
