/**
 * Compares the accesses of different processes to the same memory, in the order in which this process learns of them.
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

/** A mapping of shared memory in this process. */
export interface SharedMemory {
  readonly name: ShareName;
  readonly address: number;
  readonly byteLength: number;
  /** Whether this process allocated the memory. False for memory of another process and for memory without an owner. */
  readonly isOwn: boolean;
}

/** An access that another process has published. */
export interface RemoteAccess extends TrackedAccess {
  readonly peer: PeerState;
}

/** A free of shared memory by this process. */
export interface FreedMemory {
  readonly operation: Operation;
  readonly byteLength: number;
}

/** The maximum number of accesses by other processes that are stored for each name of shared memory. */
const maximumAccesses = 256;
/** The maximum number of names of shared memory for which accesses are stored. */
const maximumNames = 16_384;
/** The maximum number of frees of shared memory that are stored. */
const maximumFreed = 1024;

/** The mappings of shared memory in this process, and the accesses of other processes to any shared memory. */
export class SharedMemories {
  /** The mappings of shared memory in this process, sorted by address. */
  readonly #memories: SharedMemory[] = [];
  /**
   * The accesses of other processes that may be pending, keyed by the memory's name. Includes memory that this process
   * has not mapped.
   */
  readonly #accesses = new Map<string, RemoteAccess[]>();

  /**
   * The shared memory that this process has freed most recently, keyed by name. Other processes' records of accesses
   * before the free may arrive later.
   */
  readonly #freed = new Map<string, FreedMemory>();

  /** Adds a mapping of shared memory. */
  add(memory: SharedMemory): void {
    this.#memories.splice(this.#indexFrom(memory.address), 0, memory);
  }

  /** Removes the mapping at an address, and returns it. */
  remove(address: number): SharedMemory | undefined {
    const index = this.#indexFrom(address);
    return this.#memories[index]?.address === address ? this.#memories.splice(index, 1)[0] : undefined;
  }

  /** Returns the mappings that overlap a range of addresses. */
  overlapping(begin: number, end: number): SharedMemory[] {
    const found: SharedMemory[] = [];
    for (let index = this.#indexFrom(begin); index < this.#memories.length; index++) {
      const memory = this.#memories[index]!;
      if (memory.address >= end) break;
      found.push(memory);
    }
    return found;
  }

  /** Returns this process's mappings of the shared memory with the given name. */
  named(name: ShareName): SharedMemory[] {
    const key = name.join();
    return this.#memories.filter((memory) => memory.name.join() === key);
  }

  /** Returns the stored accesses of other processes to the shared memory with the given name. */
  remoteAccessesOf(name: ShareName): readonly RemoteAccess[] {
    return this.#accesses.get(name.join()) ?? [];
  }

  /**
   * Stores an access of another process. Drops stored accesses that are ordered before `known` or that `access`
   * supersedes.
   */
  addAccess(name: ShareName, access: RemoteAccess, known: Point): void {
    const key = name.join();
    const isNeeded = (other: RemoteAccess) => !isBefore(other.operation, known) && !supersedes(other, access);
    const accesses = [...(this.#accesses.get(key) ?? []).filter(isNeeded), access].slice(-maximumAccesses);
    this.#accesses.delete(key);
    this.#accesses.set(key, accesses);
    if (this.#accesses.size > maximumNames) this.#accesses.delete(this.#accesses.keys().next().value!);
  }

  /** Records that this process has freed the shared memory with the given name. */
  addFreed(name: ShareName, freed: FreedMemory): void {
    this.#freed.set(name.join(), freed);
    if (this.#freed.size > maximumFreed) this.#freed.delete(this.#freed.keys().next().value!);
  }

  /** Returns the free of the shared memory with the given name. Undefined if this process has not freed that memory. */
  freedOf(name: ShareName): FreedMemory | undefined {
    return this.#freed.get(name.join());
  }

  /** Drops the stored accesses of other processes to the shared memory with the given name. */
  forget(name: ShareName): void {
    this.#accesses.delete(name.join());
  }

  /** Returns the index of the first mapping that ends after an address. */
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

/**
 * Returns whether `first` need not be stored once `second` is. Both have the same stream, kind and range, so any
 * operation that is ordered after `second` is also ordered after `first`.
 */
function supersedes(first: RemoteAccess, second: RemoteAccess): boolean {
  return first.operation.timeline === second.operation.timeline && first.kind === second.kind &&
    first.begin === second.begin && first.end === second.end;
}

/**
 * Returns a name for the memory that a handle refers to. The name is the same in all processes. Undefined for a file
 * descriptor of GPU memory, because such a descriptor refers to a device file. Call after a driver has created or
 * accepted the handle.
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

/** The parts of the sanitizer that `SharedAccesses` uses. */
interface SharedAccessesParts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly publisher: Publisher;
  /**
   * Returns whether a conflict between an operation of this process and an access of another process may be reported.
   */
  readonly isReportable: (own: Operation, access: RemoteAccess) => boolean;
}

/** Checks accesses to shared memory. The methods must be called in the order in which operations are checked. */
export class SharedAccesses {
  readonly #parts: SharedAccessesParts;
  readonly #memories = new SharedMemories();

  constructor(parts: SharedAccessesParts) {
    this.#parts = parts;
  }

  /**
   * Adds memory that this process allocated or that has no owner, and publishes this process's accesses that may be
   * pending.
   *
   * @param known the host's point before other processes could map the memory: accesses before this point are complete
   */
  share(memory: SharedMemory, known: Point): void {
    this.#memories.add(memory);
    for (const access of this.#accessesIn(memory)) {
      if (!isBefore(access.operation, known)) this.#parts.publisher.publishAccess(memory.name, access);
    }
  }

  /** Adds memory of another process, which this process has mapped. */
  map(memory: SharedMemory): void {
    this.#memories.add(memory);
  }

  /**
   * Removes memory that this process frees or unmaps. In the case of a free, reports accesses of other processes that
   * may happen after the free.
   */
  remove(address: number, operation: Operation): void {
    const memory = this.#memories.remove(address);
    // Nothing to report for an unmapping: other processes may continue to access the memory.
    if (memory?.isOwn !== true) return;
    const freed = { operation, byteLength: memory.byteLength };
    for (const access of this.#memories.remoteAccessesOf(memory.name)) this.#checkFreed(freed, access);
    this.#memories.forget(memory.name);
    this.#memories.addFreed(memory.name, freed);
  }

  /** Drops the stored accesses of other processes to the shared memory with the given name. */
  forget(name: ShareName): void {
    this.#memories.forget(name);
  }

  /** Compares an access of this process with other processes' accesses to the same memory, and publishes the access. */
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
   * Compares an access of another process with this process's accesses to the same memory, and stores the access for
   * later comparisons.
   *
   * @param known the host's point when the access was received: operations before this point are complete
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

  /** Reports an access by another process if it may happen after this process has freed the memory. */
  #checkFreed({ operation, byteLength }: FreedMemory, access: RemoteAccess): void {
    if (isBefore(access.operation, operation) || !this.#parts.isReportable(operation, access)) return;
    this.#parts.reports.addFreed({ region: { byteLength }, access, freed: operation });
  }

  /** Returns this process's latest accesses to each byte of a mapping, with offsets in the mapping. */
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
