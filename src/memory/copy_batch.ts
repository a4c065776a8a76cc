/**
 * Batches of copies, which run in any order.
 *
 * @module
 */
import { type BatchAttributes, type BatchedCopy, sourceAccessOrder } from "../driver.ts";
import type { CudaStream } from "../objects/streams/cuda_stream.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";
import { cudaErrorNumbers, explainedError } from "../support/errors.ts";
import { countOf } from "../support/printing.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";
import {
  checkBoolean,
  checkOptions,
  errorOfAnotherCuda,
  type KnownOptions,
  shown,
  suggestName,
  type TypedArray,
  type TypedArrayConstructor,
  whatIs,
} from "../support/validation.ts";
import { allocationOf, type DeviceBuffer } from "./device_buffer.ts";
import { type ArrayCopyEnd, enqueueArrayCopy } from "./arrays/array_copies.ts";
import { checkArrayEnds, CudaArray, stateOfArray } from "./arrays/cuda_array.ts";
import { driverLocation, type MemoryLocation } from "./managed/memory_location.ts";
import { PitchedArray, placeOfRows, sessionOfRows, sizeText } from "./pitched_array.ts";
import { checkCopyBetween } from "./transfers/elements.ts";
import { bytesOfHost, HostBuffer, sessionOfHost } from "./transfers/host_buffer.ts";
import {
  checkRowsOverlap,
  currentDeviceOf,
  deviceOfRows,
  enqueueRows,
  type RowsPlace,
} from "./transfers/pitched_copies.ts";
import { offsetOf, type RowsShape, simplifiedRows, withoutGaps } from "./transfers/rows.ts";

/** The attributes of copies in a batch, which CUDA takes as hints, except for the order. */
export interface CopyAttributes {
  /**
   * When the source is read. Defaults to `"stream"`: in the stream's order. `"during-call"`: before `copyBatch` returns,
   * and `"any"`: at any time; earlier work of the stream must then not write the source.
   */
  sourceAccessOrder?: "stream" | "during-call" | "any";
  /** Where a source in managed memory is expected to be. */
  sourceLocation?: MemoryLocation;
  /** Where a target in managed memory is expected to be. */
  targetLocation?: MemoryLocation;
  /** Whether to leave the multiprocessors to kernels. Defaults to false. */
  preferOverlapWithCompute?: boolean;
}

/** One copy of a batch. */
export interface BatchCopy extends CopyAttributes {
  /** What to copy: memory of a device, page-locked memory, rows in either, or an array. */
  source: DeviceBuffer | HostBuffer | PitchedArray | CudaArray;
  /** Where to copy it: memory of the same size. An array is copied as by its `copyFrom` and `copyTo`. */
  target: DeviceBuffer | HostBuffer | PitchedArray | CudaArray;
}

const names = {
  sourceAccessOrder: true,
  sourceLocation: true,
  targetLocation: true,
  preferOverlapWithCompute: true,
} as const;
const batchOptions: KnownOptions<CopyAttributes> = {
  action: "copy a batch",
  names,
  instead: { stream: "the batch is copied on the stream whose method is called" },
};
const copyOptions: KnownOptions<BatchCopy> = {
  action: "copy a batch",
  names: { source: true, target: true, ...names },
  instead: {
    destination: "give target",
    byteLength: "copy a part of the source, such as source.subarray(0, 4)",
    byteOffset: "copy to a part of the target, such as target.subarray(4)",
  },
};
const orders: Readonly<Record<NonNullable<CopyAttributes["sourceAccessOrder"]>, number>> = {
  "stream": sourceAccessOrder.stream,
  "during-call": sourceAccessOrder.duringCall,
  "any": sourceAccessOrder.any,
};

/** Memory that a copy reads or writes. */
interface CopyEnd {
  readonly place: ArrayCopyEnd;
  /** The rows of a `PitchedArray` of more than one row; undefined for memory that is one row, or that can be any rows. */
  readonly shape: RowsShape | undefined;
  readonly byteLength: number;
  readonly type: TypedArrayConstructor<TypedArray> | undefined;
}

/** The same, in memory that is not an array. */
interface RowsEnd extends CopyEnd {
  readonly place: RowsPlace;
}

/** A copy that was checked. */
interface CheckedCopy {
  readonly source: CopyEnd;
  readonly target: CopyEnd;
  /** The shape of the copied rows. Undefined for a single row. */
  readonly shape: RowsShape | undefined;
  readonly attributes: BatchAttributes;
}

/** Implements `CudaStream.copyBatch`. */
export function copyBatch(
  session: Session,
  stream: CudaStream,
  { copies, options }: { readonly copies: readonly BatchCopy[]; readonly options: CopyAttributes },
): void {
  if (!Array.isArray(copies)) {
    throw new TypeError(`Cannot copy a batch with ${whatIs(copies)}: give an array of { source, target }`);
  }
  checkOptions(options, batchOptions);
  const readAttributes = attributeReader(session, options);
  const checked: CheckedCopy[] = [];
  for (const [index, copy] of copies.entries()) {
    const found = checkCopy(session, copy, { index, readAttributes });
    // CUDA refuses a batch with an empty copy.
    if (found.source.byteLength > 0) checked.push(found);
  }
  if (!areInOrder(checked)) checkSeparate(checked);
  const { driver, captures } = session;
  const handle = stream.unsafeHandle;
  const capture = captures.isActive ? captures.of(handle) : undefined;
  const isOneCall = driver.hasBatchedCopies && capture === undefined && stream !== stream.device.defaultStream;
  if (!isOneCall) refuseDuringCall(checked, { isCaptured: capture !== undefined, hasBatches: driver.hasBatchedCopies });
  try {
    if (capture !== undefined) return enqueueUnordered(session, stream, checked);
    const batches = new Map<number, BatchedCopy[]>();
    for (const copy of checked) {
      const { source: { place: source, byteLength }, target: { place: target }, shape, attributes } = copy;
      if ("array" in source || "array" in target) {
        enqueue(session, stream, copy);
        continue;
      }
      const from = deviceOfRows(source), to = deviceOfRows(target);
      const isOfOneDevice = from === undefined || to === undefined || from === to;
      if (!isOneCall || shape !== undefined || !isOfOneDevice) {
        enqueue(session, stream, copy);
        continue;
      }
      const device = from === to ? stream.device.ordinal : currentDeviceOf(source, target, stream);
      let batch = batches.get(device);
      if (batch === undefined) batches.set(device, batch = []);
      const memory = { source: memoryOf(source, byteLength), destination: memoryOf(target, byteLength) };
      batch.push({ ...memory, byteLength, attributes });
    }
    for (const [device, batch] of batches) driver.memcpyBatchAsync(device, batch, handle);
  } catch (error) {
    throw cannot(`copy a batch of ${countOf(checked.length, "copy")} on device ${stream.device.ordinal}`, error);
  } finally {
    // Of a batch that fails, CUDA may have enqueued a part.
    for (const { source, target } of checked) {
      for (const { place } of [source, target]) {
        if ("array" in place) place.array.noteUse(stream);
        else if (!("bytes" in place)) place.allocation.noteUse(stream);
      }
    }
  }
}

function memoryOf(place: RowsPlace, byteLength: number): bigint | Uint8Array {
  return "bytes" in place ? place.bytes.subarray(0, byteLength) : place.address;
}

/** Enqueues one copy. */
function enqueue(session: Session, stream: CudaStream, { source, target, shape }: CheckedCopy): void {
  const size = shape ?? { width: source.byteLength, height: 1, depth: 1 };
  const from = rowsOf(source, size), to = rowsOf(target, size);
  if ("array" in from || "array" in to) enqueueArrayCopy(session, from, to, { size, stream });
  else enqueueRows(session, from, to, { size, stream });
}

/** Returns an end as rows of a size: memory that can be any rows has no gaps. */
function rowsOf(end: RowsEnd, size: RowsShape): RowsPlace;
function rowsOf(end: CopyEnd, size: RowsShape): ArrayCopyEnd;
function rowsOf({ place, shape }: CopyEnd, size: RowsShape): ArrayCopyEnd {
  return shape === undefined ? { ...place, ...withoutGaps(size) } : place;
}

/** Captures the copies of a batch as separate nodes, each of which depends only on the work captured before the batch. */
function enqueueUnordered(session: Session, stream: CudaStream, copies: readonly CheckedCopy[]): void {
  const { driver } = session;
  const { unsafeHandle, device: { ordinal } } = stream;
  const dependencies = () => driver.streamGetCaptureInfo(ordinal, unsafeHandle).dependencies;
  const before = dependencies();
  const after: bigint[] = [];
  try {
    for (const copy of copies) {
      if (after.length > 0) driver.streamUpdateCaptureDependencies(ordinal, unsafeHandle, before);
      enqueue(session, stream, copy);
      after.push(...dependencies());
    }
  } finally {
    if (after.length > 0) driver.streamUpdateCaptureDependencies(ordinal, unsafeHandle, [...new Set(after)]);
  }
}

function refuseDuringCall(
  copies: readonly CheckedCopy[],
  { isCaptured, hasBatches }: { readonly isCaptured: boolean; readonly hasBatches: boolean },
): void {
  if (copies.every(({ attributes }) => attributes.sourceAccessOrder !== sourceAccessOrder.duringCall)) return;
  const [code, why] = isCaptured
    ? ["cudaErrorStreamCaptureUnsupported", "the stream is being captured, and its work runs later"] as const
    : hasBatches
    ? ["cudaErrorNotSupported", "a default stream copies one by one, in its order; create a stream"] as const
    : ["cudaErrorCallRequiresNewerDriver", "it needs CUDA 12.8"] as const;
  const error = explainedError(cudaErrorNumbers[code], "cudaMemcpyBatchAsync", why);
  throw cannot('copy a batch with the sourceAccessOrder "during-call"', error);
}

/** Returns a function that checks and returns the attributes of a copy, or those of all copies. */
function attributeReader(session: Session, options: CopyAttributes): (copy?: CopyAttributes) => BatchAttributes {
  const read = ({ sourceAccessOrder: order = "stream", preferOverlapWithCompute = false, ...rest }: CopyAttributes) => {
    if (!Object.hasOwn(orders, order)) {
      const advice = typeof order === "string"
        ? suggestName(order, Object.keys(orders), "the orders are")
        : 'give "stream", "during-call" or "any"';
      throw new TypeError(`Cannot use ${shown(order)} as a sourceAccessOrder: ${advice}`);
    }
    checkBoolean(preferOverlapWithCompute, "preferOverlapWithCompute");
    const { sourceLocation, targetLocation } = rest;
    const locate = (location: MemoryLocation | undefined, name: string) =>
      location === undefined ? undefined : driverLocation(location, session, { action: "copy a batch", name });
    return {
      sourceAccessOrder: orders[order],
      preferOverlapWithCompute,
      sourceLocation: locate(sourceLocation, "sourceLocation"),
      destinationLocation: locate(targetLocation, "targetLocation"),
    };
  };
  const ofAll = read(options);
  return (copy) => copy === undefined ? ofAll : read({ ...options, ...copy });
}
function checkCopy(
  session: Session,
  copy: BatchCopy,
  { index, readAttributes }: { index: number; readAttributes: (copy?: CopyAttributes) => BatchAttributes },
): CheckedCopy {
  if (typeof copy !== "object" || copy === null || Array.isArray(copy)) {
    throw new TypeError(`Cannot copy a batch with ${whatIs(copy)} as copy ${index}: give { source, target }`);
  }
  let hasMore = false;
  for (const name in copy) hasMore ||= name !== "source" && name !== "target";
  if (hasMore) checkOptions(copy, copyOptions);
  if (copy.source instanceof CudaArray || copy.target instanceof CudaArray) {
    return checkCopyOfArray(session, copy, hasMore ? readAttributes(copy) : readAttributes());
  }
  const source = endOf(session, copy.source, "source", index);
  const target = endOf(session, copy.target, "target", index);
  const { shape: from } = source, { shape: to } = target;
  const hasSameShape = from === undefined || to === undefined ||
    from.width === to.width && from.height === to.height && from.depth === to.depth;
  if (source.byteLength !== target.byteLength || !hasSameShape) {
    const text = ({ shape, byteLength }: CopyEnd) =>
      shape === undefined || source.byteLength !== target.byteLength
        ? countOf(byteLength, "byte")
        : `rows of ${sizeText(shape)} bytes`;
    throw new RangeError(
      `Cannot copy ${text(source)} to ${text(target)} in copy ${index} of a batch: both must have the same size`,
    );
  }
  if (source.type !== target.type && source.type !== undefined && target.type !== undefined) {
    checkCopyBetween(source.type, target.type);
  }
  const attributes = hasMore ? readAttributes(copy) : readAttributes();
  const shape = from ?? to;
  if (shape === undefined) return { source, target, shape, attributes };
  const { size, ends } = simplifiedRows(shape, [rowsOf(source, shape), rowsOf(target, shape)] as const);
  if (size.height === 1 && size.depth === 1) return { source, target, shape: undefined, attributes };
  const places = [source, target].map((end, place) => ({ ...end, place: { ...end.place, ...ends[place as 0 | 1] } }));
  const [first, second] = places.map((end) => ({ ...end, shape: size })) as [RowsEnd, RowsEnd];
  checkRowsOverlap(first.place, second.place, size);
  return { source: first, target: second, shape: size, attributes };
}

function checkCopyOfArray(
  session: Session,
  { source, target }: BatchCopy,
  attributes: BatchAttributes,
): CheckedCopy {
  const array = source instanceof CudaArray ? source : target as CudaArray;
  if (stateOfArray(array).session !== session) throw errorOfAnotherCuda("copy an array");
  const { from, to, size } = checkArrayEnds(source, target);
  const byteLength = size.width * size.height * size.depth;
  const ofCopy = { shape: size, byteLength, type: undefined };
  return { source: { ...ofCopy, place: from }, target: { ...ofCopy, place: to }, shape: size, attributes };
}

function endOf(session: Session, end: BatchCopy["source"], role: "source" | "target", index: number): RowsEnd {
  const allocation = allocationOf(end as unknown);
  if (allocation !== undefined) {
    if (allocation.session !== session) throw errorOfAnotherCuda("copy to or from a buffer");
    const { address, byteLength } = end as DeviceBuffer;
    const { type } = end as { readonly type?: TypedArrayConstructor<TypedArray> };
    const place = { allocation, address, pitch: byteLength, slicePitch: byteLength };
    return { place, shape: undefined, byteLength, type };
  }
  if (end instanceof PitchedArray) {
    if (sessionOfRows(end) !== session) throw errorOfAnotherCuda("copy rows");
    const { place, shape } = placeOfRows(end);
    const { width, height, depth } = shape;
    return {
      place,
      shape: height * depth === 1 ? undefined : shape,
      byteLength: width * height * depth,
      type: end.type,
    };
  }
  if (end instanceof HostBuffer) {
    if (sessionOfHost(end) !== session) throw errorOfAnotherCuda("copy to or from a host buffer");
    const { byteLength } = end;
    const place = { bytes: bytesOfHost(end), pitch: byteLength, slicePitch: byteLength };
    return { place, shape: undefined, byteLength, type: undefined };
  }
  const advice = ArrayBuffer.isView(end as unknown)
    ? "use copyFrom or read for a typed array"
    : "give a DeviceBuffer, a HostBuffer, a PitchedArray or a CudaArray";
  throw new TypeError(
    `Cannot use ${whatIs(end, "DeviceBuffer", "HostBuffer")} as the ${role} of copy ${index}: ${advice}`,
  );
}

/**
 * Whether copies need no further comparison, as in most batches: all are of one row, those that they write follow each
 * other, and those that they read lie elsewhere.
 */
function areInOrder(copies: readonly CheckedCopy[]): boolean {
  const [first] = copies;
  if (first === undefined) return true;
  const written = memoryKey(first.target.place), read = memoryKey(first.source.place);
  let writtenEnd = -Infinity, firstWritten = Infinity, readBegin = Infinity, readEnd = -Infinity;
  for (const { source, target, shape } of copies) {
    if (shape !== undefined || memoryKey(target.place) !== written || memoryKey(source.place) !== read) return false;
    const begin = beginOf(target.place), from = beginOf(source.place);
    if (begin < writtenEnd) return false;
    if (firstWritten === Infinity) firstWritten = begin;
    writtenEnd = begin + target.byteLength;
    if (from < readBegin) readBegin = from;
    if (from + source.byteLength > readEnd) readEnd = from + source.byteLength;
  }
  return written !== read || readEnd <= firstWritten || writtenEnd <= readBegin;
}

/** Returns what the offsets of `beginOf` count in: the addresses of devices, a buffer in host memory, or an array. */
function memoryKey(place: ArrayCopyEnd): object | undefined {
  return "array" in place ? place.array : "bytes" in place ? place.bytes.buffer : undefined;
}

function beginOf(place: ArrayCopyEnd): number {
  if ("array" in place) return 0;
  return "bytes" in place ? place.bytes.byteOffset : Number(place.address);
}

/** The number of rows of a copy up to which they are compared with other copies one by one. */
const maximumRows = 4096;

/** Throws if a copy writes what another one reads or writes, as far as that is cheap to find. */
function checkSeparate(copies: readonly CheckedCopy[]): void {
  const ranges = new Map<unknown, { begin: number; end: number; isWrite: boolean; copy: number }[]>();
  for (const [copy, { source, target, shape }] of copies.entries()) {
    const size = shape ?? { width: source.byteLength, height: 1, depth: 1 };
    if (size.height * size.depth > maximumRows) continue;
    for (const { place } of [source, target]) {
      const key = memoryKey(place), start = beginOf(place);
      let ofMemory = ranges.get(key);
      if (ofMemory === undefined) ranges.set(key, ofMemory = []);
      if ("array" in place) {
        ofMemory.push({ begin: 0, end: 1, isWrite: place === target.place, copy });
        continue;
      }
      for (let z = 0; z < size.depth; z++) {
        for (let y = 0; y < size.height; y++) {
          const begin = start + offsetOf({ x: 0, y, z }, place);
          ofMemory.push({ begin, end: begin + size.width, isWrite: place === target.place, copy });
        }
      }
    }
  }
  for (const ofMemory of ranges.values()) {
    ofMemory.sort((a, b) => a.begin - b.begin);
    let last = ofMemory[0]!;
    let lastWrite: typeof last | undefined;
    for (const range of ofMemory) {
      const earlier = range.isWrite ? last : lastWrite;
      if (earlier !== undefined && earlier !== range && range.begin < earlier.end) refuseOverlap(earlier, range);
      if (range.end > last.end) last = range;
      if (range.isWrite && (lastWrite === undefined || range.end > lastWrite.end)) lastWrite = range;
    }
  }
}

function refuseOverlap(
  first: { readonly copy: number; readonly isWrite: boolean },
  second: { readonly copy: number; readonly isWrite: boolean },
): never {
  if (first.copy === second.copy) {
    throw new RangeError(`Cannot copy a batch: the source and the target of copy ${first.copy} have bytes in common`);
  }
  const [a, b] = [first, second].toSorted((one, other) => one.copy - other.copy) as [typeof first, typeof second];
  const does = (isWrite: boolean) => isWrite ? "writes" : "reads";
  throw new RangeError(
    `Cannot copy a batch: copy ${b.copy} ${does(b.isWrite)} what copy ${a.copy} ${does(a.isWrite)}, and they have no ` +
      "order; make two batches",
  );
}
