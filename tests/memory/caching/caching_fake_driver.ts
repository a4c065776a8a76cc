import { CudaError, cudaErrorNumbers } from "../../../src/support/errors.ts";
import { type Driver, type HostAllocation, memPoolAttribute, type MemPoolProps } from "../../../src/driver.ts";

/** A piece of a stream's work, which does nothing but complete. */
interface Work {
  readonly stream: Stream;
  /** Work of another stream that must complete first. */
  readonly after: Work | undefined;
  isDone: boolean;
}

interface Stream {
  readonly works: Work[];
  /** Number of pieces of work done. */
  done: number;
}

interface Pool {
  readonly maxSize: number;
  /** Byte lengths of the allocations, by address. */
  readonly allocations: Map<number, number>;
}

/** The queries that answer "not ready", whatever is done. */
export type LateAnswers = "none" | "streams" | "events" | "all";

const address = { first: 0x7000_0000_0000, alignment: 512, poolStride: 2 ** 36 };

/**
 * The part of a driver that an allocator needs. Nothing happens by itself: streams advance when the test says so. It
 * computes nothing. Only events order streams; default streams wait for no others.
 */
export class FakeDriver implements Partial<Driver> {
  readonly kind = "software";
  readonly runtimeVersion: undefined = undefined;
  readonly sharingRefusal: undefined = undefined;
  readonly checksHandles: boolean = true;
  readonly hasContextEvents: boolean = true;
  readonly dropsWork: boolean = true;
  readonly checker: undefined = undefined;
  readonly executesMachineCode = false;
  late: LateAnswers = "none";
  isClosed = false;
  readonly #devices: number;
  readonly #defaults: readonly Stream[];
  readonly #streams = new Map<bigint, Stream>();
  readonly #destroyed = new Map<bigint, Stream>();
  readonly #events = new Map<bigint, Work | undefined>();
  readonly #pools = new Map<bigint, Pool>();
  readonly #hostAllocations = new Set<HostAllocation>();
  #nextHandle = 0x1000n;

  constructor(devices: number) {
    this.#devices = devices;
    this.#defaults = Array.from({ length: devices }, newStream);
  }

  /** The fake as a full driver: the allocator calls none of the missing methods. */
  get driver(): Driver {
    return this as unknown as Driver;
  }

  /** Counts of the resources that were created and not destroyed. */
  get left(): { streams: number; events: number; pools: number; hostAllocations: number } {
    return {
      streams: this.#streams.size,
      events: this.#events.size,
      pools: this.#pools.size,
      hostAllocations: this.#hostAllocations.size,
    };
  }

  /**
   * Makes a stream run up to `steps` pieces of its work, until it waits for another, and the destroyed streams as well.
   */
  progress(device: number, handle: bigint, steps: number): void {
    for (const stream of [this.#stream(device, handle), ...this.#destroyed.values()]) {
      for (let left = steps; left > 0 && stream.done < stream.works.length; left--) {
        const work = stream.works[stream.done]!;
        if (work.after?.isDone === false) break;
        work.isDone = true;
        stream.done++;
      }
    }
  }

  /** Whether a query finds the stream done: a query of the stream itself or, if destroyed, of an event at its end. */
  isSeenDone(device: number, handle: bigint): boolean {
    const gone = this.#destroyed.get(handle);
    if (gone === undefined) return this.streamQuery(device, handle);
    return this.late !== "events" && this.late !== "all" && gone.done === gone.works.length;
  }

  /** Completes all work, including that of destroyed streams. */
  finish(): void {
    this.late = "none";
    for (const stream of [...this.#defaults, ...this.#streams.values(), ...this.#destroyed.values()]) finish(stream);
  }

  close(): void {
    this.isClosed = true;
  }

  driverGetVersion(): number {
    return 13000;
  }

  getDeviceCount(): number {
    return this.#devices;
  }

  deviceSynchronize(_device: number): void {
    for (const stream of [...this.#defaults, ...this.#streams.values(), ...this.#destroyed.values()]) finish(stream);
  }

  streamCreateWithPriority(_device: number, _flags: number, _priority: number): bigint {
    const handle = this.#newHandle();
    this.#streams.set(handle, newStream());
    return handle;
  }

  streamDestroy(device: number, handle: bigint): void {
    this.#destroyed.set(handle, this.#stream(device, handle));
    this.#streams.delete(handle);
  }

  threadExchangeStreamCaptureMode(mode: number): number {
    return mode;
  }

  streamIsCapturing(): boolean {
    return false;
  }

  streamQuery(device: number, handle: bigint): boolean {
    const stream = this.#stream(device, handle);
    return this.late !== "streams" && this.late !== "all" && stream.done === stream.works.length;
  }

  streamSynchronize(device: number, handle: bigint): void {
    finish(this.#stream(device, handle));
  }

  streamWaitEvent(device: number, handle: bigint, event: bigint): void {
    this.#give(device, handle, this.#event(event));
  }

  eventCreateWithFlags(_device: number, _flags: number): bigint {
    const handle = this.#newHandle();
    this.#events.set(handle, undefined);
    return handle;
  }

  eventDestroy(_device: number, event: bigint): void {
    this.#event(event);
    this.#events.delete(event);
  }

  eventRecord(device: number, event: bigint, handle: bigint): void {
    this.#event(event);
    this.#events.set(event, this.#give(device, handle));
  }

  eventQuery(event: bigint): boolean {
    const recorded = this.#event(event);
    return this.late !== "events" && this.late !== "all" && recorded?.isDone !== false;
  }

  eventSynchronize(event: bigint): void {
    const recorded = this.#event(event);
    if (recorded !== undefined) finish(recorded.stream, recorded);
  }

  deviceGetDefaultMemPool(_device: number): bigint {
    return 1n;
  }

  deviceGetMemPool(_device: number): bigint {
    return 1n;
  }

  memPoolCreate({ maxSize }: MemPoolProps): bigint {
    const handle = this.#newHandle();
    this.#pools.set(handle, { maxSize: maxSize === 0n ? Infinity : Number(maxSize), allocations: new Map() });
    return handle;
  }

  memPoolDestroy(handle: bigint): void {
    if (this.#pool(handle).allocations.size > 0) refuse("cudaErrorInvalidValue", "cudaMemPoolDestroy");
    this.#pools.delete(handle);
  }

  memGetInfo(): { free: number; total: number } {
    return { free: address.poolStride, total: address.poolStride };
  }

  memPoolGetAttribute(handle: bigint, attribute: number): bigint {
    const isUsed = attribute === memPoolAttribute.usedMemCurrent || attribute === memPoolAttribute.reservedMemCurrent;
    return isUsed ? BigInt(usedOf(this.#pool(handle))) : 0n;
  }

  mallocFromPoolAsync(device: number, byteLength: number, handle: bigint, stream: bigint): bigint {
    const pool = this.#pool(handle);
    if (usedOf(pool) + byteLength > pool.maxSize) refuse("cudaErrorMemoryAllocation", "cudaMallocFromPoolAsync");
    this.#give(device, stream);
    const begin = firstGap(pool, address.first + address.poolStride * Number(handle & 0xfffn), byteLength);
    pool.allocations.set(begin, byteLength);
    return BigInt(begin);
  }

  freeAsync(device: number, begin: bigint, stream: bigint): void {
    for (const pool of this.#pools.values()) {
      if (pool.allocations.delete(Number(begin))) return void this.#give(device, stream);
    }
    refuse("cudaErrorInvalidValue", "cudaFreeAsync");
  }

  hostAlloc(byteLength: number): HostAllocation {
    const allocation = { address: this.#newHandle(), buffer: new ArrayBuffer(byteLength) };
    this.#hostAllocations.add(allocation);
    return allocation;
  }

  freeHost(allocation: HostAllocation): void {
    if (!this.#hostAllocations.delete(allocation)) refuse("cudaErrorInvalidValue", "cudaFreeHost");
  }

  memcpyDtoHAsync(device: number, _destination: Uint8Array, _source: bigint, stream: bigint): void {
    this.#give(device, stream);
  }

  memcpyAsync(device: number, _destination: bigint, _source: bigint, _byteLength: number, stream: bigint): void {
    this.#give(device, stream);
  }

  memcpyPeerAsync(
    device: number,
    _destination: bigint,
    _destinationDevice: number,
    _source: bigint,
    _sourceDevice: number,
    _byteLength: number,
    stream: bigint,
  ): void {
    this.#give(device, stream);
  }

  memsetAsync(device: number, _address: bigint, _byte: number, _byteLength: number, stream: bigint): void {
    this.#give(device, stream);
  }

  #newHandle(): bigint {
    return this.#nextHandle++;
  }

  #give(device: number, handle: bigint, after?: Work): Work {
    const stream = this.#stream(device, handle);
    const work = { stream, after, isDone: false };
    stream.works.push(work);
    return work;
  }

  #stream(device: number, handle: bigint): Stream {
    const stream = handle === 0n ? this.#defaults[device] : this.#streams.get(handle);
    return stream ?? refuse("cudaErrorInvalidResourceHandle", "cudaStream");
  }

  #event(handle: bigint): Work | undefined {
    if (!this.#events.has(handle)) refuse("cudaErrorInvalidResourceHandle", "cudaEvent");
    return this.#events.get(handle);
  }

  #pool(handle: bigint): Pool {
    return this.#pools.get(handle) ?? refuse("cudaErrorInvalidValue", "cudaMemPool");
  }
}

function newStream(): Stream {
  return { works: [], done: 0 };
}

/** Completes a stream's work, all or up to `last`, and the work that it waits for. */
function finish(stream: Stream, last?: Work): void {
  while (stream.done < stream.works.length && last?.isDone !== true) {
    const work = stream.works[stream.done]!;
    if (work.after?.isDone === false) finish(work.after.stream, work.after);
    work.isDone = true;
    stream.done++;
  }
}

function usedOf({ allocations }: Pool): number {
  let used = 0;
  for (const byteLength of allocations.values()) used += byteLength;
  return used;
}

/** Returns the first free address: addresses are reused immediately, so that nothing relies on new ones. */
function firstGap({ allocations }: Pool, first: number, byteLength: number): number {
  let begin = first;
  for (const [other, length] of [...allocations].sort(([one], [another]) => one - another)) {
    if (other - begin >= byteLength) break;
    begin = Math.ceil((other + length) / address.alignment) * address.alignment;
  }
  return begin;
}

function refuse(code: keyof typeof cudaErrorNumbers, call: string): never {
  throw new CudaError(cudaErrorNumbers[code], call);
}
