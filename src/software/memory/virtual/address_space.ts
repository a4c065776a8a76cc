/**
 * Reserved address ranges, and the memory that is mapped to them.
 *
 * @module
 */
import { memAccessFlags } from "../../../driver.ts";
import type { DeviceAllocation, Range } from "../allocations.ts";
import type { LinearMemory } from "../linear_memory.ts";
import type { SoftwareMemory } from "./physical_memory.ts";

/** The granularity of the sizes and addresses of virtual memory, in bytes. The same as on an H200. */
export const virtualGranularity: number = 2 * 2 ** 20;

/** The mapping of memory to a range of addresses. */
interface Mapping extends Range {
  readonly memory: SoftwareMemory;
  /** The access of each device's kernels, one of `memAccessFlags`, by device. */
  readonly access: Map<number, number>;
}

/** A reserved range of addresses. */
interface Reservation extends Range {
  /**
   * Whether the file of a former mapping may still be mapped in the range, because the system failed to unmap the file.
   */
  mayHaveRemains: boolean;
}

/** A run of adjacent mappings of memory of one device. */
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

  /** Returns whether a device may read all of the run. */
  isAllowed(device: number): boolean {
    return this.#mappings.every(({ access }) => flagsOf(access, device) !== memAccessFlags.none);
  }

  /** Returns whether a device may access a range in the way that `flags`, one of `memAccessFlags`, specifies. */
  permits(device: number, { begin, end }: Range, flags: number): boolean {
    return this.#mappings.every((mapping) =>
      mapping.end <= begin || end <= mapping.begin || (flagsOf(mapping.access, device) & flags) === flags
    );
  }
}

/** Receives the runs of adjacent mappings when they are created and removed. */
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
   * Reserves a range of addresses. Returns its offset, or undefined if linear memory is full. `byteLength` and
   * `alignment` must be multiples of the granularity.
   */
  reserve(byteLength: number, alignment: number): number | undefined {
    // Linear memory only aligns to pages, so the reservation is larger at first, and the excess is released.
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
   * Frees a reserved range. Returns false if exactly this range was not reserved, or if memory is mapped in the range.
   * If the system fails to unmap a former mapping, the pages are never used again: their next user would access that
   * memory.
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

  /** Returns whether a range is reserved and has no mappings. */
  isFree({ begin, end }: Range): boolean {
    return [...this.#reserved.values()].some((range) => range.begin <= begin && end <= range.end) &&
      !this.#mappings.some((mapping) => mapping.begin < end && begin < mapping.end);
  }

  /** Maps all of `memory` at an offset. Returns false if the system is out of memory. */
  map(begin: number, memory: SoftwareMemory): boolean {
    if (!memory.tryMap(this.#linearMemory, begin)) {
      // A failed mapping may have left a hole in linear memory, which discarding closes.
      this.#discard({ begin, end: begin + memory.byteLength });
      return false;
    }
    memory.retain();
    const mapping: Mapping = { begin, end: begin + memory.byteLength, memory, access: new Map() };
    this.#mappings = [...this.#mappings, mapping].sort((a, b) => a.begin - b.begin);
    this.#update();
    return true;
  }

  /** Returns the mappings that exactly cover a range. Returns undefined if there are gaps or only parts of mappings. */
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
   * Removes whole mappings and the access of all devices. If the system fails to unmap the file, it stays mapped until
   * the next mapping replaces it, but no device can access it.
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

  /** Sets the access of a device's kernels to whole mappings: `flags` is one of `memAccessFlags`. */
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

  /** Unmaps everything, and frees all addresses. */
  close(): void {
    this.unmap(this.#mappings);
    for (const range of this.#reserved.values()) this.free(range);
  }

  /** Computes the runs again after a change of the mappings, and notifies the listener. */
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
