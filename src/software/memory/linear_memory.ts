/**
 * The memory of all software devices of a process: one shared WebAssembly memory of 4 GiB. A device address is a
 * constant plus an offset into this memory. Files that processes share are mapped over parts of it.
 *
 * The memory also contains a bounds table for each device, which maps each granule to the allocation that contains the
 * granule, if the device's kernels may access the allocation. Compiled kernels use the table to find the end of a
 * buffer.
 *
 * @module
 */
import { addressOf, foreignBuffer } from "../../../ffi/native/host.ts";
import { unmapShared } from "../../../ffi/native/shim/memory_files.ts";
import { shimRefusal, SystemError } from "../../../ffi/native/shim/shim.ts";
import { boundsTable, shadowOffset, shadowSpace } from "../abi/addresses.ts";
import { ConditionTable, conditionTableBytes } from "./condition_table.ts";
import { DeviceHeap, heapLimitBytes } from "./device_heap.ts";
import { changeAccess } from "./access.ts";
import { type Range, RangeAllocator } from "./allocations.ts";
import { firstReservable, granuleByteLength, linearMemoryByteLength, pageByteLength } from "./memory_layout.ts";

const wasmPages = linearMemoryByteLength / 65536;
const granuleCount = linearMemoryByteLength / granuleByteLength;

/** An owner of pages of linear memory, which may keep pages reserved that it does not use. */
export interface PageHolder {
  /** Releases the unused pages. */
  releaseUnused(): void;
  /** The number of bytes of unused pages that count as free. By default 0. */
  readonly unusedBytes?: number;
}

/** A launch whose data in the scratch ranges must be preserved between its time slices. */
export interface ScratchOwner {
  /** Saves the data that the launch has in the scratch ranges, because another launch is about to overwrite them. */
  saveScratch(): void;
}

interface ProcessMemory {
  readonly pages: RangeAllocator;
  readonly pageHolders: Set<PageHolder>;
  scratchOwner: ScratchOwner | undefined;
  /** The number of open drivers that use the upper half of linear memory as the shadow of the lower half. */
  shadowUsers: number;
}

let processMemory: ProcessMemory | undefined;

function openProcessMemory(): ProcessMemory {
  const pages = new RangeAllocator({ begin: firstReservable, end: linearMemoryByteLength });
  return { pages, pageHolders: new Set(), scratchOwner: undefined, shadowUsers: 0 };
}

/** The memory of the process, and all of its bytes. Undefined until they are first needed. */
let created: { readonly memory: WebAssembly.Memory; readonly bytes: Uint8Array } | undefined;

/** Creates the memory of the process. V8 then collects garbage, because it counts the memory as a part of its heap. */
function createMemory(): NonNullable<typeof created> {
  const memory = new WebAssembly.Memory({ initial: wasmPages, maximum: wasmPages, shared: true });
  return created = { memory, bytes: new Uint8Array(memory.buffer) };
}

/** A device's bounds table: the offset in linear memory, and a view of each of the three parts. */
interface BoundsTable {
  readonly begin: number;
  readonly allocations: Uint32Array;
  readonly lengths: Uint32Array;
  readonly readOnly: Uint8Array;
  /** The number of pages that are marked as read-only. */
  readOnlyPages: number;
}

/** The parts of linear memory that a running launch uses. Each thread that runs blocks has its own. */
export type LaunchMemory = Pick<
  LinearMemory,
  "memory" | "bytes" | "takeScratch" | "leaveScratch" | "reserve" | "release" | "discard"
>;

/** A driver's access to the linear memory of the process, which all drivers share. */
export class LinearMemory {
  readonly #pages: RangeAllocator;
  /** The page holders of all drivers of the process. */
  readonly #pageHolders: Set<PageHolder>;
  readonly #boundsTables = new Map<number, BoundsTable>();
  /** The heaps of the devices whose kernels have called `malloc`, by the offsets of the devices' bounds tables. */
  readonly #heaps = new Map<number, DeviceHeap>();
  /** The print limits that were set, by device. */
  readonly #printLimits = new Map<number, number>();
  /** The values that kernels set by `cudaGraphSetConditional`, and their offset. Undefined until a graph has one. */
  #conditions: { readonly begin: number; readonly table: ConditionTable } | undefined;
  /** The sizes of heaps that were set, by device. */
  readonly #heapLimits = new Map<number, number>();
  /** The ranges that the kernels of all devices may access. Maps the start of each range to its length in bytes. */
  readonly #allowedToAll = new Map<number, number>();
  /** Whether heaps delay the reuse of freed blocks to find errors. Passed to each `DeviceHeap`. */
  readonly #findsMistakes: boolean;
  #hasShadow = false;

  constructor({ findsMistakes = false }: { readonly findsMistakes?: boolean } = {}) {
    this.#findsMistakes = findsMistakes;
    processMemory ??= openProcessMemory();
    this.#pages = processMemory.pages;
    this.#pageHolders = processMemory.pageHolders;
  }

  /** The memory. Created when it is first needed, so that opening a device takes less time. */
  get memory(): WebAssembly.Memory {
    return (created ?? createMemory()).memory;
  }

  /** All bytes of the memory. */
  get bytes(): Uint8Array {
    return (created ?? createMemory()).bytes;
  }

  /**
   * Reserves the upper half of linear memory for the shadow of the lower half, and marks the lower half as initialized.
   * Returns false if a part of the upper half is in use.
   */
  openShadow(): boolean {
    if (processMemory!.shadowUsers === 0 && !this.#pages.take(shadowSpace.begin, shadowSpace.byteLength)) {
      return false;
    }
    processMemory!.shadowUsers++;
    this.#hasShadow = true;
    return true;
  }

  /** Marks a newly reserved range as initialized, because a previous owner may have left uninitialized bits there. */
  #clearShadow(offset: number, byteLength: number): void {
    const begin = offset + shadowOffset, end = begin + byteLength;
    const [first, last] = [Math.ceil(begin / pageByteLength), Math.floor(end / pageByteLength)];
    const pages = { begin: first * pageByteLength, end: last * pageByteLength };
    if (pages.begin >= pages.end || !this.discard(pages.begin, pages.end - pages.begin)) {
      this.bytes.fill(0, begin, end);
      return;
    }
    this.bytes.fill(0, begin, pages.begin);
    this.bytes.fill(0, pages.end, end);
  }

  /** Releases the heaps, the bounds tables and the shadow. */
  close(): void {
    if (this.#hasShadow) {
      this.#hasShadow = false;
      if (--processMemory!.shadowUsers === 0) {
        const { begin, byteLength } = shadowSpace;
        this.clear(begin, byteLength);
        this.#pages.free(begin, byteLength);
      }
    }
    for (const heap of this.#heaps.values()) {
      heap.close();
      this.removePageHolder(heap);
    }
    this.#heaps.clear();
    if (this.#conditions !== undefined) {
      this.discardAndRelease(this.#conditions.begin, conditionTableBytes, { isShared: false });
      this.#conditions = undefined;
    }
    for (const { begin } of this.#boundsTables.values()) {
      this.discard(begin, boundsTable.byteLength);
      this.#pages.free(begin, boundsTable.byteLength);
    }
    this.#boundsTables.clear();
  }

  /** The number of bytes that programs can use, whether or not they are reserved. Excludes the shadow. */
  get totalBytes(): number {
    return linearMemoryByteLength - firstReservable - this.shadowBytes;
  }

  /** The number of bytes of the shadow, which any driver of the process may use; 0 if no driver uses a shadow. */
  get shadowBytes(): number {
    return processMemory!.shadowUsers > 0 ? shadowSpace.byteLength : 0;
  }

  /** The number of bytes that are not reserved, or that their holders do not use and count as free. */
  get freeBytes(): number {
    let free = this.#pages.freeLength;
    for (const { unusedBytes = 0 } of this.#pageHolders) free += unusedBytes;
    return free;
  }

  /**
   * Returns a range as an `ArrayBuffer`, although the buffer of linear memory is a `SharedArrayBuffer`. Requires FFI.
   */
  view(offset: number, byteLength: number): ArrayBuffer {
    return foreignBuffer(addressOf(this.bytes) + BigInt(offset), byteLength);
  }

  /**
   * Registers an owner of pages. Until the owner is removed, its `releaseUnused` is called whenever linear memory is
   * full.
   */
  addPageHolder(holder: PageHolder): void {
    this.#pageHolders.add(holder);
  }

  removePageHolder(holder: PageHolder): void {
    this.#pageHolders.delete(holder);
  }

  /**
   * Makes a launch the owner of the scratch ranges. The previous owner, if any, first saves its data. Without `owner`,
   * the ranges have no owner afterwards, so the data that is written next is never saved.
   */
  takeScratch(owner?: ScratchOwner): void {
    const previous = processMemory!.scratchOwner;
    if (previous === owner) return;
    processMemory!.scratchOwner = owner;
    previous?.saveScratch();
  }

  /** Ends a launch's ownership of the scratch ranges. Does not save the contents. */
  leaveScratch(owner: ScratchOwner): void {
    if (processMemory!.scratchOwner === owner) processMemory!.scratchOwner = undefined;
  }

  /**
   * Reserves whole pages. Returns their offset, or undefined if linear memory has no free range that is large enough.
   */
  reserve(byteLength: number): number | undefined {
    return this.reserveFree(byteLength) ?? this.#reserveAfterReclaiming(byteLength);
  }

  /** Reserves whole pages that no holder has reserved. Returns undefined if there is no such range. */
  reserveFree(byteLength: number): number | undefined {
    const offset = this.#pages.allocate(byteLength);
    if (offset !== undefined && processMemory!.shadowUsers > 0) this.#clearShadow(offset, byteLength);
    return offset;
  }

  /** Tries to reserve pages again after all owners of pages have released those that they do not use. */
  #reserveAfterReclaiming(byteLength: number): number | undefined {
    for (const holder of this.#pageHolders) holder.releaseUnused();
    return this.reserveFree(byteLength);
  }

  /** Releases whole pages without clearing them. */
  release(offset: number, byteLength: number): void {
    this.#pages.free(offset, byteLength);
  }

  /**
   * Clears whole pages: returns their memory to the system, and unmaps any file there. Returns false, and leaves the
   * pages unchanged, if this is not possible.
   */
  discard(offset: number, byteLength: number): boolean {
    if (shimRefusal() !== undefined) return false;
    try {
      unmapShared(this.bytes, { at: offset, byteLength });
      return true;
    } catch (error) {
      if (error instanceof SystemError) return false;
      throw error;
    }
  }

  /** Sets whole pages to 0. No file may be mapped there. */
  clear(offset: number, byteLength: number): void {
    if (!this.discard(offset, byteLength)) this.bytes.fill(0, offset, offset + byteLength);
  }

  /**
   * Discards whole pages and releases them.
   *
   * @param isShared whether a file may be mapped at the pages. If so, pages that cannot be discarded stay reserved
   */
  discardAndRelease(offset: number, byteLength: number, { isShared }: { isShared: boolean }): void {
    const isDiscarded = this.discard(offset, byteLength);
    if (isDiscarded || !isShared) this.release(offset, byteLength);
  }

  /**
   * Creates the bounds table of a device if it does not exist. Returns false if linear memory has no room for the
   * table. A table exists until `close` is called.
   */
  ensureBoundsTable(device: number): boolean {
    if (this.#boundsTables.has(device)) return true;
    const begin = this.reserve(boundsTable.byteLength);
    if (begin === undefined) return false;
    const allocations = new Uint32Array(this.memory.buffer, begin, granuleCount);
    const lengths = new Uint32Array(this.memory.buffer, begin + boundsTable.lengths, granuleCount);
    // Data that a previous owner has left in these pages would be interpreted as table entries, and grant access.
    const isDiscarded = this.discard(begin, boundsTable.byteLength);
    if (!isDiscarded) allocations.fill(0);
    const readOnly = this.bytes.subarray(begin + boundsTable.readOnly, begin + boundsTable.byteLength);
    if (!isDiscarded) readOnly.fill(0);
    this.#boundsTables.set(device, { begin, allocations, lengths, readOnly, readOnlyPages: 0 });
    for (const [offset, byteLength] of this.#allowedToAll) this.allow(device, offset, byteLength);
    return true;
  }

  /** Returns the offset of a device's bounds table. */
  boundsTableOf(device: number): number {
    return this.#requireBoundsTable(device).begin;
  }

  /** Returns the part of a device's bounds table that maps each granule to the start of its allocation. */
  allocationsOf(device: number): Uint32Array {
    return this.#requireBoundsTable(device).allocations;
  }

  /** Returns the heap of the device whose bounds table is at an offset. Creates the heap if necessary. */
  heapAt(bounds: number): DeviceHeap {
    return this.#heaps.get(bounds) ?? this.#createHeap(bounds);
  }

  #createHeap(bounds: number): DeviceHeap {
    const heap = new DeviceHeap({
      memory: this.memory,
      bounds,
      freeBytes: () => this.freeBytes,
      reserve: (byteLength) => this.reserve(byteLength),
      reserveFree: (byteLength) => this.reserveFree(byteLength),
      clear: (offset, byteLength) => this.clear(offset, byteLength),
      release: (offset, byteLength) => this.discardAndRelease(offset, byteLength, { isShared: false }),
    }, { findsMistakes: this.#findsMistakes, limit: this.#heapLimits.get(this.#deviceAt(bounds)) ?? heapLimitBytes });
    this.#heaps.set(bounds, heap);
    this.addPageHolder(heap);
    return heap;
  }

  #deviceAt(bounds: number): number {
    return [...this.#boundsTables].find(([, { begin }]) => begin === bounds)![0];
  }

  /** The values that kernels set by `cudaGraphSetConditional`, and their offset. Undefined if no graph has had one. */
  get conditions(): { readonly begin: number; readonly table: ConditionTable } | undefined {
    return this.#conditions;
  }

  /** Returns the table of conditions. Creates it if necessary. Returns undefined if linear memory is full. */
  ensureConditions(): ConditionTable | undefined {
    if (this.#conditions !== undefined) return this.#conditions.table;
    const begin = this.reserve(conditionTableBytes);
    if (begin === undefined) return undefined;
    this.clear(begin, conditionTableBytes);
    this.#conditions = { begin, table: new ConditionTable(this.memory, begin) };
    return this.#conditions.table;
  }

  /** Sets the greatest number of characters that a device's kernels print at once. */
  limitPrint(device: number, characters: number): void {
    this.#printLimits.set(device, characters);
  }

  /** Returns the print limit of the device whose bounds table is at an offset. Undefined if none was set. */
  printLimitAt(bounds: number): number | undefined {
    return this.#printLimits.size === 0 ? undefined : this.#printLimits.get(this.#deviceAt(bounds));
  }

  /** Sets the size in bytes of the heap that a device's kernels will have. */
  limitHeap(device: number, byteLength: number): void {
    this.#heapLimits.set(device, byteLength);
  }

  /** Returns the heap of a device. Returns undefined if the device's kernels have not allocated memory. */
  heapOf(device: number): DeviceHeap | undefined {
    const table = this.#boundsTables.get(device);
    return table === undefined ? undefined : this.#heaps.get(table.begin);
  }

  /**
   * Gives a device's kernels access to exactly `byteLength` bytes from `offset`, which must be a multiple of the
   * granule size.
   */
  allow(device: number, offset: number, byteLength: number): void {
    changeAccess(this.#requireBoundsTable(device), { begin: offset, byteLength, isAllowed: true });
  }

  /** Removes the access of a device's kernels to every granule of a range. */
  deny(device: number, offset: number, byteLength: number): void {
    changeAccess(this.#requireBoundsTable(device), { begin: offset, byteLength, isAllowed: false });
  }

  /** Sets whether whole pages are read-only for a device's kernels. */
  setReadOnly(device: number, { begin, end }: Range, isReadOnly: boolean): void {
    const table = this.#requireBoundsTable(device);
    const pages = table.readOnly.subarray(begin / pageByteLength, end / pageByteLength);
    for (const page of pages) table.readOnlyPages -= page;
    pages.fill(isReadOnly ? 1 : 0);
    if (isReadOnly) table.readOnlyPages += pages.length;
  }

  /** Returns whether any memory is read-only for a device's kernels. */
  hasReadOnly(device: number): boolean {
    return (this.#boundsTables.get(device)?.readOnlyPages ?? 0) > 0;
  }

  /** Returns whether a device's kernels may access the first granule of an allocation. */
  isAllowed(device: number, offset: number): boolean {
    return this.#requireBoundsTable(device).allocations[offset / granuleByteLength] !== 0;
  }

  /** Returns whether a device's kernels may access all bytes of a range within an allocation. */
  isAccessible(device: number, offset: number, byteLength: number): boolean {
    const { allocations, lengths } = this.#requireBoundsTable(device);
    const entry = allocations[Math.floor(offset / granuleByteLength)] ?? 0;
    return entry !== 0 && offset + byteLength <= (entry - 1) * granuleByteLength + lengths[entry - 1]!;
  }

  /** Gives the kernels of all devices access to a range, including devices whose bounds tables do not exist yet. */
  allowAll(offset: number, byteLength: number): void {
    this.#allowedToAll.set(offset, byteLength);
    for (const device of this.#boundsTables.keys()) this.allow(device, offset, byteLength);
  }

  /** Revokes the access of the kernels of all devices to a range. */
  denyAll(offset: number, byteLength: number): void {
    this.#allowedToAll.delete(offset);
    for (const device of this.#boundsTables.keys()) this.deny(device, offset, byteLength);
  }

  #requireBoundsTable(device: number): BoundsTable {
    if (!this.ensureBoundsTable(device)) {
      throw new RangeError(`Cannot use software device ${device}: the 4 GiB of linear memory are full`);
    }
    return this.#boundsTables.get(device)!;
  }
}
