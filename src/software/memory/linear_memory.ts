/**
 * The memory of all software devices of a process: one shared WebAssembly memory of 4 GiB. A device address is a
 * constant plus an offset into it. Files that processes share are mapped over parts of it.
 *
 * Beside the memory itself, each device has a table of limits in it, which says for every granule in which allocation it
 * lies that kernels of that device may access: that is how a compiled kernel finds the first byte past a buffer.
 *
 * @module
 */
import { addressOf, foreignBuffer } from "../../../ffi/host.ts";
import { unmapShared } from "../../../ffi/shim/memory.ts";
import { shimRefusal } from "../../../ffi/shim/shim.ts";
import { SystemError } from "../../../ffi/shim/system_error.ts";
import { addressBase, limitTable } from "../compiler/addresses.ts";
import { RangeAllocator } from "./range_allocator.ts";

/** Bytes of linear memory. */
export const linearMemoryByteLength: number = 2 ** 32;
/** Bytes for which a table of limits has one entry; allocations start at a multiple of it. */
export const granuleByteLength = 512;
/** Bytes of a page: mappings start and end at a multiple of it. */
export const pageByteLength = 65536;

const wasmPages = linearMemoryByteLength / 65536;
const granuleCount = linearMemoryByteLength / granuleByteLength;

/**
 * Where kernels find their parameters, the launch's record, the records of the block's threads, its shared memory, and its
 * threads' local memory and saved registers.
 */
export const scratch = {
  parameters: { begin: 0x1_0000, byteLength: 0x8000 },
  launch: { begin: 0x1_8000, byteLength: 0x8000 },
  shared: { begin: 0x2_0000, byteLength: 0x4_0000 },
  threads: { begin: 0x6_0000, byteLength: 0x1_0000 },
  local: { begin: 0x7_0000, byteLength: 0x400_0000 },
} as const;

/** The bytes of the pages that it takes to hold some. */
export function wholePages(byteLength: number): number {
  return Math.ceil(byteLength / pageByteLength) * pageByteLength;
}

/** The device address of an offset into linear memory. */
export function addressOfOffset(offset: number): bigint {
  return addressBase + BigInt(offset);
}

/** The offset of a device address, or undefined where the address is none of ours. */
export function offsetOfAddress(address: bigint): number | undefined {
  const offset = address - addressBase;
  return offset >= 0n && offset < BigInt(linearMemoryByteLength) ? Number(offset) : undefined;
}

/** Has pages that it may have no use for, but keeps. */
export interface PageHolder {
  /** Gives those back. */
  releaseUnused(): void;
}

interface ProcessMemory {
  readonly memory: WebAssembly.Memory;
  readonly bytes: Uint8Array;
  readonly pages: RangeAllocator;
  readonly pageHolders: Set<PageHolder>;
}

let processMemory: ProcessMemory | undefined;

function openProcessMemory(): ProcessMemory {
  const memory = new WebAssembly.Memory({ initial: wasmPages, maximum: wasmPages, shared: true });
  const begin = scratch.local.begin + scratch.local.byteLength;
  const pages = new RangeAllocator({ begin, end: linearMemoryByteLength });
  return { memory, bytes: new Uint8Array(memory.buffer), pages, pageHolders: new Set() };
}

/** A device's table of limits: where it begins, and its two halves. */
interface BoundsTable {
  readonly begin: number;
  readonly allocations: Uint32Array;
  readonly lengths: Uint32Array;
}

/** One driver's part in the memory of the process. */
export class LinearMemory {
  readonly memory: WebAssembly.Memory;
  readonly bytes: Uint8Array;
  readonly #pages: RangeAllocator;
  /** Those of all drivers of the process. */
  readonly #pageHolders: Set<PageHolder>;
  readonly #boundsTables = new Map<number, BoundsTable>();
  /** What the kernels of all devices may access: bytes by where they begin. */
  readonly #allowedToAll = new Map<number, number>();

  constructor() {
    processMemory ??= openProcessMemory();
    this.memory = processMemory.memory;
    this.bytes = processMemory.bytes;
    this.#pages = processMemory.pages;
    this.#pageHolders = processMemory.pageHolders;
  }

  /** Gives the tables of limits back. */
  close(): void {
    for (const { begin } of this.#boundsTables.values()) {
      this.discard(begin, limitTable.byteLength);
      this.#pages.free(begin, limitTable.byteLength);
    }
    this.#boundsTables.clear();
  }

  /** Bytes that no pool has reserved. */
  get freeBytes(): number {
    return this.#pages.freeLength;
  }

  /** A range as an `ArrayBuffer`, which the engine's shared memory is not. It needs FFI. */
  view(offset: number, byteLength: number): ArrayBuffer {
    return foreignBuffer(addressOf(this.bytes) + BigInt(offset), byteLength);
  }

  /** What keeps pages is asked for them when linear memory is full, until it is removed. */
  addPageHolder(holder: PageHolder): void {
    this.#pageHolders.add(holder);
  }

  removePageHolder(holder: PageHolder): void {
    this.#pageHolders.delete(holder);
  }

  /** A range of whole pages, or undefined where linear memory is full of what is in use. */
  reserve(byteLength: number): number | undefined {
    return this.#pages.allocate(byteLength) ?? this.#reserveAnew(byteLength);
  }

  /** Reserves once more, after what is kept without use was given back. */
  #reserveAnew(byteLength: number): number | undefined {
    for (const holder of this.#pageHolders) holder.releaseUnused();
    return this.#pages.allocate(byteLength);
  }

  release(offset: number, byteLength: number): void {
    this.#pages.free(offset, byteLength);
  }

  /**
   * Gives the memory of whole pages back to the system, where there is a way: they are zero then. False where there is
   * none, and the pages are as they were.
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

  /** Discards whole pages and releases them, unless they still show a file: then they are nobody else's to use. */
  giveBack(offset: number, byteLength: number, { isShared }: { isShared: boolean }): void {
    const isDiscarded = this.discard(offset, byteLength);
    if (isDiscarded || !isShared) this.release(offset, byteLength);
  }

  /** Whether there is a table of limits for a device; it is made where there is room, and none is given back before. */
  hasBoundsTable(device: number): boolean {
    if (this.#boundsTables.has(device)) return true;
    const begin = this.reserve(limitTable.byteLength);
    if (begin === undefined) return false;
    const allocations = new Uint32Array(this.memory.buffer, begin, granuleCount);
    const lengths = new Uint32Array(this.memory.buffer, begin + limitTable.lengths, granuleCount);
    // A pool may have had these pages: what it left there would be access to anything.
    if (!this.discard(begin, limitTable.byteLength)) allocations.fill(0);
    this.#boundsTables.set(device, { begin, allocations, lengths });
    for (const [offset, byteLength] of this.#allowedToAll) this.allow(device, offset, byteLength);
    return true;
  }

  /** Where the limits of a device's kernels begin. */
  boundsTableOf(device: number): number {
    return this.#limitsOf(device).begin;
  }

  /** Lets the device's kernels access `byteLength` bytes from `offset` on, which starts a granule, and none after. */
  allow(device: number, offset: number, byteLength: number): void {
    const { allocations, lengths } = this.#limitsOf(device);
    const first = offset / granuleByteLength;
    lengths[first] = byteLength;
    allocations.fill(first + 1, first, first + Math.ceil(byteLength / granuleByteLength));
  }

  /** Takes access to every granule of the range from the device's kernels. */
  deny(device: number, offset: number, byteLength: number): void {
    const first = offset / granuleByteLength;
    this.#limitsOf(device).allocations.fill(0, first, first + Math.ceil(byteLength / granuleByteLength));
  }

  /** Lets the kernels of all devices access a range, those too that have no table of limits yet. */
  allowAll(offset: number, byteLength: number): void {
    this.#allowedToAll.set(offset, byteLength);
    for (const device of this.#boundsTables.keys()) this.allow(device, offset, byteLength);
  }

  /** Takes access from the kernels of all devices. */
  denyAll(offset: number, byteLength: number): void {
    this.#allowedToAll.delete(offset);
    for (const device of this.#boundsTables.keys()) this.deny(device, offset, byteLength);
  }

  #limitsOf(device: number): BoundsTable {
    if (!this.hasBoundsTable(device)) {
      throw new RangeError(`Cannot use software device ${device}: its 4 GiB of linear memory are full`);
    }
    return this.#boundsTables.get(device)!;
  }
}
