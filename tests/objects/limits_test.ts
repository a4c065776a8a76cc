/** The limits of a device. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { CudaError, type CudaKernel, type DeviceLimits } from "../../mod.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { testSoftware } from "../support/software_devices.ts";

testOnEachDriver("the limits of a device are read, set and printed", (cuda) => {
  const { limits } = cuda.device(0);
  const before = limits.stackSize;
  limits.stackSize = 4096;
  assert(limits.stackSize >= 4096);
  limits.stackSize = before;
  assertEquals(limits.stackSize, before);
  limits.maxL2FetchGranularity = 32;
  assert(limits.maxL2FetchGranularity >= 0);
  assert(limits.mallocHeapSize > 0 && limits.printfFifoSize > 0 && limits.pendingLaunchCount > 0);
  limits.persistingL2CacheSize = 0;
  assertThrows(() => limits.maxL2FetchGranularity = 129, CudaError, "cudaErrorInvalidValue");
  assertEquals(limits.persistingL2CacheSize, 0);
  assertStringIncludes(inspect(limits), `DeviceLimits { stackSize: ${before}, printfFifoSize: `);
});

testOnEachDriver("limits that are not numbers of bytes, or that do not exist, are refused", (cuda) => {
  const { limits } = cuda.device(0);
  // deno-lint-ignore no-explicit-any
  const set = (name: string, value: any) => () => void ((limits as unknown as Record<string, unknown>)[name] = value);
  assertThrows(set("stacksize", 4096), TypeError, 'there is no such limit; did you mean "stackSize"?');
  assertThrows(set("stackSize", "4096"), TypeError, "Cannot use a string as the limit stackSize: it must be a number");
  assertThrows(set("stackSize", 4096n), TypeError, "Cannot use a bigint as the limit stackSize");
  assertThrows(set("mallocHeapSize", -1), RangeError, "Cannot use -1 as the limit mallocHeapSize");
  assertThrows(set("mallocHeapSize", 1.5), RangeError, "Cannot use 1.5 as the limit mallocHeapSize");
  const error = assertThrows(set("stackSize", 2 ** 40), CudaError);
  assertStringIncludes(error.message, "Cannot set the limit stackSize of device 0 to 1099511627776");
});

/** Calls itself as often as it is told, with some memory of its stack each time. */
const deep = `.version 8.3
.target sm_80
.address_size 64
.func (.param .b32 r) deep(.param .b32 n) {
  .reg .b32 %r<6>; .reg .pred %p;
  .local .align 16 .b8 frame[64];
  ld.param.u32 %r1, [n];
  st.local.u32 [frame+60], %r1;
  setp.eq.u32 %p, %r1, 0;
  st.param.b32 [r], 0;
  @%p ret;
  sub.u32 %r2, %r1, 1;
  call (%r3), deep, (%r2);
  ld.local.u32 %r4, [frame+60];
  add.u32 %r3, %r3, %r4;
  st.param.b32 [r], %r3;
  ret;
}
.visible .entry main(.param .u64 to, .param .u32 depth) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [depth];
  call (%r2), deep, (%r1);
  st.global.u32 [%rd1], %r2;
  ret;
}
`;

testSoftware("recursion is as deep as the limit of the stack allows", async (cuda) => {
  const gpu = cuda.device(0);
  const depth = 1000;
  const run = async (kernel: CudaKernel) => {
    using pool = gpu.createPool();
    using to = pool.allocateArray(Uint32Array, 1);
    kernel.launch({ grid: 1, block: 1 }, to, depth);
    return (await to.toTypedArray())[0];
  };
  gpu.limits.stackSize = 256 * 1024;
  using deeper = gpu.loadModule(deep);
  assertEquals(await run(deeper.kernel("main")), depth * (depth + 1) / 2);
  gpu.limits.stackSize = 1020;
  assertEquals(gpu.limits.stackSize, 1024);
  using shallow = gpu.loadModule(deep);
  const failure = await assertRejects(() => run(shallow.kernel("main")), CudaError, "stack");
  assertEquals(failure.code, "cudaErrorIllegalAddress");
});

const allocating = `.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.visible .entry allocate(.param .u64 size, .param .u64 to) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [size];
  { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd1; call.uni (r), malloc, (a); ld.param.b64 %rd2, [r]; }
  ld.param.u64 %rd3, [to];
  st.global.u64 [%rd3], %rd2;
  ret;
}
`;

testSoftware("the heap of kernels has the size that was set before they use it", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(allocating);
  using pool = gpu.createPool();
  using to = pool.allocateArray(BigUint64Array, 1);
  const allocate = async (byteLength: number) => {
    module.kernel("allocate").launch({ grid: 1, block: 1 }, BigInt(byteLength), to);
    return (await to.toTypedArray())[0] !== 0n;
  };
  gpu.limits.mallocHeapSize = 12 * 2 ** 20;
  assertEquals(await allocate(10 * 2 ** 20), true);
  assertEquals(await allocate(10 * 2 ** 20), false);
  const set = (limits: DeviceLimits) => () => void (limits.mallocHeapSize = 64 * 2 ** 20);
  const error = assertThrows(set(gpu.limits), CudaError, "set it before the first kernel that uses malloc");
  assertEquals(error.code, "cudaErrorInvalidValue");
  assertEquals(gpu.limits.mallocHeapSize, 12 * 2 ** 20);
});
