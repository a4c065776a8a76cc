import type { CollectiveLibrary } from "./collective_library.ts";
import { Compilers } from "./compile/compilers.ts";
import { type Driver, eventFlags, type HostAllocation, streamCaptureMode } from "./driver.ts";
import { refuse } from "./driver_layers.ts";
import { reportLeak } from "./support/leaks.ts";
import { type CudaStream, pendingWorkOf, streamKind } from "./objects/streams/cuda_stream.ts";
import { IpcHandleLayouts } from "./objects/ipc_handles.ts";
import { type OpenedObject, OpenedObjects } from "./objects/opened_objects.ts";
import type { PendingWork } from "./objects/streams/stream_progress.ts";
import { SessionCaptures } from "./objects/graphs/captures.ts";
import type { GraphArguments } from "./objects/graphs/graph_argument.ts";
import { beginCapture, type CaptureOptions, type GraphCapture } from "./objects/graphs/graph_capture.ts";
import { RecentLaunches } from "./objects/kernels/recent_launches.ts";
import { CudaError } from "./support/errors.ts";
import { EndedError, ignoreLoss, isLoss } from "./support/driver_errors.ts";
import { type AwaitedWork, DeferredReleases } from "./support/waiting/deferred_releases.ts";
import { type BatchCopy, type CopyAttributes, copyBatch } from "./memory/copy_batch.ts";
import { ExportDataLayout } from "./memory/handles/export_data.ts";
import { CompletedEvents, ReleaseStreams } from "./memory/freed_streams.ts";
import { ManagedBudget } from "./memory/managed/managed_budget.ts";
import { ImportedMappings } from "./memory/handles/imported_mappings.ts";
import type { InstructionSupport, SurveyedPtx } from "./ptx/instruction_support.ts";
import type { MemoryPool } from "./memory/pools/memory_pool.ts";
import { MemoryRegistry } from "./memory/pools/memory_registry.ts";
import { captureCallStack } from "./sanitizer/reporting/call_stacks.ts";
import type { Sanitizer } from "./sanitizer/sanitizer.ts";
import type { TraceRecorder } from "./trace/trace_recorder.ts";
import { Staging, Uploads } from "./memory/transfers/staging.ts";

/** Page-locked memory. `byteLength` is stored here, because a detached buffer has a length of 0. */
interface HostMemory {
  readonly byteLength: number;
  readonly opened: OpenedObject;
}

/** Memory of the program that is page-locked. */
export interface HostRegistration {
  /** The address at which the kernels of all devices access the memory. */
  readonly address: bigint;
  readonly bytes: Uint8Array;
  /** A buffer that is detached when the registration ends, as the buffers of allocated memory are. */
  readonly lifetime: ArrayBuffer;
  readonly opened: OpenedObject;
}

/**
 * The errors of failed work that CUDA reports as complete, such as aborted collectives. The `throwErrorOf` methods
 * throw the error if a wait for a stream, an event or a device would otherwise succeed.
 */
export interface WaitErrors {
  /** Throws the error of a stream, if there is one. `isDone` is whether the stream is idle, according to the driver. */
  throwErrorOfStream(device: number, stream: bigint, isDone: boolean): void;
  /**
   * Throws the error of an event, if there is one. `isDone` is whether the event is complete, according to the driver.
   */
  throwErrorOfEvent(event: bigint, isDone: boolean): void;
  /** Throws the error of a device, if there is one. Called after a wait has found all work of the device complete. */
  throwErrorOfDevice(device: number): void;
  /**
   * Calls a function in which the library waits for its own purposes. Such waits do not throw the errors of failed
   * work. Only the program's own waits throw them.
   */
  withoutErrors<Result>(action: () => Result): Result;
  /**
   * Called when an event was recorded on a separate stream that waits for the device's default stream. The event
   * completes when the default stream's earlier work does.
   */
  onDefaultStreamRecorded(device: number, event: bigint): void;
  /** Called when the program no longer uses a stream, which may be destroyed at any time from then on. */
  onStreamReleased(device: number, stream: bigint): void;
}

/** Returns how the software device supports each instruction of a module. */
export type SupportOfInstructions = (images: readonly SurveyedPtx[]) => readonly InstructionSupport[];

function refuseSurvey(): never {
  throw new Error("Cannot survey instructions: this session has no compiler of PTX");
}

function refuseCollectives(): never {
  throw new Error("Cannot create a communicator: this session has no collectives");
}

/** The state that all objects created from one `Cuda` object share. */
export class Session {
  /** Page-locked memory for copies between devices and pageable memory. */
  readonly staging: Staging;
  /** Copies pageable memory to devices through page-locked memory. */
  readonly uploads: Uploads;
  /** Whether the layout of pools' export data is known, so that the data can be checked before it is imported. */
  readonly exportDataLayout: ExportDataLayout;
  /** Whether the layout of legacy IPC handles is known, so that they can be checked before they are opened. */
  readonly ipcHandleLayouts: IpcHandleLayouts;
  /** The work that the program knows to be complete from queries, without a synchronization. */
  readonly completed: CompletedEvents;
  /** The library's own streams for freeing memory that several streams have used. */
  readonly releaseStreams: ReleaseStreams;
  /** Whether the call sites of buffers', events' and launches' creation are recorded, for warnings and errors. */
  readonly debug: boolean;
  /** The sanitizer, if it was requested. */
  readonly sanitizer: Sanitizer | undefined;
  /** The recorder of the trace, if one is recorded. */
  readonly recorder: TraceRecorder | undefined;
  /** The compilers of CUDA C++. */
  readonly compilers: Compilers;
  /** Opens the library that executes collectives: NCCL, or the software device's own. */
  readonly openCollectives: () => CollectiveLibrary;
  /** Functions that are called before the session ends. */
  readonly beforeEnd: Set<() => void> = new Set();
  /** Returns how the software device supports each instruction of a module. */
  readonly instructionSupport: SupportOfInstructions;
  /** The live pools by handle: the driver reports a device's current pool as a handle. */
  readonly pools: Map<bigint, MemoryPool> = new Map();
  /** The pools and caching allocators, each of which can release unused memory when another one needs memory. */
  readonly memory: MemoryRegistry;
  /**
   * Memory that was freed but is kept, because an ArrayBuffer over the memory was transferred, and the receiver may
   * still access it. `end` reports such memory.
   */
  readonly transferredMemory: Set<{ readonly byteLength: number }> = new Set();
  /** The objects to release at the end of the session. Buffers of pools are not included: each pool lists its own. */
  readonly opened: OpenedObjects;
  /** The streams that may have pending work: default streams, open streams, and disposed streams with pending work. */
  readonly streams: Set<CudaStream> = new Set();
  /** The recent launches, which the error about a lost device lists. */
  readonly launches: RecentLaunches;
  /** The managed memory of the session, and how much of it may be allocated. */
  readonly managedBudget: ManagedBudget = new ManagedBudget(() => this.memory.unusedManaged());
  /** The captures of streams that have begun and not ended. */
  readonly captures: SessionCaptures = new SessionCaptures(this);
  #driver: Driver;
  /** The driver that is used while nothing is captured. */
  #baseDriver: Driver;
  #waitErrors: WaitErrors | undefined;
  readonly #deferred = new DeferredReleases();
  /** The page-locked allocations, keyed by their buffers. */
  readonly #hostAllocations = new Map<ArrayBufferLike, HostMemory>();
  /** The memory of the program that is registered. */
  readonly #registrations = new Set<HostRegistration>();
  /** The size in bytes of each host view. */
  readonly #hostViews = new Map<ArrayBuffer, number>();
  /** The library's own events, which are called markers. Maps each to the ordinal of its device. */
  readonly #markers = new Map<bigint, number>();
  readonly #importedMappings = new Map<bigint, ImportedMappings>();

  constructor(
    driver: Driver,
    {
      debug = false,
      compilers = new Compilers([]),
      instructionSupport = refuseSurvey,
      sanitizer,
      recorder,
      collectives = refuseCollectives,
    }: {
      debug?: boolean;
      sanitizer?: Sanitizer | undefined;
      recorder?: TraceRecorder | undefined;
      compilers?: Compilers;
      instructionSupport?: SupportOfInstructions;
      collectives?: () => CollectiveLibrary;
    } = {},
  ) {
    this.#driver = driver;
    this.#baseDriver = driver;
    // In the other modes, a call that has nothing to do with the streams of a capture, such as a query of an event, can
    // invalidate a capture of any library or thread.
    driver.threadExchangeStreamCaptureMode(streamCaptureMode.relaxed);
    this.compilers = compilers;
    this.openCollectives = collectives;
    this.sanitizer = sanitizer;
    this.recorder = recorder;
    this.instructionSupport = instructionSupport;
    this.staging = new Staging(this);
    this.uploads = new Uploads(this);
    this.exportDataLayout = new ExportDataLayout(this);
    this.ipcHandleLayouts = new IpcHandleLayouts(this);
    this.completed = new CompletedEvents(this);
    this.releaseStreams = new ReleaseStreams(this);
    this.debug = debug;
    this.memory = new MemoryRegistry({ debug });
    driver.useBufferNames?.(() => this.memory.namedBuffers());
    this.opened = new OpenedObjects({ debug });
    this.launches = new RecentLaunches(this);
    sanitizer?.beforeProcessEnd(() => void this.opened.reportUnfreed(sanitizer, "the process ended"));
    if (driver.contextsAreShared) noteSession(this);
  }

  /** The session's driver. Once the session has ended, any use of the driver throws a `ReferenceError`. */
  get driver(): Driver {
    return this.#driver;
  }

  /** The errors of failed collectives. Undefined until there is a communicator. */
  get waitErrors(): WaitErrors | undefined {
    return this.#waitErrors;
  }

  /**
   * Makes waits throw errors of failed collectives: they query `waitErrors` from now on, and the session's calls go to
   * `driver`, a layer above the previous driver.
   */
  guardWaits(waitErrors: WaitErrors, driver: Driver): void {
    this.#waitErrors = waitErrors;
    this.#baseDriver = driver;
    this.onCapturesChanged();
  }

  /** Returns the current call stack. Undefined without the sanitizer: stacks are dear. */
  siteOfCall(): { readonly stack?: string } | undefined {
    return this.sanitizer === undefined ? undefined : captureCallStack();
  }

  /** Begins the capture of a stream. */
  beginCapture<Arguments extends GraphArguments>(
    stream: CudaStream,
    options: CaptureOptions<Arguments>,
  ): GraphCapture<Arguments> {
    return beginCapture(stream, this, options);
  }

  /** Copies a batch on a stream. */
  copyBatch(stream: CudaStream, copies: readonly BatchCopy[], options: CopyAttributes): void {
    copyBatch(this, stream, { copies, options });
  }

  /** Call when a capture has begun or ended: while there is one, the session's calls go through the layer of captures. */
  onCapturesChanged(): void {
    if (this.hasEnded) return;
    this.#driver = this.captures.isActive ? this.captures.guard(this.#baseDriver) : this.#baseDriver;
  }

  /**
   * Calls a function in which the library waits for its own purposes. Waits in the function do not throw the errors of
   * collectives. Only the program's own waits throw them.
   */
  withoutCollectiveErrors<Result>(wait: () => Result): Result {
    return this.#waitErrors === undefined ? wait() : this.#waitErrors.withoutErrors(wait);
  }

  get hasEnded(): boolean {
    return this.#driver === endedDriver;
  }

  /**
   * Allocates page-locked memory. The memory is freed at the end of the session, unless it was freed before.
   *
   * @param kind the name of the memory in leak reports, if the program must free it
   * @param flags flags of `hostAllocFlag`
   */
  allocateHost(byteLength: number, kind?: string, flags?: number): HostAllocation {
    const allocation = this.driver.hostAlloc(byteLength, flags);
    const opened: OpenedObject = {
      unfreed: () => {
        const pieces = () => [{ at: allocation.buffer, byteLength }];
        return kind === undefined ? undefined : { kind, count: 1, byteLength, pieces };
      },
      release: (driver) => driver.freeHost(allocation),
    };
    this.#hostAllocations.set(allocation.buffer, { byteLength, opened });
    this.opened.add(opened);
    if (kind !== undefined) this.sanitizer?.onExposedToProgram(allocation.buffer);
    return allocation;
  }

  /** Frees page-locked memory, unless its buffer was transferred. */
  freeHost(allocation: HostAllocation): void {
    const { buffer } = allocation;
    const found = this.#hostAllocations.get(buffer);
    if (found === undefined) return;
    this.#hostAllocations.delete(buffer);
    this.opened.delete(found.opened);
    if (isTransferred(buffer, found.byteLength)) return void this.transferredMemory.add(found);
    // Detach the buffer even if freeing fails: it must not expose freed memory.
    try {
      this.driver.freeHost(allocation);
    } finally {
      this.detach(buffer);
    }
  }

  /**
   * Page-locks memory of the program, until `unregisterHost` or the end of the session.
   *
   * @param flags flags of `hostRegisterFlag`
   */
  registerHost(bytes: Uint8Array, flags: number): HostRegistration {
    const { byteLength } = bytes;
    const address = this.driver.hostRegister(bytes, flags);
    const opened: OpenedObject = {
      unfreed: () => ({
        kind: "registered memory",
        count: 1,
        byteLength,
        pieces: () => [{ at: bytes.buffer, byteLength }],
      }),
      release: (driver) => driver.hostUnregister(address),
    };
    const registration = { address, bytes, lifetime: new ArrayBuffer(1), opened };
    this.#registrations.add(registration);
    this.opened.add(opened);
    return registration;
  }

  /** Ends the page-lock of memory of the program. */
  unregisterHost(registration: HostRegistration): void {
    if (!this.#registrations.delete(registration)) return;
    this.opened.delete(registration.opened);
    registration.lifetime.transfer(0);
    // Even if the memory was transferred, or does not exist any more: CUDA keeps the pages until then.
    this.driver.hostUnregister(registration.address);
  }

  /** Returns whether a view is of page-locked memory of this session, which copies read and write in stream order. */
  isPageLocked(view: ArrayBufferView): boolean {
    return this.lifetimeOf(view) !== undefined;
  }

  /**
   * Returns the buffer that is detached when the page-locked memory of a view is freed, or is no longer registered.
   * Undefined if some of the view's memory is not page-locked.
   */
  lifetimeOf(view: ArrayBufferView): ArrayBufferLike | undefined {
    const { buffer } = view;
    if (this.#hostAllocations.has(buffer) || this.#hostViews.has(buffer as ArrayBuffer)) return buffer;
    for (const { bytes, lifetime } of this.#registrations) if (overlapOf(view, bytes) === "within") return lifetime;
    return undefined;
  }

  /** Whether any memory of the program is registered. */
  get hasRegistrations(): boolean {
    return this.#registrations.size > 0;
  }

  /** Returns whether a part of a view's memory is registered, and another part is not page-locked. */
  isPartlyRegistered(view: ArrayBufferView): boolean {
    for (const { bytes } of this.#registrations) if (overlapOf(view, bytes) === "partly") return true;
    return false;
  }

  /**
   * Creates an event that the library records to determine a stream's progress later. The event is destroyed at the end
   * of the session, unless it was destroyed before.
   */
  createMarker(device: number): bigint {
    const marker = this.driver.eventCreateWithFlags(device, eventFlags.disableTiming);
    this.#markers.set(marker, device);
    return marker;
  }

  /**
   * Takes ownership of an event that the application is disposing. From then on, it is one of the library's own events.
   */
  adoptMarker(event: bigint, device: number): void {
    this.#markers.set(event, device);
  }

  /** Whether an event is one of the library's own. */
  isMarker(event: bigint): boolean {
    return this.#markers.has(event);
  }

  destroyMarker(marker: bigint): void {
    const device = this.#markers.get(marker);
    // At the end of the session, all remaining events of the library are destroyed.
    if (device === undefined || this.hasEnded) return;
    this.#markers.delete(marker);
    this.completed.deleteMarker(marker);
    ignoreLoss(() => this.driver.eventDestroy(device, marker));
  }

  /** Returns a view of a host pool's memory, or of managed memory, without a copy. The view is valid until `detach` is called. */
  hostView(address: bigint, byteLength: number): ArrayBuffer {
    const view = this.driver.hostView(address, byteLength);
    this.#hostViews.set(view, byteLength);
    return view;
  }

  /** Detaches a view whose memory is about to be freed. */
  detach(view: ArrayBuffer): void {
    this.#hostViews.delete(view);
    if (!view.detached) view.transfer(0);
  }

  /** Returns the mappings of an imported pool. A driver returns the same handle for each import of the same pool. */
  importedMappings(pool: bigint): ImportedMappings {
    let mappings = this.#importedMappings.get(pool);
    if (mappings === undefined) {
      mappings = new ImportedMappings(() => this.#importedMappings.delete(pool));
      this.#importedMappings.set(pool, mappings);
    }
    return mappings;
  }

  /**
   * Calls `release` when the work enqueued on the streams so far is complete: immediately if it is complete already,
   * otherwise later, without blocking and without keeping the process alive. Never calls it if the session ends first.
   */
  afterWork(streams: Iterable<CudaStream>, release: () => void): void {
    const work = this.#pendingWork(streams);
    if (work.length === 0) release();
    else this.#deferred.add(work, release);
  }

  /** Calls `release` when none of the streams is being captured any more, like `afterWork`. */
  afterCaptures(streams: readonly CudaStream[], release: () => void): void {
    const captured = streams.map((stream) => ({
      get isComplete() {
        return stream.disposed || !stream.isCapturing;
      },
    }));
    this.#deferred.add(captured, release);
  }

  /** Runs the callbacks of `afterWork` whose work is complete by now. */
  releaseCompleted(): void {
    this.#deferred.poll();
  }

  /**
   * Releases everything that the session has opened, in reverse order, and reports memory that was not freed.
   *
   * Never blocks until work is complete, because the work may wait for a process that has died. If work is pending and
   * the driver cannot discard it, the release is deferred until the work is complete, and does not happen if the
   * process exits first.
   */
  end(): void {
    if (this.hasEnded) return;
    this.captures.dropAll();
    for (const end of this.beforeEnd) end();
    const { driver } = this;
    this.releaseCompleted();
    this.#detachAll();
    let work: readonly AwaitedWork[] = [];
    try {
      work = [...this.#pendingWork(this.streams), ...this.#contextWork()];
      this.opened.reportLeaks(this.sanitizer);
    } catch (error) {
      // Memory that was lost with the context is not reported as a leak.
      if (!isLoss(error)) throw error;
    } finally {
      this.#deferred.clear();
      this.#driver = endedDriver;
      this.launches.stop();
      this.#reportTransferredMemory();
      // The list is copied, because objects that are disposed of from now on are removed from `this.opened`, but must
      // still be released.
      const opened = [...this.opened];
      if (work.length === 0) this.#releaseAll(driver, opened);
      else if (driver.dropsWork) this.#close(driver);
      else new DeferredReleases().add(work, () => this.#releaseAll(driver, opened));
    }
  }

  /** Detaches the buffers of host memory. Memory whose buffer was transferred is never freed. */
  #detachAll(): void {
    for (const [view, byteLength] of this.#hostViews) {
      if (isTransferred(view, byteLength)) this.transferredMemory.add({ byteLength });
    }
    for (const [buffer, { byteLength, opened }] of this.#hostAllocations) {
      if (!isTransferred(buffer as ArrayBuffer, byteLength)) continue;
      this.transferredMemory.add({ byteLength });
      this.opened.delete(opened);
    }
    for (const buffer of [...this.#hostViews.keys(), ...this.#hostAllocations.keys()]) {
      this.detach(buffer as ArrayBuffer);
    }
    for (const { lifetime } of this.#registrations) lifetime.transfer(0);
  }

  #reportTransferredMemory(): void {
    let byteLength = 0;
    for (const memory of this.transferredMemory) byteLength += memory.byteLength;
    reportLeak({
      count: this.transferredMemory.size,
      byteLength,
      before: "the Cuda object was disposed, because an ArrayBuffer of the memory was transferred",
      advice: "transfer a copy of the bytes instead, such as buffer.slice()",
    });
  }

  #close(driver: Driver): void {
    driver.close({ keepMemory: this.transferredMemory.size > 0 });
  }

  #pendingWork(streams: Iterable<CudaStream>): PendingWork[] {
    return [...streams].map(pendingWorkOf).filter((work) => work !== undefined);
  }

  /**
   * Returns the pending work of all users of the devices' contexts, such as other Workers. Some releases block this
   * thread until all work of a context is complete. If that work can only be completed by code of this thread, such a
   * release would deadlock.
   */
  #contextWork(): AwaitedWork[] {
    const { driver } = this;
    if (!driver.hasContextEvents || driver.dropsWork) return [];
    const events = driver.usedDevices().map((device) => {
      const event = this.createMarker(device);
      try {
        driver.ctxRecordEvent(device, event);
        return event;
      } catch (error) {
        // The event cannot be recorded while another library captures a graph.
        if (error instanceof CudaError && error.code === "cudaErrorStreamCaptureUnsupported") return undefined;
        throw error;
      }
    });
    const work = events.filter((event) => event !== undefined).map((event) => {
      return {
        get isComplete() {
          let isComplete = true;
          ignoreLoss(() => isComplete = driver.eventQuery(event));
          return isComplete;
        },
      };
    });
    return work.filter(({ isComplete }) => !isComplete);
  }

  #releaseAll(driver: Driver, opened: readonly OpenedObject[]): void {
    // The `DisposableStack` calls the releases in reverse order, and calls all of them even if one throws.
    using releases = new DisposableStack();
    releases.defer(() => this.#close(driver));
    const later = (release: () => void) => releases.defer(() => ignoreLoss(release));
    for (const [marker, device] of this.#markers) later(() => driver.eventDestroy(device, marker));
    // Streams are released after the pools, because a pool's release waits for the streams on which its memory was
    // freed.
    const streams = opened.filter(({ kind }) => kind === streamKind);
    for (const stream of streams) later(() => stream.release(driver));
    for (const object of opened) if (object.kind !== streamKind) later(() => object.release(driver));
  }
}

/** Returns whether other code has detached the buffer of memory of `byteLength` bytes. */
/** Returns whether a view is within other memory, or has a part in it. */
function overlapOf(
  view: ArrayBufferView,
  { buffer, byteOffset, byteLength }: Uint8Array,
): "within" | "partly" | "apart" {
  if (view.buffer !== buffer) return "apart";
  const begin = view.byteOffset - byteOffset, end = begin + view.byteLength;
  if (begin >= 0 && end <= byteLength) return "within";
  return begin < byteLength && end > 0 ? "partly" : "apart";
}

function isTransferred(buffer: ArrayBuffer, byteLength: number): boolean {
  return byteLength > 0 && buffer.detached;
}

const endedDriver = refuse(() =>
  new EndedError("Cannot use this object: the Cuda object was disposed, along with everything that it created")
);

/**
 * The sessions whose drivers share the devices' contexts: some calls of one such session wait for the work of all these
 * sessions.
 */
const sessionsOfSharedContexts = new Set<WeakRef<Session>>();
let noted: ((session: Session) => void) | undefined;

function noteSession(session: Session): void {
  for (const each of sessionsOfSharedContexts) {
    if (each.deref()?.hasEnded !== false) sessionsOfSharedContexts.delete(each);
  }
  sessionsOfSharedContexts.add(new WeakRef(session));
  noted?.(session);
}

/**
 * Calls a function for each session whose driver shares its contexts with other sessions, and for each such session
 * that is opened later. Only the first call of this function has an effect.
 */
export function forEachSessionOfSharedContexts(call: (session: Session) => void): void {
  if (noted !== undefined) return;
  noted = call;
  for (const each of sessionsOfSharedContexts) {
    const session = each.deref();
    if (session?.hasEnded === false) call(session);
  }
}
