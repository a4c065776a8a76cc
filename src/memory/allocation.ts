import type { MemoryRange } from "../driver.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { type CudaStream, lastWorkOf, progressOf } from "../objects/streams/cuda_stream.ts";
import { CudaError } from "../support/errors.ts";
import { cannot, ignoreLoss } from "../support/driver_errors.ts";
import type { DeviceBuffer } from "./device_buffer.ts";
import { finishExportedData } from "./handles/export_data.ts";
import type { ImportedMemoryPool } from "./handles/imported_memory_pool.ts";
import type { GraphUser } from "../objects/graphs/graph_resources.ts";
import type { MemoryPool } from "./pools/memory_pool.ts";
import type { PhysicalMemory } from "./virtual/physical_memory.ts";
import type { Session } from "../session.ts";
import type { StagingBuffer } from "./transfers/staging.ts";
import { placeIn } from "./pools/pool_contents.ts";
import type { Access } from "./pools/pool_attributes.ts";
import { callStack } from "../support/leaks.ts";
import { ReferenceError, TypeError } from "../support/program_errors.ts";

/**
 * Each time the number of recorded streams of an allocation reaches a multiple of this value, disposed idle streams are
 * removed.
 */
const sweepSize = 64;

/** Whether the addresses of memory of graphs can be read although the memory does not exist. */
let readsGraphMemory = false;

/** Calls a function that may read the addresses of memory which graphs allocate, whether or not it exists now. */
export function withGraphMemory<Result>(read: () => Result): Result {
  readsGraphMemory = true;
  try {
    return read();
  } finally {
    readsGraphMemory = false;
  }
}

/** The slab that contains an allocator's buffer, and the buffer's offset in the slab. */
export interface SlabPart {
  /** The slab: an allocation of the pool, which the caching allocator frees. */
  readonly slab: DeviceBuffer;
  /** Offset of the buffer in the slab, in bytes. */
  readonly byteOffset: number;
}

/** The owner of an allocation, which frees the memory. The optional members describe the memory. */
export interface AllocationOwner {
  /** Frees the memory in stream order. */
  release(address: bigint, byteLength: number, stream: CudaStream, allocation: Allocation): void;
  /**
   * Called when an allocation is freed while it has holders. `release` is called when the last holder has released the
   * allocation.
   */
  awaitRelease?(address: bigint, byteLength: number): void;
  /** Whether the memory is from a pool in host memory. */
  readonly isHostMemory?: boolean;
  /** Whether a graph allocates the memory. */
  readonly isGraphMemory?: boolean;
  /** Whether the memory is managed: the host and all devices access it at the same address. */
  readonly isManaged?: boolean;
  /** Returns the 64-byte legacy IPC handle by which another process opens the memory. Only for memory outside pools. */
  exportHandle?(address: bigint): Uint8Array<ArrayBuffer>;
  /**
   * The reason why the user may not free the memory; undefined if the user may free it. If there is a reason and the
   * owner has no `awaitRelease`, `Allocation.keep` is not allowed either.
   */
  readonly freeRefusal?: string;
  /**
   * Whether other code owns the memory. A free then only makes the buffer unusable: it waits for nothing and needs no
   * stream.
   */
  readonly isForeign?: boolean;
  /**
   * The reason why the memory can no longer be used although it was not freed. Only used by an owner of a single
   * allocation.
   */
  useEnd?: string | undefined;
  /**
   * Returns why the process that lends the memory is gone; undefined while it is connected. Memory that was imported by
   * a fabric handle is then invalid. Only for memory that an `Importer` has mapped.
   */
  lenderEnd?(): string | undefined;
  /**
   * Returns a device's access to the memory. Only for memory in an address range, in which access is set separately for
   * each device.
   */
  accessOf?(device: CudaDevice): Access;
  /** The `PhysicalMemory` that is mapped at the address, if other processes can import it. */
  readonly physical?: PhysicalMemory;
  /**
   * The slab that contains the memory, and the memory's offset in the slab, if it was allocated by a caching allocator.
   */
  readonly part?: SlabPart;
}

/** The part of an allocation that a view shows. */
export interface AllocationPart extends MemoryRange {
  /** The stream that the view's methods use by default; undefined for a buffer that owns the allocation. */
  readonly stream: CudaStream | undefined;
}

/** A holder of an allocation: the memory is released only after all holders have released it. */
interface Holder {
  /** Called if the user frees the allocation before the holder has released it. */
  readonly onFree: (() => void) | undefined;
}

/** The fields of an allocation that few allocations need, kept in a separate object to save memory. */
interface RareData {
  /** Why the memory cannot be used for now: it is unmapped, and may be mapped at its address again. */
  suspension?: string | undefined;
  /**
   * Whether the memory was a module's variable and was unloaded with the module. Reads that still have copies to
   * enqueue then fail.
   */
  isUnloaded?: boolean;
  /** The call stack of the call that freed the allocation or ended its use, with POOLPASS_DEBUG=1. */
  freeStack?: string;
  /** Maps each stream other than the allocation's own that has used the memory to its progress at the last use. */
  otherStreams?: Map<CudaStream, number>;
  /** The host views of the allocation, by the address range that they show. */
  hostViews?: Map<string, ArrayBuffer> | undefined;
  /** The enqueued copies of reads that are not known to be complete. */
  copies?: Set<StagingBuffer>;
  /** The executable graphs whose work uses the memory. */
  graphs?: Set<GraphUser>;
  /** The holders: reads that still have copies to enqueue, and callers of `keep`. */
  holders?: Set<Holder>;
  /** The stream passed to `free`, if the release is deferred until the last holder has released the memory. */
  deferredRelease?: CudaStream | undefined;
}

/**
 * Memory that is allocated, imported or opened: its address and size, its owner, and the work that still uses it. A
 * `DeviceBuffer` is a view of an allocation or of a part of one.
 */
export class Allocation {
  readonly session: Session;
  readonly owner: AllocationOwner;
  /** The pool that the memory is from; undefined if it is not from a pool. */
  readonly pool: MemoryPool | ImportedMemoryPool | undefined;
  /** The device that the memory is on, or the device of the stream that memory of a host pool was allocated on. */
  readonly device: CudaDevice;
  readonly address: bigint;
  /** Size in bytes. */
  readonly byteLength: number;
  /**
   * The allocation's own stream: a free is ordered after the work of this stream. `noteUse` records any other streams
   * that use the memory.
   */
  stream: CudaStream;
  /**
   * The index of the allocation in the pool's `PoolContents`, or of its mapping in an imported pool's
   * `ImportedMappings`. Unused if there is no pool.
   */
  poolIndex = 0;
  #isFreed = false;
  /**
   * The fields that only few allocations need. The object is created on first use, so that most allocations stay small.
   */
  #rareData: RareData | undefined;

  constructor(
    session: Session,
    owner: AllocationOwner,
    pool: MemoryPool | ImportedMemoryPool | undefined,
    address: bigint,
    byteLength: number,
    device: CudaDevice,
    stream: CudaStream,
  ) {
    this.session = session;
    this.owner = owner;
    this.pool = pool;
    this.address = address;
    this.byteLength = byteLength;
    this.device = device;
    this.stream = stream;
  }

  /** Whether the allocation was freed or its use has ended: the address is not valid for new work. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /** Whether the use of the allocation has ended for good. Unlike `isFreed`, false while it is suspended. */
  get isGone(): boolean {
    return this.#isFreed && this.#rareData?.suspension === undefined;
  }

  /** Whether it is memory of a graph that exists only after the graph's next launch, or within its launches. */
  get isAwaitingLaunch(): boolean {
    return this.owner.isGraphMemory === true && this.suspension !== undefined;
  }

  /** Whether a node of a graph that is being added may use the address although the memory does not exist now. */
  get isForNodes(): boolean {
    return readsGraphMemory && this.owner.isGraphMemory === true;
  }

  /** Whether the allocation was freed but the memory is kept until its holders have released it. */
  get isReleaseDeferred(): boolean {
    return this.#rareData?.deferredRelease !== undefined;
  }

  /** Why the memory is unmapped for now; undefined if it is not. */
  get suspension(): string | undefined {
    return this.#rareData?.suspension;
  }

  /** The call stack of the call that freed the allocation or ended its use; undefined without POOLPASS_DEBUG=1. */
  get freeStack(): string | undefined {
    return this.#rareData?.freeStack;
  }

  /** Whether the memory is a module's variable, and the module was unloaded. */
  get isUnloaded(): boolean {
    return this.#rareData?.isUnloaded ?? false;
  }

  /**
   * Whether a read has copies that are not enqueued yet, or not known to be complete. Also true while `keep` holds the
   * memory.
   */
  get isBeingRead(): boolean {
    return this.hasHolders || (this.#rareData?.copies?.size ?? 0) > 0;
  }

  /** Throws unless the user may free the memory. */
  checkFreeable(): void {
    const { freeRefusal } = this.owner;
    if (freeRefusal !== undefined) throw new TypeError(`Cannot free the buffer: ${freeRefusal}`);
    if (!this.isGone && !this.isAwaitingLaunch) return;
    throw new ReferenceError(`Cannot free the buffer of ${this.byteLength} bytes: ${whyUnusable(this)}`);
  }

  /**
   * Frees the memory in stream order; if it has holders, defers the release until the last of them has released it.
   * Called for the user after `checkFreeable`, and by the owner, who may also free memory with a `freeRefusal`.
   *
   * @throws {ReferenceError} If the stream was disposed. The allocation is then unchanged
   */
  free(stream: CudaStream): void {
    const { captures } = this.session;
    if (captures.isActive) captures.checkFree(this, stream);
    this.#free(stream);
  }

  #free(stream: CudaStream): void {
    // Throws for a disposed stream before anything changes, because the memory could not be freed later.
    void stream.unsafeHandle;
    for (const graph of this.#rareData?.graphs ?? []) graph.noteUses(this);
    if (this.#rareData?.hostViews !== undefined) this.#keepTransferred(this.#rareData.hostViews.values());
    if (!this.hasHolders) {
      this.#release(stream);
      this.endUse();
      return;
    }
    this.#rareData!.deferredRelease = stream;
    this.owner.awaitRelease?.(this.address, this.byteLength);
    this.endUse();
    for (const { onFree } of this.#rareData!.holders!) onFree?.();
  }

  /**
   * Frees the memory on its stream at the end of a `using` block. If the stream is captured, frees it when the capture
   * has ended, unless the memory is the graph's.
   */
  freeAtDispose(): void {
    const { captures } = this.session;
    const capture = captures.isActive && !this.stream.disposed ? captures.of(this.stream.unsafeHandle) : undefined;
    if (capture === undefined || capture.resources.owned.has(this)) {
      if (this.stream.disposed) this.freeAfterDisposed(this.stream);
      else this.free(this.stream);
      return;
    }
    const letGo = this.hold();
    this.#free(this.stream);
    capture.afterwards.push(letGo);
  }

  /** Frees the memory on the device's default stream, after all work of a disposed stream. */
  freeAfterDisposed(stream: CudaStream): void {
    this.noteUseBefore(stream, Infinity);
    this.free(this.device.defaultStream);
  }

  /**
   * Makes the allocation unusable without freeing the memory. Pending reads continue, so the memory must remain valid
   * until `isBeingRead` is false.
   */
  endUse(): void {
    this.#isFreed = true;
    if (this.#rareData?.suspension !== undefined) this.#rareData.suspension = undefined;
    if (this.session.debug) this.#createdRareData.freeStack = callStack("freed");
    for (const graph of this.#rareData?.graphs ?? []) graph.onFreed(this);
    if (this.#rareData?.hostViews === undefined) return;
    for (const view of this.#rareData.hostViews.values()) this.session.detach(view);
    this.#rareData.hostViews = undefined;
  }

  /**
   * Makes the allocation unusable until `resume` is called, because its memory is unmapped for now.
   *
   * @param why what an error says of it, such as `"it is asleep"`
   */
  suspend(why: string): void {
    this.#createdRareData.suspension = why;
    this.#isFreed = true;
  }

  /** Makes memory of a graph usable again: a launch has allocated it. */
  revive(): void {
    if (this.#rareData !== undefined) this.#rareData.suspension = undefined;
    this.#isFreed = false;
  }

  /** Makes a suspended allocation usable again: memory is mapped at its address. */
  resume(): void {
    if (this.#rareData?.suspension === undefined) return;
    this.#rareData.suspension = undefined;
    this.#isFreed = false;
  }

  /**
   * Makes the allocation unusable when its module is unloaded. The memory, a variable of the module, is freed
   * immediately, so pending reads of it fail.
   */
  unload(): void {
    this.#createdRareData.isUnloaded = true;
    this.endUse();
  }

  /**
   * Keeps the memory until the returned function is called. Calling that function again does nothing.
   *
   * If the allocation is freed before that, it becomes unusable at once and `onFree` is called, but the driver frees
   * the memory only after the last holder has released it. It frees the memory on the stream that was passed to `free`
   * or, if that stream was disposed, on the device's default stream after the work that preceded the free.
   *
   * @throws {ReferenceError} If the allocation was freed
   * @throws {TypeError} If the memory is a module's variable, which is unloaded with its module, or a slot of a channel
   */
  keep(onFree: () => void): () => void {
    if (this.#isFreed) throw freedError(this);
    const { freeRefusal, awaitRelease } = this.owner;
    if (freeRefusal !== undefined && awaitRelease === undefined) {
      throw new TypeError(`Cannot keep the buffer: ${freeRefusal}`);
    }
    return this.hold(onFree);
  }

  /** Keeps the memory for a read. Unlike `keep`, this also works for a module's variable. */
  hold(onFree?: () => void): () => void {
    const holder = { onFree };
    const rareData = this.#createdRareData;
    const holders = rareData.holders ??= new Set();
    holders.add(holder);
    return () => {
      if (!holders.delete(holder) || holders.size > 0 || rareData.deferredRelease === undefined) return;
      const stream = rareData.deferredRelease;
      rareData.deferredRelease = undefined;
      ignoreLoss(() => this.#releaseAfter(stream));
    };
  }

  /**
   * Records that work just enqueued on a stream uses the memory. A free on another stream is ordered after that work.
   */
  noteUse(stream: CudaStream): void {
    if (this.session.captures.isActive) this.noteCaptured(stream);
    if (stream !== this.stream) this.noteUseBefore(stream, progressOf(stream).position);
  }

  /** Records that work of a capture uses the memory, if the stream is captured. */
  noteCaptured(stream: CudaStream): void {
    this.session.captures.of(stream.unsafeHandle)?.resources.allocations.add(this);
  }

  /** Adds an executable graph whose work uses the memory. */
  addGraph(graph: GraphUser): void {
    (this.#createdRareData.graphs ??= new Set()).add(graph);
  }

  /** Removes an executable graph that was disposed. Its launches may be pending. */
  deleteGraph(graph: GraphUser): void {
    graph.noteUses(this);
    this.#rareData?.graphs?.delete(graph);
  }

  /**
   * Records that the memory is used by work that was enqueued on `stream` at `position` or earlier; positions are those
   * of `StreamProgress`.
   */
  noteUseBefore(stream: CudaStream, position: number): void {
    const streams = this.#createdRareData.otherStreams ??= new Map();
    const noted = streams.get(stream);
    if (noted !== undefined && noted >= position) return;
    streams.set(stream, position);
    if (noted === undefined && streams.size % sweepSize === 0) sweepUses(streams);
  }

  /**
   * Returns a stream whose next work runs after the recorded uses of the memory and after the work enqueued so far on
   * `stream`: `stream` itself, or one of the library's own streams.
   */
  releaseStream(stream: CudaStream): CudaStream {
    const otherStreams = this.#rareData?.otherStreams;
    if (otherStreams === undefined) return stream;
    // CUDA frees memory in stream order, but an allocator reuses a part of a slab as soon as the stream's work is done.
    const isStreamOrdered = this.owner.part === undefined;
    return this.session.releaseStreams.join(stream, otherStreams, { isStreamOrdered });
  }

  /** Records a copy to a staging buffer that was enqueued for a read. */
  addCopy(copy: StagingBuffer): void {
    (this.#createdRareData.copies ??= new Set()).add(copy);
  }

  /** Removes a copy that is complete, or whose device is lost. */
  deleteCopy(copy: StagingBuffer): void {
    this.#rareData?.copies?.delete(copy);
  }

  /** Returns an ArrayBuffer over a range of memory that the host accesses, which is detached when the allocation is freed. */
  hostView(address: bigint, byteLength: number): ArrayBuffer {
    if (this.owner.isForeign) {
      throw new TypeError(
        "Cannot view the buffer on the host: it wraps memory that other code may free while a view of it is still " +
          "in use; use read to copy the memory",
      );
    }
    const range = `${address} ${byteLength}`;
    const known = this.#rareData?.hostViews?.get(range);
    if (known !== undefined) {
      if (!known.detached) return known;
      this.session.transferredMemory.add(this);
      this.session.detach(known);
    }
    if (this.owner.isManaged && this.device.attribute("concurrentManagedAccess") !== 1) {
      throw new TypeError(
        `Cannot view the buffer on the host: the host may not access managed memory while kernels of device ` +
          `${this.device.ordinal} run, whatever memory they use; use read and copyFrom`,
      );
    }
    let view: ArrayBuffer;
    try {
      view = this.session.hostView(address, byteLength);
    } catch (error) {
      const hint = error instanceof CudaError && error.code === "cudaErrorInvalidValue"
        ? "only managed memory, and memory of a pool from Cuda.createHostPool, can be viewed in place; use read to copy " +
          "other memory"
        : "use read to copy the memory";
      throw cannot(`view the buffer of ${byteLength} bytes on the host`, error, hint);
    }
    (this.#createdRareData.hostViews ??= new Map()).set(range, view);
    return view;
  }

  /** Returns 64 bytes of export data, by which another process that has imported the pool maps the memory. */
  exportPointer(): Uint8Array<ArrayBuffer> {
    if (this.#isFreed) throw freedError(this);
    let exportData: Uint8Array<ArrayBuffer>;
    try {
      exportData = this.session.driver.memPoolExportPointer(this.address);
    } catch (error) {
      throw cannot(`export the buffer on device ${this.device.ordinal}`, error, this.#exportHint());
    }
    finishExportedData(this.session, exportData, { device: this.device.ordinal, byteLength: this.byteLength });
    return exportData;
  }

  #exportHint(): string {
    if (!("handleType" in this.pool!)) {
      return "only the process that allocated it can: forward its pool's handle and the 64 bytes that it was imported " +
        "from";
    }
    return this.pool.handleType === "none"
      ? 'allocate it from a pool created with handleType "posix-fd"'
      : "export its pool first, with exportHandle";
  }

  /**
   * Prevents the memory from ever being freed if one of its host views was transferred: the receiver of the view may
   * still access the memory.
   */
  #keepTransferred(views: Iterable<ArrayBuffer>): void {
    const { transferredMemory } = this.session;
    for (const view of views) if (view.detached) transferredMemory.add(this);
    if (transferredMemory.has(this)) this.hold();
  }

  get #createdRareData(): RareData {
    return this.#rareData ??= {};
  }

  /** Whether a read has copies that are not enqueued yet. Also true while `keep` holds the memory. */
  get hasHolders(): boolean {
    return this.#rareData?.holders !== undefined && this.#rareData.holders.size > 0;
  }

  #release(stream: CudaStream): void {
    try {
      const mustJoin = this.#rareData !== undefined && !this.owner.isForeign;
      const releaseStream = mustJoin ? this.releaseStream(stream) : stream;
      this.owner.release(this.address, this.byteLength, releaseStream, this);
    } catch (error) {
      const captured = this.#capturedStreams();
      if (captured.length > 0) return this.#releaseLater(stream, captured);
      throw cannot(`free the buffer of ${this.byteLength} bytes on device ${this.device.ordinal}`, error);
    }
  }

  /** The streams that have used the memory and are being captured by another library: nothing can wait for them. */
  #capturedStreams(): CudaStream[] {
    return [...this.#rareData?.otherStreams?.keys() ?? []].filter((stream) => !stream.disposed && stream.isCapturing);
  }

  /** Releases the memory when captures of other libraries have ended. */
  #releaseLater(stream: CudaStream, captured: readonly CudaStream[]): void {
    this.owner.awaitRelease?.(this.address, this.byteLength);
    this.session.afterCaptures(captured, () => this.#releaseAfter(stream));
  }

  /**
   * Releases the memory after the work of the stream that was passed to `free`. The stream may have been disposed
   * since.
   */
  #releaseAfter(stream: CudaStream): void {
    if (!stream.disposed) return this.#release(stream);
    this.noteUseBefore(stream, Infinity);
    this.#release(this.device.defaultStream);
  }
}

/**
 * Removes disposed streams without pending work, so that the map stays small if a program uses a new stream for each
 * task.
 */
function sweepUses(streams: Map<CudaStream, number>): void {
  for (const stream of streams.keys()) {
    if (stream.disposed && lastWorkOf(stream) === undefined) streams.delete(stream);
  }
}

/** Returns the error for using a freed buffer, or a view of a part of it. */
export function freedError(allocation: Allocation, byteLength: number = allocation.byteLength): ReferenceError {
  const { byteLength: whole } = allocation;
  const part = byteLength === whole ? "" : `it is part of a buffer of ${whole} bytes, and `;
  return new ReferenceError(`Cannot use the buffer of ${byteLength} bytes: ${part}${whyUnusable(allocation)}`);
}

function whyUnusable({ owner, suspension, isUnloaded, freeStack, session }: Allocation): string {
  if (suspension !== undefined) return suspension;
  if (owner.useEnd !== undefined) return owner.useEnd;
  if (isUnloaded) return "it is a variable of a module that was disposed";
  if (!session.debug) return "it was freed, or its using block has ended; POOLPASS_DEBUG=1 adds where";
  const place = freeStack === undefined ? undefined : placeIn(freeStack);
  return place === undefined ? "it was freed" : `it was freed ${place}`;
}
