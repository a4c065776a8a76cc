import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { ptx as fillPtx } from "../kernels/fill.ts";
import { ptx as saxpyPtx } from "../kernels/saxpy.ts";
import { CudaError } from "../src/errors.ts";
import { testOnEachDriver } from "./drivers.ts";

testOnEachDriver("saxpy gives what IEEE arithmetic gives", async (cuda) => {
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

testOnEachDriver("fill writes every byte it is told to and none past it", async (cuda) => {
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

testOnEachDriver("arguments that do not fit the parameters are refused before anything is launched", (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using buffer = pool.allocate(64);
  using module = gpu.loadModule(saxpyPtx);
  const saxpy = module.kernel("saxpy");
  const shape = { grid: 1, block: 32 };
  assertThrows(() => saxpy.launch(shape, 1, 2, buffer), TypeError, "3 arguments: it has 4 parameters");
  assertThrows(() => saxpy.launch(shape, 1.5, 2, buffer, buffer), RangeError, "parameter 0 (u32)");
  assertThrows(() => saxpy.launch(shape, 2 ** 32, 2, buffer, buffer), RangeError, "parameter 0 (u32)");
  assertThrows(() => saxpy.launch(shape, 1, buffer, buffer, buffer), TypeError, "parameter 1 (f32)");
  assertThrows(() => saxpy.launch(shape, 1, 2, 0.5, buffer), RangeError, "parameter 2 (u64)");
  assertThrows(() => saxpy.launch({ grid: 0, block: 32 }, 1, 2, buffer, buffer), RangeError, "extent of 0");
  const error = assertThrows(() => saxpy.launch({ grid: 1, block: 2048 }, 1, 2, buffer, buffer), CudaError);
  assertMatch(error.message, /Cannot launch saxpy with a grid of 1 blocks of 2048 threads/);
  gpu.synchronize();
});

testOnEachDriver("a module that is no PTX, and a kernel that is not there, say what is wrong", (cuda) => {
  const gpu = cuda.device(0);
  const broken = saxpyPtx.replace("ret;", "nonesuch.u32 %r1, 4;\n\tret;");
  const error = assertThrows(() => gpu.loadModule(broken), CudaError);
  assertEquals(error.code, "cudaErrorInvalidPtx");
  const line = broken.split("\n").findIndex((text) => text.includes("nonesuch")) + 1;
  assertMatch(error.message, new RegExp(`line ${line}\\b`, "i"));
  using module = gpu.loadModule(saxpyPtx);
  assertThrows(
    () => module.kernel("daxpy"),
    RangeError,
    'Cannot find the kernel "daxpy" in the module: its kernels are saxpy',
  );
  const kernel = module.kernel("saxpy");
  module[Symbol.dispose]();
  assertThrows(() => kernel.launch({ grid: 1, block: 1 }, 0, 0, 0n, 0n), ReferenceError, "module was disposed");
});

testOnEachDriver("a kernel is launched on streams of its own device alone", (cuda) => {
  using module = cuda.device(0).loadModule(fillPtx);
  const stream = cuda.device(1).defaultStream;
  const launch = () => module.kernel("fill").launch({ grid: 1, block: 32, stream }, 0n, 0, 0);
  assertThrows(launch, TypeError, "device 0 on a stream of device 1");
}, { devices: 2 });

testOnEachDriver("occupancy is told for a block's size", (cuda) => {
  using module = cuda.device(0).loadModule(fillPtx);
  const fill = module.kernel("fill");
  assert(fill.maxActiveBlocksPerMultiprocessor(256) >= 1);
  assert(fill.maxActiveBlocksPerMultiprocessor(1024) <= fill.maxActiveBlocksPerMultiprocessor(128));
});
