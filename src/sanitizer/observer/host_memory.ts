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

/** The byte that fills the destination of a copy before the copy runs. New memory is filled with the same byte. */
const unreadByte = 0xcb;

/** The parts of the sanitizer that `ObservedHostMemory` uses. */
interface Parts {
  readonly reports: Reports;
  readonly streams: ObservedStreams;
  readonly work: ObservedWork;
}

/** The page-locked memory of a program. */
export class ObservedHostMemory {
  readonly #driver: Driver;
  readonly #parts: Parts;
  readonly #sources = new CopiedSources();
  /** The addresses of page-locked memory, by buffer. */
  readonly #addresses = new Map<ArrayBufferLike, number>();
  /** The buffers for which the program has requested a device address, so that kernels may access them. */
  readonly #reachable = new WeakSet<ArrayBufferLike>();
  /** The buffers that the program itself can access. The library also has internal ones. */
  readonly #exposed = new WeakSet<ArrayBufferLike>();

  constructor(driver: Driver, parts: Parts) {
    this.#driver = driver;
    this.#parts = parts;
  }

  /** Returns the observed versions of the driver's calls. */
  calls(): Partial<Driver> {
    const driver = this.#driver;
    const { streams, work } = this.#parts;
    return {
      hostAlloc: (byteLength) => {
        const allocation = driver.hostAlloc(byteLength);
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

  /** Returns a list with one access to the bytes of a view if they are page-locked, else an empty list. */
  rangeOf(access: "read" | "write", view: Uint8Array): RangeAccess[] {
    const address = this.#addresses.get(view.buffer);
    return address === undefined ? [] : [{ access, address: address + view.byteOffset, byteLength: view.byteLength }];
  }

  /** Adds the source of a copy that may be pending, to find changes before the copy is complete. */
  addSource(operation: Operation, source: Uint8Array): void {
    // If an earlier write may be pending, the source may not have the content yet that the copy will read.
    const isThere = !this.#isWrittenUnseen(source.buffer) && this.#isIdle(source, "writes");
    if (isThere) this.#sources.add(operation, source);
  }

  /** Reports changes of the sources of copies that are ordered before a point. */
  compareBefore(point: Point): void {
    this.#report(this.#sources.changesBefore(point));
  }

  /** Reports changes of the sources in a range of addresses that a stream is about to write, and drops the sources. */
  beforeWrite(address: bigint, byteLength: number): void {
    if (this.#sources.isEmpty) return;
    const begin = Number(address);
    for (const [buffer, start] of this.#addresses) {
      const from = Math.max(begin - start, 0), to = Math.min(begin - start + byteLength, buffer.byteLength);
      if (from < to) this.#report(this.#sources.changesIn(new Uint8Array(buffer, from, to - from)));
    }
  }

  /** Drops the sources that a kernel has written. */
  afterKernel(accesses: readonly LaunchAccess[]): void {
    for (const { address, byteLength, operation } of accesses) {
      if (operation === "read") continue;
      for (const [buffer, start] of this.#addresses) {
        const begin = Number(address) - start;
        this.#sources.forget({ buffer, byteOffset: begin, byteLength });
      }
    }
  }

  /**
   * Reports changes of the sources in memory that a copy is about to write, and fills that memory, so that a program
   * that reads it too early does not find the result by chance. Does not fill memory that a kernel or the library may
   * read.
   */
  beforeCopyTo(destination: Uint8Array): void {
    this.#report(this.#sources.changesIn(destination));
    if (!this.#exposed.has(destination.buffer) || this.#reachable.has(destination.buffer)) return;
    if (this.#isIdle(destination, "accesses")) destination.fill(unreadByte);
  }

  #report(changes: readonly EarlyChange[]): void {
    for (const change of changes) {
      const address = this.#addresses.get(change.buffer);
      const region = address === undefined ? undefined : this.#parts.work.order.regionAt(address);
      this.#parts.reports.addEarlyChange(change, region?.allocated);
    }
  }

  /**
   * Returns whether the host knows all accesses (or writes) to a view to be complete. False if it is not page-locked.
   */
  #isIdle(view: Uint8Array, by: "accesses" | "writes"): boolean {
    const [range] = this.rangeOf("read", view);
    if (range === undefined) return false;
    const { streams: { host, processes: { sequence } }, work } = this.#parts;
    const now: Operation = { name: "host", site: {}, sequence, ...lastPoint(host) };
    return work.order.isIdle(now, { begin: range.address, end: range.address + range.byteLength }, by);
  }

  /** Returns whether kernels whose accesses the driver does not observe may write to a buffer. */
  #isWrittenUnseen(buffer: ArrayBufferLike): boolean {
    return this.#driver.checker?.observesAccesses !== true && this.#reachable.has(buffer);
  }

  /** Returns the device address of page-locked memory, or the host address if kernels cannot access the memory. */
  #addressForKernels(allocation: HostAllocation): bigint {
    try {
      return this.#driver.hostGetDevicePointer(allocation);
    } catch {
      return allocation.address;
    }
  }
}
