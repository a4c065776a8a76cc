/**
 * Compares accesses of several processes to the same memory, in the order in which they become known here.
 *
 * @module
 */
import type { TrackedAccess } from "../memory_history.ts";
import { isBefore, type Operation, type Point } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess, StreamOrder } from "../order/stream_order.ts";
import { shiftedParts, sourceOfAll } from "../access_parts.ts";
import type { Publisher } from "./publisher.ts";
import type { ShareName } from "./records.ts";
import { type FreedMemory, type RemoteAccess, SharedMemories, type SharedMemory } from "./shared_memory.ts";

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
