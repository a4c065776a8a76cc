/**
 * Memory that several processes have, and what others do with it.
 *
 * @module
 */
import { describeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import type { OsHandle } from "../../driver.ts";
import type { MemoryAccess } from "../memory_history.ts";
import { isBefore, type Operation, type Point } from "../order/timelines.ts";
import type { PeerState } from "./peers.ts";
import type { ShareName } from "./records.ts";

/** Shared memory, as it is addressed here. */
export interface SharedMemory {
  readonly name: ShareName;
  readonly address: number;
  readonly byteLength: number;
  /** Whether this process has allocated it. Memory that is mapped may belong to none. */
  readonly isOwn: boolean;
}

/** An access of another process. */
export interface PeerAccess extends MemoryAccess {
  readonly peer: PeerState;
}

/** Shared memory that this process has freed. */
export interface FreedMemory {
  readonly operation: Operation;
  readonly byteLength: number;
}

/** What is remembered at most: of one memory, and in how many. */
const maximumAccesses = 256;
const maximumNames = 16_384;
const maximumFreed = 1024;

/** The shared memory of this process, and what other processes do with theirs. */
export class SharedMemories {
  /** In the order of their addresses. */
  readonly #memories: SharedMemory[] = [];
  /** What others have done with memory, by its name, here or not, and is not known to be done. */
  readonly #accesses = new Map<string, PeerAccess[]>();

  /** What this process has freed last, by its name: what kernels of others access may be known later. */
  readonly #freed = new Map<string, FreedMemory>();

  /** Adds memory. */
  add(memory: SharedMemory): void {
    this.#memories.splice(this.#indexFrom(memory.address), 0, memory);
  }

  /** Removes the memory at an address, and returns it. */
  remove(address: number): SharedMemory | undefined {
    const index = this.#indexFrom(address);
    return this.#memories[index]?.address === address ? this.#memories.splice(index, 1)[0] : undefined;
  }

  /** The memory that has bytes in a range. */
  overlapping(begin: number, end: number): SharedMemory[] {
    const found: SharedMemory[] = [];
    for (let index = this.#indexFrom(begin); index < this.#memories.length; index++) {
      const memory = this.#memories[index]!;
      if (memory.address >= end) break;
      found.push(memory);
    }
    return found;
  }

  /** Where memory lies here. More than once if it was mapped more than once. */
  named(name: ShareName): SharedMemory[] {
    const key = name.join();
    return this.#memories.filter((memory) => memory.name.join() === key);
  }

  /** What others do with memory. */
  peerAccessesOf(name: ShareName): readonly PeerAccess[] {
    return this.#accesses.get(name.join()) ?? [];
  }

  /** Remembers what another process does. Forgets what is known to be done at a point, and what comes before it. */
  addAccess(name: ShareName, access: PeerAccess, known: Point): void {
    const key = name.join();
    const isNeeded = (other: PeerAccess) => !isBefore(other.operation, known) && !supersedes(other, access);
    const accesses = [...(this.#accesses.get(key) ?? []).filter(isNeeded), access].slice(-maximumAccesses);
    this.#accesses.delete(key);
    this.#accesses.set(key, accesses);
    if (this.#accesses.size > maximumNames) this.#accesses.delete(this.#accesses.keys().next().value!);
  }

  /** Notes that this process has freed memory. */
  addFreed(name: ShareName, freed: FreedMemory): void {
    this.#freed.set(name.join(), freed);
    if (this.#freed.size > maximumFreed) this.#freed.delete(this.#freed.keys().next().value!);
  }

  /** The free of memory by this process. */
  freedOf(name: ShareName): FreedMemory | undefined {
    return this.#freed.get(name.join());
  }

  /** Forgets what others have done with memory. */
  forget(name: ShareName): void {
    this.#accesses.delete(name.join());
  }

  /** The index of the first memory that ends behind an address. */
  #indexFrom(address: number): number {
    let low = 0, high = this.#memories.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const memory = this.#memories[middle]!;
      if (memory.address + memory.byteLength <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Whether a stream does the same again: what comes after the second time comes after the first, too. */
function supersedes(first: PeerAccess, second: PeerAccess): boolean {
  return first.operation.timeline === second.operation.timeline && first.kind === second.kind &&
    first.begin === second.begin && first.end === second.end;
}

/**
 * What a handle leads to, the same in all processes. To be called when a driver has accepted or made the handle. The
 * descriptors of a GPU's memory are those of a device file, which do not tell.
 */
export function identityOf(handle: OsHandle): string | undefined {
  if (typeof handle !== "number") return `fabric ${handle.toHex()}`;
  try {
    const { type, device, inode } = describeDescriptor(handle);
    return type === "file" ? `file ${device} ${inode}` : undefined;
  } catch {
    return undefined;
  }
}
