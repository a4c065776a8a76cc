/**
 * Observes device memory: allocations, frees, copies, fills, sharing with other processes, and virtual memory, which is
 * created without an address and can be mapped at several addresses.
 *
 * @module
 */
import type { RangeAccess, SharedContents } from "../order/stream_order.ts";
import { identityOf } from "../processes/shared_accesses.ts";
import { MemoryHistory, PossibleAccesses } from "../memory_history.ts";
import type { ArrayPlace, Driver, MemoryRange, PitchedMemory } from "../../driver.ts";
import type { Operation } from "../order/timelines.ts";
import type { OtherProcesses } from "../processes/other_processes.ts";
import type { ObservedStreams } from "./observed_streams.ts";
import type { ObservedWork } from "./observed_events.ts";
import type { Reports } from "../reporting/reports.ts";
import type { ObservedHostMemory } from "./host_memory.ts";
import type { ObservedTextures } from "./textures.ts";

/** Observes the calls that allocate, free, export and import device memory. */
export class ObservedDeviceMemory {
  readonly #streams: ObservedStreams;
  readonly #work: ObservedWork;
  readonly #processes: OtherProcesses;
  readonly #virtualMemory: ObservedVirtualMemory;
  /**
   * The sizes in bytes of allocations that may be exported, keyed by address. Undefined if the allocation was freed.
   */
  readonly #byteLengths = new Map<number, number | undefined>();

  constructor(streams: ObservedStreams, work: ObservedWork) {
    this.#streams = streams;
    this.#work = work;
    this.#processes = streams.processes;
    this.#virtualMemory = new ObservedVirtualMemory(streams.processes, work);
  }

  /** Returns wrappers of the driver's memory calls that observe and forward each call. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#allocationCalls(driver), ...this.#sharingCalls(driver), ...this.#virtualMemory.calls(driver) };
  }

  #allocationCalls(driver: Driver): Partial<Driver> {
    const work = this.#work;
    return {
      mallocFromPoolAsync: (device, byteLength, pool, stream) => {
        const address = driver.mallocFromPoolAsync(device, byteLength, pool, stream);
        this.#allocated(work.next("allocate", device, stream), Number(address), byteLength);
        return address;
      },
      freeAsync: (device, address, stream) => {
        driver.freeAsync(device, address, stream);
        this.#freed(work.next("free", device, stream), Number(address));
      },
      malloc: (device, byteLength) => {
        const address = driver.malloc(device, byteLength);
        this.#allocated(work.nextOfHost("allocate"), Number(address), byteLength);
        return address;
      },
      mallocManaged: (device, byteLength) => {
        const address = driver.mallocManaged(device, byteLength);
        this.#allocated(work.nextOfHost("allocate"), Number(address), byteLength);
        return address;
      },
      free: (device, address) => {
        driver.free(device, address);
        this.#streams.syncHostWithDevice(device);
        this.#freed(work.nextOfHost("free"), Number(address));
      },
    };
  }

  #sharingCalls(driver: Driver): Partial<Driver> {
    return {
      memPoolExportPointer: (address) => {
        const exportData = driver.memPoolExportPointer(address);
        this.#exported(exportData, address);
        return exportData;
      },
      ipcGetMemHandle: (device, address) => {
        const handle = driver.ipcGetMemHandle(device, address);
        this.#exported(handle, address);
        return handle;
      },
      memPoolImportPointer: (device, pool, exportData) => {
        const address = driver.memPoolImportPointer(device, pool, exportData);
        this.#imported(exportData, address, driver.memGetAddressRange(device, address).byteLength);
        return address;
      },
      ipcOpenMemHandle: (device, handle) => {
        const address = driver.ipcOpenMemHandle(device, handle);
        this.#imported(handle, address, driver.memGetAddressRange(device, address).byteLength);
        return address;
      },
      ipcCloseMemHandle: (device, address) => {
        driver.ipcCloseMemHandle(device, address);
        this.#freed(this.#work.nextOfHost("free"), Number(address));
      },
    };
  }

  #allocated(operation: Operation, address: number, byteLength: number): void {
    this.#byteLengths.set(address, byteLength);
    this.#work.allocated(operation, { address, byteLength });
  }

  #freed(operation: Operation, address: number): void {
    this.#byteLengths.set(address, undefined);
    this.#processes.freed(operation, address);
    this.#work.freed(operation, address);
  }

  #exported(handle: Uint8Array, address: bigint): void {
    const byteLength = this.#byteLengths.get(Number(address));
    if (byteLength !== undefined) this.#processes.exported(handle, address, byteLength);
  }

  #imported(handle: Uint8Array, address: bigint, byteLength: number): void {
    // The driver returns the same address if the memory is mapped already.
    if (this.#work.liveAt(Number(address)) !== undefined) return;
    // If this process exported the memory itself, the memory now has two addresses.
    const own = this.#processes.ownAddressOf(handle);
    const contents = own === undefined ? undefined : () => this.#work.order.contentsAt(own);
    this.#work.allocated(this.#work.nextOfHost("import"), { address: Number(address), byteLength }, contents);
    if (own === undefined) this.#processes.imported(handle, address, byteLength);
  }
}

/** Physical memory, with its handles and mappings. */
interface ObservedMemory {
  /** The shadow state that all mappings share. Undefined until the memory is first mapped. */
  contents: SharedContents | undefined;
  /**
   * A name for the memory that is the same in all processes. Undefined if the memory is not shared or no name is known.
   */
  identity: string | undefined;
  /** The sizes of the mappings in bytes, keyed by address. */
  readonly mappings: Map<number, number>;
  /** The reference count: creating or importing a handle adds one, releasing a handle subtracts one. */
  handleCount: number;
}

/** Observes the calls that create, share and map virtual memory. */
export class ObservedVirtualMemory {
  readonly #processes: OtherProcesses;
  readonly #work: ObservedWork;
  /** For each handle, the memory, and the number of times that the driver has returned the handle. */
  readonly #handles = new Map<bigint, { readonly memory: ObservedMemory; count: number }>();
  /** The memory that has an identity, keyed by the identity. */
  readonly #byIdentity = new Map<string, ObservedMemory>();
  /** The mapped memory, keyed by the address of the mapping. */
  readonly #mapped = new Map<number, ObservedMemory>();

  constructor(processes: OtherProcesses, work: ObservedWork) {
    this.#processes = processes;
    this.#work = work;
  }

  /** Returns wrappers of the driver's virtual-memory calls that observe and forward each call. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#handleCalls(driver), ...this.#mappingCalls(driver) };
  }

  #handleCalls(driver: Driver): Partial<Driver> {
    return {
      memCreate: (props, byteLength) => {
        const handle = driver.memCreate(props, byteLength);
        this.#addHandle(handle, undefined);
        return handle;
      },
      memImportFromShareableHandle: (shared, handleType, name) => {
        const handle = driver.memImportFromShareableHandle(shared, handleType);
        this.#addHandle(handle, identityOf(shared) ?? name);
        return handle;
      },
      memExportToShareableHandle: (handle, handleType) => {
        const shared = driver.memExportToShareableHandle(handle, handleType);
        this.#identify(this.#memoryOf(handle), identityOf(shared));
        return shared;
      },
      memRelease: (handle) => {
        driver.memRelease(handle);
        const known = this.#handles.get(handle);
        if (known === undefined) return;
        known.memory.handleCount--;
        if (--known.count === 0) this.#handles.delete(handle);
        this.#forgetUnused(known.memory);
      },
    };
  }

  #mappingCalls(driver: Driver): Partial<Driver> {
    return {
      memMap: (address, byteLength, handle) => {
        driver.memMap(address, byteLength, handle);
        const memory = this.#memoryOf(handle), at = Number(address);
        const contents = memory.contents ??= {
          history: new MemoryHistory(byteLength),
          possible: new PossibleAccesses(),
        };
        memory.mappings.set(at, byteLength);
        this.#mapped.set(at, memory);
        this.#work.allocated(this.#work.nextOfHost("map"), { address: at, byteLength }, () => contents);
        if (memory.identity !== undefined) this.#processes.mapped(memory.identity, at, byteLength);
      },
      memUnmap: (address, byteLength) => {
        driver.memUnmap(address, byteLength);
        const at = Number(address), memory = this.#mapped.get(at);
        const operation = this.#work.nextOfHost("unmap");
        this.#processes.freed(operation, at);
        this.#work.freed(operation, at);
        if (memory === undefined) return;
        this.#mapped.delete(at);
        memory.mappings.delete(at);
        this.#forgetUnused(memory);
      },
    };
  }

  #memoryOf(handle: bigint): ObservedMemory {
    return this.#handles.get(handle)?.memory ?? this.#addHandle(handle, undefined);
  }

  #addHandle(handle: bigint, identity: string | undefined): ObservedMemory {
    const known = this.#handles.get(handle);
    const memory = known?.memory ?? (identity === undefined ? undefined : this.#byIdentity.get(identity)) ??
      { contents: undefined, identity: undefined, mappings: new Map(), handleCount: 0 };
    memory.handleCount++;
    if (known === undefined) this.#handles.set(handle, { memory, count: 1 });
    else known.count++;
    this.#identify(memory, identity);
    return memory;
  }

  /** Sets the identity of memory that other processes may map, and reports its mappings as shared memory. */
  #identify(memory: ObservedMemory, identity: string | undefined): void {
    if (identity === undefined || memory.identity !== undefined) return;
    memory.identity = identity;
    this.#byIdentity.set(identity, memory);
    for (const [address, byteLength] of memory.mappings) this.#processes.mapped(identity, address, byteLength);
  }

  #forgetUnused({ handleCount, mappings, identity }: ObservedMemory): void {
    if (handleCount === 0 && mappings.size === 0 && identity !== undefined) this.#byIdentity.delete(identity);
  }
}

/** The parts of the sanitizer that `copiesAndFills` uses. */
interface CopyParts {
  readonly reports: Reports;
  readonly streams: ObservedStreams;
  readonly work: ObservedWork;
  readonly hostMemory: ObservedHostMemory;
  readonly textures: ObservedTextures;
  /** Whether to report uninitialized memory that is copied to the host. */
  readonly reportsHostReads: boolean;
}

/** Returns wrappers of the driver's calls that copy and fill memory, which observe and forward each call. */
export function copiesAndFills(driver: Driver, parts: CopyParts): Partial<Driver> {
  return {
    ...copiesWithHost(driver, parts),
    ...copies(driver, parts),
    ...copiesOfRows(driver, parts),
    ...fills(driver, parts),
    ...prefetchesAndDiscards(driver, parts),
  };
}

function copiesWithHost(
  driver: Driver,
  { reports, streams, work, hostMemory, reportsHostReads }: CopyParts,
): Partial<Driver> {
  return {
    memcpyHtoDAsync: (device, destination, source, stream) => {
      hostMemory.beforeWrite(destination, source.byteLength);
      driver.memcpyHtoDAsync(device, destination, source, stream);
      const accesses = [...hostMemory.rangeOf("read", source), range("write", destination, source.byteLength)];
      hostMemory.addSource(work.add("copyFrom", { device, stream }, accesses), source);
    },
    memcpyDtoHAsync: (device, destination, source, stream) => {
      hostMemory.beforeCopyTo(destination);
      const region = reportsHostReads ? work.order.regionAt(Number(source)) : undefined;
      const read: { found?: bigint; operation?: Operation } = {};
      const report = () => {
        const { found: at, operation } = read;
        if (at !== undefined && operation !== undefined) reports.addUnwritten({ region, operation, at });
      };
      const found = (address: bigint) => {
        read.found = address;
        report();
      };
      // The driver calls `found` with the address of an uninitialized byte. For pageable memory, it does so before
      // `memcpyDtoHAsync` returns; for page-locked memory, later.
      driver.memcpyDtoHAsync(device, destination, source, stream, region && found);
      const host = hostMemory.rangeOf("write", destination);
      const name = hostMemory.isExposedToProgram(destination.buffer) ? "copyTo" : "read";
      const accesses = [range("read", source, destination.byteLength), ...host];
      read.operation = work.add(name, { device, stream }, accesses);
      report();
      // A copy to pageable memory is complete when the call returns.
      if (host.length === 0) streams.syncHostWith(streams.streamOf(device, stream));
    },
  };
}

function copies(driver: Driver, { work, hostMemory }: CopyParts): Partial<Driver> {
  return {
    memcpyAsync: (device, destination, source, byteLength, stream) => {
      hostMemory.beforeWrite(destination, byteLength);
      driver.memcpyAsync(device, destination, source, byteLength, stream);
      work.add("copy", { device, stream }, [
        range("read", source, byteLength),
        range("write", destination, byteLength),
      ]);
    },
    memcpyPeerAsync: (device, destination, destinationDevice, source, sourceDevice, byteLength, stream) => {
      hostMemory.beforeWrite(destination, byteLength);
      driver.memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, stream);
      work.add("copy", { device, stream }, [
        range("read", source, byteLength),
        range("write", destination, byteLength),
      ]);
    },
  };
}

function copiesOfRows(
  driver: Driver,
  { reports, streams, work, hostMemory, textures, reportsHostReads }: CopyParts,
): Partial<Driver> {
  return {
    memcpy3DAsync: (device, copy, stream, onUninitialized) => {
      const { destination, source } = copy;
      const writes = accessesOfRows(hostMemory, "write", destination, copy),
        reads = accessesOfRows(hostMemory, "read", source, copy);
      if (typeof destination.memory === "bigint") beforeWriteOf(writes, hostMemory);
      else for (const row of arrayRows(destination.memory, destination, copy)) hostMemory.beforeCopyTo(row);
      const isRead = typeof destination.memory !== "bigint" && typeof source.memory === "bigint";
      const region = isRead && reportsHostReads ? work.order.regionAt(Number(source.memory)) : undefined;
      const read: { found?: bigint; operation?: Operation } = {};
      const report = () => {
        const { found: at, operation } = read;
        if (at !== undefined && operation !== undefined) reports.addUnwritten({ region, operation, at });
      };
      const found = (address: bigint) => {
        read.found = address;
        report();
      };
      driver.memcpy3DAsync(device, copy, stream, region && onUninitialized === undefined ? found : onUninitialized);
      const isOfProgram = !isRead || hostMemory.isExposedToProgram((destination.memory as Uint8Array).buffer);
      const name = !isOfProgram ? "read" : isRead ? "copyTo" : typeof source.memory === "bigint" ? "copy" : "copyFrom";
      const operation = read.operation = work.add(name, { device, stream }, [...reads, ...writes]);
      report();
      if (typeof source.memory !== "bigint") {
        for (const row of arrayRows(source.memory, source, copy)) hostMemory.addSource(operation, row);
      }
      // A copy to pageable memory is complete when the call returns.
      const isPageable = typeof destination.memory !== "bigint" &&
        hostMemory.rangeOf("write", destination.memory).length === 0;
      if (isPageable) streams.syncHostWith(streams.streamOf(device, stream));
    },
    memcpy3DPeerAsync: (device, copy, destinationDevice, sourceDevice, stream) => {
      const writes = accessesOfRows(hostMemory, "write", copy.destination, copy);
      beforeWriteOf(writes, hostMemory);
      driver.memcpy3DPeerAsync(device, copy, destinationDevice, sourceDevice, stream);
      work.add("copy", { device, stream }, [...accessesOfRows(hostMemory, "read", copy.source, copy), ...writes]);
    },
    memcpy3DArrayAsync: (device, copy, stream) => {
      const { destination, source } = copy;
      const writes = textures.accessesOfEnd("write", destination, copy);
      const reads = textures.accessesOfEnd("read", source, copy);
      if (!("array" in destination)) {
        if (typeof destination.memory === "bigint") beforeWriteOf(writes, hostMemory);
        else for (const row of arrayRows(destination.memory, destination, copy)) hostMemory.beforeCopyTo(row);
      }
      driver.memcpy3DArrayAsync(device, copy, stream);
      const isOfHost = (end: PitchedMemory | ArrayPlace) => !("array" in end) && typeof end.memory !== "bigint";
      const name = isOfHost(source) ? "copyFrom" : isOfHost(destination) ? "copyTo" : "copy";
      const operation = work.add(name, { device, stream }, [...reads, ...writes]);
      if (!("array" in source) && typeof source.memory !== "bigint") {
        for (const row of arrayRows(source.memory, source, copy)) hostMemory.addSource(operation, row);
      }
    },
    memcpyBatchAsync: (device, copies, stream) => {
      const accesses = copies.flatMap(({ destination, source, byteLength }) => {
        const rows = { pitch: byteLength, rows: 1 };
        const size = { width: byteLength, height: 1, depth: 1 };
        if (typeof destination === "bigint") hostMemory.beforeWrite(destination, byteLength);
        else hostMemory.beforeCopyTo(destination.subarray(0, byteLength));
        const ends = [["read", source], ["write", destination]] as const;
        return ends.flatMap(([access, memory]) => accessesOfRows(hostMemory, access, { memory, ...rows }, size));
      });
      driver.memcpyBatchAsync(device, copies, stream);
      const operation = work.add("copyBatch", { device, stream }, accesses);
      for (const { source, byteLength } of copies) {
        if (typeof source !== "bigint") hostMemory.addSource(operation, source.subarray(0, byteLength));
      }
    },
  };
}

function fills(driver: Driver, { work, hostMemory }: CopyParts): Partial<Driver> {
  const fill = (
    name: "memsetAsync" | "memsetD16Async" | "memsetD32Async",
    elementSize: number,
  ): Driver["memsetAsync"] =>
  (device, address, value, count, stream) => {
    hostMemory.beforeWrite(address, elementSize * count);
    driver[name](device, address, value, count, stream);
    work.add("fill", { device, stream }, [range("write", address, elementSize * count)]);
  };
  const fillRows = (
    name: "memsetD2D8Async" | "memsetD2D16Async" | "memsetD2D32Async",
    elementSize: number,
  ): Driver["memsetD2D8Async"] =>
  (device, address, pitch, value, width, height, stream) => {
    const size = { width: elementSize * width, height, depth: 1 };
    const rows = rangesOf("write", { memory: address, pitch, rows: height }, size);
    beforeWriteOf(rows, hostMemory);
    driver[name](device, address, pitch, value, width, height, stream);
    work.add("fill", { device, stream }, rows);
  };
  return {
    memsetAsync: fill("memsetAsync", 1),
    memsetD16Async: fill("memsetD16Async", 2),
    memsetD32Async: fill("memsetD32Async", 4),
    memsetD2D8Async: fillRows("memsetD2D8Async", 1),
    memsetD2D16Async: fillRows("memsetD2D16Async", 2),
    memsetD2D32Async: fillRows("memsetD2D32Async", 4),
  };
}

/** The size of a copy or fill of rows: bytes in a row, rows in a slice, and slices. */
export interface RowsSize {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
}

/** Yields the offset and the length of each row, or of each slice or the whole where there are no gaps. */
function* spansOf({ pitch, rows }: Pick<PitchedMemory, "pitch" | "rows">, { width, height, depth }: RowsSize) {
  if (width === 0) return;
  const [isSlice, isWhole] = [pitch === width || height === 1, rows === height || depth === 1];
  if (isSlice && isWhole && (pitch === width || depth === 1)) {
    if (height > 0 && depth > 0) yield { offset: 0, length: width * height * depth };
    return;
  }
  for (let slice = 0; slice < depth; slice++) {
    if (isSlice && height > 0) yield { offset: slice * rows * pitch, length: width * height };
    else for (let row = 0; row < height; row++) yield { offset: (slice * rows + row) * pitch, length: width };
  }
}

/** Returns the rows of one end of a copy: none for pageable memory, which no other work accesses. */
export function accessesOfRows(
  hostMemory: ObservedHostMemory,
  access: "read" | "write",
  end: PitchedMemory,
  size: RowsSize,
): RangeAccess[] {
  if (typeof end.memory === "bigint") return rangesOf(access, { ...end, memory: end.memory }, size);
  const [range] = hostMemory.rangeOf(access, end.memory);
  return range === undefined ? [] : rangesOf(access, { ...end, memory: BigInt(range.address) }, size);
}

/** Returns the accesses to rows at an address. */
export function rangesOf(
  access: RangeAccess["access"],
  { memory, ...distances }: PitchedMemory & { readonly memory: bigint },
  size: RowsSize,
): RangeAccess[] {
  return Array.from(spansOf(distances, size), ({ offset, length }) => range(access, memory + BigInt(offset), length));
}

/** Yields the rows of host memory. */
function* arrayRows(memory: Uint8Array, distances: Pick<PitchedMemory, "pitch" | "rows">, size: RowsSize) {
  for (const { offset, length } of spansOf(distances, size)) yield memory.subarray(offset, offset + length);
}

function beforeWriteOf(ranges: readonly RangeAccess[], hostMemory: ObservedHostMemory): void {
  for (const { address, byteLength } of ranges) hostMemory.beforeWrite(BigInt(address), byteLength);
}

/**
 * A discard must be ordered with all accesses to the memory, as a write must. A prefetch need not be: it changes nothing
 * that an access would see.
 */
function prefetchesAndDiscards(driver: Driver, { work, hostMemory }: CopyParts): Partial<Driver> {
  const observed = (device: number, ranges: readonly MemoryRange[], stream: bigint, discard: () => void): void => {
    for (const { address, byteLength } of ranges) hostMemory.beforeWrite(address, byteLength);
    discard();
    work.add(
      "discard",
      { device, stream },
      ranges.map(({ address, byteLength }) => range("write", address, byteLength)),
    );
  };
  return {
    memPrefetchAsync: (device, address, byteLength, location, stream) => {
      driver.memPrefetchAsync(device, address, byteLength, location, stream);
      work.add("prefetch", { device, stream }, []);
    },
    memDiscardBatchAsync: (device, ranges, stream) => {
      observed(device, ranges, stream, () => driver.memDiscardBatchAsync(device, ranges, stream));
    },
    memDiscardAndPrefetchBatchAsync: (device, ranges, location, stream) => {
      const discard = () => driver.memDiscardAndPrefetchBatchAsync(device, ranges, location, stream);
      observed(device, ranges, stream, discard);
    },
  };
}

/** Returns an access to a range of addresses. */
export function range(access: RangeAccess["access"], address: bigint, byteLength: number): RangeAccess {
  return { access, address: Number(address), byteLength };
}
