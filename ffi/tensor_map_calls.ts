/**
 * The calls of `CudaDriver` that encode tensor maps. They go to libcuda.
 *
 * @module
 */
import type { Driver, TiledTensor } from "../src/driver.ts";
import type { DriverFunctions } from "./driver_equivalents.ts";
import { addressOf, withoutSign } from "./native/host.ts";

/** The calls of a driver that encode tensor maps. */
export type TensorMapCalls = Pick<Driver, "tensorMapEncodeTiled" | "tensorMapEncodeIm2col">;

/** What the calls need of the driver that they belong to. */
interface DriverServices {
  makeCurrent(device: number): void;
  /** Throws the error of a call unless its result is 0. */
  check(result: number, call: string): void;
}

const tensorMapBytes = 128;
/** The alignment of the memory in which CUDA encodes a tensor map. */
const tensorMapAlignment = 64;

/** Returns the calls of a driver that encode tensor maps. */
export function tensorMapCalls(cuda: DriverFunctions, { makeCurrent, check }: DriverServices): TensorMapCalls {
  return {
    tensorMapEncodeTiled(device, tensor) {
      makeCurrent(device);
      const map = alignedMap();
      const result = cuda.cuTensorMapEncodeTiled(
        map,
        ...tensorOf(tensor),
        words(tensor.boxDim),
        words(tensor.elementStrides),
        ...modesOf(tensor),
      );
      check(result, "cuTensorMapEncodeTiled");
      return map.slice();
    },
    tensorMapEncodeIm2col(device, tensor) {
      makeCurrent(device);
      const map = alignedMap();
      const result = cuda.cuTensorMapEncodeIm2col(
        map,
        ...tensorOf(tensor),
        words(tensor.pixelBoxLowerCorner),
        words(tensor.pixelBoxUpperCorner),
        withoutSign(tensor.channelsPerPixel),
        withoutSign(tensor.pixelsPerColumn),
        words(tensor.elementStrides),
        ...modesOf(tensor),
      );
      check(result, "cuTensorMapEncodeIm2col");
      return map.slice();
    },
  };
}

/** Returns memory for a tensor map, at an address that CUDA accepts. */
function alignedMap(): Uint8Array<ArrayBuffer> {
  const storage = new Uint8Array(tensorMapBytes + tensorMapAlignment);
  const begin = Number(-addressOf(storage) & BigInt(tensorMapAlignment - 1));
  return storage.subarray(begin, begin + tensorMapBytes);
}

function tensorOf(
  { dataType, address, globalDim, globalStrides }: Omit<TiledTensor, "boxDim">,
): [type: number, rank: number, address: bigint, dimensions: Uint8Array, strides: Uint8Array] {
  return [dataType, globalDim.length, address, wideWords(globalDim), wideWords(globalStrides)];
}

function modesOf(
  { interleave, swizzle, l2Promotion, oobFill }: Omit<TiledTensor, "boxDim">,
): [interleave: number, swizzle: number, l2Promotion: number, oobFill: number] {
  return [interleave, swizzle, l2Promotion, oobFill];
}

/** Returns numbers as an array of 32-bit integers. */
function words(numbers: readonly number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(numbers).buffer);
}

/** Returns numbers as an array of 64-bit integers. It is never empty, because CUDA refuses a null pointer. */
function wideWords(numbers: readonly number[]): Uint8Array {
  const array = new BigUint64Array(Math.max(1, numbers.length));
  numbers.forEach((number, index) => array[index] = BigInt(number));
  return new Uint8Array(array.buffer);
}
