/**
 * Checks of the arguments of collectives: elements, ranges, ranks and streams.
 *
 * @module
 */
import { dataType, reductionOperation } from "../collective_library.ts";
import type { Allocation } from "../memory/allocation.ts";
import { DeviceArray } from "../memory/device_array.ts";
import { allocationOf, type DeviceBuffer } from "../memory/device_buffer.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { checkStream, type CudaStream } from "../objects/streams/cuda_stream.ts";
import { optionsOf, type OrStream } from "../objects/streams/stream_option.ts";
import type { Session } from "../session.ts";
import {
  checkNumber,
  checkOptions,
  didYouMean,
  errorOfAnotherCuda,
  type KnownOptions,
  shown,
  whatIs,
} from "../support/validation.ts";
import { countOf } from "../support/printing.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** How a collective combines the elements of the ranks. */
export type Reduction = "sum" | "product" | "minimum" | "maximum" | "average";

/** The element types without a typed array: bfloat16, and two 8-bit floats. */
export type CommunicationType = "bf16" | "f8e4m3" | "f8e5m2";

/** Options of a collective. */
export interface CollectiveOptions {
  /**
   * The stream to enqueue on, which must belong to the communicator's device. Defaults to the stream of the first
   * buffer.
   */
  stream?: CudaStream;
  /** The element type, if the buffer has no type or if its bits represent another type. */
  type?: CommunicationType;
}

/** Describes the options of a collective, for validation by `checkOptions`. */
export const collectiveOptions: KnownOptions<CollectiveOptions> = {
  action: "call a collective",
  names: { stream: true, type: true },
  instead: { op: 'give the reduction before the options, such as "maximum"' },
};

/** An element type, as NCCL identifies it. */
export interface Elements {
  /** The type's number, as in `dataType`. */
  readonly type: number;
  /** The size of an element in bytes. */
  readonly size: number;
}

/** The element type of collectives that only move bytes. */
export const bytes: Elements = { type: dataType.uint8, size: 1 };

const typesOfArrays: Readonly<Record<string, Elements>> = {
  Int8Array: { type: dataType.int8, size: 1 },
  Uint8Array: bytes,
  Int32Array: { type: dataType.int32, size: 4 },
  Uint32Array: { type: dataType.uint32, size: 4 },
  BigInt64Array: { type: dataType.int64, size: 8 },
  BigUint64Array: { type: dataType.uint64, size: 8 },
  Float16Array: { type: dataType.float16, size: 2 },
  Float32Array: { type: dataType.float32, size: 4 },
  Float64Array: { type: dataType.float64, size: 8 },
};
const namedTypes: Readonly<Record<CommunicationType, Elements>> = {
  bf16: { type: dataType.bfloat16, size: 2 },
  f8e4m3: { type: dataType.float8e4m3, size: 1 },
  f8e5m2: { type: dataType.float8e5m2, size: 1 },
};

/** The parts of a communicator that argument checks use. */
export interface CheckedCommunicator {
  readonly session: Session;
  readonly device: CudaDevice;
  readonly rank: number;
  readonly size: number;
}

/** Returns the allocation of a buffer. Throws unless the communicator can use the buffer. */
export function checkBuffer(buffer: DeviceBuffer, { session, device }: CheckedCommunicator, call: string): Allocation {
  const allocation = allocationOf(buffer as unknown) as Allocation | undefined;
  if (allocation === undefined) {
    throw new TypeError(
      `Cannot call ${call} with ${whatIs(buffer, "DeviceBuffer", "DeviceArray")}: give a DeviceBuffer or a DeviceArray`,
    );
  }
  if (allocation.session !== session) throw errorOfAnotherCuda("use a buffer");
  if (allocation.device !== device && !allocation.owner.isHostMemory) {
    throw new RangeError(
      `Cannot call ${call} with a buffer on device ${allocation.device.ordinal}: the communicator is one of device ` +
        `${device.ordinal}; copy to a buffer there first`,
    );
  }
  return allocation;
}

/**
 * Returns the stream on which to enqueue a collective: the option `stream`, or else the stream of the buffer. Throws if
 * the stream belongs to another device.
 */
export function streamFor(
  options: CollectiveOptions,
  buffer: DeviceBuffer,
  { session, device }: CheckedCommunicator,
): CudaStream {
  const { stream = buffer.stream } = options;
  checkStream(stream, session, "{ stream }");
  if (stream.device === device) return stream;
  throw new RangeError(
    `Cannot use a stream of device ${stream.device.ordinal}: the communicator is one of device ${device.ordinal}`,
  );
}

/** Returns the options of a collective, which may be given as the stream alone. Throws unless they are valid. */
export function checkedCollectiveOptions(given: OrStream<CollectiveOptions>): CollectiveOptions {
  const options = optionsOf(given);
  checkOptions(options, collectiveOptions);
  const { type } = options;
  if (type === undefined || Object.hasOwn(namedTypes, type)) return options;
  throw new TypeError(
    `Cannot use ${shown(type)} as the type of elements: it must be "bf16", "f8e4m3" or "f8e5m2"; for another type, ` +
      `give buffer.as(Float32Array), or the like${didYouMean(type, Object.keys(namedTypes))}`,
  );
}

/** Returns the element type of the buffers of a reduction. */
export function reducedElements(
  source: DeviceBuffer,
  target: DeviceBuffer,
  { options: { type }, call }: { options: CollectiveOptions; call: string },
): Elements {
  if (type !== undefined) return namedTypes[type];
  const first = arrayTypeOf(source), second = arrayTypeOf(target);
  if (first !== undefined && second !== undefined && first !== second) {
    throw new TypeError(
      `Cannot call ${call} with elements of ${first.name} and of ${second.name}: give two of one type`,
    );
  }
  const found = first ?? second;
  if (found === undefined) {
    throw new TypeError(
      `Cannot call ${call} with a buffer that has no type: give an array, such as buffer.as(Float32Array), or ` +
        '{ type: "bf16" }',
    );
  }
  const { name, elements } = found;
  if (elements !== undefined) return elements;
  throw new TypeError(
    `Cannot call ${call} with elements of ${name}: NCCL has no such type; convert them to another, such as ` +
      `${name.includes("16") ? "Int32Array" : "Uint8Array"}`,
  );
}

/** A typed array class and the corresponding NCCL type, if there is one. */
interface ArrayType {
  readonly name: string;
  readonly elements: Elements | undefined;
}

const arrayTypes = new Map<string, ArrayType>();
/** The array types that `arrayTypeOf` has found, keyed by the constructor of a typed array or of a subclass. */
const arrayTypesOf = new WeakMap<object, ArrayType>();

/** Returns the typed array class of a buffer's elements. Undefined if the buffer has no type. */
function arrayTypeOf(buffer: DeviceBuffer): ArrayType | undefined {
  if (!(buffer instanceof DeviceArray)) return undefined;
  const known = arrayTypesOf.get(buffer.type);
  if (known !== undefined) return known;
  let constructor: { readonly name: string } | null = buffer.type;
  while (constructor !== null && !/^(Big)?(Ui|I)nt\d+(Clamped)?Array$|^Float\d+Array$/.test(constructor.name)) {
    constructor = Object.getPrototypeOf(constructor);
  }
  const { name } = constructor ?? buffer.type;
  let type = arrayTypes.get(name);
  if (type === undefined) {
    arrayTypes.set(
      name,
      type = { name, elements: Object.hasOwn(typesOfArrays, name) ? typesOfArrays[name] : undefined },
    );
  }
  arrayTypesOf.set(buffer.type, type);
  return type;
}

/** Returns the number of elements in `byteLength` bytes. Throws if the last element would be incomplete. */
export function countElements(byteLength: number, { size }: Elements, call: string): number {
  if (byteLength % size === 0) return byteLength / size;
  throw new RangeError(
    `Cannot call ${call} with ${countOf(byteLength, "byte")}: its elements have ${size} bytes each; give a part, by ` +
      "subarray",
  );
}

/** Returns the number of elements in each rank's part of a buffer. Throws if the buffer cannot be divided evenly. */
export function countForEach(
  { byteLength }: DeviceBuffer,
  elements: Elements,
  { size, call }: { size: number; call: string },
): number {
  const count = countElements(byteLength, elements, call);
  if (count % size === 0) return count / size;
  throw new RangeError(
    `Cannot call ${call} with a source of ${countOf(count, "element")} among ${
      countOf(size, "rank")
    }: it must have as ` +
      "many for each",
  );
}

/** Throws unless the buffer for the result has at least `needed` bytes. */
export function checkTargetSize({ byteLength }: DeviceBuffer, needed: number, call: string): void {
  if (byteLength >= needed) return;
  throw new RangeError(
    `Cannot call ${call} with a target of ${
      countOf(byteLength, "byte")
    }: it gets ${needed}; give a larger one, or a part ` +
      "of the source, by subarray",
  );
}

/** A range of device addresses. */
interface AddressRange {
  readonly address: bigint;
  readonly byteLength: number;
}

/**
 * Throws if the source and the target overlap, unless the collective is in place.
 *
 * @param inPlace whether the collective is in place
 * @param how the error's advice about which buffers to pass for an in-place call; undefined if the collective has no
 * in-place form
 */
export function checkApart(
  source: AddressRange,
  target: AddressRange,
  { call, inPlace, how }: { call: string; inPlace: boolean; how: string | undefined },
): void {
  if (inPlace || !overlap(source, target)) return;
  throw new RangeError(
    `Cannot call ${call}: its source and its target overlap; ${
      how === undefined ? "give two buffers" : `give two buffers, or, in place, ${how}`
    }`,
  );
}

function overlap(source: AddressRange, target: AddressRange): boolean {
  // Device addresses are small enough for numbers to represent them exactly.
  const [from, to] = [Number(source.address), Number(target.address)];
  return from < to + target.byteLength && to < from + source.byteLength;
}

/** Returns the `ncclRedOp_t` value of a reduction. */
export function operationOf(reduction: Reduction): number {
  if (Object.hasOwn(reductionOperation, reduction)) return reductionOperation[reduction];
  const names = Object.keys(reductionOperation);
  throw new TypeError(
    `Cannot reduce by ${shown(reduction)}: it must be ${names.map((name) => `"${name}"`).join(", ")}${
      didYouMean(reduction, names)
    }`,
  );
}

/** Throws unless `rank` is an integer from 0 to `size` - 1. `what` describes the rank in the message. */
export function checkRank(rank: number, size: number, what: string): void {
  checkNumber(rank, what);
  if (Number.isInteger(rank) && rank >= 0 && rank < size) return;
  throw new RangeError(`Cannot use ${rank} as ${what}: ranks are whole numbers from 0 to ${size - 1}`);
}
