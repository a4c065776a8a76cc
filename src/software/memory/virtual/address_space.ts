/**
 * Reserved address ranges, and the memory that is mapped to them.
 *
 * @module
 */
import { memAccessFlags } from "../../../driver.ts";
import type { DeviceAllocation, Range } from "../allocations.ts";
import type { LinearMemory } from "../linear_memory.ts";
import type { SoftwareMemory } from "./physical_memory.ts";

/** The granularity of sizes and addresses of virtual memory, in bytes. The same value as on an H200. */
export const virtualGranularity: number = 2 * 2 ** 20;

/** A mapping of physical memory to a range of addresses. */
interface Mapping extends Range {
  readonly memory: SoftwareMemory;
  /** For each device, the access that its kernels have, one of `memAccessFlags`. */
  readonly access: Map<number, number>;
}

/** A reserved range of addresses. */
interface Reservation extends Range {
  /** Whether a file may still be mapped in the range because the system failed to unmap it. */
  mayHaveRemains: boolean;
}

/** Adjacent mappings of memory of the same device, which programs access like one allocation. */
export class VirtualRun implements DeviceAllocation {
  readonly kind = "virtual";
  readonly begin: number;
  readonly byteLength: number;
  readonly device: number;
  readonly #mappings: readonly Mapping[];

  constructor(mappings: readonly Mapping[]) {
    this.begin = mappings[0]!.begin;
    this.byteLength = mappings.at(-1)!.end - this.begin;
    this.device = mappings[0]!.memory.device;
    this.#mappings = mappings;
  }

  /** Returns whether the kernels of a device may read all mappings of the run. */
  isAllowed(device: number): boolean {
    return this.#mappings.every(({ access }) => flagsOf(access, device) !== memAccessFlags.none);
  }

  /** Returns whether the kernels of a device may access a range as specified by `flags`, one of `memAccessFlags`. */
  permits(device: number, { begin, end }: Range, flags: number): boolean {
    return this.#mappings.every((mapping) =>
      mapping.end <= begin || end <= mapping.begin || (flagsOf(mapping.access, device) & flags) === flags
    );
  }
}

/** Receives notifications when runs of adjacent mappings are created and removed. */
export interface RunListener {
  added(run: VirtualRun): void;
  removed(run: VirtualRun): void;
}

/** The reserved address ranges of a driver, and their mappings. */
export class AddressSpace {
  readonly #linearMemory: LinearMemory;
  readonly #listener: RunListener;
  readonly #reserved = new Map<number, Reservation>();
  /** The mappings, sorted by address. */
  #mappings: Mapping[] = [];
  #runs: VirtualRun[] = [];

  constructor(linearMemory: LinearMemory, listener: RunListener) {
    this.#linearMemory = linearMemory;
    this.#listener = listener;
  }

  /**
   * Reserves a range of addresses. Returns its offset, or undefined if linear memory has no range that is large enough.
   * `byteLength` and `alignment` must be multiples of the granularity.
   */
  reserve(byteLength: number, alignment: number): number | undefined {
    // Reserves more than necessary and releases the excess, because linear memory aligns ranges only to pages.
    const whole = byteLength + alignment;
    const first = this.#linearMemory.reserve(whole);
    if (first === undefined) return undefined;
    const begin = Math.ceil(first / alignment) * alignment, end = begin + byteLength;
    if (begin > first) this.#linearMemory.release(first, begin - first);
    if (end < first + whole) this.#linearMemory.release(end, first + whole - end);
    this.#reserved.set(begin, { begin, end, mayHaveRemains: false });
    return begin;
  }

  /**
   * Frees a reserved range. Returns false if the range is not exactly one reservation, or if memory is mapped in the
   * range. If the system failed to unmap a file from the range, its pages are never used again, because the next owner
   * would access the file.
   */
  free({ begin, end }: Range): boolean {
    const reservation = this.#reserved.get(begin);
    if (reservation?.end !== end) return false;
    if (this.#mappings.some((mapping) => mapping.begin < end && begin < mapping.end)) return false;
    this.#reserved.delete(begin);
    if (reservation.mayHaveRemains) this.#linearMemory.discardAndRelease(begin, end - begin, { isShared: true });
    else this.#linearMemory.release(begin, end - begin);
    return true;
  }

  /** Returns whether a range lies in a reservation and contains no mappings. */
  isFree({ begin, end }: Range): boolean {
    return [...this.#reserved.values()].some((range) => range.begin <= begin && end <= range.end) &&
      !this.#mappings.some((mapping) => mapping.begin < end && begin < mapping.end);
  }

  /** Maps all of `memory` at an offset in linear memory. Returns false if the system is out of memory. */
  map(begin: number, memory: SoftwareMemory): boolean {
    if (!memory.tryMap(this.#linearMemory, begin)) {
      // Fills the hole that a failed mapping may have left in linear memory.
      this.#discard({ begin, end: begin + memory.byteLength });
      return false;
    }
    memory.retain();
    const mapping: Mapping = { begin, end: begin + memory.byteLength, memory, access: new Map() };
    this.#mappings = [...this.#mappings, mapping].sort((a, b) => a.begin - b.begin);
    this.#update();
    return true;
  }

  /**
   * Returns the mappings that together cover exactly the given range. Returns undefined if there is a gap, or if the
   * range contains only a part of a mapping.
   */
  mappingsIn({ begin, end }: Range): readonly Mapping[] | undefined {
    const found = this.#mappings.filter((mapping) => mapping.begin < end && begin < mapping.end);
    let at = begin;
    for (const mapping of found) {
      if (mapping.begin !== at) return undefined;
      at = mapping.end;
    }
    return at === end ? found : undefined;
  }

  /** Returns all mappings within a range. Returns undefined if a mapping lies only partly within the range. */
  mappingsWithin({ begin, end }: Range): readonly Mapping[] | undefined {
    const found = this.#mappings.filter((mapping) => mapping.begin < end && begin < mapping.end);
    return found.every((mapping) => begin <= mapping.begin && mapping.end <= end) ? found : undefined;
  }

  /** Returns the mapping that contains an offset, or undefined if there is none. */
  mappingAt(offset: number): Mapping | undefined {
    return this.#mappings.find(({ begin, end }) => begin <= offset && offset < end);
  }

  /**
   * Removes whole mappings, and with them the access of all devices. If the system fails to unmap the file, the file
   * stays mapped until the next mapping replaces it, but no device can access it.
   */
  unmap(mappings: readonly Mapping[]): void {
    for (const mapping of mappings) {
      for (const device of mapping.access.keys()) this.#setAccess(mapping, device, memAccessFlags.none);
      this.#discard(mapping);
      mapping.memory.release();
    }
    const gone = new Set(mappings);
    this.#mappings = this.#mappings.filter((mapping) => !gone.has(mapping));
    this.#update();
  }

  /** Discards pages of a reservation. If that fails, records that the reservation may still have a file mapped. */
  #discard({ begin, end }: Range): void {
    if (this.#linearMemory.discard(begin, end - begin)) return;
    for (const reservation of this.#reserved.values()) {
      if (reservation.begin <= begin && end <= reservation.end) reservation.mayHaveRemains = true;
    }
  }

  /** Sets the access that a device's kernels have to whole mappings. `flags` is one of `memAccessFlags`. */
  setAccess(mappings: readonly Mapping[], device: number, flags: number): void {
    for (const mapping of mappings) this.#setAccess(mapping, device, flags);
  }

  #setAccess(mapping: Mapping, device: number, flags: number): void {
    const { begin, end, access } = mapping;
    access.set(device, flags);
    if (flags === memAccessFlags.none) this.#linearMemory.deny(device, begin, end - begin);
    else this.#linearMemory.allow(device, begin, end - begin);
    this.#linearMemory.setReadOnly(device, { begin, end }, flags === memAccessFlags.read);
  }

  /** Removes all mappings, and frees all reserved ranges. */
  close(): void {
    this.unmap(this.#mappings);
    for (const range of this.#reserved.values()) this.free(range);
  }

  /** Determines the runs of adjacent mappings after the mappings have changed, and notifies the listener. */
  #update(): void {
    const runs: Mapping[][] = [];
    for (const mapping of this.#mappings) {
      const last = runs.at(-1)?.at(-1);
      if (last !== undefined && last.end === mapping.begin && last.memory.device === mapping.memory.device) {
        runs.at(-1)!.push(mapping);
      } else runs.push([mapping]);
    }
    const before = this.#runs;
    this.#runs = runs.map((mappings) => new VirtualRun(mappings));
    for (const run of before) this.#listener.removed(run);
    for (const run of this.#runs) this.#listener.added(run);
  }
}

function flagsOf(access: ReadonlyMap<number, number>, device: number): number {
  return access.get(device) ?? memAccessFlags.none;
}
