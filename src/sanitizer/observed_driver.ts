/**
 * A driver whose calls are observed: which work comes before which, and what it accesses.
 *
 * @module
 */
import {
  defaultStream,
  type Driver,
  eventFlags,
  type HostAllocation,
  type KernelLaunch,
  type LaunchAccess,
  type LaunchAttributes,
  legacyStream,
  type MemoryRange,
  streamFlags,
} from "../driver.ts";
import { callSiteHere } from "./call_sites.ts";
import { CopiedSources, type EarlyChange } from "./copied_sources.ts";
import type { Operation } from "./operation.ts";
import type { Reports } from "./reports.ts";
import { type Deed, type RangeAccess, StreamOrder } from "./stream_order.ts";
import { type Clock, lastPoint, type Point, Timeline } from "./timelines.ts";

/** An event, as far as it is observed. */
interface ObservedEvent {
  /**
   * Whether other processes may wait for it, and let this one know by means that are not observed: they are taken to
   * order everything.
   */
  readonly isInterprocess: boolean;
  /** What comes before its last record. Undefined if it was not recorded. */
  record: Point | undefined;
  /** What comes before a record for all streams of a device. */
  clock: Clock | undefined;
}

/** A stream, by its device's ordinal and its handle. */
export interface StreamHandle {
  readonly device: number;
  readonly stream: bigint;
}

/** The calls that are observed. */
type Observed = Partial<Driver>;

/**
 * Returns a driver that does what another one does, and lets an observer look at the calls. Reports are delivered when a
 * call has returned.
 */
export function observedDriver(driver: Driver, observer: Observer, reports: Reports): Driver {
  const observed = observer.calls();
  const methods = new Map<string | symbol, unknown>();
  return new Proxy(driver, {
    get(target, name) {
      const known = methods.get(name);
      if (known !== undefined) return known;
      // The other driver's methods need it as `this`.
      const value = observed[name as keyof Driver] ?? Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      const method = (...args: unknown[]) => {
        try {
          return Reflect.apply(value, target, args);
        } finally {
          reports.deliver();
        }
      };
      methods.set(name, method);
      return method;
    },
  });
}

/** Looks at the calls of a driver. */
export class Observer {
  readonly #driver: Driver;
  readonly #reports: Reports;
  readonly #order: StreamOrder;
  readonly #sources = new CopiedSources();
  readonly #host = new Timeline("the host");
  /** The streams of each device, by handle. */
  readonly #streams = new Map<number, Map<bigint, Timeline>>();
  /** Streams that were destroyed, and may have work. */
  readonly #destroyed = new Map<number, Set<Timeline>>();
  #streamCount = 0;
  readonly #events = new Map<bigint, ObservedEvent>();
  readonly #kernels = new Map<bigint, string>();
  /** The variables of modules that the program has asked for. */
  readonly #variables = new Set<string>();
  /** The addresses of page-locked memory, by its buffers. */
  readonly #hostBuffers = new Map<ArrayBufferLike, number>();
  /** The buffers whose addresses the program has asked for. */
  readonly #reachable = new WeakSet<ArrayBufferLike>();

  /** @param reports where mistakes go */
  constructor(driver: Driver, reports: Reports) {
    this.#driver = driver;
    this.#reports = reports;
    this.#order = new StreamOrder(reports);
  }

  /** Notes that an allocator has handed out a part of its memory. */
  partAllocated({ device, stream }: StreamHandle, { address, byteLength }: MemoryRange): void {
    this.#allocated(this.#operation("allocate", this.#next(device, stream)), address, byteLength);
  }

  /** Notes that an allocator has got a part back. */
  partFreed({ device, stream }: StreamHandle, address: bigint): void {
    this.#freed(this.#operation("free", this.#next(device, stream)), address);
  }

  #allocated(operation: Operation, address: bigint, byteLength: number): void {
    this.#order.add({ operation, allocates: { address: Number(address), byteLength }, accesses: [] });
  }

  #freed(operation: Operation, address: bigint): void {
    this.#order.add({ operation, frees: Number(address), accesses: [] });
  }

  /** The calls to make instead of the driver's own. */
  calls(): Observed {
    return { ...this.#streamCalls(), ...this.#eventCalls(), ...this.#memoryCalls(), ...this.#workCalls() };
  }

  #streamCalls(): Observed {
    const driver = this.#driver;
    return {
      streamCreateWithPriority: (device, flags, priority) => {
        const stream = driver.streamCreateWithPriority(device, flags, priority);
        const name = `stream ${++this.#streamCount} of device ${device}`;
        const isBlocking = flags !== streamFlags.nonBlocking;
        this.#streamsOf(device).set(stream, new Timeline(name, { device, isBlocking }));
        return stream;
      },
      streamDestroy: (device, stream) => {
        driver.streamDestroy(device, stream);
        const streams = this.#streamsOf(device);
        const timeline = streams.get(stream);
        streams.delete(stream);
        if (timeline !== undefined) this.#destroyedOf(device).add(timeline);
        this.#retire();
      },
      streamQuery: (device, stream, options) => {
        const isDone = driver.streamQuery(device, stream, options);
        // The library peeks for itself: the program does not get to know.
        if (isDone && !options?.peek) this.#hostKnows(this.#streamOf(device, stream));
        return isDone;
      },
      streamSynchronize: (device, stream) => {
        driver.streamSynchronize(device, stream);
        this.#hostKnows(this.#streamOf(device, stream));
      },
      deviceSynchronize: (device) => {
        driver.deviceSynchronize(device);
        this.#hostKnowsDevice(device);
      },
      streamWaitEvent: (device, stream, event) => {
        driver.streamWaitEvent(device, stream, event);
        const { record, clock } = this.#eventOf(event);
        const timeline = this.#streamOf(device, stream);
        learn(timeline, record, clock);
      },
    };
  }

  #eventCalls(): Observed {
    const driver = this.#driver;
    return {
      eventCreateWithFlags: (device, flags) => {
        const event = driver.eventCreateWithFlags(device, flags);
        const isInterprocess = (flags & eventFlags.interprocess) !== 0;
        this.#events.set(event, { isInterprocess, record: undefined, clock: undefined });
        return event;
      },
      ipcOpenEventHandle: (device, handle) => {
        const event = driver.ipcOpenEventHandle(device, handle);
        this.#events.set(event, { isInterprocess: true, record: undefined, clock: undefined });
        return event;
      },
      eventDestroy: (device, event) => {
        driver.eventDestroy(device, event);
        this.#events.delete(event);
      },
      eventRecord: (device, event, stream) => {
        driver.eventRecord(device, event, stream);
        const observed = this.#eventOf(event);
        observed.record = this.#next(device, stream);
        observed.clock = undefined;
        if (observed.isInterprocess) this.#hostKnowsEvent(event);
      },
      ctxRecordEvent: (device, event) => {
        driver.ctxRecordEvent(device, event);
        const all = new Timeline("all streams");
        for (const stream of this.#allStreamsOf(device)) all.learnFrom(stream);
        const observed = this.#eventOf(event);
        observed.record = undefined;
        observed.clock = all.known();
      },
      eventQuery: (event, options) => {
        const isDone = driver.eventQuery(event, options);
        if (isDone && !options?.peek) this.#hostKnowsEvent(event);
        return isDone;
      },
      eventSynchronize: (event) => {
        driver.eventSynchronize(event);
        this.#hostKnowsEvent(event);
      },
      eventElapsedTime: (start, end) => {
        const milliseconds = driver.eventElapsedTime(start, end);
        this.#hostKnowsEvent(start);
        this.#hostKnowsEvent(end);
        return milliseconds;
      },
    };
  }

  #memoryCalls(): Observed {
    const driver = this.#driver;
    return {
      mallocFromPoolAsync: (device, byteLength, pool, stream) => {
        const address = driver.mallocFromPoolAsync(device, byteLength, pool, stream);
        this.#allocated(this.#operation("allocate", this.#next(device, stream)), address, byteLength);
        return address;
      },
      freeAsync: (device, address, stream) => {
        driver.freeAsync(device, address, stream);
        this.#freed(this.#operation("free", this.#next(device, stream)), address);
      },
      malloc: (device, byteLength) => {
        const address = driver.malloc(device, byteLength);
        this.#allocated(this.#operation("allocate", this.#nextOfHost()), address, byteLength);
        return address;
      },
      free: (device, address) => {
        driver.free(device, address);
        this.#hostKnowsDevice(device);
        this.#freed(this.#operation("free", this.#nextOfHost()), address);
      },
      memPoolImportPointer: (device, pool, exportData) => {
        const address = driver.memPoolImportPointer(device, pool, exportData);
        const { byteLength } = driver.memGetAddressRange(device, address);
        this.#allocated(this.#operation("import", this.#nextOfHost()), address, byteLength);
        return address;
      },
      ipcOpenMemHandle: (device, handle) => {
        const address = driver.ipcOpenMemHandle(device, handle);
        const { byteLength } = driver.memGetAddressRange(device, address);
        this.#allocated(this.#operation("import", this.#nextOfHost()), address, byteLength);
        return address;
      },
      ipcCloseMemHandle: (device, address) => {
        driver.ipcCloseMemHandle(device, address);
        this.#freed(this.#operation("free", this.#nextOfHost()), address);
      },
      hostAlloc: (byteLength) => {
        const allocation = driver.hostAlloc(byteLength);
        const address = this.#addressOf(allocation);
        this.#hostBuffers.set(allocation.buffer, Number(address));
        this.#allocated(this.#operation("allocate", this.#nextOfHost()), address, byteLength);
        return allocation;
      },
      hostGetDevicePointer: (allocation) => {
        this.#reachable.add(allocation.buffer);
        return driver.hostGetDevicePointer(allocation);
      },
      freeHost: (allocation) => {
        const { buffer } = allocation;
        const address = this.#hostBuffers.get(buffer);
        driver.freeHost(allocation);
        // CUDA waits for what uses it.
        for (const device of this.#streams.keys()) this.#hostKnowsDevice(device);
        this.#hostBuffers.delete(buffer);
        if (address !== undefined) this.#freed(this.#operation("free", this.#nextOfHost()), BigInt(address));
      },
      hostView: (address, byteLength) => {
        const buffer = driver.hostView(address, byteLength);
        this.#hostBuffers.set(buffer, Number(address));
        return buffer;
      },
    };
  }

  #workCalls(): Observed {
    const driver = this.#driver;
    const range = (access: RangeAccess["access"], address: bigint, byteLength: number): RangeAccess => {
      return { access, address: Number(address), byteLength };
    };
    const added = (device: number, stream: bigint, name: string, accesses: RangeAccess[]) => {
      const operation = this.#operation(name, this.#next(device, stream));
      this.#order.add({ operation, accesses });
      return operation;
    };
    const filled = (device: number, stream: bigint, address: bigint, byteLength: number) =>
      added(device, stream, "fill", [range("write", address, byteLength)]);
    return {
      memcpyHtoDAsync: (device, destination, source, stream) => {
        this.#beforeWrite(destination, source.byteLength);
        driver.memcpyHtoDAsync(device, destination, source, stream);
        const host = this.#rangeOfHost("read", source);
        const operation = added(device, stream, "copyFrom", [...host, range("write", destination, source.byteLength)]);
        if (host.length > 0 && !this.#isWrittenUnseen(source.buffer)) this.#sources.add(operation, source);
      },
      memcpyDtoHAsync: (device, destination, source, stream) => {
        this.#reportChanges(this.#sources.changesIn(destination));
        driver.memcpyDtoHAsync(device, destination, source, stream);
        const host = this.#rangeOfHost("write", destination);
        added(device, stream, "read", [range("read", source, destination.byteLength), ...host]);
        // A copy to pageable memory is done when the call returns.
        if (host.length === 0) this.#hostKnows(this.#streamOf(device, stream));
      },
      memcpyAsync: (device, destination, source, byteLength, stream) => {
        this.#beforeWrite(destination, byteLength);
        driver.memcpyAsync(device, destination, source, byteLength, stream);
        added(device, stream, "copy", [range("read", source, byteLength), range("write", destination, byteLength)]);
      },
      memcpyPeerAsync: (device, destination, destinationDevice, source, sourceDevice, byteLength, stream) => {
        this.#beforeWrite(destination, byteLength);
        driver.memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, stream);
        added(device, stream, "copy", [range("read", source, byteLength), range("write", destination, byteLength)]);
      },
      memsetAsync: (device, address, byte, byteLength, stream) => {
        this.#beforeWrite(address, byteLength);
        driver.memsetAsync(device, address, byte, byteLength, stream);
        filled(device, stream, address, byteLength);
      },
      memsetD16Async: (device, address, value, count, stream) => {
        this.#beforeWrite(address, 2 * count);
        driver.memsetD16Async(device, address, value, count, stream);
        filled(device, stream, address, 2 * count);
      },
      memsetD32Async: (device, address, value, count, stream) => {
        this.#beforeWrite(address, 4 * count);
        driver.memsetD32Async(device, address, value, count, stream);
        filled(device, stream, address, 4 * count);
      },
      memsetD2D32Async: (device, address, pitch, value, width, height, stream) => {
        this.#beforeWrite(address, pitch * height);
        driver.memsetD2D32Async(device, address, pitch, value, width, height, stream);
        const rows = Array.from({ length: height }, (_, row) => {
          return range("write", address + BigInt(row * pitch), 4 * width);
        });
        added(device, stream, "fill", rows);
      },
      moduleGetGlobal: (module, name) => {
        const variable = driver.moduleGetGlobal(module, name);
        this.#addVariable(module, name, variable);
        return variable;
      },
      moduleGetFunction: (module, name) => {
        const kernel = driver.moduleGetFunction(module, name);
        this.#kernels.set(kernel, name);
        return kernel;
      },
      launchKernel: (launch) => this.#launch(launch, () => driver.launchKernel(launch)),
      launchKernelEx: (launch, attributes: LaunchAttributes) =>
        this.#launch(launch, () => driver.launchKernelEx(launch, attributes)),
    };
  }

  /** Adds a variable of a module as memory, when the program first asks for it. */
  #addVariable(module: bigint, name: string, { address, byteLength }: MemoryRange): void {
    const key = `${module} ${name}`;
    if (this.#variables.has(key)) return;
    this.#variables.add(key);
    this.#allocated(this.#operation("allocate", this.#nextOfHost()), address, byteLength);
  }

  #launch(launch: KernelLaunch, call: () => void): void {
    const { device, stream, kernel } = launch;
    const name = `kernel ${this.#kernels.get(kernel) ?? kernel}`;
    const deed: Deed = { operation: this.#operation(name, this.#next(device, stream)) };
    if (!this.#driver.observesAccesses) deed.accesses = [];
    launch.onAccesses = (accesses) => {
      this.#forgetSources(accesses);
      deed.accesses = accesses.map(({ address, byteLength, operation, source }) => {
        return { address: Number(address), byteLength, access: operation, source };
      });
      this.#order.proceed();
    };
    call();
    this.#order.add(deed);
  }

  #operation(name: string, point: Point): Operation {
    return { name, site: callSiteHere(), ...point };
  }

  /** The next work of a stream. */
  #next(device: number, stream: bigint): Point {
    const timeline = this.#streamOf(device, stream);
    timeline.learnFrom(this.#host);
    if (timeline.isBlocking) {
      for (const other of this.#allStreamsOf(device)) {
        if (other.isBlocking && other.isDefault !== timeline.isDefault) timeline.learnFrom(other);
      }
    }
    timeline.position++;
    return lastPoint(timeline);
  }

  #nextOfHost(): Point {
    this.#host.position++;
    return lastPoint(this.#host);
  }

  #streamsOf(device: number): Map<bigint, Timeline> {
    let streams = this.#streams.get(device);
    if (streams === undefined) {
      const name = `the default stream of device ${device}`;
      const timeline = new Timeline(name, { device, isBlocking: true, isDefault: true });
      this.#streams.set(device, streams = new Map([[defaultStream, timeline]]));
    }
    return streams;
  }

  #streamOf(device: number, handle: bigint): Timeline {
    const streams = this.#streamsOf(device);
    const stream = handle === legacyStream ? defaultStream : handle;
    let timeline = streams.get(stream);
    if (timeline === undefined) {
      timeline = new Timeline(`a wrapped stream of device ${device}`, { device, isForeign: true });
      streams.set(stream, timeline);
    }
    return timeline;
  }

  #eventOf(event: bigint): ObservedEvent {
    let observed = this.#events.get(event);
    if (observed === undefined) {
      this.#events.set(event, observed = { isInterprocess: false, record: undefined, clock: undefined });
    }
    return observed;
  }

  #hostKnows(timeline: Timeline): void {
    this.#host.learnFrom(timeline);
    const ordered = timeline.isDefault ? this.#allStreamsOf(timeline.device!) : [];
    for (const other of ordered) if (other.isBlocking) this.#host.learnFrom(other);
    this.#afterWait();
  }

  #hostKnowsDevice(device: number): void {
    for (const stream of this.#allStreamsOf(device)) this.#host.learnFrom(stream);
    this.#afterWait();
  }

  /** Compares the sources of the copies that the host knows to be done, and forgets streams. */
  #afterWait(): void {
    this.#reportChanges(this.#sources.changesBefore(lastPoint(this.#host)));
    this.#retire();
  }

  /** Forgets the destroyed streams whose work the host knows to be done: a program may use a new stream for each task. */
  #retire(): void {
    for (const destroyed of this.#destroyed.values()) {
      for (const timeline of destroyed) {
        if (timeline.position > 0 && (this.#host.known().get(timeline) ?? 0) < timeline.position) continue;
        destroyed.delete(timeline);
        // What was asked for before must not be taken to come after it.
        const then = () => {
          timeline.isRetired = true;
          for (const streams of [...this.#streams.values()]) {
            for (const stream of streams.values()) stream.forget(timeline);
          }
          this.#host.forget(timeline);
        };
        this.#order.add({ then, accesses: [] });
      }
    }
  }

  #reportChanges(changes: readonly EarlyChange[]): void {
    for (const change of changes) this.#reports.addEarlyChange(change);
  }

  /** Compares the sources in a range that a stream is about to write, and looks at them no more. */
  #beforeWrite(address: bigint, byteLength: number): void {
    const begin = Number(address);
    for (const [buffer, start] of this.#hostBuffers) {
      const from = Math.max(begin - start, 0), to = Math.min(begin - start + byteLength, buffer.byteLength);
      if (from < to) this.#reportChanges(this.#sources.changesIn(new Uint8Array(buffer, from, to - from)));
    }
  }

  /** Forgets the sources that a kernel has written. */
  #forgetSources(accesses: readonly LaunchAccess[]): void {
    for (const { address, byteLength, operation } of accesses) {
      if (operation === "read") continue;
      for (const [buffer, start] of this.#hostBuffers) {
        const begin = Number(address) - start;
        this.#sources.forget({ buffer, byteOffset: begin, byteLength });
      }
    }
  }

  /** Whether kernels may write page-locked memory without being seen. */
  #isWrittenUnseen(buffer: ArrayBufferLike): boolean {
    return !this.#driver.observesAccesses && this.#reachable.has(buffer);
  }

  #destroyedOf(device: number): Set<Timeline> {
    let destroyed = this.#destroyed.get(device);
    if (destroyed === undefined) this.#destroyed.set(device, destroyed = new Set());
    return destroyed;
  }

  /** The streams of a device, and those that were destroyed and may have work. */
  #allStreamsOf(device: number): Timeline[] {
    return [...this.#streamsOf(device).values(), ...this.#destroyedOf(device)];
  }

  #hostKnowsEvent(event: bigint): void {
    const { record, clock } = this.#eventOf(event);
    learn(this.#host, record, clock);
    this.#afterWait();
  }

  /** The range of page-locked memory that a view shows, if it does. */
  #rangeOfHost(access: "read" | "write", view: Uint8Array): RangeAccess[] {
    const address = this.#hostBuffers.get(view.buffer);
    return address === undefined ? [] : [{ access, address: address + view.byteOffset, byteLength: view.byteLength }];
  }

  /** Where kernels access page-locked memory, or its address for the driver if they cannot. */
  #addressOf(allocation: HostAllocation): bigint {
    try {
      return this.#driver.hostGetDevicePointer(allocation);
    } catch {
      return allocation.address;
    }
  }
}

/** Notes what a timeline's next work comes after, if an event was recorded. */
function learn(timeline: Timeline, record: Point | undefined, clock: Clock | undefined): void {
  if (record !== undefined) {
    timeline.learnAll(record.clock);
    timeline.learn(record.timeline, record.position);
  }
  if (clock !== undefined) timeline.learnAll(clock);
}
