/**
 * The driver calls that copy and fill memory.
 *
 * @module
 */
import type { HostMemory } from "../memory/host_memory.ts";
import type { MemoryShadow } from "../memory/check_memory.ts";
import { type Delegated, passing, type Stream, type Work } from "../execution/streams.ts";
import {
  type ArrayCopy,
  type ArrayPlace,
  type Driver,
  type GraphCopy,
  type GraphFill,
  graphNodeType,
  isArrayCopy,
  memAccessFlags,
  type PitchedCopy,
  type PitchedMemory,
  sourceAccessOrder,
} from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import type { GraphOperation } from "../execution/software_graph.ts";
import {
  type CopiedRows,
  copyOf,
  copyOfRows,
  fillOf,
  fillOfRows,
  type RowDistances,
  SharedTransfer,
  takesLong,
  type Transfer,
} from "../execution/workers/shared_transfer.ts";
import { beginOfRow } from "../execution/workers/transfers.ts";
import { fail } from "../failure.ts";
import { maxPitch } from "../software_device.ts";
import type { DriverCore } from "./core.ts";
import type { SoftwareGraphMemory } from "./graph_memory.ts";
import { type AnyAllocation, isPoolMemory, type ProgramMemory, type RangeUse } from "./program_memory.ts";
import type { StreamsAndEvents } from "./streams_and_events.ts";
import type { Textures } from "./textures.ts";

/** The maximum number of bytes, values or rows that a copy or fill processes before other streams may run. */
const sliceLength = 2 ** 20;

/** Options of a copy. */
interface CopyOptions {
  /** Called with each part of the source that was copied. Only the main thread can then copy. */
  readonly onPart?: ((part: Uint8Array) => void) | undefined;
  /** Called when the copy is done or dropped. */
  readonly release?: (() => void) | undefined;
}

/** The functions that enqueue copies and fills for a driver. */
class Copies {
  readonly #core: DriverCore;
  readonly #hostMemory: HostMemory;
  /** Tracks which bytes are initialized. Undefined unless the `initialization` check is enabled. */
  readonly #shadow: MemoryShadow | undefined;
  readonly #memory: ProgramMemory;
  readonly #graphMemory: SoftwareGraphMemory;

  constructor(core: DriverCore, memory: ProgramMemory, graphMemory: SoftwareGraphMemory) {
    this.#core = core;
    this.#hostMemory = core.hostMemory;
    this.#shadow = memory.shadow;
    this.#memory = memory;
    this.#graphMemory = graphMemory;
  }

  /** Returns a function that tells the state of memory of a device. */
  #stateOf(...ranges: readonly (Uint8Array | Uint16Array | Uint32Array)[]): NonNullable<GraphOperation["memory"]> {
    const { buffer } = this.#core.linearMemory.bytes;
    const places = ranges.filter((range) => range.buffer === buffer && range.byteLength > 0);
    return () => {
      const found = places.map(({ byteOffset, byteLength }) => {
        return this.#memory.allocations.containing(byteOffset, byteLength);
      });
      const exists = !found.includes(undefined);
      return { exists, isAccessible: exists && !found.some((one) => this.#graphMemory.isDormant(one!.begin)) };
    };
  }

  /**
   * Enqueues a copy from host memory. Reads pageable memory now, and page-locked memory when the stream runs the copy.
   * A node of a graph reads both at each launch.
   */
  fromHost(stream: Stream, to: Uint8Array, from: Uint8Array): void {
    const isRead = stream.capture === undefined && !this.#hostMemory.isLocked(from);
    const { bytes, release } = isRead ? this.readNow(from) : { bytes: this.#hostMemory.bytesOf(from) };
    this.copy(stream, to, bytes, { release });
  }

  /**
   * Copies an array of the program, to linear memory if other threads may then copy it to a device.
   *
   * @returns the copy, and what to call when it is not needed anymore
   */
  readNow(array: Uint8Array): { readonly bytes: Uint8Array; readonly release?: (() => void) | undefined } {
    const isShared = this.#core.sharing()?.workers.areReady === true;
    const staged = isShared ? this.#core.hostMemory.staging.stage(array) : undefined;
    return staged ?? { bytes: new Uint8Array(array) };
  }

  /**
   * Enqueues a copy to host memory. If the host memory is pageable, blocks until the copy is done.
   *
   * @param onUninitialized called with the index of the first uninitialized byte, if there is one
   */
  toHost(stream: Stream, to: Uint8Array, from: Uint8Array, onUninitialized?: (index: number) => void): void {
    let isFound = false;
    const onPart = onUninitialized && ((part: Uint8Array) => {
      const first = isFound ? undefined : this.#shadow?.firstUninitialized(part);
      if (first === undefined) return;
      isFound = true;
      onUninitialized(part.byteOffset - from.byteOffset + first);
    });
    const work = this.copy(stream, this.#hostMemory.bytesOf(to), from, { onPart });
    if (work !== undefined && !this.#hostMemory.isLocked(to)) this.#core.scheduler.runUntil(() => work.done);
  }

  /**
   * Enqueues a copy. CUDA leaves the result of copies between overlapping ranges undefined; here, the result is as if
   * the whole source were read before any byte is written.
   */
  copy(stream: Stream, to: Uint8Array, from: Uint8Array, options: CopyOptions = {}): Work | undefined {
    return this.#core.submit(stream, this.copyOperation(to, from, options));
  }

  /** Returns the operation of a copy. */
  copyOperation(to: Uint8Array, from: Uint8Array, { onPart, release }: CopyOptions = {}): GraphOperation {
    const { byteLength } = to;
    const isBackward = to.buffer === from.buffer && to.byteOffset > from.byteOffset;
    const ofNode = { type: graphNodeType.memcpy, memory: this.#stateOf(to, from) };
    const isShared = onPart === undefined && this.#isLinear(to) && this.#isLinear(from);
    const transfer = isShared ? copyOf(to, from) : undefined;
    return this.#inSlices(ofNode, { length: byteLength, transfer, release }, (begin, end) => {
      const [first, last] = isBackward ? [byteLength - end, byteLength - begin] : [begin, end];
      const source = from.subarray(first, last);
      to.set(source, first);
      this.#shadow?.noteCopy(to.subarray(first, last), source);
      onPart?.(source);
    });
  }

  /**
   * Returns the operation of a copy of rows. Each end begins with its first row.
   *
   * @param onRow called with each row of the source that was copied
   */
  copyRowsOperation(
    to: Uint8Array,
    from: Uint8Array,
    { copy, ofProgram = [to, from], onRow, release }: {
      readonly copy: CopiedRows;
      /** The ends that are memory of the program. Arrays are not. */
      readonly ofProgram?: readonly Uint8Array[];
      readonly onRow?: ((row: Uint8Array) => void) | undefined;
      readonly release?: (() => void) | undefined;
    },
  ): GraphOperation {
    const { destination, source, width, height, depth } = copy;
    const ofNode = { type: graphNodeType.memcpy, memory: this.#stateOf(...ofProgram) };
    const count = width === 0 ? 0 : height * depth;
    const isShared = onRow === undefined && count > 0 && this.#isLinear(to) && this.#isLinear(from);
    const transfer = isShared ? copyOfRows(to, from, copy) : undefined;
    return this.#inSlices(
      ofNode,
      { length: count, maximum: Math.max(1, Math.floor(sliceLength / width)), transfer, release },
      (begin, end) => {
        for (let row = begin; row < end; row++) {
          const first = beginOfRow(row, height, source), at = beginOfRow(row, height, destination);
          const bytes = from.subarray(first, first + width);
          to.set(bytes, at);
          this.#shadow?.noteCopy(to.subarray(at, at + width), bytes);
          onRow?.(bytes);
        }
      },
    );
  }

  /** Enqueues a copy of rows. Reads and writes host memory as `fromHost` and `toHost` do. */
  copyRows(
    stream: Stream,
    ends: { readonly to: Uint8Array; readonly from: Uint8Array },
    copy: PitchedCopy,
    { fixed, onUninitialized }: { fixed: readonly unknown[]; onUninitialized?: (index: number) => void },
  ): void {
    const isOfHost = ({ memory }: PitchedMemory) => typeof memory !== "bigint" && !this.#hostMemory.isLocked(memory);
    const isRead = stream.capture === undefined && isOfHost(copy.source);
    const { bytes: from, release } = isRead ? this.readNow(ends.from) : { bytes: ends.from };
    let isFound = false;
    const onRow = onUninitialized && ((row: Uint8Array) => {
      const first = isFound ? undefined : this.#shadow?.firstUninitialized(row);
      if (first === undefined) return;
      isFound = true;
      onUninitialized(row.byteOffset - from.byteOffset + first);
    });
    const operation = this.copyRowsOperation(ends.to, from, { copy, onRow, release });
    const work = this.#core.submit(stream, { ...operation, fixed });
    if (work !== undefined && isOfHost(copy.destination)) this.#core.scheduler.runUntil(() => work.done);
  }

  /** Enqueues a copy of rows of which one end at least is an array. Reads and writes host memory as `copyRows` does. */
  copyRowsOfArray(stream: Stream, { to, from }: ArrayCopyEnds, copy: RowsSize): void {
    const isPageable = ({ host }: ArrayCopyEnd) => host !== undefined && !this.#hostMemory.isLocked(host);
    const isRead = stream.capture === undefined && isPageable(from);
    const { bytes, release } = isRead ? this.readNow(from.bytes) : { bytes: from.bytes };
    const work = this.#core.submit(stream, this.arrayCopyOperation({ to, from: { ...from, bytes } }, copy, release));
    if (work !== undefined && isPageable(to)) this.#core.scheduler.runUntil(() => work.done);
  }

  /** Returns the operation of a copy of rows of which one end at least is an array. */
  arrayCopyOperation({ to, from }: ArrayCopyEnds, copy: RowsSize, release?: () => void): GraphOperation {
    return this.copyRowsOperation(to.bytes, from.bytes, {
      copy: { ...copy, destination: to, source: from },
      release,
      ofProgram: [to, from].filter(({ isArray }) => !isArray).map(({ bytes }) => bytes),
    });
  }

  /** Whether bytes lie in linear memory, which all threads share. */
  #isLinear({ buffer }: Uint8Array | Uint16Array | Uint32Array): boolean {
    return buffer === this.#core.linearMemory.memory.buffer;
  }

  /** Returns the operation of a fill. */
  fillOperation(to: Uint8Array | Uint16Array | Uint32Array, value: number): GraphOperation {
    const ofNode = { type: graphNodeType.memset, memory: this.#stateOf(to), fixed: [1] };
    const transfer = this.#isLinear(to) ? fillOf(to, value) : undefined;
    return this.#inSlices(ofNode, { length: to.length, transfer }, (begin, end) => {
      to.fill(value, begin, end);
      this.#noteFill(to.subarray(begin, end));
    });
  }

  /** Returns the operation of a fill of the first `width` values of each row. Rows start `pitch` values apart. */
  fillRowsOperation(
    to: Uint8Array | Uint16Array | Uint32Array,
    rows: { value: number; width: number; pitch: number; height: number },
  ): GraphOperation {
    const { value, width, pitch, height } = rows;
    const ofNode = { type: graphNodeType.memset, memory: this.#stateOf(to) };
    const transfer = this.#isLinear(to) ? fillOfRows(to, rows) : undefined;
    return this.#inSlices(ofNode, { length: height, transfer }, (begin, end) => {
      for (let row = begin; row < end; row++) {
        to.fill(value, row * pitch, row * pitch + width);
        this.#noteFill(to.subarray(row * pitch, row * pitch + width));
      }
    });
  }

  #noteFill({ buffer, byteOffset, byteLength }: Uint8Array | Uint16Array | Uint32Array): void {
    this.#shadow?.noteCopy(new Uint8Array(buffer, byteOffset, byteLength), undefined);
  }

  /**
   * Returns an operation that divides the range from 0 to `length` into slices and calls `slice` for one of them per
   * time slice.
   *
   * @param options.transfer the same, for other threads. Undefined if only the main thread can do it
   * @param options.release called when the work is done or dropped. An operation that has it is enqueued once
   */
  #inSlices(
    ofNode: Omit<GraphOperation, "enqueue">,
    { length, maximum = sliceLength, transfer, release }: {
      length: number;
      maximum?: number;
      transfer?: Transfer | undefined;
      release?: (() => void) | undefined;
    },
    slice: (begin: number, end: number) => void,
  ): GraphOperation {
    const enqueue = (stream: Stream): Work => {
      let done = 0;
      const delegate = ({ jobs }: Delegated) => {
        const sharing = done === 0 ? this.#core.sharing() : undefined;
        return sharing && SharedTransfer.begin(transfer!, { after: jobs }, sharing);
      };
      const isLong = () => takesLong(transfer!) && this.#core.sharing()?.workers.areReady === true;
      const shared = length === 0 ? { delegate: passing } : transfer && { delegate, takesLong: isLong };
      return this.#core.scheduler.enqueue(stream, () => {
        const end = Math.min(done + maximum, length);
        slice(done, end);
        done = end;
        return done === length;
      }, release === undefined ? shared : { ...shared, release });
    };
    return { ...ofNode, enqueue };
  }
}

type RowsSize = Pick<ArrayCopy, "width" | "height" | "depth">;

/** One end of a copy from or to an array. */
interface ArrayCopyEnd extends RowDistances {
  readonly bytes: Uint8Array;
  readonly isArray: boolean;
  /** The host memory, as the caller has given it. */
  readonly host: Uint8Array | undefined;
}

/** Both ends of a copy from or to an array. */
interface ArrayCopyEnds {
  readonly to: ArrayCopyEnd;
  readonly from: ArrayCopyEnd;
}

const { read, readWrite } = memAccessFlags;

const knownOrders: readonly number[] = Object.values(sourceAccessOrder);

/** Returns the elements of 1, 2 or 4 bytes in memory. */
function elementsOf(
  bytes: Uint8Array,
  elementSize: GraphFill["elementSize"],
): Uint8Array | Uint16Array | Uint32Array {
  const { buffer, byteOffset, byteLength } = bytes;
  if (elementSize === 4) return new Uint32Array(buffer, byteOffset, byteLength / 4);
  return elementSize === 2 ? new Uint16Array(buffer, byteOffset, byteLength / 2) : bytes;
}

/** The parts of the driver that copies and fills use. */
interface CopyParts {
  readonly core: DriverCore;
  readonly streams: StreamsAndEvents;
  readonly memory: ProgramMemory;
  readonly graphMemory: SoftwareGraphMemory;
  readonly textures: Textures;
}

/** The driver calls that copy and fill memory. */
type CopyAndFillCalls = Pick<
  Driver,
  | "memcpyHtoDAsync"
  | "memcpyDtoHAsync"
  | "memcpyAsync"
  | "memcpyPeerAsync"
  | "memcpy3DAsync"
  | "memcpy3DPeerAsync"
  | "memcpy3DArrayAsync"
  | "memcpyBatchAsync"
  | "memsetAsync"
  | "memsetD16Async"
  | "memsetD32Async"
  | "memsetD2D8Async"
  | "memsetD2D16Async"
  | "memsetD2D32Async"
>;

/** Returns the operations of copies and fills in graphs. */
export interface NodeOperations {
  copy(device: number, copy: GraphCopy | PitchedCopy | ArrayCopy, call: string): GraphOperation;
  fill(device: number, fill: GraphFill, call: string): GraphOperation;
}

/** Returns the driver calls that copy and fill memory, and the same for nodes of graphs. */
export function copyAndFillCalls(
  { core, streams, memory, graphMemory, textures }: CopyParts,
): { calls: CopyAndFillCalls; nodes: NodeOperations } {
  const { devices } = core;
  const copies = new Copies(core, memory, graphMemory);

  /**
   * Returns the bytes of a range that a device copies from or to host memory. If the range lies in a device's pool, the
   * copying device must have access to the pool.
   */
  const rangeForHostCopy = (address: bigint, byteLength: number, use: RangeUse): Uint8Array => {
    const isPermitted = (allocation: AnyAllocation) =>
      !isPoolMemory(allocation) || allocation.pool.device === undefined || memory.isAccessible(allocation, use.device);
    return memory.range(address, byteLength, use, isPermitted);
  };

  /** Returns the stream of a fill, and the bytes to fill with values of `alignment` bytes. */
  const rangeToFill = (
    address: bigint,
    byteLength: number,
    { alignment, device, stream, call }: { alignment: number; device: number; stream: bigint; call: string },
  ): { stream: Stream; bytes: Uint8Array } => {
    const target = streams.target(device, stream, call);
    if (byteLength !== 0 && address % BigInt(alignment) !== 0n) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const bytes = memory.range(address, byteLength, { call, device: target.device, flags: readWrite });
    return { stream: target, bytes };
  };

  /** What must not change about a fill in an executable graph. */
  const fixedOfFill = ({ elementSize, width, height, pitch }: GraphFill): readonly unknown[] =>
    height > 1 ? [height, width, pitch, elementSize] : [height];

  /** Enqueues a fill of rows. */
  const fillRows = (device: number, stream: bigint, fill: GraphFill, call: string): void => {
    const { address, value, elementSize, width, height, pitch } = fill;
    const isEmpty = width === 0 || height === 0;
    // CUDA ignores the pitch of a single row.
    const distance = height > 1 ? pitch : elementSize * width;
    const isWrong = distance % elementSize !== 0 || distance < elementSize * width;
    if (!isEmpty && isWrong) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
    const byteLength = isEmpty ? 0 : (height - 1) * distance + elementSize * width;
    const to = rangeToFill(address, byteLength, { alignment: elementSize, device, stream, call });
    if (isEmpty) return;
    const rows = { value, width, pitch: distance / elementSize, height };
    const operation = copies.fillRowsOperation(elementsOf(to.bytes, elementSize), rows);
    core.submit(to.stream, { ...operation, fixed: fixedOfFill(fill) });
  };

  /**
   * Returns a copy of rows with the distances that CUDA uses: a pitch of 0 is the width, and 0 rows to a slice are those
   * that are copied. Undefined if there are no bytes to copy. Throws unless CUDA accepts the distances.
   */
  const withDistances = (copy: PitchedCopy, call: string): PitchedCopy | undefined => {
    const { width, height, depth } = copy;
    const ends = [copy.destination, copy.source].map(({ memory, pitch, rows }) => {
      const isWrong = pitch !== 0 && pitch < width || rows !== 0 && rows < height ||
        pitch > maxPitch && height * depth > 1;
      if (isWrong) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      return { memory, pitch: pitch === 0 ? width : pitch, rows: rows === 0 ? height : rows };
    });
    return width * height * depth === 0 ? undefined : { ...copy, destination: ends[0]!, source: ends[1]! };
  };

  /** Returns one end of a copy of rows. */
  const rowsAt = (
    end: PitchedMemory,
    { width, height, depth }: PitchedCopy,
    use: RangeUse,
    range: (address: bigint, byteLength: number, use: RangeUse) => Uint8Array = rangeForHostCopy,
  ) => {
    const byteLength = ((depth - 1) * end.rows + height - 1) * end.pitch + width;
    if (typeof end.memory !== "bigint") return core.hostMemory.bytesOf(end.memory.subarray(0, byteLength));
    return range(end.memory, byteLength, use);
  };

  /** Returns bytes for a copy between peers: not those of a pool in host memory, which belong to no device. */
  const rangeForPeerCopy = (address: bigint, byteLength: number, use: RangeUse): Uint8Array =>
    memory.range(
      address,
      byteLength,
      use,
      (allocation) => !isPoolMemory(allocation) || allocation.pool.device !== undefined,
    );

  /** What must not change about a copy of rows in an executable graph: all of it. */
  const fixedOf = ({ destination, source, width, height, depth }: PitchedCopy): readonly unknown[] => {
    const ofEnds = [destination, source].flatMap(({ memory, pitch, rows }) => [memory, pitch, rows]);
    return [...ofEnds, width, height, depth];
  };

  /** Returns both ends of a copy from or to an array. */
  const endsOfArrayCopy = (device: number, copy: ArrayCopy, call: string): ArrayCopyEnds => {
    const { destination, source, width, height, depth } = copy;
    const endOfArray = (end: PitchedMemory | ArrayPlace, flags: number): ArrayCopyEnd => {
      if ("array" in end) {
        const { level: { rowBytes, rows, slices }, bytes } = textures.placeOf(end, call);
        const isInside = end.x + width <= rowBytes && end.y + height <= rows && end.z + depth <= slices;
        if (!isInside) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        return { bytes, isArray: true, host: undefined, pitch: rowBytes, rows };
      }
      const given = withDistances({ width, height, depth, destination: end, source: end }, call)!;
      const bytes = rowsAt(given.source, given, { device, call, flags });
      return { ...given.source, bytes, isArray: false, host: typeof end.memory === "bigint" ? undefined : end.memory };
    };
    return { to: endOfArray(destination, readWrite), from: endOfArray(source, read) };
  };

  const calls: CopyAndFillCalls = {
    memcpy3DAsync(device, given, stream, onUninitialized) {
      const call = "cudaMemcpy3DAsync";
      const target = streams.target(device, stream, call);
      const copy = withDistances(given, call);
      if (copy === undefined) return;
      const to = rowsAt(copy.destination, copy, { device, call, flags: readWrite });
      const from = rowsAt(copy.source, copy, { device, call, flags: read });
      const { memory: source } = copy.source;
      const found = onUninitialized === undefined || typeof source !== "bigint"
        ? {}
        : { onUninitialized: (at: number) => onUninitialized(source + BigInt(at)) };
      copies.copyRows(target, { to, from }, copy, { fixed: fixedOf(copy), ...found });
      devices.check(target.device, call);
    },
    memcpy3DPeerAsync(device, given, destinationDevice, sourceDevice, stream) {
      const call = "cudaMemcpy3DPeerAsync";
      const target = streams.target(device, stream, call);
      core.captures.checkWait(target, call);
      devices.check(destinationDevice, call);
      devices.check(sourceDevice, call);
      const copy = withDistances(given, call);
      if (copy === undefined) return;
      const to = rowsAt(
        copy.destination,
        copy,
        { device: destinationDevice, call, flags: readWrite },
        rangeForPeerCopy,
      );
      const from = rowsAt(copy.source, copy, { device: sourceDevice, call, flags: read }, rangeForPeerCopy);
      copies.copyRows(target, { to, from }, copy, { fixed: fixedOf(copy) });
    },
    memcpy3DArrayAsync(device, copy, stream) {
      const call = "cudaMemcpy3DAsync";
      const target = streams.target(device, stream, call);
      if (copy.width * copy.height * copy.depth === 0) return;
      copies.copyRowsOfArray(target, endsOfArrayCopy(device, copy, call), copy);
      devices.check(target.device, call);
    },
    memcpyBatchAsync(device, batch, stream) {
      const call = "cudaMemcpyBatchAsync";
      const target = streams.target(device, stream, call);
      const isPossible = ({ byteLength, attributes }: (typeof batch)[number]) =>
        byteLength > 0 && knownOrders.includes(attributes.sourceAccessOrder);
      if (target.isDefault || batch.length === 0 || !batch.every(isPossible)) {
        fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      }
      if (target.capture !== undefined) fail(cudaErrorNumbers.cudaErrorStreamCaptureUnsupported, call);
      // Copies before one that fails are enqueued.
      for (const { destination, source, byteLength, attributes } of batch) {
        const to = endOf(destination, byteLength, { device, call, flags: readWrite });
        const { bytes } = endOf(source, byteLength, { device, call, flags: read });
        const isReadNow = attributes.sourceAccessOrder === sourceAccessOrder.duringCall ||
          typeof source !== "bigint" && !core.hostMemory.has(source.buffer);
        const { bytes: from, release } = isReadNow ? copies.readNow(bytes) : { bytes };
        copies.copy(target, to.bytes, from, { release });
      }
    },
    memcpyHtoDAsync(device, destination, source, stream) {
      const call = "cudaMemcpyAsync";
      const target = streams.target(device, stream, call);
      const to = rangeForHostCopy(destination, source.byteLength, { device, call, flags: readWrite });
      if (core.hostMemory.endsBehindRegistered(source)) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      copies.fromHost(target, to, source);
    },
    memcpyDtoHAsync(device, destination, source, stream, onUninitialized) {
      const call = "cudaMemcpyAsync";
      const target = streams.target(device, stream, call);
      const from = rangeForHostCopy(source, destination.byteLength, { device, call, flags: read });
      copies.toHost(target, destination, from, onUninitialized && ((at) => onUninitialized(source + BigInt(at))));
      devices.check(target.device, call);
    },
    memcpyAsync(device, destination, source, byteLength, stream) {
      const call = "cudaMemcpyAsync";
      const target = streams.target(device, stream, call);
      if (target.capture !== undefined && byteLength > 0) {
        core.submit(target, nodes.copy(device, { destination, source, byteLength }, call));
        return;
      }
      const to = rangeForHostCopy(destination, byteLength, { device, call, flags: readWrite });
      copies.copy(target, to, rangeForHostCopy(source, byteLength, { device, call, flags: read }));
    },
    memcpyPeerAsync(device, destination, destinationDevice, source, sourceDevice, byteLength, stream) {
      const call = "cudaMemcpyPeerAsync";
      const target = streams.target(device, stream, call);
      core.captures.checkWait(target, call);
      devices.check(destinationDevice, call);
      devices.check(sourceDevice, call);
      const to = rangeForPeerCopy(destination, byteLength, { call, device: destinationDevice, flags: readWrite });
      const from = rangeForPeerCopy(source, byteLength, { call, device: sourceDevice, flags: read });
      copies.copy(target, to, from);
    },
    memsetAsync(device, address, byte, byteLength, stream) {
      const call = "cudaMemsetAsync";
      const target = streams.target(device, stream, call);
      const to = memory.range(address, byteLength, { call, device: target.device, flags: readWrite });
      core.submit(target, copies.fillOperation(to, byte));
    },
    memsetD16Async(device, address, value, count, stream) {
      const call = "cuMemsetD16Async";
      const to = rangeToFill(address, 2 * count, { alignment: 2, device, stream, call });
      const halves = new Uint16Array(to.bytes.buffer, to.bytes.byteOffset, count);
      core.submit(to.stream, copies.fillOperation(halves, value));
    },
    memsetD32Async(device, address, value, count, stream) {
      const call = "cuMemsetD32Async";
      const to = rangeToFill(address, 4 * count, { alignment: 4, device, stream, call });
      const words = new Uint32Array(to.bytes.buffer, to.bytes.byteOffset, count);
      core.submit(to.stream, copies.fillOperation(words, value));
    },
    memsetD2D8Async: (device, address, pitch, value, width, height, stream) =>
      fillRows(device, stream, { address, value, elementSize: 1, width, height, pitch }, "cuMemsetD2D8Async"),
    memsetD2D16Async: (device, address, pitch, value, width, height, stream) =>
      fillRows(device, stream, { address, value, elementSize: 2, width, height, pitch }, "cuMemsetD2D16Async"),
    memsetD2D32Async: (device, address, pitch, value, width, height, stream) =>
      fillRows(device, stream, { address, value, elementSize: 4, width, height, pitch }, "cuMemsetD2D32Async"),
  };

  /** The device in whose context memory was allocated: none for memory of a pool, and any for page-locked memory. */
  const contextOf = (address: bigint, byteLength: number, { device, call }: RangeUse): number | undefined => {
    const found = memory.at(address, byteLength, call);
    if (isPoolMemory(found) || found.kind === "virtual") return undefined;
    return found.kind === "locked" ? device : found.device;
  };

  /** Returns one end of a copy in a graph, and what must not change about it in an executable graph. */
  const endOf = (
    end: bigint | Uint8Array,
    byteLength: number,
    use: RangeUse,
  ): { bytes: Uint8Array; fixed: readonly unknown[] } => {
    if (typeof end !== "bigint") {
      return { bytes: core.hostMemory.bytesOf(end.subarray(0, byteLength)), fixed: ["array", use.device] };
    }
    const bytes = rangeForHostCopy(end, byteLength, use);
    return { bytes, fixed: ["address", contextOf(end, byteLength, use)] };
  };

  const nodes: NodeOperations = {
    copy(device, given, call) {
      devices.check(device, call);
      if (!("byteLength" in given) && isArrayCopy(given)) {
        if (given.width * given.height * given.depth === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        const ends = endsOfArrayCopy(device, given, call);
        return { ...copies.arrayCopyOperation(ends, given), fixed: [given] };
      }
      if (!("byteLength" in given)) {
        const copy = withDistances(given, call) ?? fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
        const to = rowsAt(copy.destination, copy, { device, call, flags: readWrite });
        const from = rowsAt(copy.source, copy, { device, call, flags: read });
        return { ...copies.copyRowsOperation(to, from, { copy }), fixed: fixedOf(copy) };
      }
      const { source, destination, byteLength } = given;
      if (byteLength === 0) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const to = endOf(destination, byteLength, { device, call, flags: readWrite });
      const from = endOf(source, byteLength, { device, call, flags: read });
      return { ...copies.copyOperation(to.bytes, from.bytes), fixed: [...to.fixed, ...from.fixed] };
    },
    fill(device, { address, value, elementSize, width, height, pitch }, call) {
      devices.check(device, call);
      const isPitched = height > 1;
      const isWrong = ![1, 2, 4].includes(elementSize) || width === 0 || height === 0 ||
        address % BigInt(elementSize) !== 0n ||
        isPitched && (pitch % elementSize !== 0 || pitch < width * elementSize);
      if (isWrong) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
      const count = isPitched ? (height - 1) * pitch / elementSize + width : width;
      const bytes = memory.range(address, count * elementSize, { call, device, flags: readWrite });
      const to = elementsOf(bytes, elementSize);
      const fixed = fixedOfFill({ address, value, elementSize, width, height, pitch });
      const operation = isPitched
        ? copies.fillRowsOperation(to, { value, width, pitch: pitch / elementSize, height })
        : copies.fillOperation(to, value);
      return { ...operation, fixed };
    },
  };
  return { calls, nodes };
}
