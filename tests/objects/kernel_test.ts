import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../../kernels/fill.ts";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { CudaError } from "../../src/support/errors.ts";
import type { DeviceAttributeName } from "../../src/support/device_attributes.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaModule } from "../../src/objects/modules/cuda_module.ts";
import { Session } from "../../src/session.ts";
import { testOnEachDriver } from "../support/drivers.ts";

testOnEachDriver("saxpy computes the results of IEEE arithmetic", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const length = 100_003;
  using x = pool.allocateArray(Float32Array, length, stream);
  using y = pool.allocateArray(Float32Array, length, stream);
  const xs = Float32Array.from({ length }, (_, index) => Math.sin(index));
  const ys = Float32Array.from({ length }, (_, index) => Math.cos(index) * 1e3);
  x.copyFrom(xs);
  y.copyFrom(ys);
  using module = gpu.loadModule(saxpyPtx);
  const saxpy = module.kernel("saxpy");
  assertEquals(module.kernelNames, ["saxpy"]);
  assertEquals(saxpy.parameters, ["u32", "f32", "u64", "u64"]);
  saxpy.launch({ grid: 17, block: 128, stream }, length, 2.5, x, y);
  const expected = ys.map((value, index) => Math.fround(Math.fround(2.5 * xs[index]!) + value));
  assertEquals(await y.toTypedArray(), expected);
});

testOnEachDriver("fill writes exactly the requested bytes", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using module = gpu.loadModule(fillPtx);
  const fill = module.kernel("fill");
  for (const byteLength of [1, 2, 3, 4, 5, 1023, 4096]) {
    using buffer = pool.allocate(byteLength + 8);
    buffer.fill(0xee);
    fill.launch({ grid: 2, block: 64 }, buffer, byteLength, 0x44332211);
    const bytes = await buffer.read(Uint8Array);
    const pattern = [0x11, 0x22, 0x33, 0x44];
    assertEquals(
      bytes,
      bytes.map((_, index) => index < byteLength ? pattern[index % 4]! : 0xee),
      `${byteLength} bytes`,
    );
  }
});

testOnEachDriver("arguments that do not match the parameters are refused before the launch", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using buffer = pool.allocate(64);
  using module: CudaModule = gpu.loadModule(saxpyPtx);
  const saxpy = module.kernel("saxpy");
  const shape = { grid: 1, block: 32 };
  assertThrows(
    () => saxpy.launch(shape, 1, 2, buffer),
    TypeError,
    "3 arguments (1, 2, a DeviceBuffer): it has 4 parameters: u32, f32",
  );
  assertThrows(() => saxpy.launch(shape, 1.5, 2, buffer, buffer), RangeError, "parameter 0 (u32)");
  assertThrows(() => saxpy.launch(shape, 2 ** 32, 2, buffer, buffer), RangeError, "parameter 0 (u32)");
  assertThrows(() => saxpy.launch(shape, 1, buffer, buffer, buffer), TypeError, "parameter 1 (f32)");
  assertThrows(() => saxpy.launch(shape, 1, 2, 0.5, buffer), RangeError, "parameter 2 (u64)");
  assertThrows(() => saxpy.launch({ grid: 0, block: 32 }, 1, 2, buffer, buffer), RangeError, "saxpy with a grid of 0");
  const error = assertThrows(() => saxpy.launch({ grid: 1, block: 2048 }, 1, 2, buffer, buffer), CudaError);
  assertMatch(error.message, /Cannot launch saxpy with a grid of 1 blocks of 2048 threads/);
  gpu.synchronize();
});

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

testOnEachDriver("errors for arguments of a wrong type name the value", (cuda) => {
  const gpu = cuda.device(0);
  using host = cuda.allocateHost(64);
  using pool = gpu.createPool();
  using buffer = pool.allocate(64);
  using module: CudaModule = gpu.loadModule(saxpyPtx);
  const launch = (...args: Anything[]) => module.kernel("saxpy").launch({ grid: 1, block: 32 }, ...args);
  const allocate = "allocate a buffer and copyFrom it";
  const refusals: [args: unknown[], error: new () => Error, message: RegExp][] = [
    [
      ["5", 1, 0n, 0n],
      TypeError,
      /^Cannot pass a string as parameter 0 \(u32\) of saxpy: it takes a whole number; convert the string with Number$/,
    ],
    [
      [0, 3n, 0n, 0n],
      TypeError,
      /^Cannot pass a bigint as parameter 1 \(f32\) of saxpy: it takes a number; convert the bigint with Number$/,
    ],
    [[0, 1, new Float32Array(3), 0n], TypeError, new RegExp(`Cannot pass a Float32Array .*; ${allocate}$`)],
    [[host, 1, 0n, 0n], TypeError, /^Cannot pass a HostBuffer as parameter 0 \(u32\) .* in another order than the/],
    [
      [0, 1, undefined, 0n],
      TypeError,
      /^Cannot pass undefined as parameter 2 \(u64\) .*; the variable has no value yet/,
    ],
    [[0, 1, null, 0n], TypeError, /^Cannot pass null as parameter 2 .*; 0 is the null pointer$/],
    [[0, 1, Promise.resolve(), 0n], TypeError, /^Cannot pass a Promise .*; await the promise first$/],
    [[0, 1, [1, 2], 0n], TypeError, /^Cannot pass an Array .*; allocate an array and copyFrom a typed array$/],
    [[buffer, 1, 0n, 0n], TypeError, /^Cannot pass a DeviceBuffer as parameter 0 \(u32\) .* in another order than the/],
    [[0, 1, 2.5, 0n], RangeError, /^Cannot pass 2.5 as parameter 2 .*: it takes a buffer, a bigint or a whole number$/],
    [[0, 1, 2 ** 60, 0n], RangeError, /: give a bigint for a number beyond 2 \*\* 53$/],
    [[0, 1, { address: 8n }, 0n], RangeError, /: its address is 8; no memory has an address from 1 to 4095; 0 is/],
    [[0, 1, { address: 5 }, 0n], TypeError, /^Cannot pass an Object .*: its address is not a bigint$/],
    [[0, 1, { address: 2n ** 64n }, 0n], RangeError, /: its address does not fit 64 bits$/],
    [[2n ** 40n, 1, 0n, 0n], RangeError, /^Cannot pass 1099511627776 as parameter 0 \(u32\)/],
    [[0, 1, 2n ** 70n, 0n], RangeError, /^Cannot pass 1180591620717411303424 as parameter 2/],
  ];
  for (const [args, error, message] of refusals) {
    assertMatch(assertThrows(() => launch(...args), error).message, message);
  }
});

testOnEachDriver("a launch whose options were left out, or whose arguments are an array, says so", (cuda) => {
  using pool = cuda.device(0).createPool();
  using x = pool.allocateArray(Float32Array, 4);
  using module = cuda.device(0).loadModule(saxpyPtx);
  const kernel: Anything = module.kernel("saxpy");
  const needed = "it has 4 parameters: u32, f32, u64, u64";
  const shape = { grid: 4, block: 256 };
  const refusals: [args: unknown[], message: string][] = [
    [[4, 1, x], "with 4 as its options: give { grid: 4, block: 1 } first, then one argument for each parameter"],
    [[[4, 2], 64, 1, 2, x, x], "with an Array as its options: give { grid: [4, 2], block: 64 } first"],
    [[x, x], "with a DeviceArray as its options: give { grid, block } first"],
    [[1, 2, x, x], "with 1 as its options: give { grid, block } first, such as { grid: 4, block: 256 }, then one"],
    [[4, 1.5, x], "with 4 as its options: give { grid, block } first"],
    [
      [1, 2, x, x, shape],
      "with 1 as its options: the options come first, as in launch({ grid, block }, ...args), and yours are the last",
    ],
    [[{ ...shape, args: [1, 2, x, x] }], 'with the option "args": there is no such option; give the arguments after'],
    [["4", 1, 2, x, x], "with a string as its options: give { grid, block } first"],
    [[], "with undefined as its options: give { grid, block } first"],
    [
      [{ grid: 1, block: 1 }, [1, 2, x, x]],
      `with 1 argument (an Array): ${needed}; spread the array, as in launch(options, ...args)`,
    ],
    [[{ grid: 1, block: 1 }], `with 0 arguments: ${needed}`],
    [[{ grid: 1, block: 1 }, 1, x, x], `with 3 arguments (1, a DeviceArray, a DeviceArray): ${needed}`],
  ];
  for (const [args, message] of refusals) {
    assertThrows(() => kernel.launch(...args), TypeError, `Cannot launch saxpy ${message}`);
  }
});

const pointerPtx = `
.version 7.0
.target sm_60
.address_size 64
.visible .entry known(.param .u64 .ptr .align 1 p, .param .u64 .ptr .global .align 4 q, .param .u64 n, .param .u32 i)
{ ret; }
`;

testOnEachDriver(
  "a small number is refused for a pointer, where the PTX or the program says that it is one",
  (cuda) => {
    using module = cuda.device(0).loadModule(pointerPtx);
    const shape = { grid: 1, block: 1 };
    const known = module.kernel("known");
    assertEquals(known.parameters, ["u64", "u64", "u64", "u32"]);
    for (const small of [1, 4095, 1n, 4095n, true]) {
      const message =
        /as parameter \d \(pointer\) of known: no memory has an address from 1 to 4095; 0 is the null pointer$/;
      assertMatch(assertThrows(() => known.launch(shape, small, 0, 0, 0), RangeError).message, message);
      assertMatch(assertThrows(() => known.launch(shape, 0, small, 0, 0), RangeError).message, message);
      known.launch(shape, 0, 0, small, 0);
    }
    assertThrows(() => known.launch(shape, -1, 0, 0, 0), RangeError, "it takes a buffer or an address");
    assertThrows(() => known.launch(shape, -1n, 0, 0, 0), RangeError, "it takes a buffer or an address");
    known.launch(shape, 4096, 0n, -1, -1);
    known.launch(shape, 2n ** 64n - 1n, 0, 5, 0);
    const typed = module.kernel("known", { parameters: ["u64", "pointer", "pointer", "b32"] });
    assertEquals(typed.parameters, ["u64", "u64", "u64", "b32"]);
    assertThrows(() => typed.launch(shape, 0, 0, 100, 0), RangeError, "parameter 2 (pointer) of known: no memory has");
    assertThrows(() => typed.launch(shape, 100, 0, 0, 0), RangeError, "parameter 0 (pointer) of known: no memory has");
    cuda.device(0).synchronize();
  },
);

testOnEachDriver("a number is refused for the wrong sign where the program says the parameters' types", (cuda) => {
  using module = cuda.device(0).loadModule(pointerPtx);
  const shape = { grid: 1, block: 1 };
  const launch =
    (n: "u64" | "s64" | "b64", i: "u32" | "s32" | "b32", ...args: [number | bigint, number | bigint]) => () =>
      module.kernel("known", { parameters: ["u64", "u64", n, i] }).launch(shape, 0, 0, ...args);
  const range = "it takes a whole number from";
  assertThrows(launch("u64", "u32", -1, 0), RangeError, `${range} 0 to 18446744073709551615`);
  assertThrows(launch("u64", "u32", -1n, 0), RangeError, `${range} 0 to 18446744073709551615`);
  assertThrows(launch("u64", "u32", 0, -1), RangeError, `${range} 0 to 4294967295`);
  assertThrows(launch("s64", "s32", 2n ** 63n, 0), RangeError, `${range} -9223372036854775808 to 9223372036854775807`);
  assertThrows(launch("s64", "s32", 0, 2 ** 31), RangeError, `${range} -2147483648 to 2147483647`);
  launch("u64", "u32", 2n ** 64n - 1n, 2 ** 32 - 1)();
  launch("s64", "s32", -(2n ** 63n), -(2 ** 31))();
  launch("b64", "b32", -1, -1)();
  launch("b64", "b32", 2n ** 64n - 1n, 2 ** 32 - 1)();
  launch("u64", "u32", 1, 1)();
  // The PTX alone does not tell an int from an unsigned int.
  module.kernel("known").launch(shape, 0, 0, -1, -1);
  module.kernel("known").launch(shape, 0, 0, 2n ** 64n - 1n, 2 ** 32 - 1);
  cuda.device(0).synchronize();
});

testOnEachDriver(
  "errors for a launch without a shape, or with an invalid one, name the extent",
  (cuda) => {
    using module = cuda.device(0).loadModule(saxpyPtx);
    const launch = (options?: Anything) => module.kernel("saxpy").launch(options, 0, 0, 0n, 0n);
    const refusals: [options: unknown, error: new () => Error, message: string][] = [
      [undefined, TypeError, "Cannot launch saxpy with undefined as its options: give { grid, block } first"],
      [{ grid: 1 }, TypeError, "Cannot launch saxpy with undefined as its block"],
      [{ grid: { x: 1 }, block: 1 }, TypeError, "Cannot launch saxpy with an Object as its grid"],
      [{ grid: "1", block: 1 }, TypeError, "Cannot launch saxpy with a string as its grid"],
      [{ grid: [1, "2"], block: 1 }, TypeError, "Cannot launch saxpy with a string as an extent of its grid"],
      [{ grid: [1, 1, 1, 5], block: 1 }, RangeError, "Cannot launch saxpy with a grid of 4 dimensions"],
      [{ grid: 1, block: [] }, RangeError, "Cannot launch saxpy with a block of 0 dimensions"],
      [{ grid: [2, 3], block: [1, 0] }, RangeError, "Cannot launch saxpy with a block of 1 x 0: each extent"],
      [{ grid: NaN, block: 1 }, RangeError, "Cannot launch saxpy with a grid of NaN: each extent"],
      [{ grid: 1, block: 1, sharedMemoryBytes: 2 ** 33 }, RangeError, "it must be at most 4294967295"],
    ];
    for (const [options, error, message] of refusals) assertThrows(() => launch(options), error, message);
    module.kernel("saxpy").launch({ grid: [1, undefined, 1], block: [32], sharedMemoryBytes: -0 }, 0, 0, 0n, 0n);
    cuda.device(0).synchronize();
  },
);

testOnEachDriver("errors for a launch that exceeds a limit of the device name the limit", (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(saxpyPtx);
  const refused = (options: { grid: [number, number]; block: number }) =>
    assertThrows(() => module.kernel("saxpy").launch(options, 0, 0, 0n, 0n), CudaError).message;
  const limit = (name: DeviceAttributeName) => `the device's attribute("${name}") is ${gpu.attribute(name)}`;
  assert(refused({ grid: [1, 1], block: 2048 }).endsWith(limit("maxThreadsPerBlock")));
  assert(refused({ grid: [1, 65536], block: 32 }).endsWith(limit("maxGridDimY")));
  gpu.synchronize();
});

testOnEachDriver("errors for an invalid module and a missing kernel give the reason", (cuda) => {
  const gpu = cuda.device(0);
  const broken = saxpyPtx.replace("ret;", "nonesuch.u32 %r1, 4;\n\tret;");
  const error = assertThrows(() => gpu.loadModule(broken), CudaError);
  assertEquals(error.code, "cudaErrorInvalidPtx");
  const line = broken.split("\n").findIndex((text) => text.includes("nonesuch")) + 1;
  assertMatch(error.message, new RegExp(`line ${line}\\b`, "i"));
  using module: CudaModule = gpu.loadModule(saxpyPtx);
  assertThrows(
    () => module.kernel("daxpi"),
    RangeError,
    'Cannot find the kernel "daxpi" in the module: its kernels are saxpy',
  );
  const kernel = module.kernel("saxpy");
  module[Symbol.dispose]();
  assertThrows(() => kernel.launch({ grid: 1, block: 1 }, 0, 0, 0n, 0n), ReferenceError, "module was disposed");
});

testOnEachDriver("a kernel is launched only on streams of its own device", (cuda) => {
  using module = cuda.device(0).loadModule(fillPtx);
  const stream = cuda.device(1).defaultStream;
  const launch = () => module.kernel("fill").launch({ grid: 1, block: 32, stream }, 0n, 0, 0);
  assertThrows(launch, TypeError, "device 0 on a stream of device 1");
}, { devices: 2 });

testOnEachDriver("a kernel is launched only on streams of its own Cuda object", (cuda, driver) => {
  using another = new Cuda(new Session(driver.open()));
  using event = cuda.device(0).createEvent();
  using module = cuda.device(0).loadModule(fillPtx);
  const launch = (stream: Anything) => () => module.kernel("fill").launch({ grid: 1, block: 32, stream }, 0n, 0, 0);
  assertThrows(launch(another.device(0).defaultStream), TypeError, "Cannot use a stream of another Cuda object");
  assertThrows(launch(event), TypeError, "Cannot use a CudaEvent as a stream");
  assertThrows(launch(null), TypeError, "Cannot use null as a stream");
});

testOnEachDriver("occupancy is reported for a block size", (cuda) => {
  using module = cuda.device(0).loadModule(fillPtx);
  const fill = module.kernel("fill");
  assert(fill.maxActiveBlocksPerMultiprocessor(256) >= 1);
  assert(fill.maxActiveBlocksPerMultiprocessor(1024) <= fill.maxActiveBlocksPerMultiprocessor(128));
  const ask = (blockSize: Anything, bytes?: number) => () => fill.maxActiveBlocksPerMultiprocessor(blockSize, bytes);
  assertThrows(ask("32"), TypeError, "Cannot use a string as the size of a block");
  assertThrows(ask(2 ** 40), RangeError, "Cannot use a block of 1099511627776 threads");
  assertThrows(ask(32, 2 ** 40), RangeError, "sharedMemoryBytes: it must be at most 4294967295");
});
