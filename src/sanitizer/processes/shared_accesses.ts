/**
 * Accesses of several processes to the same memory, compared in the order in which they are known here.
 *
 * @module
 */
import type { Touch } from "../memory_history.ts";
import { isBefore, type Operation, type Point } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess, StreamOrder } from "../order/stream_order.ts";
import { shiftedParts, sourceOfAll } from "../access_parts.ts";
import type { Announcements } from "./publisher.ts";
import type { ShareName } from "./records.ts";
import { type FreedMemory, type PeerTouch, SharedMemories, type SharedMemory } from "./shared_memory.ts";

/** What it works with. */
interface Parts {
  readonly reports: Reports;
  readonly order: StreamOrder;
  readonly announcements: Announcements;
  /** Whether what this and another process do may be reported. */
  readonly counts: (own: Operation, touch: PeerTouch) => boolean;
}

/** The accesses to shared memory. Follows the operations: they are looked at later than they are asked for. */
export class SharedAccesses {
  readonly #parts: Parts;
  readonly #memories = new SharedMemories();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Adds memory of this process, or of none, and tells others what it does with it.
   *
   * @param known what the host knew to be done when others could not have it yet
   */
  share(memory: SharedMemory, known: Point): void {
    this.#memories.add(memory);
    for (const touch of this.#touchesOf(memory)) {
      if (!isBefore(touch.operation, known)) this.#parts.announcements.tellAccess(memory.name, touch);
    }
  }

  /** Adds memory of another process. */
  map(memory: SharedMemory): void {
    this.#memories.add(memory);
  }

  /** Removes memory that is freed, or unmapped. */
  remove(address: number, operation: Operation): void {
    const memory = this.#memories.remove(address);
    // What others do with memory does not hinder those who only unmap it.
    if (memory?.isOwn !== true) return;
    const freed = { operation, byteLength: memory.byteLength };
    for (const touch of this.#memories.touchesOf(memory.name)) this.#checkFreed(freed, touch);
    this.#memories.forget(memory.name);
    this.#memories.addFreed(memory.name, freed);
  }

  /** Forgets what others have done with memory. */
  forget(name: ShareName): void {
    this.#memories.forget(name);
  }

  /** Compares an access of this process with those of others, and tells them. */
  addOwn(operation: Operation, { address, byteLength, access, source, parts }: RangeAccess): void {
    for (const memory of this.#memories.overlapping(address, address + byteLength)) {
      const begin = Math.max(0, address - memory.address);
      const end = Math.min(memory.byteLength, address + byteLength - memory.address);
      const touch: Touch = {
        operation,
        access,
        begin,
        end,
        source,
        parts: parts && shiftedParts(parts, address - memory.address),
      };
      for (const other of this.#memories.touchesOf(memory.name)) {
        if (!isBefore(other.operation, operation)) this.#report(memory, touch, other);
      }
      this.#parts.announcements.tellAccess(memory.name, { ...touch, source: sourceOfAll(touch) });
    }
  }

  /**
   * Compares an access of another process with those of this one, and remembers it for the next ones.
   *
   * @param known what the host knew to be done when it was told of the access
   */
  addOfPeer(name: ShareName, touch: PeerTouch, known: Point): void {
    for (const memory of this.#memories.named(name)) {
      for (const own of this.#touchesOf(memory)) {
        const isOrdered = isBefore(own.operation, touch.operation) || isBefore(touch.operation, own.operation);
        if (!isOrdered) this.#report(memory, own, touch);
      }
    }
    const freed = this.#memories.freedOf(name);
    if (freed !== undefined) return this.#checkFreed(freed, touch);
    if (!isBefore(touch.operation, known)) this.#memories.addTouch(name, touch, known);
  }

  /** Reports an access of another process that may come after memory of this one was freed. */
  #checkFreed({ operation, byteLength }: FreedMemory, touch: PeerTouch): void {
    if (isBefore(touch.operation, operation) || !this.#parts.counts(operation, touch)) return;
    this.#parts.reports.addFreed({ region: { byteLength }, touch, freed: operation });
  }

  /** What this process has done with memory since it was last written. */
  #touchesOf({ address, byteLength }: SharedMemory): Touch[] {
    return this.#parts.order.touches(address, address + byteLength).map((touch) => {
      return { ...touch, begin: touch.begin - address, end: touch.end - address };
    });
  }

  #report(memory: SharedMemory, own: Touch, other: PeerTouch): void {
    const begin = Math.max(own.begin, other.begin), end = Math.min(own.end, other.end);
    const mayOverlap = own.access === other.access && own.access !== "write";
    if (mayOverlap || begin >= end || own.operation.timeline.isForeign || !this.#parts.counts(own.operation, other)) {
      return;
    }
    const allocated = this.#parts.order.regionAt(memory.address + begin)?.allocated;
    const region = { byteLength: memory.byteLength, ...allocated === undefined ? {} : { allocated } };
    this.#parts.reports.addConflict({ region, conflict: { later: own, earlier: other, begin, end } });
  }
}
