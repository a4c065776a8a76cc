/**
 * Observes page-locked memory, which the host can access at the same time as copies and kernels.
 *
 * @module
 */
import type { Driver, HostAllocation } from "../../driver.ts";
import type { LaunchAccess } from "../../kernel_checker.ts";
import { CopiedSources, type EarlyChange } from "../order/copied_sources.ts";
import { lastPoint, type Operation, type Point } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { RangeAccess } from "../order/stream_order.ts";
import type { ObservedStreams } from "./observed_streams.ts";
import type { ObservedWork } from "./observed_events.ts";

/** The byte written to the destination of a copy before the copy runs. New memory is filled with the same byte. */
const unreadByte = 0xcb;

/** The parts of the sanitizer that `ObservedHostMemory` uses. */
interface ObservedHostMemoryParts {
  readonly reports: Reports;
  readonly streams: ObservedStreams;
  readonly work: ObservedWork;
}

/** Observes the calls for page-locked memory, and the copies that use such memory. */
export class ObservedHostMemory {
  readonly #driver: Driver;
  readonly #parts: ObservedHostMemoryParts;
  readonly #sources = new CopiedSources();
  /** The addresses of page-locked memory, keyed by buffer. */
  readonly #addresses = new Map<ArrayBufferLike, number>();
  /** The program's memory that is registered, by address. */
  readonly #registered = new Map<number, Uint8Array>();
  /** The buffers for which the program has requested a device address, so that kernels may access them. */
  readonly #reachable = new WeakSet<ArrayBufferLike>();
  /** The buffers that the program itself can access. Other buffers are internal to the library. */
  readonly #exposed = new WeakSet<ArrayBufferLike>();

  constructor(driver: Driver, parts: ObservedHostMemoryParts) {
    this.#driver = driver;
    this.#parts = parts;
  }

  /** Returns wrappers of the driver's host-memory calls that observe and forward each call. */
  calls(): Partial<Driver> {
    const driver = this.#driver;
    const { streams, work } = this.#parts;
    return {
      hostAlloc: (byteLength, flags) => {
        const allocation = driver.hostAlloc(byteLength, flags);
        const address = Number(this.#addressForKernels(allocation));
        this.#addresses.set(allocation.buffer, address);
        work.allocated(work.nextOfHost("allocate"), { address, byteLength });
        return allocation;
      },
      hostGetDevicePointer: (allocation) => {
        this.#reachable.add(allocation.buffer);
        return driver.hostGetDevicePointer(allocation);
      },
      freeHost: (allocation) => {
        const { buffer } = allocation;
        const address = this.#addresses.get(buffer);
        driver.freeHost(allocation);
        // cuMemFreeHost waits for all work of all devices.
        for (const device of streams.devices) streams.syncHostWithDevice(device);
        this.#addresses.delete(buffer);
        if (address !== undefined) work.freed(work.nextOfHost("free"), address);
      },
      hostRegister: (memory, flags) => {
        const address = driver.hostRegister(memory, flags);
        this.#registered.set(Number(address), memory);
        this.#reachable.add(memory.buffer);
        work.allocated(work.nextOfHost("register"), { address: Number(address), byteLength: memory.byteLength });
        return address;
      },
      hostUnregister: (address) => {
        driver.hostUnregister(address);
        for (const device of streams.devices) streams.syncHostWithDevice(device);
        this.#registered.delete(Number(address));
        work.freed(work.nextOfHost("unregister"), Number(address));
      },
      hostView: (address, byteLength) => {
        const buffer = driver.hostView(address, byteLength);
        this.#addresses.set(buffer, Number(address));
        return buffer;
      },
    };
  }

  /** Call when the program receives a buffer of page-locked memory. */
  onExposedToProgram(buffer: ArrayBufferLike): void {
    this.#exposed.add(buffer);
  }

  /** Returns whether the program itself can access a buffer. */
  isExposedToProgram(buffer: ArrayBufferLike): boolean {
    return this.#exposed.has(buffer);
  }

  /** Returns the address of a buffer. Undefined if the buffer is not page-locked. */
  addressOf(buffer: ArrayBufferLike): number | undefined {
    return this.#addresses.get(buffer);
  }

  /**
   * Returns a list with one access to the bytes of a view. The list is empty if the view's memory is not page-locked.
   */
  rangeOf(access: "read" | "write", view: Uint8Array): RangeAccess[] {
    const address = this.#addresses.get(view.buffer) ?? this.#registeredAddress(view);
    return address === undefined ? [] : [{ access, address: address + view.byteOffset, byteLength: view.byteLength }];
  }

  /** Saves the source of an enqueued copy, to detect changes that the program makes before the copy is complete. */
  addSource(operation: Operation, source: Uint8Array): void {
    // Do not save a source that a pending write may still change: the copy may read bytes other than those saved.
    const isThere = !this.#isWrittenUnseen(source.buffer) && this.#isIdle(source, "writes");
    if (isThere) this.#sources.add(operation, source);
  }

  /**
   * Checks and drops the sources of the copies that are ordered before a point. Reports sources that the program
   * changed before the copy was complete.
   */
  compareBefore(point: Point): void {
    this.#report(this.#sources.changesBefore(point));
  }

  /**
   * Checks and drops the copy sources in a range of addresses that a stream is about to write. Reports sources that the
   * program changed while a copy was pending.
   */
  beforeWrite(address: bigint, byteLength: number): void {
    if (this.#sources.isEmpty) return;
    const begin = Number(address);
    for (const [buffer, start] of this.#starts()) {
      const from = Math.max(begin - start, 0), to = Math.min(begin - start + byteLength, buffer.byteLength);
      if (from < to) this.#report(this.#sources.changesIn(new Uint8Array(buffer, from, to - from)));
    }
  }

  /** Drops the copy sources that overlap memory that a kernel has written. */
  afterKernel(accesses: readonly LaunchAccess[]): void {
    for (const { address, byteLength, operation } of accesses) {
      if (operation !== "read") this.#forgetSources(Number(address), byteLength);
    }
  }

  /** Drops the copy sources that overlap memory that a node of a graph writes. */
  afterNode(accesses: readonly RangeAccess[]): void {
    for (const { address, byteLength, access } of accesses) {
      if (access !== "read") this.#forgetSources(address, byteLength);
    }
  }

  #forgetSources(address: number, byteLength: number): void {
    for (const [buffer, start] of this.#starts()) {
      this.#sources.forget({ buffer, byteOffset: address - start, byteLength });
    }
  }

  /**
   * Call before a copy to `destination` is enqueued. Reports copy sources in `destination` that the program changed
   * while a copy was pending. Fills `destination`, so that a program that reads it too early does not find the correct
   * result by chance. Does not fill memory that a kernel or the library may read.
   */
  beforeCopyTo(destination: Uint8Array): void {
    this.#report(this.#sources.changesIn(destination));
    if (!this.#exposed.has(destination.buffer) || this.#reachable.has(destination.buffer)) return;
    if (this.#isIdle(destination, "accesses")) destination.fill(unreadByte);
  }

  /** Returns the address of the first byte of the buffer of registered memory, if all bytes of a view are registered. */
  #registeredAddress({ buffer, byteOffset, byteLength }: Uint8Array): number | undefined {
    for (const [address, memory] of this.#registered) {
      const begin = byteOffset - memory.byteOffset;
      if (memory.buffer === buffer && begin >= 0 && begin + byteLength <= memory.byteLength) {
        return address - memory.byteOffset;
      }
    }
    return undefined;
  }

  /** Yields each buffer of page-locked or registered memory, with the address of its first byte. */
  *#starts(): Generator<readonly [buffer: ArrayBufferLike, start: number]> {
    yield* this.#addresses;
    for (const [address, { buffer, byteOffset }] of this.#registered) yield [buffer, address - byteOffset];
  }

  #report(changes: readonly EarlyChange[]): void {
    for (const change of changes) {
      const address = [...this.#starts()].find(([buffer]) => buffer === change.buffer)?.[1];
      const region = address === undefined ? undefined : this.#parts.work.order.regionAt(address);
      this.#parts.reports.addEarlyChange(change, region?.allocated);
    }
  }

  /**
   * Returns whether all accesses (or all writes) to a view are ordered before the host's current point. False if the
   * view's memory is not page-locked.
   */
  #isIdle(view: Uint8Array, by: "accesses" | "writes"): boolean {
    const [range] = this.rangeOf("read", view);
    if (range === undefined) return false;
    const { streams: { host, processes: { sequence } }, work } = this.#parts;
    const now: Operation = { name: "host", site: {}, sequence, ...lastPoint(host) };
    return work.order.isIdle(now, { begin: range.address, end: range.address + range.byteLength }, by);
  }

  /** Returns whether a kernel whose accesses the driver does not observe may write to a buffer. */
  #isWrittenUnseen(buffer: ArrayBufferLike): boolean {
    return this.#driver.checker?.observesAccesses !== true && this.#reachable.has(buffer);
  }

  /** Returns the device address of page-locked memory, or the host address if the memory has no device address. */
  #addressForKernels(allocation: HostAllocation): bigint {
    try {
      return this.#driver.hostGetDevicePointer(allocation);
    } catch {
      return allocation.address;
    }
  }
}
