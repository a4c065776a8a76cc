/**
 * Observes page-locked memory, which the host accesses while copies and kernels may do so, too.
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

/** The byte that memory is overwritten with before a copy; fresh memory holds the same. */
const unreadByte = 0xcb;

/** The parts of the sanitizer that it uses. */
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
  /** The buffers whose device addresses the program has, so that kernels may access them. */
  readonly #reachable = new WeakSet<ArrayBufferLike>();
  /** The buffers that the program itself can access. The library has others of its own. */
  readonly #exposed = new WeakSet<ArrayBufferLike>();

  constructor(driver: Driver, parts: Parts) {
    this.#driver = driver;
    this.#parts = parts;
  }

  /** The driver's calls, observed. */
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
        // CUDA waits for all work of all devices.
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

  /** Call when the program gets a buffer. */
  onExposedToProgram(buffer: ArrayBufferLike): void {
    this.#exposed.add(buffer);
  }

  /** Whether the program itself can access a buffer. */
  isExposedToProgram(buffer: ArrayBufferLike): boolean {
    return this.#exposed.has(buffer);
  }

  /** The address of a buffer. Undefined if it is not page-locked. */
  addressOf(buffer: ArrayBufferLike): number | undefined {
    return this.#addresses.get(buffer);
  }

  /** The access to a view's bytes if they are page-locked, otherwise none. */
  rangeOf(access: "read" | "write", view: Uint8Array): RangeAccess[] {
    const address = this.#addresses.get(view.buffer);
    return address === undefined ? [] : [{ access, address: address + view.byteOffset, byteLength: view.byteLength }];
  }

  /** Keeps the source of a copy that may read it later. */
  addSource(operation: Operation, source: Uint8Array): void {
    // If an earlier write may be pending, the source does not hold yet what the copy will read.
    const isThere = !this.#isWrittenUnseen(source.buffer) && this.#isIdle(source, "writes");
    if (isThere) this.#sources.add(operation, source);
  }

  /** Compares the sources of copies that come before a point. */
  compareBefore(point: Point): void {
    this.#report(this.#sources.changesBefore(point));
  }

  /** Compares and drops the sources in a range of device addresses that a stream is about to write. */
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
   * Compares the sources in memory that a copy is about to write, and overwrites that memory, so that a program that
   * reads it too early does not find the result by chance. Not if a kernel or anybody but the program could notice.
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

  /** Whether the host knows all work to be complete that accesses, or writes, page-locked memory. False for other memory. */
  #isIdle(view: Uint8Array, by: "accesses" | "writes"): boolean {
    const [range] = this.rangeOf("read", view);
    if (range === undefined) return false;
    const { streams: { host, processes: { sequence } }, work } = this.#parts;
    const now: Operation = { name: "host", site: {}, sequence, ...lastPoint(host) };
    return work.order.isIdle(now, { begin: range.address, end: range.address + range.byteLength }, by);
  }

  /** Whether unobserved kernels may write page-locked memory. */
  #isWrittenUnseen(buffer: ArrayBufferLike): boolean {
    return this.#driver.checker?.observesAccesses !== true && this.#reachable.has(buffer);
  }

  /** The device address of page-locked memory, or its host address if kernels cannot access it. */
  #addressForKernels(allocation: HostAllocation): bigint {
    try {
      return this.#driver.hostGetDevicePointer(allocation);
    } catch {
      return allocation.address;
    }
  }
}
