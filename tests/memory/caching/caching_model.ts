/**
 * Checks what an allocator may do by an independent account of its memory: from the driver's calls, the requests and
 * the results. It does not know how the allocator finds memory.
 *
 * @module
 */
import type { CachingAllocatorUsage } from "../../../src/memory/caching/block.ts";
import type { OrderedStream, Point, StreamOrder } from "./caching_stream_order.ts";

/** Addresses and sizes are multiples of this, in bytes. */
const unitByteLength = 256;
/** How many times a stream takes memory that others freed before it gets a slab of its own. */
const maxBorrowed = 8;

/** A buffer whose memory was not yet released. */
export interface ModelledBuffer {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
  readonly slab: ModelledSlab;
  readonly allocated: Point;
  /** The last work on the buffer that each stream was given. The program must order a free behind it. */
  readonly uses: Map<OrderedStream, number>;
  /** The last reads by stream, which the library itself waits for. */
  readonly reads: Map<OrderedStream, number>;
  /** Whether the program has freed the buffer while a holder keeps it. */
  isAwaitingRelease: boolean;
}

/** Free bytes of a slab. */
interface Piece {
  begin: number;
  end: number;
  /** The last work that may still use these bytes, by stream. */
  readonly uses: readonly Point[];
  /**
   * The stream in whose order the bytes are certainly free, or `"all"` if the allocator has seen that stream done.
   * Undefined if the allocator may have moved the bytes to another stream's order.
   */
  home: OrderedStream | "all" | undefined;
  /** The position in the stream's order at which they were freed. */
  readonly freed: Point;
}

interface ModelledSlab {
  readonly begin: number;
  readonly byteLength: number;
  readonly allocator: ModelledAllocator;
  readonly buffers: Set<ModelledBuffer>;
  /** Sorted by address. */
  readonly pieces: Piece[];
}

/** The model's account of one allocator. */
export interface ModelledAllocator {
  readonly name: string;
  readonly maxSize: number;
  /** Bytes that it may keep unused after a free, but for those of slabs with buffers. */
  readonly maxUnused: number;
  readonly slabs: Set<ModelledSlab>;
  reserved: number;
  reservedHigh: number;
  used: number;
  usedHigh: number;
  count: number;
  isDisposed: boolean;
  /** Whether the pool has ever refused it memory. */
  wasRefused: boolean;
  /** How many times each stream may have been given memory that others freed. */
  readonly borrowed: Map<OrderedStream, number>;
  /**
   * Whether slabs may be for single buffers. Then the allocator may grow, wait or release slabs although a piece of
   * another buffer's slab is free; what is given to whom and when is checked in the same way.
   */
  readonly mayDedicate: boolean;
}

/** The operation in progress. Driver calls during it are made by the library. */
export interface Step {
  readonly kind: "application" | "allocate" | "free" | "trim" | "dispose" | "disposeStream" | "read" | "misuse";
  readonly allocator?: ModelledAllocator;
  /** Only for a free: the buffer, and the stream on which it is freed. */
  readonly buffer?: ModelledBuffer;
  readonly freedOn?: OrderedStream;
  /** Only for an allocation. */
  readonly request?: { readonly byteLength: number; readonly stream: OrderedStream };
  /** Only for a trim: the bytes to keep. */
  readonly keep?: number;
}

/** Checks each step of one or more allocators of a pool. `violation` describes the first error. */
export class AllocatorModel {
  violation: string | undefined;
  readonly #order: StreamOrder;
  readonly #poolMaxSize: number;
  readonly #isSeenDone: (stream: OrderedStream) => boolean;
  readonly #slabs: ModelledSlab[] = [];
  #step: Step = { kind: "application" };
  /** The driver calls of this step. */
  readonly #calls: string[] = [];
  /** The end of the work before a free. */
  #freed: Point | undefined;
  #mustFind = false;
  #hasGrown = false;
  #wasRefused = false;

  /**
   * @param options.isSeenDone whether the allocator would find the stream done if it asked; false if that is unknown
   */
  constructor(
    order: StreamOrder,
    { poolMaxSize, isSeenDone }: { poolMaxSize: number; isSeenDone: (stream: OrderedStream) => boolean },
  ) {
    this.#order = order;
    this.#poolMaxSize = poolMaxSize;
    this.#isSeenDone = isSeenDone;
  }

  newAllocator(
    name: string,
    { maxSize, maxUnused, mayDedicate }: {
      readonly maxSize: number;
      readonly maxUnused: number;
      readonly mayDedicate: boolean;
    },
  ): ModelledAllocator {
    return {
      name,
      mayDedicate,
      maxSize: maxSize === 0 ? Infinity : maxSize,
      maxUnused,
      slabs: new Set(),
      reserved: 0,
      reservedHigh: 0,
      used: 0,
      usedHigh: 0,
      count: 0,
      isDisposed: false,
      wasRefused: false,
      borrowed: new Map(),
    };
  }

  begin(step: Step): void {
    this.#step = step;
    this.#calls.length = 0;
    this.#hasGrown = false;
    const { allocator, request } = step;
    this.#freed = step.freedOn === undefined ? undefined : this.#order.now(step.freedOn);
    this.#mustFind = request !== undefined && !allocator!.mayDedicate && this.#mayFind(step);
    this.#wasRefused = request !== undefined && allocator!.reserved + request.byteLength > allocator!.maxSize;
  }

  get step(): Step {
    return this.#step;
  }

  end(): void {
    this.#step = { kind: "application" };
  }

  fail(message: string): void {
    this.violation ??= message;
  }

  called(name: string): void {
    this.#calls.push(name);
  }

  /**
   * Whether an allocation must succeed without a driver call, from memory free in its stream's own order or for all.
   */
  mustBeFree(): "of the stream" | "of all" | undefined {
    const { allocator, request } = this.#step;
    const { byteLength, stream } = request!;
    if (allocator!.mayDedicate) return undefined;
    if (hasRun(allocator!, byteLength, ({ home }) => home === stream)) return "of the stream";
    const mayBorrow = (allocator!.borrowed.get(stream) ?? 0) < maxBorrowed;
    return mayBorrow && hasRun(allocator!, byteLength, ({ home }) => home === "all") ? "of all" : undefined;
  }

  /** Records an allocation. `predicted` says which free memory had to serve it. */
  allocated(name: string, address: number, predicted: ReturnType<AllocatorModel["mustBeFree"]>): ModelledBuffer {
    const { allocator, request } = this.#step;
    const { byteLength, stream } = request!;
    const end = address + byteLength;
    const slab = [...allocator!.slabs].find(({ begin, byteLength }) => begin <= address && end <= begin + byteLength);
    if (slab === undefined) {
      this.fail(`${name} lies at ${range(address, end)}, in no slab`);
      return detachedBuffer(name, address, end, this.#order.now(stream));
    }
    if ((address - slab.begin) % unitByteLength !== 0) this.fail(`${name} is not aligned`);
    for (const other of slab.buffers) {
      if (other.begin < end && address < other.end) this.fail(`${name} lies where ${other.name} is`);
    }
    for (const piece of takeOut(slab, address, end)) this.#checkIsBehind(piece, stream, `${name} is given`);
    if (predicted !== undefined && this.#calls.length > 0) {
      this.fail(`the driver was called for ${name}, which fits in what is free ${predicted}: ${this.#calls}`);
    }
    // After a refusal, an allocator does not ask its pool every time.
    const mayBeRefused = this.#wasRefused || (allocator!.wasRefused && !this.#hasGrown);
    if (predicted === undefined && mayBeRefused) this.#becomeRefused();
    if (predicted !== "of the stream" && !this.#hasGrown) {
      allocator!.borrowed.set(stream, (allocator!.borrowed.get(stream) ?? 0) + 1);
    }
    const buffer: ModelledBuffer = {
      name,
      begin: address,
      end,
      slab,
      allocated: this.#order.now(stream),
      uses: new Map(),
      reads: new Map(),
      isAwaitingRelease: false,
    };
    slab.buffers.add(buffer);
    allocator!.count++;
    allocator!.used += byteLength;
    allocator!.usedHigh = Math.max(allocator!.usedHigh, allocator!.used);
    return buffer;
  }

  /** Checks an allocation that failed because of too little memory. */
  refused(): void {
    const { allocator, request } = this.#step;
    const { byteLength } = request!;
    this.#becomeRefused();
    if (hasRun(allocator!, byteLength, () => true)) {
      this.fail(`an allocation of ${byteLength} bytes failed, for which there is a run of free memory`);
    }
    const emptied = [...allocator!.slabs].reduce((sum, slab) => sum + (slab.buffers.size > 0 ? 0 : slab.byteLength), 0);
    const poolUsed = this.#slabs.reduce((sum, slab) => sum + slab.byteLength, 0);
    const room = Math.min(allocator!.maxSize - allocator!.reserved, this.#poolMaxSize - poolUsed) + emptied;
    if (room >= byteLength) {
      this.fail(`an allocation of ${byteLength} bytes failed, for which a slab of ${room} bytes can be had`);
    }
  }

  /** Records that a buffer's memory was released behind the work that the stream was given so far. */
  released(buffer: ModelledBuffer, stream: OrderedStream, { mustBeSilent }: { mustBeSilent: boolean }): void {
    if (mustBeSilent && this.#calls.length > 0) {
      this.fail(`the driver was called to free ${buffer.name}: ${this.#calls}`);
    }
    const { slab, begin, end } = buffer;
    const freed = this.#freed!;
    const uses = [buffer.allocated, ...pointsOf(buffer.uses), ...pointsOf(buffer.reads), freed];
    // If the driver was called, the memory may be free in the order of a stream of the library.
    const home = this.#calls.length > 0 ? undefined : stream;
    const piece: Piece = { begin, end, uses, home, freed };
    if (home !== undefined) this.#checkIsBehind(piece, stream, `${buffer.name} is freed`);
    slab.buffers.delete(buffer);
    slab.allocator.count--;
    slab.allocator.used -= end - begin;
    this.#checkUnused(slab.allocator);
    // A disposed allocator frees the slab immediately, before the release is recorded here.
    if (!this.#slabs.includes(slab)) return;
    const index = slab.pieces.findIndex((other) => other.begin > begin);
    slab.pieces.splice(index < 0 ? slab.pieces.length : index, 0, piece);
  }

  /** Records that work on memory was given to the driver, and checks that a buffer covers the memory. */
  used(address: bigint, byteLength: number, stream: OrderedStream): void {
    const begin = Number(address);
    const buffer = this.#bufferAt(begin);
    if (buffer === undefined) {
      if (this.#slabs.some((slab) => slab.begin <= begin && begin < slab.begin + slab.byteLength)) {
        this.fail(`work was given with memory at ${range(begin, begin + byteLength)} that is no buffer's`);
      }
      return;
    }
    if (begin + byteLength > buffer.end) this.fail(`work was given with more than ${buffer.name}`);
    (this.#step.kind === "read" ? buffer.reads : buffer.uses).set(stream, stream.position);
  }

  /** Checks that the allocator may ask its pool for a slab. */
  growing(byteLength: number): void {
    const { allocator, request } = this.#step;
    if (allocator === undefined) return;
    if (request === undefined) return this.fail(`memory was allocated for ${this.#step.kind}`);
    if (this.mustBeFree() !== undefined) {
      this.fail(`a slab was asked for though ${request.byteLength} bytes are free ${this.mustBeFree()}`);
    }
    if (this.#mustFind) this.fail("a slab was asked for though enough is free on streams that are done");
    if (allocator.reserved + byteLength > allocator.maxSize) this.fail(`a slab was asked for beyond maxSize`);
    if (byteLength < request.byteLength) this.fail("a slab was asked for that is too small");
  }

  refusedToGrow(): void {
    this.#wasRefused = true;
    if (this.#step.allocator !== undefined) this.#step.allocator.wasRefused = true;
  }

  grown(address: bigint, byteLength: number, stream: OrderedStream): void {
    const { allocator } = this.#step;
    if (allocator === undefined) return;
    const begin = Number(address);
    const freed = this.#order.now(stream);
    const slab: ModelledSlab = { begin, byteLength, allocator, buffers: new Set(), pieces: [] };
    slab.pieces.push({ begin, end: begin + byteLength, uses: [freed], home: stream, freed });
    allocator.slabs.add(slab);
    this.#slabs.push(slab);
    allocator.reserved += byteLength;
    allocator.reservedHigh = Math.max(allocator.reservedHigh, allocator.reserved);
    this.#hasGrown = true;
  }

  /** Whether an allocator holds over four times the bytes that it needs, counting only the bytes of buffers. */
  #hasSurplus({ reserved, used }: ModelledAllocator): boolean {
    const { byteLength } = this.#step.request!;
    return reserved + byteLength > 4 * (used + byteLength);
  }

  /** Records that the driver was asked to free pool memory, and checks that a slab may be freed. */
  freed(address: bigint, stream: OrderedStream): void {
    const index = this.#slabs.findIndex(({ begin }) => begin === Number(address));
    if (index < 0) return;
    const [slab] = this.#slabs.splice(index, 1);
    const { allocator, buffers, pieces } = slab!;
    const { kind, keep } = this.#step;
    const left = [...buffers].filter((buffer) => kind !== "free" || !this.#isBeingReleased(buffer));
    if (left.length > 0) this.fail(`a slab was freed in which ${left[0]!.name} lies`);
    for (const piece of pieces) this.#checkIsBehind(piece, stream, `the slab of ${slab!.byteLength} bytes is freed`);
    for (const buffer of buffers) this.#checkIsReleased(buffer, stream);
    if (kind === "trim" && allocator.reserved <= keep!) this.fail(`a slab more than needed was freed`);
    if (kind === "free" && !allocator.isDisposed) {
      const { begin, end } = this.#step.buffer!;
      const unused = allocator.reserved - allocator.used + end - begin;
      if (unused <= allocator.maxUnused) this.fail("a slab was freed with a buffer");
    }
    if (kind === "application") this.fail("a slab was freed for nothing");
    if (kind === "allocate" && !this.#wasRefused && !allocator.mayDedicate && !this.#hasSurplus(allocator)) {
      this.fail("a slab was freed for an allocation that needs none");
    }
    allocator.slabs.delete(slab!);
    allocator.reserved -= slab!.byteLength;
  }

  /** Records that the stream was found done: memory free in its order is now free for all. */
  sawStream(stream: OrderedStream): void {
    this.#forgetOthers(stream);
    if (this.#step.kind === "free") return this.#sawDuringFree(stream);
    for (const piece of this.#piecesOf(stream)) piece.home = "all";
  }

  /**
   * Records that the point was found reached. The allocator may conclude that memory freed before it is free for all.
   */
  sawPoint(point: Point): void {
    this.#forgetOthers(point.stream);
    if (this.#step.kind === "free") return this.#sawDuringFree(point.stream);
    for (const piece of this.#piecesOf(point.stream)) {
      // Nothing more is freed on a destroyed stream, and only the event at its end is queried.
      if (piece.freed.position <= point.position) piece.home = point.stream.isGone ? "all" : undefined;
    }
  }

  /** A free asks about streams for itself, or because too much is unused: then it may make their memory free for all. */
  #sawDuringFree(stream: OrderedStream): void {
    if (this.#step.allocator!.maxUnused === Infinity) return;
    for (const piece of this.#piecesOf(stream)) piece.home = undefined;
  }

  /** When the pool has no memory left, other allocators than the step's look for slabs to release. */
  #forgetOthers(stream: OrderedStream): void {
    for (const { allocator, pieces } of this.#slabs) {
      if (allocator === this.#step.allocator) continue;
      for (const piece of pieces) if (piece.home === stream) piece.home = undefined;
    }
  }

  /** Records that a stream was made to wait for a point. It may have taken the memory that is free in that order. */
  waited(point: Point | undefined): void {
    const { kind, allocator, request } = this.#step;
    if (kind !== "allocate") return;
    if (!allocator!.mayDedicate && hasRun(allocator!, request!.byteLength, ({ home }) => home === "all")) {
      this.fail(`a stream was let wait though ${request!.byteLength} bytes are free for all`);
    }
    if (point !== undefined) { for (const piece of this.#piecesOf(point.stream)) piece.home = undefined; }
    this.#wasRefused = true;
  }

  /** Compares the usage that an allocator reports with the model's. */
  checkUsage(allocator: ModelledAllocator, usage: CachingAllocatorUsage): void {
    const { reserved, reservedHigh, used, usedHigh, count, slabs, maxSize } = allocator;
    let largestFree = 0;
    for (const slab of slabs) largestFree = Math.max(largestFree, largestRun(slab, () => true));
    const free = reserved - used;
    const expected: CachingAllocatorUsage = {
      reserved,
      reservedHigh,
      used,
      usedHigh,
      buffers: count,
      slabs: slabs.size,
      largestFree,
      fragmentation: free === 0 ? 0 : 1 - largestFree / free,
    };
    for (const [name, value] of Object.entries(expected)) {
      const said = usage[name as keyof CachingAllocatorUsage];
      if (said !== value) this.fail(`usage().${name} of ${allocator.name} is ${said}, and should be ${value}`);
    }
    if (reserved > maxSize) this.fail(`${allocator.name} holds ${reserved} bytes, more than its maxSize`);
    if (!allocator.isDisposed) return;
    for (const slab of slabs) if (slab.buffers.size === 0) this.fail(`${allocator.name} was disposed and keeps a slab`);
  }

  /** Checks the slabs that a trim left. */
  trimmed(): void {
    const { allocator, keep } = this.#step;
    if (allocator!.reserved <= keep!) return;
    for (const slab of allocator!.slabs) {
      if (slab.buffers.size === 0) this.fail(`a slab of ${slab.byteLength} bytes was not freed by a trim to ${keep}`);
    }
  }

  /** Whether enough memory is free on other streams that a query would find done. */
  #mayFind({ allocator, request }: Step): boolean {
    const { byteLength, stream } = request!;
    if ((allocator!.borrowed.get(stream) ?? 0) >= maxBorrowed) return false;
    return hasRun(allocator!, byteLength, ({ home }) => {
      if (home === undefined || home === stream) return false;
      return home === "all" || this.#isSeenDone(home);
    });
  }

  /** Whether a buffer is being released: freed, but its release not yet recorded. */
  #isBeingReleased(buffer: ModelledBuffer): boolean {
    return this.#step.buffer === buffer;
  }

  #checkUnused({ name, slabs, reserved, used, maxUnused, isDisposed }: ModelledAllocator): void {
    if (isDisposed || reserved - used <= maxUnused) return;
    for (const { buffers } of slabs) {
      if (buffers.size === 0) this.fail(`${name} keeps a slab without buffers, and ${reserved - used} bytes unused`);
    }
  }

  #checkIsReleased({ name, allocated, uses, reads }: ModelledBuffer, stream: OrderedStream): void {
    for (const point of [allocated, ...pointsOf(uses), ...pointsOf(reads)]) {
      if (this.#order.isBefore(point, stream)) continue;
      return this.fail(`the slab of ${name} is freed on ${stream.name} before work with it on ${point.stream.name}`);
    }
  }

  #checkIsBehind({ begin, end, uses }: Piece, stream: OrderedStream, what: string): void {
    const open = uses.find((point) => !this.#order.isBefore(point, stream));
    if (open === undefined) return;
    const place = `${stream.name} before position ${open.position} of ${open.stream.name}`;
    this.fail(`${what} on ${place}, where ${range(begin, end)} was used`);
  }

  /** The allocator had too little memory, so it may have moved memory free for all to the requesting stream's order. */
  #becomeRefused(): void {
    const { allocator } = this.#step;
    for (const { pieces } of allocator!.slabs) {
      for (const piece of pieces) if (piece.home === "all") piece.home = undefined;
    }
  }

  #bufferAt(address: number): ModelledBuffer | undefined {
    for (const { buffers } of this.#slabs) {
      for (const buffer of buffers) if (buffer.begin <= address && address < buffer.end) return buffer;
    }
    return undefined;
  }

  /** The pieces of this step's allocator that are free in a stream's order. */
  *#piecesOf(stream: OrderedStream): Generator<Piece> {
    for (const { pieces } of this.#step.allocator?.slabs ?? []) {
      for (const piece of pieces) if (piece.home === stream) yield piece;
    }
  }
}

/** The bytes that a buffer occupies. */
export function roundedByteLength(byteLength: number): number {
  return Math.ceil(byteLength / unitByteLength) * unitByteLength;
}

/** The last points of a buffer's use. */
export function pointsOf(uses: ReadonlyMap<OrderedStream, number>): Point[] {
  return [...uses].map(([stream, position]) => ({ stream, position }));
}

/** Removes a range from a slab's free pieces, and returns the pieces that it overlapped. */
function takeOut(slab: ModelledSlab, begin: number, end: number): Piece[] {
  const taken = slab.pieces.filter((piece) => piece.begin < end && begin < piece.end);
  for (const piece of taken) {
    const left = [];
    if (piece.begin < begin) left.push({ ...piece, end: begin });
    if (end < piece.end) left.push({ ...piece, begin: end });
    slab.pieces.splice(slab.pieces.indexOf(piece), 1, ...left);
  }
  return taken;
}

function hasRun({ slabs }: ModelledAllocator, byteLength: number, isMeant: (piece: Piece) => boolean): boolean {
  for (const slab of slabs) if (largestRun(slab, isMeant) >= byteLength) return true;
  return false;
}

/** The length in bytes of the longest run of adjacent pieces for which `isMeant` is true. */
function largestRun({ pieces }: ModelledSlab, isMeant: (piece: Piece) => boolean): number {
  let largest = 0;
  let begin = 0;
  let end = -1;
  for (const piece of pieces) {
    if (!isMeant(piece)) continue;
    if (piece.begin !== end) begin = piece.begin;
    end = piece.end;
    largest = Math.max(largest, end - begin);
  }
  return largest;
}

function range(begin: number, end: number): string {
  return `0x${begin.toString(16)} to 0x${end.toString(16)}`;
}

/** Stands in for a buffer outside all slabs, so that the trace can end. */
function detachedBuffer(name: string, begin: number, end: number, allocated: Point): ModelledBuffer {
  const allocator = { slabs: new Set() } as unknown as ModelledAllocator;
  const slab = { begin, byteLength: 0, allocator, buffers: new Set<ModelledBuffer>(), pieces: [] };
  return { name, begin, end, slab, allocated, uses: new Map(), reads: new Map(), isAwaitingRelease: false };
}
