/**
 * Reserved addresses, and the memory that is mapped there.
 *
 * @module
 */
import { memAccessFlags } from "../../../driver.ts";
import type { DeviceAllocation, Range } from "../allocations.ts";
import type { LinearMemory } from "../linear_memory.ts";
import type { SoftwareMemory } from "./physical_memory.ts";

/** What memory and addresses are a multiple of, in bytes: as on an H200. */
export const virtualGranularity: number = 2 * 2 ** 20;

/** Mapped memory. */
interface Mapping extends Range {
  readonly memory: SoftwareMemory;
  /** `memAccessFlags` by device. */
  readonly access: Map<number, number>;
}

/** Reserved addresses. */
interface Reservation extends Range {
  /** Whether a file may still be mapped there without belonging to a mapping, because the system did not unmap it. */
  mayHaveRemains: boolean;
}

/** Mapped memory whose addresses follow each other, on one device. */
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

  /** Whether a device may read all of it. */
  isAllowed(device: number): boolean {
    return this.#mappings.every(({ access }) => flagsOf(access, device) !== memAccessFlags.none);
  }

  /** Whether a device may read a range, or also write it. */
  permits(device: number, { begin, end }: Range, flags: number): boolean {
    return this.#mappings.every((mapping) =>
      mapping.end <= begin || end <= mapping.begin || (flagsOf(mapping.access, device) & flags) === flags
    );
  }
}

/** Runs, as they come and go. */
export interface RunListener {
  added(run: VirtualRun): void;
  removed(run: VirtualRun): void;
}

/** The reserved addresses of a driver. */
export class AddressSpace {
  readonly #linearMemory: LinearMemory;
  readonly #listener: RunListener;
  readonly #reserved = new Map<number, Reservation>();
  /** In the order of their addresses. */
  #mappings: Mapping[] = [];
  #runs: VirtualRun[] = [];

  constructor(linearMemory: LinearMemory, listener: RunListener) {
    this.#linearMemory = linearMemory;
    this.#listener = listener;
  }

  /** Returns the offset of the addresses, or undefined if there is no room. Both sizes are multiples of the granularity. */
  reserve(byteLength: number, alignment: number): number | undefined {
    // Other memory begins at any page.
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
   * Returns false if such a range was not reserved, or has memory mapped in it. If the system does not unmap what was
   * mapped in it, its pages are never used again: whatever got them would read and write that memory.
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

  /** Whether a range is reserved, and nothing is mapped there. */
  isFree({ begin, end }: Range): boolean {
    return [...this.#reserved.values()].some((range) => range.begin <= begin && end <= range.end) &&
      !this.#mappings.some((mapping) => mapping.begin < end && begin < mapping.end);
  }

  /** Maps memory. Returns false if the system has no memory for that. */
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

  /** The whole mappings that a range consists of. Undefined if there is something else in it. */
  mappingsIn({ begin, end }: Range): readonly Mapping[] | undefined {
    const found = this.#mappings.filter((mapping) => mapping.begin < end && begin < mapping.end);
    let at = begin;
    for (const mapping of found) {
      if (mapping.begin !== at) return undefined;
      at = mapping.end;
    }
    return at === end ? found : undefined;
  }

  /** All mappings in a range. Undefined if one is only partly in it. */
  mappingsWithin({ begin, end }: Range): readonly Mapping[] | undefined {
    const found = this.#mappings.filter((mapping) => mapping.begin < end && begin < mapping.end);
    return found.every((mapping) => begin <= mapping.begin && mapping.end <= end) ? found : undefined;
  }

  /** The mapping that has an offset. */
  mappingAt(offset: number): Mapping | undefined {
    return this.#mappings.find(({ begin, end }) => begin <= offset && offset < end);
  }

  /**
   * Unmaps whole mappings. No device has access to them then, also if the system does not unmap the file. What is mapped
   * there next replaces it.
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

  /** Discards pages of a reservation, or notes that they must be before anybody else gets them. */
  #discard({ begin, end }: Range): void {
    if (this.#linearMemory.discard(begin, end - begin)) return;
    for (const reservation of this.#reserved.values()) {
      if (reservation.begin <= begin && end <= reservation.end) reservation.mayHaveRemains = true;
    }
  }

  /** Sets what the kernels of a device may do with whole mappings. */
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

  /** Tells the listener of the runs that are new, and of those that are gone. */
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
