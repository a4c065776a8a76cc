import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { mkdirSync, writeFileSync } from "node:fs";
import { CompileError } from "../../src/compile/compile_error.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import type { CompileOptions } from "../../src/compile/compile_options.ts";
import { isLong } from "../support/test.ts";
import { inFolder } from "../support/folders.ts";
import { newerThanDrivers, testCompiling } from "./compilers.ts";

/** What a kernel writes that is compiled from `body`, one int for each expression. */
async function run(cuda: Cuda, source: string, options: CompileOptions = {}, count = 4): Promise<number[]> {
  const gpu = cuda.device(0);
  using module = gpu.compile(source, options);
  using out = gpu.currentPool.allocateArray(Int32Array, count);
  module.kernel("run").launch({ grid: 1, block: 1 }, out);
  return [...await out.toTypedArray()];
}

testCompiling("a kernel from source computes", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.compile(`
    extern "C" __global__ void square(float* x, int n) {
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= x[i];
    }`);
  assertEquals(module.kernelNames, ["square"]);
  using x = gpu.currentPool.allocateArray(Float32Array, 1000);
  x.copyFrom(Float32Array.from({ length: 1000 }, (_, i) => i));
  module.kernel("square").launch({ grid: 2, block: 64 }, x, 1000);
  assertEquals(await x.toTypedArray(), Float32Array.from({ length: 1000 }, (_, i) => i * i));
});

testCompiling("headers, defines and include paths are found, and the caller's come first", async (cuda) => {
  await inFolder(async (folder) => {
    mkdirSync(`${folder}/with space`);
    writeFileSync(`${folder}/with space/disk.h`, "constexpr int disk = 3;\n");
    const source = `
      #include "first.h"
      #include <nested/second.h>
      #include "disk.h"
      extern "C" __global__ void run(int* out) {
        out[0] = first; out[1] = second; out[2] = disk; out[3] = VALUE * 10 + FLAG + OFF;
      }`;
    const options = {
      headers: {
        "first.h": '#pragma once\n#include "nested/second.h"\nconstexpr int first = second + 1;\n',
        "nested/second.h": "#ifndef SECOND\n#define SECOND\nconstexpr int second = 41;\n#endif\n",
      },
      includePaths: [`${folder}/with space`],
      defines: { VALUE: "(2 + 3)", FLAG: true, OFF: false },
    };
    assertEquals(await run(cuda, source, options), [42, 41, 3, 51]);
  });
});

testCompiling("CUDA's own headers and libcu++ are found", async (cuda) => {
  const source = `
    #include <cuda_fp16.h>
    #include <cooperative_groups.h>
    #include <cuda/std/array>
    extern "C" __global__ void run(int* out) {
      cuda::std::array<int, 2> pair = {7, 8};
      out[0] = pair[0] + pair[1];
      out[1] = __half2int_rn(__float2half(2.5f) + __float2half(1.0f));
      out[2] = cooperative_groups::this_thread_block().size();
    }`;
  assertEquals(await run(cuda, source, {}, 3), [15, 4, 1]);
}, { long: true });

testCompiling("a multiplication and an addition are one operation, unless kept apart", async (cuda) => {
  const source = `extern "C" __global__ void run(int* out) {
    volatile float a = 1.0f + 1.0f / 4096, b = a;
    out[0] = __float_as_int(a * b - 1.0f);
  }`;
  const bits = (value: number) => new Int32Array(Float32Array.of(value).buffer)[0]!;
  const a = 1 + 1 / 4096;
  assertEquals(await run(cuda, source, {}, 1), [bits(a * a - 1)]);
  assertEquals(await run(cuda, source, { fusedMultiplyAdd: false }, 1), [bits(Math.fround(a * a) - 1)]);
});

testCompiling("templates are found by the names that instantiate them", async (cuda) => {
  const gpu = cuda.device(0);
  const source = `
    namespace shapes {
      template <class T> __device__ T factor = T(3);
      template <class T, int Step> __global__ void scale(T* x) { x[threadIdx.x] *= factor<T> * Step; }
    }
    extern "C" __global__ void plain(int* x) { *x = 5; }`;
  const nameExpressions = ["shapes::scale<float, 2>", "shapes::scale<int,4>", "&shapes::factor<float>"];
  using module = gpu.compile(source, { nameExpressions });
  assertEquals(module.kernelNames.toSorted(), ["plain", "shapes::scale<float, 2>", "shapes::scale<int,4>"]);
  using x = gpu.currentPool.allocateArray(Float32Array, 2);
  x.copyFrom(Float32Array.of(1, 10));
  const kernel = module.kernel("shapes::scale<float, 2>");
  assertEquals([kernel.name, kernel.parameters.length], ["shapes::scale<float, 2>", 1]);
  kernel.launch({ grid: 1, block: 2 }, x);
  assertEquals([...await x.toTypedArray()], [6, 60]);
  module.getGlobal("shapes::factor<float>").copyFrom(Float32Array.of(0.5));
  kernel.launch({ grid: 1, block: 2 }, x);
  assertEquals([...await x.toTypedArray()], [6, 60]);
  assertThrows(() => module.kernel("shapes::scale<double, 2>"), RangeError, "nameExpressions");
  const wrong = assertThrows(() => gpu.compile(source, { nameExpressions: ["plain", "shapes::scala"] }), CompileError);
  assertMatch(wrong.message, /"shapes::scala".*: .*scala/);
});

testCompiling("code for a driver that is older than the compiler has its parameters checked, too", async (cuda) => {
  const gpu = cuda.device(0);
  const source = "template <class T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; } __device__ int v = 7;";
  using module = gpu.compile(source, { nameExpressions: ["scale<float>"] });
  assertEquals(module.kernelNames, ["scale<float>"]);
  assertEquals([...await module.getGlobal("v").read(Int32Array)], [7]);
  using x = gpu.currentPool.allocateArray(Float32Array, 2);
  x.copyFrom(Float32Array.of(1, 10));
  const kernel = module.kernel("scale<float>");
  assertEquals(kernel.parameters.at(1), "f32");
  kernel.launch({ grid: 1, block: 2 }, x, 2.5);
  assertEquals([...await x.toTypedArray()], [2.5, 25]);
  assertThrows(() => kernel.launch({ grid: 1, block: 2 }, x), TypeError);
}, { adapt: newerThanDrivers });

testCompiling("instructions that only the device's own architecture has are compiled for it", (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.compile(`
    #if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    #define OWN 1
    #else
    #define OWN 0
    #endif
    __device__ int own = OWN;
    extern "C" __global__ void f() {
    #if OWN
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    #endif
    }`);
  const isHopper = gpu.computeCapability.join(".") === "9.0";
  assertEquals(module.getGlobal("own").readSync(Int32Array)[0], isHopper ? 1 : 0);
  module.kernel("f").launch({ grid: 1, block: 128 });
  gpu.synchronize();
});

testCompiling("warnings are in the module's log", (cuda, { warningFlags: flags }) => {
  using quiet = cuda.device(0).compile('extern "C" __global__ void f() {}');
  assertEquals(quiet.log, "");
  using warned = cuda.device(0).compile('extern "C" __global__ void f() {\n  int never_used;\n}', { flags });
  assertMatch(warned.log, /kernel\.cu.*2.*never_used/s);
});

testCompiling("PTX names the source's lines by its own name, wherever it is compiled", (cuda) => {
  const source = "\n\n__global__ void f(int* x) { *x = 1; }";
  const compile = (options: CompileOptions) => cuda.compile(source, { architecture: "compute_75", ...options }).ptx;
  assertMatch(compile({ name: "my kernel.cu" }), /^\s*\.file\s+1 "my kernel\.cu"/m);
  assertMatch(compile({}), /\.loc\s+1 3 /);
  assert(!/\.(file|loc)\s/.test(compile({ lineInfo: false })));
  assertMatch(compile({ debug: true }), /\.section\s+\.debug_info/);
  assertMatch(compile({}), /\.target sm_75/);
});

testCompiling("a fault names the line of the source", async (cuda) => {
  if (cuda.driver === "cuda") return;
  const gpu = cuda.device(0);
  using module = gpu.compile('extern "C" __global__ void stray(int* x) {\n  x[123456789] = 1;\n}', {
    name: "stray.cu",
  });
  using x = gpu.currentPool.allocate(4);
  module.kernel("stray").launch({ grid: 1, block: 1 }, x);
  const error = await gpu.finished().then(() => undefined, (error: Error) => error);
  assertMatch(error!.message, /stray\.cu:2/);
});

testCompiling("a compile error has the first error's place, its line and a caret", (cuda) => {
  const gpu = cuda.device(0);
  const source = '#include "q.h"\n__global__ void f(float* x) {\n\tx[0] = foo;\n  q();\n}\n';
  const headers = { "q.h": "__device__ void q() {}\n" };
  const error = assertThrows(() => gpu.compile(source, { name: "f.cu", headers }), CompileError);
  assertEquals([error.file, error.line, error.column], ["f.cu", 3, 9]);
  assertMatch(error.message, /^f\.cu:3:9: error: .*foo/);
  assertEquals(error.message.split("\n").slice(1, 3), ["  3 | \tx[0] = foo;", "    | \t       ^"]);
  assertMatch(error.log, /foo/);
  const inHeader = assertThrows(
    () => gpu.compile('#include "q.h"\n', { headers: { "q.h": "\n\n  nonsense;\n" } }),
    CompileError,
  );
  assertEquals([inHeader.file, inHeader.line, inHeader.column], ["q.h", 3, 3]);
  // A byte order mark is none of the line's characters, and an emoji is two of a string's.
  const notAscii = '\uFEFF__device__ void f() { "é🎉日"; foo; }';
  const behind = assertThrows(() => gpu.compile(notAscii), CompileError);
  assertEquals([behind.line, behind.column], [1, notAscii.indexOf("foo")]);
  const missing = assertThrows(() => gpu.compile('\n#include "nowhere.h"\n'), CompileError);
  assertEquals([missing.file, missing.line], ["kernel.cu", 2]);
  assertMatch(missing.message, /nowhere\.h/);
});

testCompiling(
  "a disposed Cuda object, and an option that the compiler does not know, are refused",
  (cuda, compiler) => {
    assertThrows(() => cuda.device(0).compile("", { flags: ["--no-such-flag"] }), RangeError, "no-such-flag");
    assertThrows(() => cuda.compile("", { architecture: "compute_19" }), RangeError);
    assertThrows(() => cuda.compile("", { architecture: "compute_90f" }), RangeError, "_90f");
    assertMatch(cuda.compile("", { architecture: "compute_90" }).compiler, new RegExp(`^${compiler.name} \\d+\\.\\d`));
    cuda[Symbol.dispose]();
    assertThrows(() => cuda.compile("", { architecture: "compute_90" }), ReferenceError);
  },
);

testCompiling("the error of a header that is not found says what to do instead", (cuda, compiler) => {
  const failureOf = (header: string) => {
    try {
      using _module = cuda.device(0).compile(`#include <${header}>\n`);
      return undefined;
    } catch (error) {
      return (error as Error).message.split("\n")[0]!;
    }
  };
  assertMatch(failureOf("nowhere/x.h")!, /nowhere\/x\.h.*; give it in headers, or its folder in includePaths$/);
  const advised: [header: string, advice: RegExp][] = [
    ["cstdint", /<cuda\/std\/cstdint>$/],
    ["stdint.h", /<cuda\/std\/cstdint>$/],
    ["climits", /<cuda\/std\/climits>$/],
    ["type_traits", /<cuda\/std\/type_traits>, and use cuda::std$/],
    ["complex", /<cuda\/std\/complex>, and use cuda::std$/],
    ["stdio.h", /omit the #include$/],
    ["cmath", /omit the #include$/],
    ["cuda_no_such_header.h", /nvidia-cuda-runtime nvidia-cuda-cccl$/],
    ["curand_no_such_header.h", /pip install nvidia-curand$/],
    ["vector", /device code has no such library/],
  ];
  for (const [header, advice] of advised) {
    const failure = failureOf(header);
    // nvcc and clang have the host's standard library.
    if (failure !== undefined || compiler.name === "nvrtc") assertMatch(failure!, advice, header);
  }
  // What the advice names exists. Compiling it takes long.
  if (compiler.name !== "nvrtc" || !isLong) return;
  for (const [, advice] of advised) {
    const named = /<(cuda.*?)>/.exec(advice.source.replaceAll("\\", ""))?.[1];
    if (named !== undefined) assertEquals(failureOf(named), undefined);
  }
});
