import { Allocation, type AllocationOwner } from "../allocation.ts";
import { type AllocateAsyncOptions, AllocationQueue } from "./allocation_queue.ts";
import { FreedStreams, synchronizeSoonIdle } from "../freed_streams.ts";
import type { DeviceBuffer } from "../device_buffer.ts";
import type { MemoryPool } from "./memory_pool.ts";
import { describeOutOfMemoryFile } from "../snapshots/out_of_memory_file.ts";
import type { AllocationHolder, BlockSnapshot, PoolSnapshot } from "../snapshots/memory_snapshot.ts";
import type { CacheMemory, HeldMemory, MemoryRegistry } from "./memory_registry.ts";
import {
  describeHolders,
  isOutOfMemory,
  outOfMemory,
  PoolContents,
  refusalOfMaxSize,
  type SizeRefusal,
} from "./pool_contents.ts";
import { defaultStream, type Driver, type MemLocation, memPoolAttribute } from "../../driver.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import type { CudaStream } from "../../objects/streams/cuda_stream.ts";
import type { OpenedObject } from "../../objects/opened_objects.ts";
import type { Session } from "../../session.ts";
import { cannot, driverErrorOf, ignoreLoss, isLoss } from "../../support/driver_errors.ts";
import { reportLeak } from "../../support/leaks.ts";
import { countOf } from "../../support/printing.ts";
import { checkByteLength } from "../../support/validation.ts";
import { adviceToOversubscribe, type ManagedPool } from "../managed/managed_budget.ts";
import { CudaError, cudaErrorNumbers } from "../../support/errors.ts";
import { ReferenceError } from "../../support/program_errors.ts";

/** A pool's maximum size is rounded up to a multiple of this many bytes. */
const reservedUnit = 32 * 2 ** 20;

/** Allocates and frees a pool's memory. Destroys the pool when it was disposed and all of its memory is freed. */
export class PoolMemory {
  /** The device of the pool; undefined for host memory and for managed memory. */
  readonly device: CudaDevice | undefined;
  /** What the pool may allocate if it provides managed memory; undefined for other pools. */
  readonly managed: ManagedPool | undefined;
  /** The name of the pool in error messages: `"the pool on device 0"`. */
  readonly name: string;
  readonly contents: PoolContents;
  readonly freedStreams: FreedStreams = new FreedStreams();
  /** Where the program has made the pool the current one, other than by `CudaDevice.currentPool`. */
  currentAt: { readonly location: MemLocation; readonly allocationType: number } | undefined;
  /**
   * Whether exporting a fabric handle has failed. Destroying the pool would then crash driver 580 (an invalid free; C
   * programs crash too).
   */
  isUndestroyable = false;
  readonly #session: Session;
  readonly #registry: MemoryRegistry;
  readonly #pool: MemoryPool;
  readonly #owner: AllocationOwner;
  readonly #slabOwner: AllocationOwner;
  /** The owner of memory that was allocated in a capture: it belongs to the graph. */
  readonly #graphOwner: AllocationOwner;
  readonly #newBuffer: (allocation: Allocation) => DeviceBuffer;
  /** The calls of `allocateAsync` that wait for memory. */
  readonly #queue: AllocationQueue;
  /** The `maxSize` that the pool was created with, in bytes; 0 for none. */
  readonly maxSize: number;
  readonly #opened: OpenedObject;
  /** The size of the device's memory in bytes. Queried on first use. */
  #deviceByteLength: number | undefined;
  #handle: bigint | undefined;
  /** The handle of a disposed pool that still has buffers. The last buffer's free destroys the pool. */
  #pendingHandle: bigint | undefined;
  /**
   * Whether a free has failed because the context was lost. In that case, the remaining buffers are not reported as
   * leaks.
   */
  #isLost = false;

  constructor(session: Session, { pool, handle, maxSize, isOwned, managed, newBuffer }: {
    pool: MemoryPool;
    newBuffer: (allocation: Allocation) => DeviceBuffer;
    handle: bigint;
    maxSize: number;
    /** Whether the pool is destroyed when it is disposed. */
    isOwned: boolean;
    /** What the pool may allocate if it provides managed memory. */
    managed: ManagedPool | undefined;
  }) {
    const { device } = pool;
    this.#session = session;
    this.#registry = session.memory;
    this.#pool = pool;
    this.device = device;
    this.managed = managed;
    this.name = managed !== undefined
      ? "the pool of managed memory"
      : device === undefined
      ? "the pool in host memory"
      : `the pool on device ${device.ordinal}`;
    this.contents = new PoolContents(session.memory);
    const kind = { isHostMemory: device === undefined && managed === undefined, isManaged: managed !== undefined };
    this.#owner = {
      release: (address, byteLength, stream, allocation) => this.#free(address, byteLength, stream, allocation),
      awaitRelease: (address, byteLength) => this.contents.addNotLeaked(address, byteLength),
      ...kind,
    };
    this.#slabOwner = { ...this.#owner, freeRefusal: "it is a slab of an allocator; dispose the allocator instead" };
    this.#graphOwner = {
      release: (address, _, stream) => session.driver.freeAsync(stream.device.ordinal, address, stream.unsafeHandle),
      ...kind,
      isGraphMemory: true,
    };
    this.#newBuffer = newBuffer;
    this.#queue = new AllocationQueue(session, device);
    this.maxSize = maxSize;
    this.#handle = handle;
    this.#registry.pools.add(this);
    this.#opened = {
      ...(isOwned ? { kind: "pool" } : {}),
      unfreed: () => this.#handle === undefined || this.#isLost ? undefined : this.contents.unfreed(),
      release: (driver) => this.#releaseAll(driver, { handle, isOwned }),
    };
    session.opened.add(this.#opened);
  }

  /** The pool's `cudaMemPool_t`. */
  get handle(): bigint {
    if (this.#handle === undefined) throw new ReferenceError(`Cannot use ${this.name}: it was disposed`);
    return this.#handle;
  }

  get isDisposed(): boolean {
    return this.#handle === undefined;
  }

  /** Allocates memory. If that fails, reclaims unused memory and tries again. */
  allocate(byteLength: number, stream: CudaStream): Allocation {
    checkByteLength(byteLength, "an allocation's size", 1);
    try {
      return this.#malloc(byteLength, stream, this.#owner);
    } catch (error) {
      if (!isOutOfMemory(error)) throw error;
      const allocation = this.#allocateAfterReclaiming(byteLength, stream, { mayBlock: true });
      if (allocation !== undefined) return allocation;
      const refusal = this.refusal(byteLength);
      const hint = refusal !== undefined ? `${refusal.why}; ${refusal.advice}` : [
        ...this.#describeHolders(byteLength),
        this.managed?.oversubscribe === false ? adviceToOversubscribe : "free memory or ask for less",
      ].join("; ");
      const file = describeOutOfMemoryFile(() => this.#registry.snapshot());
      const hints = file === undefined ? hint : `${hint}; ${file}`;
      throw cannot(`allocate ${byteLength} bytes from ${this.name}`, driverErrorOf(error), hints);
    }
  }

  /** Allocates memory, and waits for it if necessary. */
  async allocateAsync(
    byteLength: number,
    { stream, signal }: AllocateAsyncOptions & { stream: CudaStream },
  ): Promise<Allocation> {
    checkByteLength(byteLength, "an allocation's size", 1);
    const what = `allocate ${byteLength} bytes from ${this.name}`;
    const check = () => void [this.handle, stream.unsafeHandle, this.#session.driver.mallocFromPoolAsync];
    check();
    this.#session.captures.refuseReuse(stream, what);
    const refusal = this.refusal(byteLength);
    if (refusal !== undefined) throw cannot(what, outOfMemory(refusal.why), refusal.advice);
    const attempt = () =>
      this.#tryMalloc(byteLength, stream) ?? this.#allocateAfterReclaiming(byteLength, stream, { mayBlock: false });
    const describe = () => this.#describeHolders(byteLength).join("; ") || undefined;
    return await this.#queue.allocate({ what, stream, check, attempt, describe, signal });
  }

  /** Allocates memory that the user may not free, and that the pool does not report as leaked. */
  allocateSlab(byteLength: number, stream: CudaStream): Allocation {
    const allocation = this.#malloc(byteLength, stream, this.#slabOwner);
    this.contents.addNotLeaked(allocation.address, byteLength);
    return allocation;
  }

  /** Returns why an allocation of `byteLength` bytes can never succeed. Undefined if no such reason is known. */
  refusal(byteLength: number): SizeRefusal | undefined {
    const limit = this.limit();
    if (byteLength <= limit) return undefined;
    return this.maxSize > 0 && limit !== this.#deviceByteLength
      ? refusalOfMaxSize(this.maxSize)
      : { why: `the device has ${limit} bytes`, advice: "ask for less" };
  }

  /** Returns the maximum number of bytes that the pool can provide; Infinity if it is not known. */
  limit(): number {
    const maxSize = this.#roundedMaxSize;
    const device = this.device ?? (this.managed?.oversubscribe === false ? this.managed.preferredDevice : undefined);
    if (device === undefined) return maxSize;
    this.#deviceByteLength ??= device.memoryInfo().total;
    return Math.min(maxSize, this.#deviceByteLength);
  }

  /**
   * Reclaims unused memory for an allocation of `byteLength` bytes, except that of one caching allocator. Returns
   * whether more may be available now. With `mayBlock`, waits for the streams on which it is freed, if they soon become
   * idle: another pool's memory counts as free only then.
   */
  reclaim(byteLength: number, { except, mayBlock }: { except: CacheMemory; mayBlock: boolean }): boolean {
    const isObserved = this.#session.completed.synchronize();
    const streams = this.#releaseCaches(byteLength, except);
    if (mayBlock) synchronizeSoonIdle(streams);
    return streams.size > 0 || isObserved;
  }

  /**
   * Reports leaked buffers, calls `callback`, and destroys the pool at once or when the last buffer is freed. Blocks
   * until the streams on which buffers were freed have executed the frees.
   */
  dispose(callback: () => void): void {
    const { handle } = this;
    if (!this.#isLost && !this.#session.hasEnded) this.#reportLeaks();
    this.#handle = undefined;
    this.#session.pools.delete(handle);
    this.#session.opened.markDisposed(this.#opened);
    this.#pendingHandle = handle;
    try {
      callback();
    } finally {
      this.#destroyIfUnused();
      if (this.#pendingHandle !== undefined) ignoreLoss(() => this.#resetCurrentPool(this.#session.driver, handle));
    }
  }

  #reportLeaks(): void {
    const unfreed = this.contents.unfreed();
    if (this.#session.sanitizer?.addUnfreed(unfreed)) return;
    const advice = this.#session.debug
      ? "free them first"
      : "free them first; POOLPASS_DEBUG=1 shows where they were allocated";
    reportLeak({ ...unfreed, before: `${this.name} was disposed`, advice });
  }

  #malloc(byteLength: number, stream: CudaStream, owner: AllocationOwner): Allocation {
    const { captures, driver, managedBudget } = this.#session;
    if (captures.isActive) captures.refuseInBody(stream, `allocate ${byteLength} bytes from ${this.name}`);
    let address: bigint;
    try {
      if (this.managed !== undefined && captures.isActive) refuseManaged(captures.of(stream.unsafeHandle));
      if (this.managed?.oversubscribe === false) this.#checkFits(byteLength, this.managed, stream);
      address = driver.mallocFromPoolAsync(stream.device.ordinal, byteLength, this.handle, stream.unsafeHandle);
    } catch (error) {
      throw cannot(`allocate ${byteLength} bytes from ${this.name}`, error, this.#mallocHint(error, stream));
    }
    const device = this.device ?? stream.device;
    const capture = captures.isActive ? captures.of(stream.unsafeHandle) : undefined;
    if (capture !== undefined) {
      const { allocation, buffer } = this.memoryOfGraph(address, byteLength, stream);
      capture.own(allocation, buffer);
      return allocation;
    }
    const allocation = new Allocation(this.#session, owner, this.#pool, address, byteLength, device, stream);
    allocation.poolIndex = this.contents.add(address, byteLength);
    if (this.managed !== undefined) managedBudget.add(byteLength);
    return allocation;
  }

  /** Returns memory that a node of a graph allocates with the properties of the pool, and the program's buffer of it. */
  memoryOfGraph(
    address: bigint,
    byteLength: number,
    stream: CudaStream,
  ): { readonly allocation: Allocation; readonly buffer: DeviceBuffer } {
    const device = this.device ?? stream.device;
    const allocation = new Allocation(this.#session, this.#graphOwner, this.#pool, address, byteLength, device, stream);
    return { allocation, buffer: this.#newBuffer(allocation) };
  }

  /** Throws `cudaErrorMemoryAllocation` if managed memory would exceed the pool's maximum, or would not fit a device. */
  #checkFits(byteLength: number, { preferredDevice }: ManagedPool, stream: CudaStream): void {
    if (this.#isAtLimit(byteLength)) throw outOfMemory(`${this.contents.byteLength} bytes of the pool are allocated`);
    this.#session.managedBudget.check(byteLength, preferredDevice ?? stream.device);
  }

  #mallocHint(error: unknown, stream: CudaStream): string | undefined {
    if (this.#session.captures.of(stream.unsafeHandle) === undefined || isOutOfMemory(error)) return undefined;
    if (this.managed !== undefined) return "allocate it before the capture";
    return 'a graph\'s memory cannot be shared: allocate it before the capture, or from a pool with handleType "none"';
  }

  #tryMalloc(byteLength: number, stream: CudaStream): Allocation | undefined {
    try {
      return this.#malloc(byteLength, stream, this.#owner);
    } catch (error) {
      if (isOutOfMemory(error)) return undefined;
      throw error;
    }
  }

  /** Reclaims memory and allocates again. Returns undefined if there is still too little memory. */
  #allocateAfterReclaiming(
    byteLength: number,
    stream: CudaStream,
    { mayBlock }: { mayBlock: boolean },
  ): Allocation | undefined {
    let allocation = this.#session.completed.synchronize() ? this.#tryMalloc(byteLength, stream) : undefined;
    if (allocation !== undefined) return allocation;
    const streams = this.#releaseCaches(byteLength);
    if (streams.size === 0) return undefined;
    allocation = this.#tryMalloc(byteLength, stream);
    if (allocation !== undefined || !mayBlock) return allocation;
    synchronizeSoonIdle(streams);
    return this.#tryMalloc(byteLength, stream);
  }

  /**
   * Makes caching allocators release their unused memory: those of this pool and, if an allocation of `byteLength`
   * bytes would not exceed the pool's own limit, those of the device's other pools. Returns the streams on which the
   * memory is freed.
   */
  #releaseCaches(byteLength: number, except?: CacheMemory): Set<CudaStream> {
    const streams = new Set<CudaStream>();
    for (const cache of this.#registry.cachesOf(this.#pool, { onDevice: !this.#isAtLimit(byteLength) })) {
      if (cache !== except) { for (const stream of cache.releaseUnused()) streams.add(stream); }
    }
    return streams;
  }

  /** Returns the parts of an error for too little memory that describe the memory in use. */
  #describeHolders(byteLength: number): string[] {
    const parts = this.maxSize === 0 ? [] : [`its maxSize is ${this.maxSize} bytes`];
    const holders = this.contents.holders();
    if (holders.length > 0) parts.push(`it holds ${describeHolders(holders)}`);
    for (const { used, reserved } of this.#registry.cachesOf(this.#pool, { onDevice: false })) {
      if (reserved > 0) parts.push(`an allocator holds ${reserved} bytes, of which ${used} are in use`);
    }
    const others = this.describeOthers(byteLength);
    if (others !== undefined) parts.push(others);
    return parts;
  }

  /**
   * Describes the memory that the device's other pools have reserved, for the error of an allocation of `byteLength`
   * bytes. Returns undefined if they have none, or if the allocation would exceed this pool's own limit.
   */
  describeOthers(byteLength: number): string | undefined {
    if (this.#isAtLimit(byteLength)) return undefined;
    let [count, reserved, used] = [0, 0, 0];
    for (const other of this.#registry.pools) {
      const isElsewhere = other.device !== this.device ||
        (other.managed === undefined) !== (this.managed === undefined);
      if (isElsewhere || other === this) continue;
      const inOther = other.#reserved();
      if (inOther > 0) count++;
      reserved += inOther;
      used += other.contents.byteLength;
    }
    if (count === 0) return undefined;
    // A software device rounds the reported size of a pool up as a GPU does, but maps less memory than that.
    const most = this.#deviceMemoryInUse();
    const bytes = `${Math.min(reserved, most)} bytes reserved, of which ${used} are in use`;
    return `${countOf(count, "other pool")} of this process: ${bytes}`;
  }

  /** Returns whether `byteLength` bytes more would exceed the pool's `maxSize`. */
  #isAtLimit(byteLength: number): boolean {
    return this.maxSize > 0 && this.contents.byteLength + byteLength > this.#roundedMaxSize;
  }

  get #roundedMaxSize(): number {
    return this.maxSize > 0 ? Math.ceil(this.maxSize / reservedUnit) * reservedUnit : Infinity;
  }

  /** Returns the number of bytes that the pool has reserved, or the number in use if the driver cannot be queried. */
  #reserved(): number {
    const handle = this.#handle ?? this.#pendingHandle;
    const { byteLength } = this.contents;
    if (handle === undefined) return byteLength;
    let reserved = byteLength;
    ignoreLoss(() => {
      reserved = Number(this.#session.driver.memPoolGetAttribute(handle, memPoolAttribute.reservedMemCurrent));
    });
    return reserved;
  }

  /** Lists the pool's memory. `heldMemory` is what other processes hold of all pools. */
  snapshot(heldMemory: readonly HeldMemory[]): PoolSnapshot {
    const slabs = new Map<bigint, BlockSnapshot[]>();
    for (const cache of this.#registry.cachesOf(this.#pool, { onDevice: false })) {
      for (const { address, blocks } of cache.slabBlocks()) slabs.set(address, blocks);
    }
    const allocations = Array.from(this.contents.allocations(), ({ at: address, byteLength, isKept, stack }) => {
      const blocks = slabs.get(address);
      const state = blocks !== undefined ? "slab" : isKept ? "held" : "buffer";
      const holders: AllocationHolder[] = [];
      return { address, byteLength, state, holders, ...blocks && { blocks }, ...stack && { stack } } as const;
    }).sort(byAddress);
    const held = heldMemory.filter(({ pool }) => pool === this.#pool);
    const parts = held.flatMap(({ range, pid, offer, since }) => range ? [{ ...range, pid, offer, since }] : []);
    // There may be thousands of both, so both are passed through in the order of their addresses.
    let last = -1;
    for (const { address, ...holder } of parts.sort(byAddress)) {
      while (last + 1 < allocations.length && allocations[last + 1]!.address <= address) last++;
      const allocation = allocations[last];
      if (allocation === undefined) continue;
      const byteOffset = Number(address - allocation.address);
      if (byteOffset < allocation.byteLength) allocation.holders.push({ ...holder, byteOffset });
    }
    return {
      name: this.name,
      device: this.device?.ordinal,
      reserved: this.#reserved(),
      used: this.contents.byteLength,
      holders: held.filter(({ range }) => range === undefined).map(({ pid, offer, since }) => ({ pid, offer, since })),
      allocations,
    };
  }

  /** Returns the number of bytes that the pool has reserved and not allocated. */
  unusedByteLength(): number {
    return Math.max(0, this.#reserved() - this.contents.byteLength);
  }

  /** Returns the number of bytes of the device's memory that are not free; Infinity for host memory. */
  #deviceMemoryInUse(): number {
    let inUse = Infinity;
    ignoreLoss(() => {
      if (this.device === undefined) return;
      const { free, total } = this.device.memoryInfo();
      inUse = total - free;
    });
    return inUse;
  }

  #free(address: bigint, byteLength: number, stream: CudaStream, { poolIndex }: Allocation): void {
    try {
      this.#session.driver.freeAsync(stream.device.ordinal, address, stream.unsafeHandle);
    } catch (error) {
      this.#isLost ||= isLoss(error);
      throw error;
    }
    this.contents.delete(poolIndex, address, byteLength);
    if (this.managed !== undefined) this.#session.managedBudget.delete(byteLength);
    this.#registry.frees++;
    this.freedStreams.add(stream);
    if (this.#pendingHandle !== undefined) this.#destroyIfUnused();
  }

  /** Destroys the pool if it was disposed and has no buffers left. */
  #destroyIfUnused(): void {
    if (this.contents.count > 0 || this.#pendingHandle === undefined) return;
    const handle = this.#pendingHandle;
    this.#pendingHandle = undefined;
    this.#registry.pools.delete(this);
    this.#session.opened.delete(this.#opened);
    ignoreLoss(() => {
      this.freedStreams.synchronize();
      this.#destroy(this.#session.driver, handle);
    });
  }

  #destroy(driver: Driver, handle: bigint): void {
    // Driver 580 does not do this for each location when it destroys a pool.
    if (this.currentAt !== undefined) this.#resetCurrentPool(driver, handle);
    // A pool that cannot be destroyed is trimmed, which releases its memory. Its handle leaks until the process exits.
    if (!this.isUndestroyable) return driver.memPoolDestroy(handle);
    this.#resetCurrentPool(driver, handle);
    driver.memPoolTrimTo(handle, 0n);
  }

  /** Frees the remaining buffers and destroys the pool, at the end of the session. */
  #releaseAll(driver: Driver, { handle, isOwned }: { handle: bigint; isOwned: boolean }): void {
    // Do not release a pool in host memory if an ArrayBuffer over its memory was transferred: the receiver may still
    // access the memory.
    if (this.device === undefined && this.#session.transferredMemory.size > 0) return;
    // Memory of a pool in host memory can be freed on any device.
    const ordinal = this.device?.ordinal ?? 0;
    for (const address of this.contents) driver.freeAsync(ordinal, address, defaultStream);
    if (this.contents.count > 0) driver.streamSynchronize(ordinal, defaultStream);
    this.freedStreams.synchronizeBy(driver);
    if (isOwned) this.#destroy(driver, handle);
  }

  /**
   * If this pool is the current pool of its device or another location, makes the default pool current: nothing may be
   * allocated from a pool that is destroyed once its last buffer is freed.
   */
  #resetCurrentPool(driver: Driver, handle: bigint): void {
    if (this.currentAt !== undefined) {
      const { location, allocationType } = this.currentAt;
      if (driver.memGetMemPool(location, allocationType) === handle) {
        driver.memSetMemPool(location, allocationType, driver.memGetDefaultMemPool(location, allocationType));
      }
    }
    const ordinal = this.device?.ordinal;
    if (ordinal === undefined || driver.deviceGetMemPool(ordinal) !== handle) return;
    driver.deviceSetMemPool(ordinal, driver.deviceGetDefaultMemPool(ordinal));
  }
}

/** Throws for an allocation of managed memory in a capture: CUDA would allocate other memory, or none. */
function refuseManaged(capture: unknown): void {
  if (capture === undefined) return;
  throw new CudaError(
    cudaErrorNumbers.cudaErrorNotSupported,
    "cudaMallocFromPoolAsync",
    "the memory of a graph is not managed",
  );
}

function byAddress(a: { readonly address: bigint }, b: { readonly address: bigint }): number {
  return a.address < b.address ? -1 : Number(a.address > b.address);
}
