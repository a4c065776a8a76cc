/**
 * The calls of `CudaDriver` about managed memory, and about pools by location. They go to libcuda: its handles are those
 * of the runtime.
 *
 * @module
 */
import {
  type Driver,
  type MemLocation,
  memLocationType,
  type MemoryRange,
  memRangeAttribute,
  noDevice,
} from "../src/driver.ts";
import { minimumVersions, newerVersionNeeded } from "./cuda_libraries.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import type { libcuda } from "./libcuda.ts";
import { encodeLocation } from "./structs.ts";

/** The calls of a driver about managed memory, and about pools by location. */
export type ManagedCalls = Pick<
  Driver,
  | "mallocManaged"
  | "memPrefetchAsync"
  | "memDiscardBatchAsync"
  | "memDiscardAndPrefetchBatchAsync"
  | "memAdvise"
  | "memRangeGetAttribute"
  | "memGetDefaultMemPool"
  | "memGetMemPool"
  | "memSetMemPool"
>;

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  makeAnyCurrent(): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
  /** Whether the installed libcuda lacks a function. */
  lacks(name: keyof typeof libcuda): boolean;
}

/** `CU_MEM_ATTACH_GLOBAL`: any stream on any device may access the memory. */
const attachGlobal = 1;
const intByteLength = 4;
/** The attributes that are locations, and the attributes of before CUDA 12.2, whose values are devices. */
const { preferredLocationType, preferredLocationId, lastPrefetchLocationType, lastPrefetchLocationId } =
  memRangeAttribute;
const olderAttributes: Readonly<Record<number, { readonly attribute: number; readonly isType: boolean }>> = {
  [preferredLocationType]: { attribute: 2, isType: true },
  [preferredLocationId]: { attribute: 2, isType: false },
  [lastPrefetchLocationType]: { attribute: 4, isType: true },
  [lastPrefetchLocationId]: { attribute: 4, isType: false },
};

const wordOut = new BigUint64Array(1);
const out = new Uint8Array(wordOut.buffer);
const intOut = new Int32Array(wordOut.buffer);

/** Returns the calls of a driver about managed memory, and about pools by location. */
export function managedCalls(
  cuda: DriverFunctions,
  { makeCurrent, makeAnyCurrent, check, lacks }: DriverServices,
): ManagedCalls {
  /** Returns a location as the device of calls of before CUDA 12.2. */
  const olderLocation = ({ type, id }: MemLocation, { call, symbol }: { call: string; symbol: string }): number => {
    if (type === memLocationType.device) return id;
    if (type === memLocationType.host) return noDevice.host;
    check(cuda.cuDriverGetVersion(out), "cudaDriverGetVersion");
    const [version, minimum] = [intOut[0]!, minimumVersions[symbol]!];
    throw newerVersionNeeded(call, { what: "a NUMA node as the location of managed memory", minimum, version });
  };

  /** Returns an attribute of one integer. Translates locations if the driver is too old for their attributes. */
  const rangeAttribute = (attribute: number, address: bigint, byteLength: number): number => {
    const call = "cudaMemRangeGetAttribute";
    const older = lacks("cuMemPrefetchAsync_v2") ? olderAttributes[attribute] : undefined;
    const asked = older?.attribute ?? attribute;
    check(cuda.cuMemRangeGetAttribute(out, BigInt(intByteLength), asked, address, BigInt(byteLength)), call);
    const value = intOut[0]!;
    if (older === undefined || !older.isType) return value;
    if (value === noDevice.invalid) return memLocationType.none;
    return value === noDevice.host ? memLocationType.host : memLocationType.device;
  };

  const makeOneCurrent = ({ type, id }: MemLocation): void => {
    if (type === memLocationType.device) makeCurrent(id);
    else makeAnyCurrent();
  };

  return {
    mallocManaged(device, byteLength) {
      makeCurrent(device);
      check(cuda.cuMemAllocManaged(out, BigInt(byteLength), attachGlobal), "cudaMallocManaged");
      return wordOut[0]!;
    },
    memPrefetchAsync(device, address, byteLength, location, stream) {
      const call = "cudaMemPrefetchAsync", symbol = "cuMemPrefetchAsync_v2";
      const count = BigInt(byteLength);
      makeCurrent(device);
      const result = lacks(symbol)
        ? cuda.cuMemPrefetchAsync(address, count, olderLocation(location, { call, symbol }), stream)
        : cuda.cuMemPrefetchAsync_v2(address, count, packed(location), 0, stream);
      check(result, call);
    },
    memDiscardBatchAsync(device, ranges, stream) {
      makeCurrent(device);
      const result = cuda.cuMemDiscardBatchAsync(
        addressesOf(ranges),
        sizesOf(ranges),
        BigInt(ranges.length),
        0n,
        stream,
      );
      check(result, "cudaMemDiscardBatchAsync");
    },
    memDiscardAndPrefetchBatchAsync(device, ranges, location, stream) {
      makeCurrent(device);
      const result = cuda.cuMemDiscardAndPrefetchBatchAsync(
        addressesOf(ranges),
        sizesOf(ranges),
        BigInt(ranges.length),
        encodeLocation(location),
        // One location, from the first range on.
        words([0n]),
        1n,
        0n,
        stream,
      );
      check(result, "cudaMemDiscardAndPrefetchBatchAsync");
    },
    memAdvise(device, address, byteLength, advice, location) {
      const call = "cudaMemAdvise", symbol = "cuMemAdvise_v2";
      const count = BigInt(byteLength);
      makeCurrent(device);
      const result = lacks(symbol)
        ? cuda.cuMemAdvise(address, count, advice, olderLocation(location, { call, symbol }))
        : cuda.cuMemAdvise_v2(address, count, advice, packed(location));
      check(result, call);
    },
    memRangeGetAttribute(device, attribute, address, byteLength, count = 1) {
      makeCurrent(device);
      if (attribute !== memRangeAttribute.accessedBy) return [rangeAttribute(attribute, address, byteLength)];
      const values = new Int32Array(count);
      const result = cuda.cuMemRangeGetAttribute(
        new Uint8Array(values.buffer),
        BigInt(values.byteLength),
        attribute,
        address,
        BigInt(byteLength),
      );
      check(result, "cudaMemRangeGetAttribute");
      return [...values];
    },
    memGetDefaultMemPool(location, allocationType) {
      makeOneCurrent(location);
      const result = cuda.cuMemGetDefaultMemPool(out, encodeLocation(location), allocationType);
      check(result, "cudaMemGetDefaultMemPool");
      return wordOut[0]!;
    },
    memGetMemPool(location, allocationType) {
      makeOneCurrent(location);
      check(cuda.cuMemGetMemPool(out, encodeLocation(location), allocationType), "cudaMemGetMemPool");
      return wordOut[0]!;
    },
    memSetMemPool(location, allocationType, pool) {
      makeOneCurrent(location);
      check(cuda.cuMemSetMemPool(encodeLocation(location), allocationType, pool), "cudaMemSetMemPool");
    },
  };
}

/** Returns a location as the 8 bytes that a call receives by value. */
function packed({ type, id }: MemLocation): bigint {
  return BigInt(type) | BigInt.asUintN(32, BigInt(id)) << 32n;
}

function addressesOf(ranges: readonly MemoryRange[]): Uint8Array {
  return words(ranges.map(({ address }) => address));
}

function sizesOf(ranges: readonly MemoryRange[]): Uint8Array {
  return words(ranges.map(({ byteLength }) => BigInt(byteLength)));
}

function words(values: readonly bigint[]): Uint8Array {
  return new Uint8Array(new BigUint64Array(values).buffer);
}
