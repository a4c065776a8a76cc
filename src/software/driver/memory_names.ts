/**
 * The names of a program's memory in the messages of kernel faults.
 *
 * @module
 */
import { memAccessFlags, type NamedBuffer } from "../../driver.ts";
import { countOf } from "../../support/printing.ts";
import { addressOfOffset, offsetOfAddress } from "../memory/memory_layout.ts";
import { type FreedRange, type MemoryNames, type NamedRange, nearestOf, nearestRange } from "../memory/named_memory.ts";
import type { DriverCore } from "./core.ts";
import {
  type AnyAllocation,
  isHostPoolMemory,
  isManagedMemory,
  isPoolMemory,
  type ProgramMemory,
} from "./program_memory.ts";

/** Names the memory of a program in messages of kernel faults. */
export class ProgramMemoryNames {
  readonly #core: DriverCore;
  readonly #memory: ProgramMemory;
  /** For each device ordinal, the names of memory that appear in messages about the device's kernels. */
  readonly #ofDevices: readonly MemoryNames[];
  #namedBuffers: () => Iterable<NamedBuffer> = () => [];

  constructor(core: DriverCore, memory: ProgramMemory) {
    this.#core = core;
    this.#memory = memory;
    this.#ofDevices = Array.from({ length: core.devices.count }, (_, device) => ({
      position: (offset, byteLength) => nearestOf({ begin: offset, byteLength }, this.#rangesFor(device)),
      bytesFrom: (offset) => this.#bytesFrom(offset),
    }));
  }

  /** Implements `Driver.useBufferNames`. */
  useBufferNames(buffers: () => Iterable<NamedBuffer>): void {
    this.#namedBuffers = buffers;
  }

  /** Returns the names of memory that appear in messages about a device's kernels. */
  of(device: number): MemoryNames {
    return this.#ofDevices[device]!;
  }

  /** Returns the named memory nearest to an access by a kernel of a device, or undefined if none is near. */
  nearest(device: number, begin: number, byteLength: number): NamedRange | undefined {
    return nearestRange({ begin, byteLength }, this.#rangesFor(device));
  }

  /**
   * Returns all live, freed and heap memory, for finding the memory that a kernel of a device may have meant to access.
   */
  #rangesFor(device: number): NamedRange[] {
    const { linearMemory } = this.#core;
    const named = [...this.#namedBuffers()];
    const live: NamedRange[] = this.#memory.allocations.toArray().flatMap((allocation) => {
      const refusal = this.#refusalOf(allocation, device);
      return namedRangesOf(allocation, named).map((range) => ({ ...range, ...refusal }));
    });
    // Omit freed ranges that overlap a live allocation or a more recently freed range.
    const freed: NamedRange[] = [];
    for (const range of this.#memory.freedRanges) {
      const { begin } = range;
      const end = begin + range.byteLength;
      const isReused = [...live, ...freed].some((other) => other.begin < end && begin < other.begin + other.byteLength);
      if (isReused) continue;
      const isFreed = !linearMemory.isAllowed(device, begin);
      const mistake = isFreed ? "use-after-free" as const : undefined;
      freed.push({ begin, byteLength: range.byteLength, name: nameOfFreed(range, isFreed, named), mistake });
    }
    return [...live, ...freed, ...linearMemory.heapOf(device)?.ranges() ?? []];
  }

  /** Returns why kernels of a device cannot access an allocation, or an empty object if they can. */
  #refusalOf(allocation: AnyAllocation, device: number): Pick<NamedRange, "reason" | "mistake"> {
    if (!this.#memory.isAccessible(allocation, device)) {
      const reason = `which device ${device} has no access to: ${accessAdvice(allocation)}`;
      return { reason, mistake: "inaccessible" };
    }
    const { begin, byteLength } = allocation;
    const whole = { begin, end: begin + byteLength };
    if (allocation.kind === "virtual" && !allocation.permits(device, whole, memAccessFlags.readWrite)) {
      const reason = `of which device ${device} may only read some: call setAccess of its address range`;
      return { reason, mistake: "inaccessible" };
    }
    if (this.#core.linearMemory.isAllowed(device, begin)) return {};
    return { reason: "which is allocated only later in the order of the streams", mistake: "use-before-allocation" };
  }

  /** Returns the number of bytes from an offset to the end of the buffer that contains the offset. */
  #bytesFrom(offset: number): number | undefined {
    const named = [...this.#namedBuffers()];
    for (const allocation of this.#memory.allocations.toArray()) {
      const range = namedRangesOf(allocation, named).find(({ begin, byteLength }) => {
        return offset >= begin && offset < begin + byteLength;
      });
      if (range !== undefined) return range.begin + range.byteLength - offset;
    }
    return undefined;
  }
}

/**
 * Returns an allocation with a name or, if named buffers occupy parts of the allocation, each of these parts with the
 * name of its buffer.
 */
function namedRangesOf(allocation: AnyAllocation, named: readonly NamedBuffer[]): NamedRange[] {
  const { begin, byteLength } = allocation;
  const address = addressOfOffset(begin);
  const within = named.filter((buffer) => {
    return !buffer.isFreed && buffer.address >= address && buffer.address < address + BigInt(byteLength);
  });
  const parts = within.filter((buffer) => buffer.byteLength < byteLength);
  if (parts.length === 0) return [{ begin, byteLength, name: nameOf(allocation, byteLength, within[0]) }];
  return parts.map((buffer) => ({
    begin: offsetOfAddress(buffer.address)!,
    byteLength: buffer.byteLength,
    name: nameOf(allocation, buffer.byteLength, buffer),
  }));
}

/** Returns the name of an allocation, or of a buffer within the allocation, for a message. */
function nameOf(allocation: AnyAllocation, byteLength: number, buffer: NamedBuffer | undefined): string {
  const { kind } = allocation;
  const bytes = `${buffer?.isRounded ? "at most " : ""}${countOf(byteLength, "byte")}`;
  if (kind === "locked") return `page-locked memory of ${bytes}`;
  if (kind === "variable") {
    return `the ${allocation.space === "const" ? "constant" : "variable"} ${allocation.name} of ${bytes}`;
  }
  const place = isManagedMemory(allocation)
    ? "in managed memory"
    : isHostPoolMemory(allocation)
    ? "in host memory"
    : `on device ${allocation.device}`;
  const imported = kind === "mapped" || kind === "opened" ? "an imported buffer" : "a buffer";
  const site = buffer?.allocated === undefined ? "" : `, allocated ${buffer.allocated}`;
  return `${imported} of ${bytes} ${place}${site}`;
}

/** Returns advice on how to give a device access to memory. */
function accessAdvice(allocation: AnyAllocation): string {
  if (allocation.kind === "virtual") return "call setAccess of its address range";
  return isPoolMemory(allocation) ? "call setAccess of its pool" : "call enablePeerAccess of the device";
}

/**
 * Returns the name of freed memory for a message. `isFreed` is false if the free is only enqueued, so that kernels can
 * still access the memory.
 */
function nameOfFreed(
  { kind, begin, byteLength, device }: FreedRange,
  isFreed: boolean,
  named: readonly NamedBuffer[],
): string {
  const address = addressOfOffset(begin);
  const buffer = named.find((buffer) => {
    return buffer.isFreed && buffer.address === address && buffer.byteLength === byteLength;
  });
  const bytes = countOf(byteLength, "byte");
  const name = {
    buffer: `a buffer of ${bytes} on device ${device}`,
    hostBuffer: `a buffer of ${bytes} in host memory`,
    imported: `an imported buffer of ${bytes} on device ${device}`,
    pageLocked: `page-locked memory of ${bytes}`,
  }[kind];
  const freed = isFreed ? " that was freed" : "";
  if (buffer?.allocated === undefined) return `${name}${freed}`;
  const freedAt = isFreed && buffer.freed !== undefined ? ` ${buffer.freed}` : "";
  return `${name}${freed}${freedAt}, allocated ${buffer.allocated}`;
}
