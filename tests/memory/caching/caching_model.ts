/**
 * What an allocator may do, told by an account of its memory of its own: the calls of the driver, what was asked for and
 * what was given. It knows nothing of how the allocator finds memory.
 *
 * @module
 */
import type { CachingAllocatorUsage } from "../../../src/memory/caching/caching_allocator.ts";
import type { OrderedStream, Point, StreamOrder } from "./caching_stream_order.ts";

/** What addresses and sizes are multiples of, in bytes. */
const unitByteLength = 256;
/** How often a stream must take what others have freed before it gets a slab of its own instead. */
const patience = 8;

/** A buffer that has not been given back. */
export interface ModelledBuffer {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
  readonly slab: ModelledSlab;
  readonly allocated: Point;
  /** The last work that each stream was given with it, and must have done before it is freed. */
  readonly uses: Map<OrderedStream, number>;
  /** The same of reads, which the library itself waits for. */
  readonly reads: Map<OrderedStream, number>;
  /** Whether its user has freed it, and somebody keeps it. */
  isAwaitingRelease: boolean;
}

/** Bytes of a slab that nobody has. */
interface Piece {
  begin: number;
  end: number;
  /** All that may still be done with them. */
  readonly uses: readonly Point[];
  /**
   * In whose order they are certainly free: that of a stream, or any, where the allocator has seen that the stream was
   * done. Undefined where the allocator may have given them to another stream's order.
   */
  home: OrderedStream | "all" | undefined;
  /** Where in the order of the stream they were freed. */
  readonly freed: Point;
}

interface ModelledSlab {
  readonly begin: number;
  readonly byteLength: number;
  readonly allocator: ModelledAllocator;
  readonly buffers: Set<ModelledBuffer>;
  /** By address. */
  readonly pieces: Piece[];
}

/** What is known of one allocator. */
export interface ModelledAllocator {
  readonly name: string;
  readonly maxSize: number;
  readonly slabs: Set<ModelledSlab>;
  reserved: number;
  reservedHigh: number;
  used: number;
  usedHigh: number;
  count: number;
  isDisposed: boolean;
  /** How often a stream was perhaps given what others have freed. */
  readonly borrowed: Map<OrderedStream, number>;
}

/** What is being done: the driver's calls meanwhile are the library's for that. */
export interface Step {
  readonly kind: "application" | "allocate" | "free" | "trim" | "dispose" | "disposeStream" | "read" | "misuse";
  readonly allocator?: ModelledAllocator;
  /** Of an allocation. */
  readonly request?: { readonly byteLength: number; readonly stream: OrderedStream };
  /** Of a trim: the bytes to keep. */
  readonly keep?: number;
}

/** Checks each step of one or more allocators on a pool. What is wrong first is what `violation` says. */
export class AllocatorModel {
  violation: string | undefined;
  readonly #order: StreamOrder;
  readonly #poolMaxSize: number;
  readonly #isSeenDone: (stream: OrderedStream) => boolean;
  readonly #slabs: ModelledSlab[] = [];
  #step: Step = { kind: "application" };
  /** The driver's calls in this step. */
  readonly #calls: string[] = [];
  #mustFind = false;
  #hasGrown = false;
  #wasRefused = false;

  /** @param options.isSeenDone whether the allocator finds a stream done, if it asks; false where that is not known */
  constructor(
    order: StreamOrder,
    { poolMaxSize, isSeenDone }: { poolMaxSize: number; isSeenDone: (stream: OrderedStream) => boolean },
  ) {
    this.#order = order;
    this.#poolMaxSize = poolMaxSize;
    this.#isSeenDone = isSeenDone;
  }

  newAllocator(name: string, maxSize: number): ModelledAllocator {
    return {
      name,
      maxSize: maxSize === 0 ? Infinity : maxSize,
      slabs: new Set(),
      reserved: 0,
      reservedHigh: 0,
      used: 0,
      usedHigh: 0,
      count: 0,
      isDisposed: false,
      borrowed: new Map(),
    };
  }

  begin(step: Step): void {
    this.#step = step;
    this.#calls.length = 0;
    this.#hasGrown = false;
    const { allocator, request } = step;
    this.#mustFind = request !== undefined && this.#mayFind(step);
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

  /** Whether an allocation must be served from what is free in the stream's own order, or for all, with no call at all. */
  mustBeFree(): "of the stream" | "of all" | undefined {
    const { allocator, request } = this.#step;
    const { byteLength, stream } = request!;
    if (hasRun(allocator!, byteLength, ({ home }) => home === stream)) return "of the stream";
    const mayBorrow = (allocator!.borrowed.get(stream) ?? 0) < patience;
    return mayBorrow && hasRun(allocator!, byteLength, ({ home }) => home === "all") ? "of all" : undefined;
  }

  /** An allocation has given memory, which `predicted` says had to be there. */
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
    if (predicted === undefined && this.#wasRefused) this.#becomeRefused();
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

  /** An allocation has failed for want of memory. */
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

  /** A buffer's memory was given back behind what the stream had been given. */
  released(buffer: ModelledBuffer, stream: OrderedStream, { mustBeSilent }: { mustBeSilent: boolean }): void {
    if (mustBeSilent && this.#calls.length > 0) {
      this.fail(`the driver was called to free ${buffer.name}: ${this.#calls}`);
    }
    const { slab, begin, end } = buffer;
    const freed = this.#order.now(stream);
    const uses = [buffer.allocated, ...pointsOf(buffer.uses), ...pointsOf(buffer.reads), freed];
    const piece: Piece = { begin, end, uses, home: stream, freed };
    this.#checkIsBehind(piece, stream, `${buffer.name} is freed`);
    slab.buffers.delete(buffer);
    slab.allocator.count--;
    slab.allocator.used -= end - begin;
    // A disposed allocator gives the slab back at once, and has done so before this is known.
    if (!this.#slabs.includes(slab)) return;
    const index = slab.pieces.findIndex((other) => other.begin > begin);
    slab.pieces.splice(index < 0 ? slab.pieces.length : index, 0, piece);
  }

  /** Whose memory the driver is given work with. */
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

  /** The allocator asks its pool for a slab. */
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

  /** Whether an allocator holds far more than it can need: at least what buffers have. */
  #hasSurplus({ reserved, used }: ModelledAllocator): boolean {
    const { byteLength } = this.#step.request!;
    return reserved + byteLength > 4 * (used + byteLength);
  }

  /** The driver is asked to free memory of a pool. */
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
    if (kind === "free" && !allocator.isDisposed) this.fail("a slab was freed with a buffer");
    if (kind === "application") this.fail("a slab was freed for nothing");
    if (kind === "allocate" && !this.#wasRefused && !this.#hasSurplus(allocator)) {
      this.fail("a slab was freed for an allocation that needs none");
    }
    allocator.slabs.delete(slab!);
    allocator.reserved -= slab!.byteLength;
  }

  /** The stream was found to be done: what is free in its order is free for all. */
  sawStream(stream: OrderedStream): void {
    for (const piece of this.#piecesOf(stream)) piece.home = "all";
  }

  /** The point was found to be reached. The allocator may know by that that what was freed before is free for all. */
  sawPoint(point: Point): void {
    for (const piece of this.#piecesOf(point.stream)) {
      // Nothing is freed any more on a stream that is gone, and nobody asks but for its end.
      if (piece.freed.position <= point.position) piece.home = point.stream.isGone ? "all" : undefined;
    }
  }

  /** A stream was let wait for a point in another's order, of which it may have taken what is free there. */
  waited(point: Point | undefined): void {
    const { kind, allocator, request } = this.#step;
    if (kind !== "allocate") return;
    if (hasRun(allocator!, request!.byteLength, ({ home }) => home === "all")) {
      this.fail(`a stream was let wait though ${request!.byteLength} bytes are free for all`);
    }
    if (point !== undefined) { for (const piece of this.#piecesOf(point.stream)) piece.home = undefined; }
    this.#wasRefused = true;
  }

  /** Compares what an allocator says with what is known. */
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

  /** Checks what a trim has left. */
  trimmed(): void {
    const { allocator, keep } = this.#step;
    if (allocator!.reserved <= keep!) return;
    for (const slab of allocator!.slabs) {
      if (slab.buffers.size === 0) this.fail(`a slab of ${slab.byteLength} bytes was not freed by a trim to ${keep}`);
    }
  }

  /** Whether there is enough in what other streams have freed, and would be found done by who asks for that. */
  #mayFind({ allocator, request }: Step): boolean {
    const { byteLength, stream } = request!;
    if ((allocator!.borrowed.get(stream) ?? 0) >= patience) return false;
    return hasRun(allocator!, byteLength, ({ home }) => {
      if (home === undefined || home === stream) return false;
      return home === "all" || this.#isSeenDone(home);
    });
  }

  /** Between the free of a disposed allocator's last buffer and its return. */
  #isBeingReleased({ slab: { allocator, buffers } }: ModelledBuffer): boolean {
    return allocator.isDisposed && buffers.size === 1;
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

  /** The allocator had too little memory: it may take what was free for all into the order of the stream that asks. */
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

  /** What the allocator of this step has free in a stream's order. */
  *#piecesOf(stream: OrderedStream): Generator<Piece> {
    for (const { pieces } of this.#step.allocator?.slabs ?? []) {
      for (const piece of pieces) if (piece.home === stream) yield piece;
    }
  }
}

/** How many bytes a buffer takes. */
export function roundedByteLength(byteLength: number): number {
  return Math.ceil(byteLength / unitByteLength) * unitByteLength;
}

/** The points that a buffer's use has got to. */
export function pointsOf(uses: ReadonlyMap<OrderedStream, number>): Point[] {
  return [...uses].map(([stream, position]) => ({ stream, position }));
}

/** Takes a range out of what is free, and returns the pieces that it was of. */
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

/** The most bytes side by side in pieces of a kind. */
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

/** Stands in for a buffer that is in no slab, so that the trace can end. */
function detachedBuffer(name: string, begin: number, end: number, allocated: Point): ModelledBuffer {
  const allocator = { slabs: new Set() } as unknown as ModelledAllocator;
  const slab = { begin, byteLength: 0, allocator, buffers: new Set<ModelledBuffer>(), pieces: [] };
  return { name, begin, end, slab, allocated, uses: new Map(), reads: new Map(), isAwaitingRelease: false };
}
