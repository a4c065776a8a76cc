import { assert, assertEquals, assertThrows } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import { Session } from "../../src/session.ts";
import { CudaError } from "../../src/support/errors.ts";
import { countCalls } from "../sharing/channel/channel_peers.ts";
import { testOnEachDriver } from "../support/drivers.ts";

const staticBytes = 1024;
const threads = 32;

/**
 * In both kernels, thread i writes `first + i` to word i of the last 32 words of the dynamic shared memory, and stores
 * what its opposite wrote. `beside` also does so, with another value, in the last words of its static shared memory, and
 * stores the sum.
 */
const ptx = `.version 7.0
.target sm_60
.address_size 64
.extern .shared .align 16 .b8 dynamic[];

.visible .entry alone(.param .u64 to, .param .u32 bytes, .param .u32 first)
{
  .reg .b32 %thread, %offset, %address, %value;
  .reg .b64 %to, %distance;
  ld.param.u32 %value, [first];
  ld.param.u32 %address, [bytes];
  mov.u32 %offset, dynamic;
  add.u32 %address, %address, %offset;
  sub.u32 %address, %address, ${4 * threads};
  mov.u32 %thread, %tid.x;
  add.u32 %value, %value, %thread;
  mad.lo.u32 %offset, %thread, 4, %address;
  st.shared.u32 [%offset], %value;
  bar.sync 0;
  sub.u32 %offset, ${threads - 1}, %thread;
  mad.lo.u32 %offset, %offset, 4, %address;
  ld.shared.u32 %value, [%offset];
  ld.param.u64 %to, [to];
  mul.wide.u32 %distance, %thread, 4;
  add.u64 %to, %to, %distance;
  st.global.u32 [%to], %value;
  ret;
}

.visible .entry beside(.param .u64 to, .param .u32 bytes, .param .u32 first)
{
  .shared .align 16 .b8 own[${staticBytes}];
  .reg .b32 %thread, %offset, %address, %value, %other, %static;
  .reg .b64 %to, %distance;
  ld.param.u32 %value, [first];
  ld.param.u32 %address, [bytes];
  mov.u32 %offset, dynamic;
  add.u32 %address, %address, %offset;
  sub.u32 %address, %address, ${4 * threads};
  mov.u32 %static, own;
  add.u32 %static, %static, ${staticBytes - 4 * threads};
  mov.u32 %thread, %tid.x;
  add.u32 %value, %value, %thread;
  mad.lo.u32 %offset, %thread, 4, %address;
  st.shared.u32 [%offset], %value;
  shl.b32 %value, %value, 16;
  mad.lo.u32 %offset, %thread, 4, %static;
  st.shared.u32 [%offset], %value;
  bar.sync 0;
  sub.u32 %value, ${threads - 1}, %thread;
  mad.lo.u32 %offset, %value, 4, %address;
  ld.shared.u32 %other, [%offset];
  mad.lo.u32 %offset, %value, 4, %static;
  ld.shared.u32 %value, [%offset];
  add.u32 %value, %value, %other;
  ld.param.u64 %to, [to];
  mul.wide.u32 %distance, %thread, 4;
  add.u64 %to, %to, %distance;
  st.global.u32 [%to], %value;
  ret;
}
`;

/** Launches one of the kernels, and returns what its threads stored. */
async function run(gpu: CudaDevice, kernel: CudaKernel, sharedMemoryBytes: number, first: number) {
  using pool = gpu.createPool();
  using stored = pool.allocateArray(Uint32Array, threads);
  kernel.launch({ grid: 3, block: threads, sharedMemoryBytes }, stored, sharedMemoryBytes, first);
  return await stored.toTypedArray();
}

/** What `alone` stores, times `factor`. */
function expected(first: number, factor = 1): Uint32Array {
  return Uint32Array.from({ length: threads }, (_, thread) => (first + threads - 1 - thread) * factor);
}

function limitsOf(gpu: CudaDevice): { standard: number; maximum: number } {
  return {
    standard: gpu.attribute("maxSharedMemoryPerBlock"),
    maximum: gpu.attribute("maxSharedMemoryPerBlockOptin"),
  };
}

testOnEachDriver("a block has as much dynamic shared memory as the device supports", async (cuda) => {
  const gpu = cuda.device(0);
  const { standard, maximum } = limitsOf(gpu);
  assert(maximum >= standard);
  using module = gpu.loadModule(ptx);
  const kernel = module.kernel("alone");
  for (const [first, bytes] of [4 * threads, standard, standard + 4, maximum, standard, maximum - 4].entries()) {
    assertEquals(await run(gpu, kernel, bytes, first), expected(first), `${bytes} bytes`);
  }
});

testOnEachDriver("static and dynamic shared memory together reach what the device supports", async (cuda) => {
  const gpu = cuda.device(0);
  const { standard, maximum } = limitsOf(gpu);
  using module = gpu.loadModule(ptx);
  const kernel = module.kernel("beside");
  const sizes = [standard - staticBytes, standard - staticBytes + 4, standard, maximum - staticBytes];
  for (const [first, bytes] of sizes.entries()) {
    assertEquals(await run(gpu, kernel, bytes, first), expected(first, 2 ** 16 + 1), `${bytes} bytes`);
  }
});

testOnEachDriver("the first launch of a kernel may need all shared memory of the device", async (cuda) => {
  const gpu = cuda.device(0);
  const { maximum } = limitsOf(gpu);
  using module = gpu.loadModule(ptx);
  assertEquals(await run(gpu, module.kernel("alone"), maximum, 1), expected(1));
  assertEquals(await run(gpu, module.kernel("beside"), maximum - staticBytes, 2), expected(2, 2 ** 16 + 1));
});

testOnEachDriver("a launch with more shared memory than the device supports is refused", async (cuda) => {
  const gpu = cuda.device(0);
  const { maximum } = limitsOf(gpu);
  using module = gpu.loadModule(ptx);
  const [alone, beside] = [module.kernel("alone"), module.kernel("beside")];
  const launch = (kernel: CudaKernel, sharedMemoryBytes: number) => () =>
    kernel.launch({ grid: 1, block: threads, sharedMemoryBytes }, 0n, 0, 0);
  const limit = `: the device's attribute("maxSharedMemoryPerBlockOptin") is ${maximum}`;
  const refusal = (bytes: number) => `Cannot launch alone with ${bytes} bytes of shared memory for each block${limit}`;
  const refusalBeside = (bytes: number) =>
    `Cannot launch beside with ${bytes} bytes of shared memory for each block beside the ${staticBytes} bytes that the ` +
    `kernel declares${limit}`;
  // Before the kernels have opted in, and afterwards.
  for (const first of [1, 2]) {
    for (const bytes of [maximum + 1, 2 ** 20, 2 ** 31, 2 ** 32 - 1]) {
      assertThrows(launch(alone, bytes), RangeError, refusal(bytes));
    }
    for (const bytes of [maximum - staticBytes + 1, maximum, 2 ** 32 - 1]) {
      assertThrows(launch(beside, bytes), RangeError, refusalBeside(bytes));
    }
    assertEquals(await run(gpu, alone, maximum, first), expected(first));
    assertEquals(await run(gpu, beside, maximum - staticBytes, first), expected(first, 2 ** 16 + 1));
  }
});

testOnEachDriver("a refused launch with much shared memory names the limit that it exceeds", (cuda) => {
  const gpu = cuda.device(0);
  const { maximum } = limitsOf(gpu);
  using module = gpu.loadModule(ptx);
  const options = { grid: 1, block: 2048, sharedMemoryBytes: maximum };
  const { message } = assertThrows(() => module.kernel("alone").launch(options, 0n, 0, 0), CudaError);
  assert(message.includes(`blocks of 2048 threads and ${maximum} bytes of shared memory each: `), message);
  assert(message.endsWith(`attribute("maxThreadsPerBlock") is ${gpu.attribute("maxThreadsPerBlock")}`), message);
  gpu.synchronize();
});

testOnEachDriver("occupancy counts with all shared memory of the device", async (cuda) => {
  const gpu = cuda.device(0);
  const { standard, maximum } = limitsOf(gpu);
  using module = gpu.loadModule(ptx);
  const [alone, beside] = [module.kernel("alone"), module.kernel("beside")];
  const blocksOf = (kernel: CudaKernel, bytes: number) => kernel.maxActiveBlocksPerMultiprocessor(threads, bytes);
  const blocks = () => [
    ...[0, 1024, standard, standard + 1, 2 * standard, maximum, maximum + 1, 2 ** 31, 2 ** 32 - 1]
      .map((bytes) => blocksOf(alone, bytes)),
    ...[0, standard, maximum - staticBytes, maximum - staticBytes + 1].map((bytes) => blocksOf(beside, bytes)),
  ];
  const before = blocks();
  const isPossible = before.map((count) => count >= 1);
  const sixOfNine = [true, true, true, true, 2 * standard <= maximum, true, false, false, false];
  assertEquals(isPossible, [...sixOfNine, true, true, true, false]);
  assert(blocksOf(alone, maximum) <= blocksOf(alone, standard));
  // A block of the largest size that occupancy allows can be launched, and changes nothing.
  assertEquals(await run(gpu, alone, maximum, 1), expected(1));
  assertEquals(blocks(), before);
});

testOnEachDriver("a kernel opts in to more shared memory once, and only if it needs that", (_, driver) => {
  const opened = driver.open();
  using cuda = new Cuda(new Session(opened));
  const gpu = cuda.device(0);
  const { standard, maximum } = limitsOf(gpu);
  using module = gpu.loadModule(ptx);
  const kernel = module.kernel("alone");
  using pool = gpu.createPool();
  using stored = pool.allocateArray(Uint32Array, threads);
  using counted = countCalls(opened);
  const { calls } = counted;
  const launch = (sharedMemoryBytes: number) =>
    kernel.launch({ grid: 1, block: threads, sharedMemoryBytes }, stored, sharedMemoryBytes, 0);
  module.kernel("beside").maxActiveBlocksPerMultiprocessor(threads);
  assertEquals([calls.funcGetAttribute, calls.funcSetAttribute], [undefined, undefined]);
  for (const bytes of [standard, 4 * threads, 1024, standard]) launch(bytes);
  assertEquals([calls.funcGetAttribute, calls.funcSetAttribute], [1, undefined]);
  if (maximum === standard) return;
  launch(standard + 4);
  const { funcGetAttribute } = calls;
  for (const bytes of [maximum, standard, maximum - 4]) {
    launch(bytes);
    kernel.maxActiveBlocksPerMultiprocessor(threads, bytes);
  }
  assertEquals([calls.funcGetAttribute, calls.funcSetAttribute], [funcGetAttribute, 1]);
  gpu.synchronize();
});
