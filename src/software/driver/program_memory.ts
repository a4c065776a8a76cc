/**
 * The memory that a program has allocated, and which devices may access it.
 *
 * @module
 */
import { memAccessFlags, type MemoryRange } from "../../driver.ts";
import type { UnfreedHeap } from "../../kernel_checker.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import type { ModuleVariable } from "../execution/modules/loaded_module.ts";
import { fail } from "../failure.ts";
import type { ImportedPool, PointerMapping } from "../ipc/imported_pool.ts";
import type { DeviceMemory, OpenedMemory } from "../ipc/legacy_memory.ts";
import { Allocations, type DeviceAllocation, type SoftwareAllocation } from "../memory/allocations.ts";
import type { LockedMemory } from "../memory/host_memory.ts";
import { freshByte, offsetOfAddress } from "../memory/memory_layout.ts";
import { Advice, type ManagedMemory } from "../memory/managed_memory.ts";
import type { RegisteredMemory } from "../memory/registered_memory.ts";
import { MemoryShadow } from "../memory/check_memory.ts";
import { type FreedKind, FreedRanges } from "../memory/named_memory.ts";
import type { PoolBlock } from "../memory/pool_space.ts";
import type { SoftwarePool } from "../memory/software_pool.ts";
import type { VirtualRun } from "../memory/virtual/address_space.ts";
import type { DriverCore } from "./core.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";

/** An allocation from a pool that this process created. */
export interface PoolAllocation extends DeviceAllocation {
  readonly kind: "pool";
  readonly pool: SoftwarePool;
  readonly block: PoolBlock;
}

/** An allocation from a pool that another process created, mapped into this process. */
export interface MappedAllocation extends DeviceAllocation {
  readonly kind: "mapped";
  readonly pool: ImportedPool;
  readonly mapping: PointerMapping;
}

/** An allocation that `free` and `freeAsync` accept. */
export type FreeableAllocation = PoolAllocation | MappedAllocation | DeviceMemory | ManagedMemory;

/** Any allocation or variable that has device addresses. */
export type AnyAllocation =
  | FreeableAllocation
  | OpenedMemory
  | ModuleVariable
  | LockedMemory
  | RegisteredMemory
  | VirtualRun;

/** Describes how a range of memory will be used. Used to check whether the access is permitted. */
export interface RangeUse {
  readonly device: number;
  /** The kind of access, one of `memAccessFlags`. */
  readonly flags: number;
  readonly call: string;
}

/** The memory that a program has allocated from a driver. */
export class ProgramMemory {
  readonly allocations: Allocations<AnyAllocation> = new Allocations();
  /** The blocks that a suballocator of the program has handed out. Each block is a part of an allocation. */
  readonly parts: Allocations<SoftwareAllocation> = new Allocations();
  /** The managed memory outside of pools that was not released, including memory whose free is pending. */
  readonly managed: Set<ManagedMemory> = new Set();
  /** The advice for managed memory. */
  readonly advice: Advice = new Advice();
  /** The ranges that were freed most recently. Messages about faults look up freed memory here. */
  readonly freedRanges: FreedRanges = new FreedRanges();
  /** Tracks which memory is initialized. Undefined without the check `initialization`. */
  readonly shadow: MemoryShadow | undefined;
  /**
   * Whether new allocations are passed to `markFresh`, which fills them with a pattern so that uses of uninitialized
   * memory become visible.
   */
  readonly isChecked: boolean;
  readonly #core: DriverCore;
  readonly #streams: StreamsAndEvents;
  /** The allocations that were exported, so that other processes may write them. */
  readonly #exported = new WeakSet<AnyAllocation>();

  constructor(core: DriverCore, streams: StreamsAndEvents) {
    this.#core = core;
    this.#streams = streams;
    this.isChecked = core.isChecked;
    this.shadow = core.kernelChecks.has("initialization") ? this.#openShadow() : undefined;
  }

  #openShadow(): MemoryShadow {
    const shadow = MemoryShadow.open(this.#core.linearMemory, (offset) => {
      const found = this.allocations.containing(offset, 1);
      if (found === undefined || found.kind === "variable") return false;
      if (found.kind === "pool") return found.pool.device === undefined || this.#exported.has(found);
      return found.kind !== "plain" || this.#exported.has(found);
    });
    if (shadow !== undefined) return shadow;
    throw new RangeError(
      `Cannot make the check "initialization": it needs half of the 4 GiB of the software device's memory, and other ` +
        `objects of this process use some of that half; open this one first`,
    );
  }

  /** Returns the allocation that starts at an address, or undefined if there is none. */
  startingAt(address: bigint): AnyAllocation | undefined {
    const offset = offsetOfAddress(address);
    return offset === undefined ? undefined : this.allocations.at(offset);
  }

  /** Returns the allocation that contains the whole range. Throws `cudaErrorInvalidValue` if there is none. */
  at(address: bigint, byteLength: number, call: string): AnyAllocation {
    const offset = offsetOfAddress(address);
    const found = offset === undefined ? undefined : this.allocations.containing(offset, byteLength);
    return found ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  }

  /** Returns whether the kernels of a device may access an allocation. */
  isAccessible(allocation: AnyAllocation, device: number): boolean {
    if (allocation.kind === "locked" || allocation.kind === "managed") return true;
    if (!isPoolMemory(allocation)) return allocation.isAllowed(device);
    const { access } = allocation.pool;
    return (access.get(device) ?? memAccessFlags.none) !== memAccessFlags.none;
  }

  /**
   * Returns the bytes of a range. The range must lie within one allocation that `isPermitted` accepts, or within mapped
   * virtual memory that the device may access in the way that `flags` specifies. An empty range may lie anywhere. By
   * default, `isPermitted` accepts the allocations that the kernels of the device may access.
   */
  range(
    address: bigint,
    byteLength: number,
    { call, device, flags }: RangeUse,
    isPermitted: (allocation: AnyAllocation) => boolean = (allocation) => this.isAccessible(allocation, device),
  ): Uint8Array {
    if (byteLength === 0) return new Uint8Array(0);
    const found = this.at(address, byteLength, call);
    const begin = offsetOfAddress(address)!, end = begin + byteLength;
    const isAllowed = found.kind === "virtual" ? found.permits(device, { begin, end }, flags) : isPermitted(found);
    if (!isAllowed) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    return this.#core.linearMemory.bytes.subarray(begin, end);
  }

  /** Fills the memory of a new allocation with a pattern, and marks the memory as uninitialized. */
  markFresh(allocation: PoolAllocation | DeviceMemory): void {
    const { begin, byteLength } = allocation;
    this.#core.linearMemory.bytes.fill(freshByte, begin, begin + byteLength);
    // By the time this work runs, the allocation may have been exported or freed.
    if (!this.#exported.has(allocation)) this.shadow?.markUninitialized(begin, byteLength);
  }

  /**
   * Records that other processes may write an allocation. Writes of other processes cannot be observed, so the whole
   * allocation counts as initialized.
   */
  export(allocation: PoolAllocation | DeviceMemory): void {
    this.#exported.add(allocation);
    this.shadow?.markInitialized(allocation.begin, allocation.byteLength);
  }

  /** Removes a freed allocation. Adds its range to `freedRanges`, so that messages about faults can name it. */
  forget(allocation: Exclude<AnyAllocation, ModuleVariable>): void {
    this.allocations.remove(allocation);
    if (isManagedMemory(allocation)) this.advice.delete(allocation.begin, allocation.byteLength);
    this.parts.removeWithin(allocation);
    const device = allocation.kind === "locked" ? 0 : allocation.device;
    this.freedRanges.add(allocation.begin, allocation.byteLength, freedKindOf(allocation), device);
  }

  /** Implements `KernelChecker.partAllocated`. */
  partAllocated({ address, byteLength }: MemoryRange, device: number, stream: bigint): void {
    const begin = offsetOfAddress(address)!;
    this.parts.add({ begin, byteLength });
    const { shadow } = this;
    if (shadow === undefined) return;
    // Marks the part as uninitialized in stream order, because pending work may still use the previous contents.
    const target = this.#streams.stream(device, stream, "cudaMallocFromPoolAsync");
    // Looks up the slab that contains the part immediately: it may be freed before the stream reaches this work.
    const slab = this.allocations.containing(begin, byteLength);
    const note = (): void => {
      if (slab === undefined || !this.#exported.has(slab)) shadow.noteAllocation(begin, byteLength);
    };
    this.#core.scheduler.enqueue(target, note, { outlivesDevice: true });
  }

  /** Implements `KernelChecker.partFreed`. */
  partFreed(address: bigint): void {
    const part = this.parts.at(offsetOfAddress(address)!);
    if (part !== undefined) this.parts.remove(part);
  }

  /** Implements `KernelChecker.unfreedHeap`: returns the heap blocks that kernels have not freed. */
  unfreedHeap(): UnfreedHeap[] {
    const { devices, scheduler, linearMemory } = this.#core;
    const all = Array.from({ length: devices.count }, (_, device) => device);
    if (devices.areLost || all.some((device) => !scheduler.isIdle(device))) return [];
    const found = new Map<string, UnfreedHeap>();
    for (const device of all) {
      for (const { byteLength, site } of linearMemory.heapOf(device)?.blocks() ?? []) {
        const { kernel, source } = site ?? {};
        const key = `${kernel}\n${source}`;
        const { count, byteLength: bytes } = found.get(key) ?? { count: 0, byteLength: 0 };
        found.set(key, { kernel, source, count: count + 1, byteLength: bytes + byteLength });
      }
    }
    return [...found.values()];
  }
}

/** Returns whether an allocation is from a pool of this process or of another process. */
export function isPoolMemory(allocation: AnyAllocation): allocation is PoolAllocation | MappedAllocation {
  return allocation.kind === "pool" || allocation.kind === "mapped";
}

/** Returns whether an allocation is from a pool of host memory. */
export function isHostPoolMemory(allocation: AnyAllocation): boolean {
  return isPoolMemory(allocation) && allocation.pool.device === undefined && !allocation.pool.isManaged;
}

/** Returns whether an allocation is managed memory, from a pool or by itself. */
export function isManagedMemory(allocation: AnyAllocation): boolean {
  return allocation.kind === "managed" || (isPoolMemory(allocation) && allocation.pool.isManaged);
}

function freedKindOf(allocation: Exclude<AnyAllocation, ModuleVariable>): FreedKind {
  if (allocation.kind === "locked") return "pageLocked";
  if (isHostPoolMemory(allocation)) return "hostBuffer";
  return allocation.kind === "mapped" || allocation.kind === "opened" ? "imported" : "buffer";
}
