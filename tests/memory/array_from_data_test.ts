import { assertEquals, assertThrows } from "@std/assert";
import { CudaError, cudaErrorNumbers } from "../../src/support/errors.ts";
import type { TypedArray } from "../../src/support/validation.ts";
import { adaptedCuda } from "../support/adapted_driver.ts";
import { testOnEachDriver } from "../support/drivers.ts";

testOnEachDriver("an array is allocated from data, of the data's type and on the stream", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  const bytes = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
  const all: TypedArray[] = [
    bytes,
    bytes.subarray(3),
    new Int8Array(bytes),
    new Uint8ClampedArray(bytes),
    new Int16Array(bytes),
    new Uint16Array(bytes),
    new Float16Array([0.5, -2]),
    new Int32Array(bytes),
    new Uint32Array(bytes),
    new Float32Array([0.25, NaN]),
    new Float64Array([0.1]),
    new BigInt64Array([-1n]),
    new BigUint64Array([2n ** 64n - 1n]),
  ];
  for (const data of all) {
    for (const source of [pool, allocator]) {
      using array = source.allocateArray(data, stream);
      assertEquals([array.type, array.length, array.stream], [data.constructor as never, data.length, stream]);
      assertEquals(await array.toTypedArray(), data);
    }
  }
  using onDefaultStream = pool.allocateArray(bytes);
  assertEquals(onDefaultStream.stream, gpu.defaultStream);
  bytes.fill(0);
  assertEquals((await onDefaultStream.toTypedArray())[7], 8);
});

testOnEachDriver("the array of data of a subclass has the type of its class", async (cuda) => {
  class Samples extends Float32Array {}
  using pool = cuda.device(0).createPool();
  using array = pool.allocateArray(Samples.of(1, 2) as Float32Array);
  assertEquals(array.type, Float32Array);
  assertEquals(await array.toTypedArray(), new Float32Array([1, 2]));
});

testOnEachDriver("an array whose data cannot be copied leaves no memory behind", (_, { open }) => {
  const failing = () => {
    throw new CudaError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaMemcpyAsync");
  };
  const driver = open();
  using cuda = adaptedCuda(driver, { memcpyHtoDAsync: failing });
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  assertThrows(() => pool.allocateArray(new Float32Array(1024), stream), CudaError, "Cannot copy 4096 bytes");
  stream.synchronize();
  assertEquals(pool.usage().used, 0);
  assertThrows(() => allocator.allocateArray(new Float32Array(1024), stream), CudaError, "Cannot copy 4096 bytes");
  assertEquals(allocator.usage().buffers, 0);
});

testOnEachDriver("data without elements or without a type is refused before anything is allocated", (cuda) => {
  using pool = cuda.device(0).createPool();
  const { used } = pool.usage();
  assertThrows(() => pool.allocateArray(new Float32Array(0)), RangeError, "an array of 0 elements");
  assertThrows(() => pool.allocateArray([1, 2] as never), TypeError, "such as new Float32Array(numbers)");
  assertThrows(() => pool.allocateArray(new DataView(new ArrayBuffer(8)) as never), TypeError, "give a typed array");
  const transferred = new Float32Array(4);
  structuredClone(transferred.buffer, { transfer: [transferred.buffer] });
  assertThrows(() => pool.allocateArray(transferred), RangeError, "an array of 0 elements");
  assertEquals(pool.usage().used, used);
});
