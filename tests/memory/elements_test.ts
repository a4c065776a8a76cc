import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import type { DeviceArray } from "../../src/memory/device_array.ts";
import type { TypedArray, TypedArrayConstructor } from "../../src/support/validation.ts";
import { testOnEachDriver } from "../support/drivers.ts";

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

/** A value of each type whose bytes all differ, so that a fill with bytes or with a half cannot look right. */
const values: readonly (readonly [TypedArrayConstructor<TypedArray>, number | bigint])[] = [
  [Int8Array, -2],
  [Uint8Array, 254],
  [Uint8ClampedArray, 253],
  [Int16Array, -12345],
  [Uint16Array, 0xfedc],
  [Float16Array, 1.0009765625],
  [Int32Array, -19088744],
  [Uint32Array, 0xfedcba98],
  [Float32Array, Math.fround(0.1)],
  [Float64Array, 0.1],
  [BigInt64Array, -0x0123456789abcdefn],
  [BigUint64Array, 0xfedcba9876543210n],
];

testOnEachDriver("an array is filled with elements of its type, all of them or a range", async (cuda) => {
  using pool = cuda.device(0).createPool();
  for (const [type, value] of values) {
    using array = pool.allocateArray(type, 1001) as Anything as DeviceArray<Float32Array>;
    const zero: Anything = typeof value === "bigint" ? 0n : 0;
    array.fill(zero);
    array.fill(value, undefined, { begin: 3, end: 999 });
    const expected: Anything = new (type as typeof Float32Array)(1001);
    expected.fill(value, 3, 999);
    assertEquals(await array.toTypedArray(), expected);
    array.subarray(999).fill(value);
    array.subarray(0, 3).fill(value, array.stream);
    array.fill(zero, undefined, { begin: 5, end: 5 });
    assertEquals(await array.toTypedArray(), expected.fill(value));
  }
});

testOnEachDriver("a fill with 64-bit elements sets a range of any length, and nothing else", (cuda) => {
  const gpu = cuda.device(0);
  const { defaultStream } = gpu;
  for (const pool of [gpu.createPool(), cuda.createHostPool()]) {
    if (pool.device === undefined) pool.setAccess(gpu, "read-write");
    using array = pool.allocateArray(BigUint64Array, 30_000, defaultStream);
    const expected = new BigUint64Array(30_000);
    for (const length of [4095, 4096, 4097, 8192, 8193, 29_993]) {
      array.fill(0n);
      array.fill(0xfedcba9876543210n, defaultStream, { begin: 5, end: 5 + length });
      expected.fill(0n).fill(0xfedcba9876543210n, 5, 5 + length);
      assertEquals(array.readSync(BigUint64Array), expected);
    }
    array.free();
    pool[Symbol.dispose]();
  }
});

testOnEachDriver("an array is filled with values that only their bits distinguish", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using array = pool.allocateArray(Float64Array, 3);
  const bits = async (value: number) => {
    array.fill(value);
    return await array.read(BigUint64Array, { length: 1 });
  };
  assertEquals(await bits(-0), BigUint64Array.of(1n << 63n));
  assertEquals(await bits(Infinity), new BigUint64Array(Float64Array.of(Infinity).buffer));
  array.fill(NaN);
  assertEquals(await array.toTypedArray(), Float64Array.of(NaN, NaN, NaN));
  // Both halves are the same.
  using words = pool.allocateArray(BigUint64Array, 3);
  words.fill(0x0123456701234567n);
  assertEquals(await words.toTypedArray(), new BigUint64Array(3).fill(0x0123456701234567n));
  array.fill(0);
  array.fill(1, undefined, { byteOffset: 8, byteLength: 8 });
  assertEquals(await array.toTypedArray(), Float64Array.of(0, 1, 0));
});

testOnEachDriver("an array is not filled with what its type cannot represent", (cuda) => {
  using pool = cuda.device(0).createPool();
  const fill = (type: Anything, value: Anything, options?: Anything) => () => {
    using array = pool.allocateArray(type, 4);
    array.fill(value, undefined, options);
  };
  const refusals: [fill: () => void, error: new () => Error, message: string][] = [
    [fill(Uint8Array, 256), RangeError, "Cannot fill an array of Uint8Array elements with 256: an element is a whole"],
    [fill(Uint8ClampedArray, 300), RangeError, "from 0 to 255"],
    [fill(Int8Array, 128), RangeError, "from -128 to 127"],
    [fill(Int16Array, 1.5), RangeError, "from -32768 to 32767"],
    [fill(Uint16Array, -1), RangeError, "from 0 to 65535"],
    [fill(Uint32Array, 2 ** 32), RangeError, "from 0 to 4294967295"],
    [fill(Int32Array, NaN), RangeError, "from -2147483648 to 2147483647"],
    [
      fill(Float16Array, 65520),
      RangeError,
      "Cannot fill an array of Float16Array elements with 65520: it is too large",
    ],
    [fill(Float32Array, 1e39), RangeError, "too large for 32 bits"],
    [fill(BigInt64Array, 2n ** 63n), RangeError, "from -9223372036854775808 to 9223372036854775807"],
    [fill(BigUint64Array, -1n), RangeError, "from 0 to 18446744073709551615"],
    [fill(BigUint64Array, 7), TypeError, "with the number 7: give a bigint, such as 7n"],
    [fill(Float32Array, 7n), TypeError, "with the bigint 7: give a number"],
    [fill(Float32Array, "7"), TypeError, "with a string: give a number"],
    [fill(Float32Array, undefined), TypeError, "with undefined: give a number"],
    [fill(Float32Array, 1, { begin: 2, end: 5 }), RangeError, "Cannot fill elements 2 to 5 of an array: it has 4"],
    [fill(Float32Array, 1, { begin: 3, end: 2 }), RangeError, "elements 3 to 2"],
    [fill(Float32Array, 1, { begin: -1 }), RangeError, "elements -1 to 4"],
    [fill(Float32Array, 1, { begin: "1" }), TypeError, "Cannot use a string as the begin of a fill"],
    [fill(Float32Array, 1, { byteOffset: 2 }), RangeError, "its elements have 4 bytes; give begin and end"],
    [fill(Float32Array, 1, { byteOffset: 4, end: 3 }), TypeError, "give begin and end, or byteOffset and byteLength"],
    [fill(Float32Array, 1, 3), TypeError, "Cannot fill a buffer with 3 as its options"],
  ];
  for (const [attempt, error, message] of refusals) assertThrows(attempt, error, message);
  using buffer = pool.allocate(16);
  assertThrows(() => buffer.fill(0, undefined, { begin: 1 }), TypeError, "it has no elements; give byteOffset");
  assertThrows(() => buffer.fill(1n), TypeError, "Cannot use a bigint as a byte to fill with");
  using array = pool.allocateArray(Float32Array, 4);
  array.free();
  assertThrows(() => array.fill(1), ReferenceError, "freed");
});

testOnEachDriver(
  "an array is copied from its own type, integers of its size and memory without a type",
  async (cuda) => {
    using pool = cuda.device(0).createPool();
    using host = cuda.allocateHost(16);
    using plain = pool.allocate(16);
    using floats = pool.allocateArray(Float32Array, 4);
    using signed = pool.allocateArray(Int32Array, 4);
    plain.fill(0);
    new Float32Array(host.buffer).fill(0.5);
    const source = Float32Array.of(1, 2, 3, 4);
    floats.copyFrom(source);
    floats.copyFrom(new (class extends Float32Array {})(source));
    assertEquals(await floats.toTypedArray(), source);
    for (const untyped of [source.buffer, new DataView(source.buffer), host, plain]) floats.copyFrom(untyped);
    floats.copyTo(host);
    floats.copyTo(plain);
    // The same as `signed.set(Uint32Array.of(...))` in host memory.
    signed.copyFrom(Uint32Array.of(4294967295, 1, 2, 3));
    assertEquals(await signed.toTypedArray(), Int32Array.of(-1, 1, 2, 3));
    using unsigned = pool.allocateArray(Uint32Array, 4);
    unsigned.copyFrom(signed);
    signed.copyTo(unsigned);
    using clamped = pool.allocateArray(Uint8ClampedArray, 4);
    clamped.copyFrom(Uint8Array.of(1, 2, 3, 4));
    using bytes = pool.allocateArray(Uint8Array, 4);
    bytes.copyFrom(clamped);
    using big = pool.allocateArray(BigInt64Array, 1);
    big.copyFrom(BigUint64Array.of(1n));
  },
);

testOnEachDriver("an array is not copied from or to elements of another type, and the error says how", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using floats = pool.allocateArray(Float32Array, 4);
  using doubles = pool.allocateArray(Float64Array, 2);
  using words = pool.allocateArray(Uint32Array, 4);
  using clamped = pool.allocateArray(Uint8ClampedArray, 4);
  floats.fill(1);
  const refusals: [attempt: () => void, message: string][] = [
    [
      () => floats.copyFrom(Float64Array.of(1, 2)),
      "Cannot copy from a Float64Array to an array of Float32Array elements: its bytes would become other values; " +
      "convert it to a Float32Array first, or copy the bytes as they are to array.as(Float64Array)",
    ],
    [() => floats.copyFrom(Int32Array.of(1)), "Cannot copy from an Int32Array"],
    [() => floats.copyFrom(Uint8Array.of(1, 2, 3, 4)), "Cannot copy from a Uint8Array"],
    [() => words.copyFrom(Uint16Array.of(1, 2)), "Cannot copy from a Uint16Array"],
    [() => clamped.copyFrom(Int8Array.of(-1)), "Cannot copy from an Int8Array"],
    [() => words.copyFrom(BigUint64Array.of(1n)), "Cannot copy from a BigUint64Array"],
    [() => floats.copyFrom(doubles), "Cannot copy an array of Float64Array elements to one of Float32Array elements"],
    [() => doubles.copyTo(floats), "Cannot copy an array of Float64Array elements to one of Float32Array elements"],
    [() => words.copyFrom(floats), "target.as(Float32Array)"],
  ];
  for (const [attempt, message] of refusals) assertThrows(attempt, TypeError, message);
  assertEquals(await floats.toTypedArray(), Float32Array.of(1, 1, 1, 1));
  floats.as(Float64Array).copyFrom(Float64Array.of(1, 2));
  assertEquals(await floats.as(Float64Array).toTypedArray(), Float64Array.of(1, 2));
});

testOnEachDriver("a buffer is seen as elements of a type, without a copy", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using stream = cuda.device(0).createStream();
  using buffer = pool.allocate(16, stream);
  const words = buffer.as(Uint32Array);
  assertEquals([words.length, words.byteLength, words.type, words.address], [4, 16, Uint32Array, buffer.address]);
  assertEquals(words.stream, stream);
  words.fill(0x3f800000);
  assertEquals(await buffer.as(Float32Array).toTypedArray(), Float32Array.of(1, 1, 1, 1));
  assertEquals(await words.subarray(1, 3).as(Float32Array).toTypedArray(), Float32Array.of(1, 1));
  words[Symbol.dispose]();
  assertThrows(
    () => words.free(),
    TypeError,
    "Cannot free a part of a buffer, or what as() returns of it: free the whole buffer",
  );
  assertThrows(() => buffer.as(DataView as Anything), TypeError, "Cannot use the function DataView as the type");
  assertThrows(
    () => buffer.subarray(2, 10).as(Float32Array),
    RangeError,
    "as a Float32Array: its address must be a multiple of 4; use subarray to begin elsewhere",
  );
  assertThrows(
    () => buffer.subarray(0, 15).as(Float64Array),
    RangeError,
    "Cannot see 15 bytes as a Float64Array: its elements have 8 bytes each; use subarray for a part",
  );
  buffer.free();
  assertThrows(() => words.fill(1), ReferenceError, "freed");
  assertThrows(() => buffer.as(Uint8Array), ReferenceError, "freed");
});

testOnEachDriver("an array is read as its type, or as integers that show its bits", async (cuda) => {
  using pool = cuda.device(0).createPool();
  using floats = pool.allocateArray(Float32Array, 2);
  using counts = pool.allocateArray(Uint32Array, 2);
  floats.fill(1);
  counts.fill(0xffff_ffff);
  assertEquals(await floats.read(Float32Array), Float32Array.of(1, 1));
  assertEquals(floats.readSync(Uint32Array), Uint32Array.of(0x3f800000, 0x3f800000));
  assertEquals(await floats.read(BigUint64Array), BigUint64Array.of(0x3f8000003f800000n));
  assertEquals(floats.readSync(Uint8Array, { length: 4 }), Uint8Array.of(0, 0, 128, 63));
  assertEquals(counts.readSync(Int32Array), Int32Array.of(-1, -1));
  const message = "Cannot read an array of Float32Array elements as Float64Array";
  await assertRejects(() => floats.read(Float64Array), TypeError, message);
  assertThrows(() => floats.readSync(Float64Array), TypeError, message);
  assertThrows(() => floats.readSync(Int32Array), TypeError, "or array.as(Int32Array) for the bytes as they are");
  assertEquals(floats.as(Float64Array).readSync(Float64Array).length, 1);
});

testOnEachDriver("a copy within a buffer is refused if its ranges overlap", async (cuda, { open }) => {
  using pool = cuda.device(0).createPool();
  using array = pool.allocateArray(Uint32Array, 8);
  array.copyFrom(Uint32Array.of(0, 1, 2, 3, 4, 5, 6, 7));
  for (const [from, fromEnd, to, toEnd] of [[0, 4, 3, 7], [3, 7, 0, 4], [2, 4, 2, 4]] as const) {
    const [source, target] = [array.subarray(from, fromEnd), array.subarray(to, toEnd)];
    const message = `Cannot copy bytes ${4 * from} to ${4 * fromEnd} of a buffer to its bytes ${4 * to} to ${
      4 * toEnd
    }`;
    assertThrows(() => target.copyFrom(source), RangeError, message);
    assertThrows(() => source.copyTo(target), RangeError, message);
  }
  array.subarray(0, 4).copyFrom(array.subarray(4, 8));
  array.subarray(4, 6).copyFrom(array.subarray(2, 4));
  array.subarray(3, 3).copyFrom(array.subarray(3, 3));
  assertEquals(await array.toTypedArray(), Uint32Array.of(4, 5, 6, 7, 6, 7, 6, 7));
  using other = new Cuda(new Session(open()));
  using host = other.allocateHost(16);
  const message = "Cannot copy to or from a host buffer of another Cuda object";
  assertThrows(() => array.copyFrom(host), TypeError, message);
  assertThrows(() => array.copyTo(host), TypeError, message);
});

testOnEachDriver("elements cannot be accessed by index or iteration", (cuda) => {
  using pool = cuda.device(0).createPool();
  using array: Anything = pool.allocateArray(Float32Array, 4);
  using buffer: Anything = pool.allocate(4);
  using host: Anything = cuda.allocateHost(4);
  for (const [object, name] of [[array, "DeviceArray"], [buffer, "DeviceBuffer"], [host, "HostBuffer"]]) {
    assertThrows(() => object[0], TypeError, `Cannot read an element of a ${name} by its index: `);
    assertThrows(() => object[0] = 1, TypeError, `Cannot write an element of a ${name} by its index: `);
    for (const iterate of [() => [...object], () => new Float32Array(object), () => Array.from(object)]) {
      assertThrows(iterate, TypeError, `Cannot iterate over a ${name}: `);
    }
    // Whoever prints or compares objects must not meet these errors.
    assertMatch(inspect(object), new RegExp(`^${name} {`));
    assert(inspect(Object.getPrototypeOf(object)) !== "");
    assertEquals(object, object);
    assert(Object.keys(object).every((key) => key !== "0"));
    assertEquals(Object.getPrototypeOf(object)[0], undefined);
  }
});

testOnEachDriver("an ArrayBuffer that was transferred cannot be copied from", (cuda) => {
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(16);
  const bytes = new Uint8Array(16);
  const { buffer: memory } = bytes;
  structuredClone(memory, { transfer: [memory] });
  for (const source of [bytes, memory]) {
    assertThrows(() => buffer.copyFrom(source), TypeError, "Cannot copy from an ArrayBuffer that was transferred");
  }
  buffer.copyFrom(new Uint8Array(0));
  buffer.copyFrom(new ArrayBuffer(0));
});

testOnEachDriver("with POOLPASS_DEBUG=1, the error of a freed buffer says where it was freed", (_, { open }) => {
  using debugged = new Cuda(new Session(open(), { debug: true }));
  using pool = debugged.device(0).createPool();
  const array = pool.allocateArray(Float32Array, 4);
  const part = array.subarray(1);
  array.free();
  const place = /it was freed at .*elements_test\.ts/;
  assertMatch(assertThrows(() => array.fill(0), ReferenceError).message, place);
  assertMatch(assertThrows(() => array.free(), ReferenceError).message, place);
  const { message } = assertThrows(() => part.fill(0), ReferenceError);
  assertMatch(message, /^Cannot use the buffer of 12 bytes: it is part of a buffer of 16 bytes, and it was freed at /);
});
