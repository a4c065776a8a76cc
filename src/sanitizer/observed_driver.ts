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
  type LaunchFinding,
  legacyStream,
  type MemoryRange,
  streamFlags,
  type UnfreedHeap,
} from "../driver.ts";
import { type CallSite, callSiteHere } from "./call_sites.ts";
import { CopiedSources, type EarlyChange } from "./copied_sources.ts";
import { InstrumentedLaunches } from "./kernel_accesses/instrumented_launches.ts";
import {
  type KernelOptions,
  type KnownAccesses,
  LaunchAccesses,
  withSources,
} from "./kernel_accesses/launch_accesses.ts";
import type { LiveAllocation } from "./leaks.ts";
import type { Operation } from "./operation.ts";
import { OtherProcesses } from "./processes/other_processes.ts";
import { PeerTimeline } from "./processes/peers.ts";
import type { Reports } from "./reports.ts";
import { type Deed, type RangeAccess, StreamOrder } from "./stream_order.ts";
import { type Clock, lastPoint, type Point, Timeline } from "./timelines.ts";

/** An event, as far as it is observed. */
interface ObservedEvent {
  /**
   * Whether other processes may wait for it, and let this one know by means that are not observed: its records are
   * taken to order everything in this process.
   */
  readonly isInterprocess: boolean;
  /** Its handle, in hexadecimal. Undefined if other processes do not have it. */
  handle?: string | undefined;
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

/** What fresh memory holds, too. */
const unreadByte = 0xcb;
const nothing: readonly RangeAccess[] = [];

/** The calls that are observed. */
type Observed = Partial<Driver>;

/**
 * Returns a driver that does what another one does, and lets an observer look at the calls. Reports are delivered when a
 * call has returned.
 */
export function observedDriver(driver: Driver, observer: Observer, reports: Reports): Driver {
  const calls = observer.calls();
  const methodOf = (target: Driver, name: string | symbol, value: CallableFunction) => {
    const isWork = observer.isWork(name);
    return (...args: unknown[]) => {
      // As far out as can be: each frame of the stack takes time.
      if (isWork) observer.site = callSiteHere();
      try {
        return Reflect.apply(value, target, args);
      } finally {
        reports.deliver();
      }
    };
  };
  // Whatever was used once is a property of its own, which engines find faster than they call a trap.
  const observed: Driver = Object.create(
    new Proxy(driver, {
      get(target, name) {
        // The other driver's methods need it as `this`.
        const value = calls[name as keyof Driver] ?? Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        const method = methodOf(target, name, value);
        Object.defineProperty(observed, name, { value: method });
        return method;
      },
    }),
  );
  return observed;
}

/** Looks at the calls of a driver. */
export class Observer {
  /** Where the program asked for the work that is being observed. */
  site: CallSite = {};
  readonly #driver: Driver;
  readonly #reports: Reports;
  readonly #reportsHostReads: boolean;
  readonly #order: StreamOrder;
  readonly #sources = new CopiedSources();
  readonly #host = new Timeline("the host");
  /** The streams of each device, by handle. */
  readonly #streams = new Map<number, Map<bigint, Timeline>>();
  /** Streams that were destroyed, and may have work. */
  readonly #destroyed = new Map<number, Set<Timeline>>();
  #streamCount = 0;
  readonly #events = new Map<bigint, ObservedEvent>();
  /** How messages call kernels. */
  readonly #kernels = new Map<bigint, string>();
  /** What launches access, unless the driver says it. */
  readonly #launches: LaunchAccesses | undefined;
  /** Those of which the PTX does not say it. */
  readonly #instrumented: InstrumentedLaunches | undefined;
  readonly #processes: OtherProcesses;
  /** What the records of interprocess events are taken to order. The map does not change. */
  #assumed: Clock = new Map();
  /** The sizes of allocations that may be shared, by address. */
  readonly #byteLengths = new Map<number, number | undefined>();
  /** The variables of modules that the program has asked for. */
  readonly #variables = new Set<string>();
  /**
   * What was allocated and not freed, by address. Addresses stay: they are used again, and to delete from a large map and
   * add to it takes an engine as long as to copy it.
   */
  readonly #live = new Map<number, LiveAllocation | undefined>();
  /** The addresses of page-locked memory, by its buffers. */
  readonly #hostBuffers = new Map<ArrayBufferLike, number>();
  /** The buffers whose addresses the program has asked for. */
  readonly #reachable = new WeakSet<ArrayBufferLike>();
  /** Page-locked memory that the program itself reads. The library has some, too. */
  readonly #ofProgram = new WeakSet<ArrayBufferLike>();
  readonly #memoryAndWork: Observed;

  /**
   * @param reports where mistakes go
   * @param kernels what to do about kernels, where the driver does not say what they access
   */
  constructor(driver: Driver, reports: Reports, kernels: KernelOptions = {}) {
    this.#driver = driver;
    const saysAccesses = driver.observesAccesses || driver.kernelChecks.size > 0;
    this.#launches = saysAccesses ? undefined : new LaunchAccesses(kernels);
    this.#instrumented = saysAccesses || !kernels.instruments ? undefined : new InstrumentedLaunches(driver);
    this.#reports = reports;
    this.#reportsHostReads = kernels.withHostReads === true && driver.kernelChecks.has("initialization");
    this.#order = new StreamOrder(reports, (operation, access) => this.#processes.accessed(operation, access));
    this.#processes = new OtherProcesses({
      reports,
      order: this.#order,
      host: this.#host,
      forget: (timeline) => this.#forget(timeline),
    });
    this.#memoryAndWork = { ...this.#memoryCalls(), ...this.#workCalls() };
  }

  /** Notes that an allocator has handed out a part of its memory. */
  partAllocated({ device, stream }: StreamHandle, { address, byteLength }: MemoryRange): void {
    this.site = callSiteHere();
    this.#driver.partAllocated?.({ address, byteLength }, device, stream);
    this.#allocated(this.#operation("allocate", this.#next(device, stream)), Number(address), byteLength);
  }

  /** Notes that an allocator has got a part back. */
  partFreed({ device, stream }: StreamHandle, address: bigint): void {
    this.site = callSiteHere();
    this.#driver.partFreed?.(address);
    this.#freed(this.#operation("free", this.#next(device, stream)), Number(address));
  }

  /** Notes that the program gets page-locked memory into its hands. */
  givenToProgram(buffer: ArrayBufferLike): void {
    this.#ofProgram.add(buffer);
  }

  /** Notes that the host reads page-locked memory, if it is such. */
  hostRead(view: Uint8Array, name: string): void {
    const accesses = this.#rangeOfHost("read", view);
    if (accesses.length === 0) return;
    this.site = callSiteHere();
    this.#order.add({ operation: this.#operation(name, this.#nextOfHost()), accesses });
  }

  /** The allocation at an address, or of page-locked memory, that was not freed. */
  allocationAt(at: bigint | ArrayBufferLike): LiveAllocation | undefined {
    const address = typeof at === "bigint" ? Number(at) : this.#hostBuffers.get(at);
    return address === undefined ? undefined : this.#live.get(address);
  }

  /** What kernels have allocated and not freed. */
  unfreedHeap(): readonly UnfreedHeap[] {
    return this.#driver.unfreedHeap?.() ?? [];
  }

  #allocated(operation: Operation, address: number, byteLength: number): void {
    this.#live.set(address, { operation, byteLength });
    this.#order.add({ operation, allocates: { address, byteLength }, accesses: nothing });
  }

  #freed(operation: Operation, address: number): void {
    this.#live.set(address, undefined);
    this.#order.add({ operation, frees: address, accesses: nothing });
  }

  /** The calls to make instead of the driver's own. */
  calls(): Observed {
    return {
      ...this.#streamCalls(),
      ...this.#eventCalls(),
      ...this.#memoryAndWork,
      ...this.#launches?.calls(this.#driver, this.#instrumented?.moduleLoadData),
      ...this.#instrumented?.calls(),
    };
  }

  /** Whether a call may ask for work, so that its site is to be noted first. */
  isWork(call: string | symbol): boolean {
    return Object.hasOwn(this.#memoryAndWork, call);
  }

  #streamCalls(): Observed {
    const driver = this.#driver;
    return {
      streamCreateWithPriority: (device, flags, priority) => {
        const stream = driver.streamCreateWithPriority(device, flags, priority);
        const name = `stream ${++this.#streamCount} of device ${device}`;
        const isBlocking = flags !== streamFlags.nonBlocking;
        this.#streamsOf(device).set(stream, new Timeline(name, { device, isBlocking, created: callSiteHere() }));
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
        this.#learnEvent(this.#streamOf(device, stream), event);
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
        const shared = this.#processes.shared(handle);
        this.#events.set(event, { isInterprocess: true, handle: shared, record: undefined, clock: undefined });
        return event;
      },
      ipcGetEventHandle: (event) => {
        const handle = driver.ipcGetEventHandle(event);
        const observed = this.#eventOf(event);
        if (observed.handle === undefined) {
          observed.handle = this.#processes.shared(handle);
          this.#tellRecord(observed);
        }
        return handle;
      },
      eventDestroy: (device, event) => {
        driver.eventDestroy(device, event);
        this.#events.delete(event);
      },
      eventRecord: (device, event, stream) => {
        const observed = this.#eventOf(event);
        const record = this.#next(device, stream);
        // Others may wait for the record as soon as it is there.
        this.#tellRecord({ ...observed, record, clock: undefined });
        driver.eventRecord(device, event, stream);
        observed.record = record;
        observed.clock = undefined;
        if (observed.isInterprocess) this.#assume(record);
      },
      ctxRecordEvent: (device, event) => {
        const all = new Timeline("all streams");
        for (const stream of this.#allStreamsOf(device)) all.learnFrom(stream);
        const observed = this.#eventOf(event);
        this.#tellRecord({ ...observed, record: undefined, clock: all.known() });
        driver.ctxRecordEvent(device, event);
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
        const at = Number(address);
        this.#byteLengths.set(at, byteLength);
        this.#allocated(this.#operation("allocate", this.#next(device, stream)), at, byteLength);
        return address;
      },
      freeAsync: (device, address, stream) => {
        driver.freeAsync(device, address, stream);
        this.#unshared(this.#operation("free", this.#next(device, stream)), Number(address));
      },
      malloc: (device, byteLength) => {
        const address = driver.malloc(device, byteLength);
        const at = Number(address);
        this.#byteLengths.set(at, byteLength);
        this.#allocated(this.#operation("allocate", this.#nextOfHost()), at, byteLength);
        return address;
      },
      free: (device, address) => {
        driver.free(device, address);
        this.#hostKnowsDevice(device);
        this.#unshared(this.#operation("free", this.#nextOfHost()), Number(address));
      },
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
        const { byteLength } = driver.memGetAddressRange(device, address);
        this.#allocated(this.#operation("import", this.#nextOfHost()), Number(address), byteLength);
        this.#processes.imported(exportData, address, byteLength);
        return address;
      },
      ipcOpenMemHandle: (device, handle) => {
        const address = driver.ipcOpenMemHandle(device, handle);
        const { byteLength } = driver.memGetAddressRange(device, address);
        this.#allocated(this.#operation("import", this.#nextOfHost()), Number(address), byteLength);
        this.#processes.imported(handle, address, byteLength);
        return address;
      },
      ipcCloseMemHandle: (device, address) => {
        driver.ipcCloseMemHandle(device, address);
        this.#unshared(this.#operation("free", this.#nextOfHost()), Number(address));
      },
      hostAlloc: (byteLength) => {
        const allocation = driver.hostAlloc(byteLength);
        const address = this.#addressOf(allocation);
        this.#hostBuffers.set(allocation.buffer, Number(address));
        this.#allocated(this.#operation("allocate", this.#nextOfHost()), Number(address), byteLength);
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
        if (address !== undefined) this.#freed(this.#operation("free", this.#nextOfHost()), address);
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
        // A write that comes before may still be pending: then the source does not hold yet what the copy will read.
        const isThere = !this.#isWrittenUnseen(source.buffer) && this.#isIdle(source, "writes");
        if (isThere) this.#sources.add(operation, source);
      },
      memcpyDtoHAsync: (device, destination, source, stream) => {
        this.#reportChanges(this.#sources.changesIn(destination));
        this.#fillTarget(destination);
        const region = this.#reportsHostReads ? this.#order.regionAt(Number(source)) : undefined;
        const read: { found?: bigint; operation?: Operation } = {};
        const report = () => {
          const { found: at, operation } = read;
          if (at !== undefined && operation !== undefined) this.#reports.addUnwritten({ region, operation, at });
        };
        // Pageable memory is copied during the call, and page-locked memory later.
        driver.memcpyDtoHAsync(
          device,
          destination,
          source,
          stream,
          region && ((address) => {
            read.found = address;
            report();
          }),
        );
        const host = this.#rangeOfHost("write", destination);
        const name = this.#ofProgram.has(destination.buffer) ? "copyTo" : "read";
        const operation = added(device, stream, name, [range("read", source, destination.byteLength), ...host]);
        read.operation = operation;
        report();
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
        this.#kernels.set(kernel, `kernel ${name}`);
        this.#launches?.addKernel(kernel, module, name);
        this.#instrumented?.addKernel(kernel, module, name);
        return kernel;
      },
      launchKernel: (launch) => this.#launch(launch, (launch) => driver.launchKernel(launch)),
      launchKernelEx: (launch, attributes: LaunchAttributes) =>
        this.#launch(launch, (launch) => driver.launchKernelEx(launch, attributes)),
    };
  }

  /** Adds a variable of a module as memory, when the program first asks for it. */
  #addVariable(module: bigint, name: string, { address, byteLength }: MemoryRange): void {
    const key = `${module} ${name}`;
    if (this.#variables.has(key)) return;
    this.#variables.add(key);
    this.#allocated(this.#operation("allocate", this.#nextOfHost()), Number(address), byteLength);
  }

  #launch(launch: KernelLaunch, call: (launch: KernelLaunch) => void): void {
    const { device, stream, kernel } = launch;
    const name = this.#kernels.get(kernel) ?? `kernel ${kernel}`;
    const operation = this.#operation(name, this.#next(device, stream));
    if (this.#launches !== undefined) {
      return this.#launchAnalyzed(launch, call, { operation, launches: this.#launches });
    }
    let found: readonly LaunchFinding[] = [];
    // The buffers that findings are about are those of this point in the program.
    const then = () => {
      for (const finding of found) {
        const { allocation = finding.range } = finding;
        const region = allocation && this.#order.regionAt(Number(allocation.address));
        this.#reports.addOfKernel({ finding, operation, region });
      }
    };
    const deed: Deed = { operation, then };
    launch.onFindings = (findings) => found = findings;
    launch.onAccesses = (accesses) => {
      this.#forgetSources(accesses);
      deed.accesses = accesses.map(({ address, byteLength, operation, source, first }) => {
        return { address: Number(address), byteLength, access: operation, source, first };
      });
      this.#order.proceed();
    };
    call(launch);
    this.#order.add(deed);
  }

  /** Launches a kernel whose accesses the driver does not say. */
  #launchAnalyzed(
    launch: KernelLaunch,
    call: (launch: KernelLaunch) => void,
    { operation, launches }: { operation: Operation; launches: LaunchAccesses },
  ): void {
    launch.onAccesses = undefined;
    const known = this.#instrumented && launches.of(launch);
    if (known?.isExact === false && this.#launchObserved(launch, call, { deed: { operation }, known })) return;
    call(launch);
    const { certain, possible } = known ?? launches.of(launch);
    this.#order.add({ operation, accesses: certain, possible });
  }

  /** Launches a version of a kernel that notes what it accesses, if there is one. */
  #launchObserved(
    launch: KernelLaunch,
    call: (launch: KernelLaunch) => void,
    { deed, known }: { deed: Deed; known: KnownAccesses },
  ): boolean {
    return this.#instrumented!.launch(launch, call, (noted) => {
      deed.accesses = withSources(noted, known);
      this.#order.proceed();
    }) && (this.#order.add(deed), true);
  }

  #operation(name: string, point: Point): Operation {
    const { timeline, position, clock } = point;
    const { asked } = this.#processes;
    return { name, site: this.site, asked, assumed: this.#assumed, timeline, position, clock };
  }

  /** The next work of a stream. */
  #next(device: number, stream: bigint): Point {
    this.#processes.ask();
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
    this.#instrumented?.settle();
    this.#processes.tellKnown();
    this.#processes.read();
    this.#reportChanges(this.#sources.changesBefore({ ...lastPoint(this.#host), assumed: this.#assumed }));
    this.#retire();
  }

  /** Forgets the destroyed streams whose work the host knows to be done: a program may use a new stream for each task. */
  #retire(): void {
    for (const destroyed of this.#destroyed.values()) {
      for (const timeline of destroyed) {
        if (timeline.position > 0 && this.#knownPosition(timeline) < timeline.position) continue;
        destroyed.delete(timeline);
        // What was asked for before must not be taken to come after it.
        const then = () => {
          timeline.isRetired = true;
          this.#processes.retired(timeline);
          this.#forget(timeline);
        };
        this.#order.add({ then, accesses: [] });
      }
    }
  }

  #reportChanges(changes: readonly EarlyChange[]): void {
    for (const change of changes) {
      const address = this.#hostBuffers.get(change.buffer);
      const region = address === undefined ? undefined : this.#order.regionAt(address);
      this.#reports.addEarlyChange(change, region?.allocated);
    }
  }

  /** Compares the sources in a range that a stream is about to write, and looks at them no more. */
  #beforeWrite(address: bigint, byteLength: number): void {
    if (this.#sources.isEmpty) return;
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

  /**
   * Overwrites page-locked memory that a copy is about to write, so that a program that reads it too early does not find
   * what it would find later. Only where nothing can tell: views that others see, and addresses that others have, are
   * left alone.
   */
  #fillTarget(destination: Uint8Array): void {
    if (!this.#ofProgram.has(destination.buffer) || this.#reachable.has(destination.buffer)) return;
    if (this.#isIdle(destination, "accesses")) destination.fill(unreadByte);
  }

  /** Whether the host knows that all work that accesses or writes page-locked memory is done. False for other memory. */
  #isIdle(view: Uint8Array, by: "accesses" | "writes"): boolean {
    const [range] = this.#rangeOfHost("read", view);
    if (range === undefined) return false;
    const now: Operation = { name: "host", site: {}, asked: this.#processes.asked, ...lastPoint(this.#host) };
    return this.#order.isIdle(now, { begin: range.address, end: range.address + range.byteLength }, by);
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
    this.#learnEvent(this.#host, event);
    this.#afterWait();
  }

  /** Notes that a timeline's next work comes after the records of an event, here and in other processes. */
  #learnEvent(timeline: Timeline, event: bigint): void {
    const { record, clock, handle } = this.#eventOf(event);
    learn(timeline, record, clock);
    if (handle === undefined) return;
    for (const other of this.#processes.knownBy(handle)) timeline.learnAll(other);
  }

  #tellRecord({ handle, record, clock }: ObservedEvent): void {
    if (handle === undefined || record === undefined && clock === undefined) return;
    this.#processes.recorded(handle, record === undefined ? [] : [record], record?.clock ?? clock!);
  }

  /** Takes all that comes before a point, and the point, to be known to the host. */
  #assume({ timeline, position, clock }: Point): void {
    const assumed = new Map(this.#assumed);
    for (const [other, known] of [...clock, [timeline, position] as const]) {
      // What comes before others is known: they tell.
      if (other instanceof PeerTimeline || other.isRetired) continue;
      assumed.set(other, Math.max(assumed.get(other) ?? 0, known));
    }
    this.#assumed = assumed;
    this.#afterWait();
  }

  /** How much of a stream's work the host knows to be done. Only what it knows for sure is told to other processes. */
  #knownPosition(timeline: Timeline): number {
    const known = this.#host.known().get(timeline) ?? 0;
    return this.#processes.hasJoined ? known : Math.max(known, this.#assumed.get(timeline) ?? 0);
  }

  #forget(timeline: Timeline): void {
    for (const streams of this.#streams.values()) {
      for (const stream of streams.values()) stream.forget(timeline);
    }
    this.#host.forget(timeline);
    if (!this.#assumed.has(timeline)) return;
    const assumed = new Map(this.#assumed);
    assumed.delete(timeline);
    this.#assumed = assumed;
  }

  #exported(handle: Uint8Array, address: bigint): void {
    const byteLength = this.#byteLengths.get(Number(address));
    if (byteLength !== undefined) this.#processes.exported(handle, address, byteLength);
  }

  #unshared(operation: Operation, address: number): void {
    this.#byteLengths.set(address, undefined);
    this.#processes.freed(operation, address);
    this.#freed(operation, address);
  }

  /** Ends it. */
  finish(): void {
    this.#processes.read();
    this.#processes.leave();
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
