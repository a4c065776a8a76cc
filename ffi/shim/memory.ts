/**
 * Memory files, and mapping them over parts of memory that the runtime has.
 *
 * @module
 */
import { cString, shim, unwrap } from "./shim.ts";

/** Where a range of a file is mapped, in bytes. Offsets and length are multiples of the page size, 4096. */
export interface MemoryMapping {
  /** Of the first byte in the memory that is mapped over. */
  readonly at: number;
  /** Of the first byte in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/**
 * Makes a memory file and gives its descriptor. It can grow and have holes; it is sealed against shrinking, so that no
 * process that maps it can lose the memory under its hands.
 */
export function createMemoryFile(name: string, byteLength: number): number {
  return unwrap(shim().poolpass_memfd(cString(name), BigInt(byteLength)), "memfd_create");
}

/** Makes a memory file longer; the new part is zero, and takes no memory until it is touched. */
export function growMemoryFile(fd: number, byteLength: number): void {
  unwrap(shim().poolpass_grow(fd, BigInt(byteLength)), "ftruncate");
}

/** Gives a range of a memory file back to the system: it is zero when it is next touched. */
export function punchHole(fd: number, options: { readonly offset: number; readonly byteLength: number }): void {
  unwrap(shim().poolpass_punch(fd, BigInt(options.offset), BigInt(options.byteLength)), "fallocate");
}

/**
 * Maps a range of a memory file over a part of memory, shared with every other process that maps it.
 *
 * @param memory all of what the offset `at` counts in; its address must be a multiple of the page size
 */
export function mapShared(memory: Uint8Array, fd: number, mapping: MemoryMapping): void {
  checkRange(memory, mapping);
  const { at, byteLength, offset } = mapping;
  unwrap(shim().poolpass_map(memory, BigInt(at), BigInt(byteLength), fd, BigInt(offset)), "mmap");
}

/** Takes a mapping out of memory again: zeros that are this process's alone stand there instead. */
export function unmapShared(memory: Uint8Array, mapping: Pick<MemoryMapping, "at" | "byteLength">): void {
  checkRange(memory, mapping);
  unwrap(shim().poolpass_unmap(memory, BigInt(mapping.at), BigInt(mapping.byteLength)), "mmap");
}

function checkRange(memory: Uint8Array, { at, byteLength }: Pick<MemoryMapping, "at" | "byteLength">): void {
  // mmap would put the file over whatever lies behind the memory, without a word.
  if (!(at >= 0 && byteLength > 0 && at + byteLength <= memory.byteLength)) {
    throw new RangeError(`Cannot map ${byteLength} bytes at ${at} of a memory of ${memory.byteLength} bytes`);
  }
}
