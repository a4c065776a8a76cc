import { assertEquals, assertThrows } from "@std/assert";
import type { TypedArray, TypedArrayConstructor } from "../../src/support/validation.ts";
import { testOnEachDriver } from "../support/drivers.ts";

testOnEachDriver("an array is allocated and viewed with a shape and a dtype", async (cuda) => {
  const gpu = cuda.device(0);
  assertEquals(gpu.cuda, cuda);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  for (const source of [pool, allocator]) {
    using array = source.allocateArray(Float32Array, { shape: [2, 3] }, stream);
    assertEquals([array.length, array.byteLength, array.dtype, [...array.shape]], [6, 24, "float32", [2, 3]]);
    array.copyFrom(new Float32Array([1, 2, 3, 4, 5, 6]));
    const pairs = array.as(Uint16Array, { shape: [3, 4], dtype: "bfloat16" });
    assertEquals([pairs.length, pairs.dtype, [...pairs.shape]], [12, "bfloat16", [3, 4]]);
    assertEquals([pairs.subarray(1, 3).dtype, [...pairs.subarray(1, 3).shape]], ["bfloat16", [2]]);
    assertEquals((await pairs.toTypedArray())[1], 0x3f80);
    const complex = array.as(Float32Array, { dtype: "complex64" });
    assertEquals([complex.length, [...complex.shape], complex.subarray(1, 3).dtype], [6, [3], "float32"]);
    assertEquals([...array.as(Uint8Array, { dtype: "float4_e2m1fn" }).shape], [48]);
    // No dimensions are one element, and a dimension of 0 none.
    using scalar = source.allocateArray(Uint8Array, { shape: [] }, stream);
    assertEquals([scalar.length, [...scalar.shape]], [1, []]);
    using empty = source.allocateArray(Uint16Array, { shape: [2 ** 50, 0], dtype: "bfloat16" }, stream);
    assertEquals([empty.length, [...empty.shape], await empty.toTypedArray()], [0, [2 ** 50, 0], new Uint16Array()]);
  }
});

testOnEachDriver("wrong shapes and dtypes are refused", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using buffer = pool.allocate(12);
  type Type = TypedArrayConstructor<TypedArray>;
  for (
    const [type, options, message] of [
      [Float32Array, [2, 3], "as the length of an array: give it as { shape: [2, 3] }"],
      [Float32Array, { shape: 3 }, "Cannot use 3 as a shape: give an array of numbers, such as [480, 640]"],
      [Float32Array, { shape: [2, -1] }, "Cannot use [2,-1] as a shape: -1 is not a whole number of elements"],
      [Float32Array, { shape: [2 ** 40, 2 ** 40] }, "are not whole bytes"],
      [Float32Array, { shape: Array(65).fill(1) }, "Cannot use a shape of 65 dimensions: it may have 64"],
      [
        Float32Array,
        { shape: [3], dtype: "bfloat16" },
        "Cannot see bfloat16 elements as a Float32Array: give Uint16Arr",
      ],
      [Uint16Array, { shape: [3], dtype: "bfloat61" }, 'there is no such dtype; did you mean "bfloat16"?'],
      [Uint8Array, { shape: [3], dtype: "float4_e2m1fn" }, "its 12 bits are not whole bytes"],
      [Uint8Array, { dtype: "bool" }, "Cannot allocate an array without its shape: give { shape }"],
    ] as unknown as [Type, never, string][]
  ) {
    assertThrows(() => pool.allocateArray(type, options), Error, message);
  }
  const wrong = "Cannot see 12 bytes as float32 elements of shape [4]: they have 16 bytes";
  assertThrows(() => buffer.as(Float32Array, { shape: [4] }), RangeError, wrong);
  const complex = "Cannot see 12 bytes as complex64 elements: they have 64 bits each";
  assertThrows(() => buffer.as(Float32Array, { dtype: "complex64" }), RangeError, complex);
});
