import { assert, assertEquals, assertThrows } from "@std/assert";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import { CudaError } from "../../src/support/errors.ts";
import type { CacheConfig, SharedMemoryCarveout } from "../../src/objects/kernels/kernel_attributes.ts";
import { testOnEachDriver } from "../support/drivers.ts";

/** `plain` needs nothing. `needy` has constant, shared and local memory, and blocks of up to 96 threads. */
const ptx = `.version 7.0
.target sm_70
.address_size 64
.const .align 4 .b32 table[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

.visible .entry plain()
{
  ret;
}

.visible .entry needy(.param .u64 to, .param .u32 index)
.maxntid 32, 3, 1
{
  .shared .align 4 .b8 shared[1024];
  .local .align 4 .b8 kept[256];
  .reg .b32 %index, %address, %thread, %value, %other;
  .reg .b64 %to, %distance, %at;
  ld.param.u64 %to, [to];
  ld.param.u32 %index, [index];
  mul.wide.u32 %distance, %index, 4;
  mov.u64 %at, table;
  add.u64 %at, %at, %distance;
  ld.const.u32 %value, [%at];
  mov.u64 %at, kept;
  add.u64 %at, %at, %distance;
  st.local.u32 [%at], %value;
  ld.local.u32 %other, [kept+8];
  mov.u32 %address, shared;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %address, %thread, 4, %address;
  st.shared.u32 [%address], %other;
  bar.sync 0;
  ld.shared.u32 %value, [shared];
  st.global.u32 [%to], %value;
  ret;
}
`;

testOnEachDriver("a kernel's attributes say what it needs", (cuda, { name }) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const plain = module.kernel("plain").attributes;
  const { registers, localMemoryBytes, ...needy } = module.kernel("needy").attributes;
  const capability = 10 * gpu.attribute("computeCapabilityMajor") + gpu.attribute("computeCapabilityMinor");
  assertEquals(needy, {
    sharedMemoryBytes: 1024,
    constantMemoryBytes: 64,
    maxThreadsPerBlock: 96,
    ptxVersion: 70,
    binaryVersion: capability,
  });
  assert(localMemoryBytes >= 256, `${localMemoryBytes} bytes`);
  assertEquals(registers > 0, name !== "software");
  assertEquals([plain.sharedMemoryBytes, plain.localMemoryBytes], [0, 0]);
  assertEquals(plain.maxThreadsPerBlock, gpu.attribute("maxThreadsPerBlock"));
  assert(Object.isFrozen(plain));
});

testOnEachDriver("the best block size fills the device, within the limits of the kernel and the caller", (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const [plain, needy] = [module.kernel("plain"), module.kernel("needy")];
  const multiProcessors = gpu.attribute("multiProcessorCount");
  for (
    const [kernel, options, largest] of [
      [plain, {}, 1024],
      [plain, { blockSizeLimit: 100 }, 100],
      [plain, { blockSizeLimit: 1 }, 1],
      [plain, { blockSizeLimit: 100_000, sharedMemoryBytes: 40_000 }, 1024],
      [plain, { sharedMemoryBytes: gpu.attribute("maxSharedMemoryPerBlockOptin") }, 1024],
      [needy, {}, 96],
      [needy, { sharedMemoryBytes: 1000, blockSizeLimit: 64 }, 64],
    ] as const
  ) {
    const { block, minimumGrid } = kernel.maxPotentialBlockSize(options);
    assert(block >= 1 && block <= largest, `${block} threads`);
    const sharedMemoryBytes = "sharedMemoryBytes" in options ? options.sharedMemoryBytes : 0;
    const fitting = kernel.maxActiveBlocksPerMultiprocessor(block, sharedMemoryBytes);
    assertEquals(minimumGrid, fitting * multiProcessors);
    // No other size has more threads on a multiprocessor.
    for (const other of [1, 32, 64, 96, 100, 256, 512, 1024].filter((size) => size <= largest)) {
      const threads = other * kernel.maxActiveBlocksPerMultiprocessor(other, sharedMemoryBytes);
      assert(threads <= block * fitting, `${threads} threads in blocks of ${other}`);
    }
  }
  const tooMuch = gpu.attribute("maxSharedMemoryPerBlockOptin") + 4;
  assertThrows(
    () => plain.maxPotentialBlockSize({ sharedMemoryBytes: tooMuch }),
    RangeError,
    `Cannot choose a block size for plain with ${tooMuch} bytes of shared memory for each block: the device's`,
  );
  assertThrows(
    () => plain.maxPotentialBlockSize({ blockSizeLimit: 0 }),
    RangeError,
    "Cannot use 0 as a blockSizeLimit",
  );
});

testOnEachDriver("a kernel has preferences between shared memory and the L1 cache", (cuda) => {
  using module = cuda.device(0).loadModule(ptx);
  const kernel = module.kernel("plain");
  assertEquals([kernel.cacheConfig, kernel.preferredSharedMemoryCarveout], ["none", "default"]);
  for (const config of ["shared", "l1", "equal", "none"] as const) {
    kernel.cacheConfig = config;
    assertEquals(kernel.cacheConfig, config);
  }
  const carveouts: [SharedMemoryCarveout, number | "default"][] = [
    ["max-shared", 100],
    ["max-l1", 0],
    [37, 37],
    [100, 100],
    ["default", "default"],
  ];
  for (const [carveout, expected] of carveouts) {
    kernel.preferredSharedMemoryCarveout = carveout;
    assertEquals(kernel.preferredSharedMemoryCarveout, expected);
  }
  kernel.preferredSharedMemoryCarveout = -0;
  assert(Object.is(kernel.preferredSharedMemoryCarveout, 0));
  for (const wrong of ["L1", "toString", 1, null]) {
    assertThrows(() => kernel.cacheConfig = wrong as CacheConfig, TypeError, `it must be "none", "shared"`);
  }
  for (const wrong of ["max", "toString", null, 50n]) {
    assertThrows(
      () => kernel.preferredSharedMemoryCarveout = wrong as SharedMemoryCarveout,
      TypeError,
      `it must be a number of percent, "default"`,
    );
  }
  for (const wrong of [-1, 101, 0.5, NaN]) {
    assertThrows(() => kernel.preferredSharedMemoryCarveout = wrong, RangeError, "from 0 to 100");
  }
  kernel.launch({ grid: 1, block: 32 });
  cuda.device(0).synchronize();
});

testOnEachDriver("active clusters are counted where there are clusters", (cuda, { name }) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const kernel = module.kernel("plain");
  const count = (options: { block?: number; cluster: number; sharedMemoryBytes?: number }) =>
    kernel.maxActiveClusters({ block: 32, ...options });
  if (gpu.attribute("clusterLaunch") === 0) {
    const error = assertThrows(() => count({ cluster: 2 }), CudaError, "Cannot compute how many clusters of 2 blocks");
    if (name === "software") assertEquals((error as CudaError).code, "cudaErrorNotSupported");
  } else {
    assert(count({ cluster: 2 }) > count({ cluster: 8 }));
    assert(count({ cluster: 8, block: 1024, sharedMemoryBytes: 200_000 }) > 0);
  }
  assertEquals(count({ cluster: 2, sharedMemoryBytes: 10_000_000 }), 0);
  assertThrows(() => count({ cluster: 0 }), RangeError, "with a cluster of 0");
  assertThrows(() => count({ cluster: 2, block: 0 }), RangeError, "with a block of 0");
});

testOnEachDriver("a kernel whose module was disposed has no attributes", (cuda) => {
  const module = cuda.device(0).loadModule(saxpyPtx);
  const kernel = module.kernel("saxpy");
  assert(kernel.attributes.maxThreadsPerBlock > 0);
  module[Symbol.dispose]();
  const uses = [
    () => kernel.attributes,
    () => kernel.maxPotentialBlockSize(),
    () => kernel.maxActiveClusters({ block: 32, cluster: 1 }),
    () => kernel.preferredSharedMemoryCarveout,
    () => kernel.preferredSharedMemoryCarveout = 10,
    () => kernel.cacheConfig = "l1",
  ];
  for (const use of uses) assertThrows(use, ReferenceError, "its module was disposed");
});
