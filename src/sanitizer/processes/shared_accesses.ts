/**
 * Compares accesses of several processes to the same memory, in the order in which they become known here.
 *
 * @module
 */
import type { PeerState } from "./peers.ts";
import type { OsHandle } from "../../driver.ts";
import { describeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { shiftedParts, sourceOfAll, type TrackedAccess } from "../memory_history.ts";
import { isBefore, type Operation, type Point } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess, StreamOrder } from "../order/stream_order.ts";
import type { Publisher } from "./publisher.ts";
import type { ShareName } from "./records.ts";

/** Shared memory at its address in this process. */
export interface SharedMemory {
  readonly name: ShareName;
  readonly address: number;
  readonly byteLength: number;
  /** Whether this process has allocated it. Mapped memory may belong to no process. */
  readonly isOwn: boolean;
}

/** An access of another process. */
export interface RemoteAccess extends TrackedAccess {
  readonly peer: PeerState;
}

/** Shared memory that this process has freed. */
export interface FreedMemory {
  readonly operation: Operation;
  readonly byteLength: number;
}

/** The most accesses that are kept of one memory, the most memories with accesses, and the most freed ones. */
const maximumAccesses = 256;
const maximumNames = 16_384;
const maximumFreed = 1024;

/** The shared memory of this process, and the accesses of other processes to any shared memory. */
export class SharedMemories {
  /** The shared memory of this process, by address. */
  readonly #memories: SharedMemory[] = [];
  /** The accesses of others that may be pending, by the memory's name, whether or not it is mapped here. */
  readonly #accesses = new Map<string, RemoteAccess[]>();

  /** The memory that this process has freed last, by name: accesses of others may become known later. */
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

  /** The memory that overlaps a range. */
  overlapping(begin: number, end: number): SharedMemory[] {
    const found: SharedMemory[] = [];
    for (let index = this.#indexFrom(begin); index < this.#memories.length; index++) {
      const memory = this.#memories[index]!;
      if (memory.address >= end) break;
      found.push(memory);
    }
    return found;
  }

  /** The mappings here of memory with a name. */
  named(name: ShareName): SharedMemory[] {
    const key = name.join();
    return this.#memories.filter((memory) => memory.name.join() === key);
  }

  /** The accesses of others to memory. */
  remoteAccessesOf(name: ShareName): readonly RemoteAccess[] {
    return this.#accesses.get(name.join()) ?? [];
  }

  /** Keeps an access of another process. Drops those before a point, and those that it supersedes. */
  addAccess(name: ShareName, access: RemoteAccess, known: Point): void {
    const key = name.join();
    const isNeeded = (other: RemoteAccess) => !isBefore(other.operation, known) && !supersedes(other, access);
    const accesses = [...(this.#accesses.get(key) ?? []).filter(isNeeded), access].slice(-maximumAccesses);
    this.#accesses.delete(key);
    this.#accesses.set(key, accesses);
    if (this.#accesses.size > maximumNames) this.#accesses.delete(this.#accesses.keys().next().value!);
  }

  /** Keeps memory that this process has freed. */
  addFreed(name: ShareName, freed: FreedMemory): void {
    this.#freed.set(name.join(), freed);
    if (this.#freed.size > maximumFreed) this.#freed.delete(this.#freed.keys().next().value!);
  }

  /** The memory with a name, if this process has freed it. */
  freedOf(name: ShareName): FreedMemory | undefined {
    return this.#freed.get(name.join());
  }

  /** Drops the accesses of others to memory. */
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

/** Whether `second` supersedes `first`: same stream, access and range, so anything ordered after it is ordered after both. */
function supersedes(first: RemoteAccess, second: RemoteAccess): boolean {
  return first.operation.timeline === second.operation.timeline && first.kind === second.kind &&
    first.begin === second.begin && first.end === second.end;
}

/**
 * An identity of the memory behind a handle that is the same in all processes. Undefined for a descriptor of a GPU's
 * memory, which refers to a device file. Call once a driver has created or accepted the handle.
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

/** The parts of the sanitizer that it uses. */
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly publisher: Publisher;
  /** Whether a conflict of this process with another one may be reported. */
  readonly isReportable: (own: Operation, access: RemoteAccess) => boolean;
}

/** The accesses to shared memory. Its methods are called when operations are checked, in their order. */
export class SharedAccesses {
  readonly #parts: Parts;
  readonly #memories = new SharedMemories();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Adds memory of this process, or of none, and publishes the accesses to it that may be pending.
   *
   * @param known what the host knew to be complete before others could map the memory
   */
  share(memory: SharedMemory, known: Point): void {
    this.#memories.add(memory);
    for (const access of this.#accessesIn(memory)) {
      if (!isBefore(access.operation, known)) this.#parts.publisher.publishAccess(memory.name, access);
    }
  }

  /** Adds memory of another process. */
  map(memory: SharedMemory): void {
    this.#memories.add(memory);
  }

  /** Removes memory that is freed or unmapped. Reports accesses of others that may come after a free. */
  remove(address: number, operation: Operation): void {
    const memory = this.#memories.remove(address);
    // To unmap memory is harmless while others access it.
    if (memory?.isOwn !== true) return;
    const freed = { operation, byteLength: memory.byteLength };
    for (const access of this.#memories.remoteAccessesOf(memory.name)) this.#checkFreed(freed, access);
    this.#memories.forget(memory.name);
    this.#memories.addFreed(memory.name, freed);
  }

  /** Drops the accesses of others to memory. */
  forget(name: ShareName): void {
    this.#memories.forget(name);
  }

  /** Compares an access of this process with those of others, and publishes it. */
  addOwn(operation: Operation, { address, byteLength, access: kind, source, parts }: RangeAccess): void {
    for (const memory of this.#memories.overlapping(address, address + byteLength)) {
      const begin = Math.max(0, address - memory.address);
      const end = Math.min(memory.byteLength, address + byteLength - memory.address);
      const access: TrackedAccess = {
        operation,
        kind,
        begin,
        end,
        source,
        parts: parts && shiftedParts(parts, address - memory.address),
      };
      for (const other of this.#memories.remoteAccessesOf(memory.name)) {
        if (!isBefore(other.operation, operation)) this.#report(memory, access, other);
      }
      this.#parts.publisher.publishAccess(memory.name, { ...access, source: sourceOfAll(access) });
    }
  }

  /**
   * Compares an access of another process with those of this one, and keeps it for later ones.
   *
   * @param known what the host knew to be complete when it read of the access
   */
  addOfPeer(name: ShareName, access: RemoteAccess, known: Point): void {
    for (const memory of this.#memories.named(name)) {
      for (const own of this.#accessesIn(memory)) {
        const isOrdered = isBefore(own.operation, access.operation) || isBefore(access.operation, own.operation);
        if (!isOrdered) this.#report(memory, own, access);
      }
    }
    const freed = this.#memories.freedOf(name);
    if (freed !== undefined) return this.#checkFreed(freed, access);
    if (!isBefore(access.operation, known)) this.#memories.addAccess(name, access, known);
  }

  /** Reports an access of another process that may come after a free by this one. */
  #checkFreed({ operation, byteLength }: FreedMemory, access: RemoteAccess): void {
    if (isBefore(access.operation, operation) || !this.#parts.isReportable(operation, access)) return;
    this.#parts.reports.addFreed({ region: { byteLength }, access, freed: operation });
  }

  /** The accesses of this process to memory since its last write. */
  #accessesIn({ address, byteLength }: SharedMemory): TrackedAccess[] {
    return this.#parts.order.accessesIn(address, address + byteLength).map((access) => {
      return { ...access, begin: access.begin - address, end: access.end - address };
    });
  }

  #report(memory: SharedMemory, own: TrackedAccess, other: RemoteAccess): void {
    const begin = Math.max(own.begin, other.begin), end = Math.min(own.end, other.end);
    const mayOverlap = own.kind === other.kind && own.kind !== "write";
    if (
      mayOverlap || begin >= end || own.operation.timeline.isForeign || !this.#parts.isReportable(own.operation, other)
    ) {
      return;
    }
    const allocated = this.#parts.order.regionAt(memory.address + begin)?.allocated;
    const region = { byteLength: memory.byteLength, ...allocated === undefined ? {} : { allocated } };
    this.#parts.reports.addConflict({ region, conflict: { later: own, earlier: other, begin, end } });
  }
}
