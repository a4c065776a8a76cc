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
import { offsetOf, type RowsShape, simplifiedRows, spanOf, withoutGaps } from "./transfers/rows.ts";

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
  /** What to copy: memory of a device, page-locked memory, or rows in either. */
  source: DeviceBuffer | HostBuffer | PitchedArray;
  /** Where to copy it: memory of the same size. */
  target: DeviceBuffer | HostBuffer | PitchedArray;
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

/** A copy that was checked. */
interface CheckedCopy {
  readonly source: RowsPlace;
  readonly target: RowsPlace;
  readonly size: RowsShape;
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
  const attributesOf = attributeReader(session, options);
  const checked = copies.map((copy, index) => checkCopy(session, copy, { index, attributesOf }))
    .filter(({ size, target }) => spanOf(size, target) > 0);
  checkSeparate(checked);
  const { driver, captures } = session;
  const handle = stream.unsafeHandle;
  const capture = captures.isActive ? captures.of(handle) : undefined;
  const isOneCall = driver.hasBatchedCopies && capture === undefined && stream !== stream.device.defaultStream;
  if (!isOneCall) refuseDuringCall(checked, { isCaptured: capture !== undefined, hasBatches: driver.hasBatchedCopies });
  try {
    if (capture !== undefined) return enqueueUnordered(session, stream, checked);
    const batches = new Map<number, BatchedCopy[]>();
    for (const { source, target, size, attributes } of checked) {
      const { size: simple } = simplifiedRows(size, [source, target] as const);
      const [from, to] = [deviceOfRows(source), deviceOfRows(target)];
      const isLinear = simple.height === 1 && simple.depth === 1;
      const isOfOneDevice = from === undefined || to === undefined || from === to;
      if (!isOneCall || !isLinear || !isOfOneDevice) {
        enqueueRows(session, source, target, { size, stream });
        continue;
      }
      const device = currentDeviceOf(source, target, stream);
      const batch = batches.get(device) ?? [];
      batches.set(device, batch);
      const byteLength = simple.width;
      batch.push({
        source: memoryOf(source, byteLength),
        destination: memoryOf(target, byteLength),
        byteLength,
        attributes,
      });
    }
    for (const [device, batch] of batches) driver.memcpyBatchAsync(device, batch, handle);
  } catch (error) {
    throw cannot(`copy a batch of ${countOf(checked.length, "copy")} on device ${stream.device.ordinal}`, error);
  } finally {
    // Of a batch that fails, CUDA may have enqueued a part.
    for (const place of checked.flatMap(({ source, target }) => [source, target])) {
      if (!("bytes" in place)) place.allocation.noteUse(stream);
    }
  }
}

function memoryOf(place: RowsPlace, byteLength: number): bigint | Uint8Array {
  return "bytes" in place ? place.bytes.subarray(0, byteLength) : place.address;
}

/** Enqueues copies of a captured stream one by one, so that each depends on what was captured before all of them. */
function enqueueUnordered(session: Session, stream: CudaStream, copies: readonly CheckedCopy[]): void {
  const { driver } = session;
  const { unsafeHandle, device: { ordinal } } = stream;
  const dependencies = () => driver.streamGetCaptureInfo(ordinal, unsafeHandle).dependencies;
  const before = dependencies();
  const after: bigint[] = [];
  try {
    for (const { source, target, size } of copies) {
      if (after.length > 0) driver.streamUpdateCaptureDependencies(ordinal, unsafeHandle, before);
      enqueueRows(session, source, target, { size, stream });
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

/** Returns a function that checks and returns the attributes of a copy, the same object for the same attributes. */
function attributeReader(session: Session, options: CopyAttributes): (copy: CopyAttributes) => BatchAttributes {
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
  const attributeNames = Object.keys(names) as (keyof CopyAttributes)[];
  return (copy) => {
    const isOwn = attributeNames.some((name) => copy[name] !== undefined);
    return isOwn ? read({ ...options, ...copy }) : ofAll;
  };
}

/** Memory that a copy reads or writes. */
interface CopyEnd {
  /** Rows at their distances; undefined for memory that can take any. */
  readonly rows: { readonly place: RowsPlace; readonly shape: RowsShape } | undefined;
  readonly byteLength: number;
  readonly type: TypedArrayConstructor<TypedArray> | undefined;
  placeOf(size: RowsShape): RowsPlace;
}

function checkCopy(
  session: Session,
  copy: BatchCopy,
  { index, attributesOf }: { index: number; attributesOf: (copy: CopyAttributes) => BatchAttributes },
): CheckedCopy {
  if (typeof copy !== "object" || copy === null || Array.isArray(copy)) {
    throw new TypeError(`Cannot copy a batch with ${whatIs(copy)} as copy ${index}: give { source, target }`);
  }
  checkOptions(copy, copyOptions);
  const source = endOf(session, copy.source, `the source of copy ${index}`);
  const target = endOf(session, copy.target, `the target of copy ${index}`);
  const [from, to] = [source.rows?.shape, target.rows?.shape];
  const isSame = from === undefined || to === undefined
    ? source.byteLength === target.byteLength
    : from.width === to.width && from.height === to.height && from.depth === to.depth;
  if (!isSame) {
    const text = ({ rows, byteLength }: CopyEnd) =>
      rows === undefined || source.byteLength !== target.byteLength
        ? countOf(byteLength, "byte")
        : `rows of ${sizeText(rows.shape)} bytes`;
    throw new RangeError(
      `Cannot copy ${text(source)} to ${text(target)} in copy ${index} of a batch: both must have the same size`,
    );
  }
  if (source.type !== undefined && target.type !== undefined) checkCopyBetween(source.type, target.type);
  const size = from ?? to ?? { width: source.byteLength, height: 1, depth: 1 };
  const places = { source: source.placeOf(size), target: target.placeOf(size) };
  checkRowsOverlap(places.source, places.target, size);
  return { ...places, size, attributes: attributesOf(copy) };
}

function endOf(session: Session, end: BatchCopy["source"], what: string): CopyEnd {
  if (end instanceof PitchedArray) {
    if (sessionOfRows(end) !== session) throw errorOfAnotherCuda("copy rows");
    const rows = placeOfRows(end);
    const { width, height, depth } = rows.shape;
    return { rows, byteLength: width * height * depth, type: end.type, placeOf: () => rows.place };
  }
  if (end instanceof HostBuffer) {
    if (sessionOfHost(end) !== session) throw errorOfAnotherCuda("copy to or from a host buffer");
    const bytes = bytesOfHost(end);
    const placeOf = (size: RowsShape) => ({ bytes, ...withoutGaps(size) });
    return { rows: undefined, byteLength: end.byteLength, type: undefined, placeOf };
  }
  const allocation = allocationOf(end as unknown);
  if (allocation === undefined) {
    const advice = ArrayBuffer.isView(end as unknown)
      ? "use copyFrom or read for a typed array"
      : "give a DeviceBuffer, a HostBuffer or a PitchedArray";
    throw new TypeError(`Cannot use ${whatIs(end, "DeviceBuffer", "HostBuffer")} as ${what}: ${advice}`);
  }
  if (allocation.session !== session) throw errorOfAnotherCuda("copy to or from a buffer");
  const { address, byteLength } = end;
  const placeOf = (size: RowsShape) => ({ allocation, address, ...withoutGaps(size) });
  const { type } = end as { readonly type?: TypedArrayConstructor<TypedArray> };
  return { rows: undefined, byteLength, type, placeOf };
}

/** The number of rows of a copy up to which they are compared with other copies one by one. */
const maximumRows = 4096;

/** Throws if a copy writes what another one reads or writes, as far as that is cheap to find. */
function checkSeparate(copies: readonly CheckedCopy[]): void {
  const ranges = new Map<unknown, { begin: number; end: number; isWrite: boolean; copy: number }[]>();
  for (const [copy, { source, target, size: given }] of copies.entries()) {
    const { size, ends } = simplifiedRows(given, [source, target] as const);
    if (size.height * size.depth > maximumRows) continue;
    for (const [index, place] of [source, target].entries()) {
      const [memory, start] = "bytes" in place
        ? [place.bytes.buffer, place.bytes.byteOffset]
        : [undefined, Number(place.address)];
      const ofMemory = ranges.get(memory) ?? [];
      ranges.set(memory, ofMemory);
      for (let z = 0; z < size.depth; z++) {
        for (let y = 0; y < size.height; y++) {
          const begin = start + offsetOf({ x: 0, y, z }, ends[index as 0 | 1]);
          ofMemory.push({ begin, end: begin + size.width, isWrite: index === 1, copy });
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
  const [a, b] = [first, second].toSorted((one, other) => one.copy - other.copy) as [typeof first, typeof second];
  const does = (isWrite: boolean) => isWrite ? "writes" : "reads";
  throw new RangeError(
    `Cannot copy a batch: copy ${b.copy} ${does(b.isWrite)} what copy ${a.copy} ${does(a.isWrite)}, and they have no ` +
      "order; make two batches",
  );
}
