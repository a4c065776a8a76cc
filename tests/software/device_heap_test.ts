import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { test } from "node:test";
import { CudaError, type CudaKernel, type KernelArgument, open } from "../../mod.ts";
import { heapLimitBytes } from "../../src/software/memory/device_heap.ts";

const allocating = `
.version 9.0
.target sm_90
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func (.param .b64 result) __cuda_syscall_aligned_malloc (.param .b64 size, .param .b64 alignment);
// out[thread] = malloc(size), with the thread's number in its first word
.visible .entry take (.param .u64 out, .param .u64 size)
{
  .reg .b32 %r<4>; .reg .b64 %rd<5>; .reg .pred %p;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
  ld.param.u64 %rd0, [size];
  { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd0; call.uni (r), malloc, (a); ld.param.b64 %rd1, [r]; }
  ld.param.u64 %rd2, [out]; mad.wide.u32 %rd3, %r0, 8, %rd2; st.global.u64 [%rd3], %rd1;
  setp.eq.u64 %p, %rd1, 0; @!%p st.u32 [%rd1], %r0;
  ret;
}
.visible .entry takeAligned (.param .u64 out, .param .u64 size, .param .u64 alignment)
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [size]; ld.param.u64 %rd1, [alignment];
  call.uni (%rd2), __cuda_syscall_aligned_malloc, (%rd0, %rd1);
  ld.param.u64 %rd3, [out]; st.global.u64 [%rd3], %rd2;
  ret;
}
`;
const using = `
.version 9.0
.target sm_90
.address_size 64
.extern .func free (.param .b64 address);
// values[thread] = *blocks[thread], and frees it
.visible .entry give (.param .u64 blocks, .param .u64 values)
{
  .reg .b32 %r<4>; .reg .b64 %rd<5>;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
  ld.param.u64 %rd0, [blocks]; mad.wide.u32 %rd0, %r0, 8, %rd0; ld.global.u64 %rd1, [%rd0];
  ld.u32 %r3, [%rd1];
  ld.param.u64 %rd2, [values]; mad.wide.u32 %rd2, %r0, 4, %rd2; st.global.u32 [%rd2], %r3;
  { .param .b64 a; st.param.b64 [a], %rd1; call.uni free, (a); }
  ret;
}
.visible .entry drop (.param .u64 address)
{
  .reg .b64 %rd; ld.param.u64 %rd, [address]; call.uni free, (%rd); ret;
}
.visible .entry write (.param .u64 address)
{
  .reg .b64 %rd; ld.param.u64 %rd, [address]; st.u32 [%rd], 7; ret;
}
`;

/** Loads both modules on a new device, whose kernels fault alone. */
function heapDevice() {
  // Some tests make mistakes.
  const cuda = open({ driver: "software", onReport: () => {} });
  const gpu = cuda.device(0);
  const stream = gpu.createStream();
  const pool = gpu.createPool();
  const kernels = new Map<string, CudaKernel>();
  for (const ptx of [allocating, using]) {
    const module = gpu.loadModule(ptx);
    for (const name of module.kernelNames) kernels.set(name, module.kernel(name));
  }
  const launch = (name: string, threads: number, ...parameters: KernelArgument[]) => {
    const block = Math.min(threads, 256);
    kernels.get(name)!.launch({ grid: threads / block, block, stream }, ...parameters);
  };
  const run = async (name: string, ...parameters: KernelArgument[]): Promise<void> => {
    launch(name, 1, ...parameters);
    await stream.synchronize();
  };
  const blocks = pool.allocate(8 * 8192, stream);
  const taken = async (threads: number, size: number | bigint): Promise<bigint[]> => {
    launch("take", threads, blocks, BigInt(size));
    return [...await blocks.read(BigUint64Array)].slice(0, threads);
  };
  const takenOne = async (size: number | bigint) => (await taken(1, size))[0]!;
  return {
    ...{ cuda, stream, pool, launch, run, blocks, taken, takenOne },
    [Symbol.dispose]() {
      blocks.free();
      cuda[Symbol.dispose]();
    },
  };
}

test("memory that one kernel allocates is used and freed by another module's", async () => {
  using device = heapDevice();
  const { stream, pool, launch, blocks, taken } = device;
  for (let round = 0; round < 2; round++) {
    const addresses = await taken(8192, 1000);
    assertEquals(new Set(addresses).size, 8192);
    assert(addresses.every((address) => address !== 0n && address % 16n === 0n));
    using values = pool.allocate(4 * 8192, stream);
    launch("give", 8192, blocks, values);
    const read = await values.read(Uint32Array);
    assertEquals(read, Uint32Array.from(read, (_, index) => index));
  }
});

test("malloc returns null when the heap is full, and frees make room again", async () => {
  using device = heapDevice();
  const { run, taken, takenOne } = device;
  assertEquals(await takenOne(heapLimitBytes + 1), 0n);
  assertEquals(await takenOne(-1n), 0n);
  const half = heapLimitBytes / 2;
  // Two of four threads, whichever they are.
  const [first, ...others] = (await taken(4, half)).filter((address) => address !== 0n);
  assertEquals(others.length, 1);
  assertEquals(await takenOne(1), 0n);
  await run("drop", first!);
  const small = await taken(256, 16);
  assert(small.every((address) => address !== 0n));
  assertEquals(await takenOne(half), 0n);
  for (const address of small) await run("drop", address);
  await run("drop", 0n);
  assertNotEquals(await takenOne(half), 0n);
});

test("malloc aligns as it is told to, and blocks of size 0 differ", async () => {
  using device = heapDevice();
  const { run, blocks, taken } = device;
  for (const alignment of [1n, 32n, 1024n, 4096n, 65536n]) {
    await taken(3, 600);
    await run("takeAligned", blocks, 100n, alignment);
    const [address] = await blocks.read(BigUint64Array);
    assertNotEquals(address, 0n);
    assertEquals(address! % alignment, 0n);
  }
  for (const alignment of [0n, 3n, 1n << 40n]) {
    await run("takeAligned", blocks, 100n, alignment);
    assertEquals((await blocks.read(BigUint64Array))[0], 0n);
  }
});

type Fault = readonly [
  name: string,
  make: (device: ReturnType<typeof heapDevice>) => Promise<void>,
  message: RegExp,
];

const faults: readonly Fault[] = [
  [
    "an access past the end of a block",
    async ({ run, takenOne }) => {
      await run("write", await takenOne(100) + 96n);
      await run("write", await takenOne(100) + 100n);
    },
    /writes 4 bytes at 0x\w+, right past the end of a block of 100 bytes that a kernel allocated with malloc/,
  ],
  [
    "an access to a freed block",
    async ({ run, takenOne }) => {
      const address = await takenOne(100);
      await run("drop", address);
      await run("write", address);
    },
    /writes 4 bytes at 0x\w+/,
  ],
  [
    "free of an address inside a block",
    async ({ run, takenOne }) => await run("drop", await takenOne(100) + 16n),
    /frees 0x\w+, which malloc in a kernel did not return, .*: it is 16 bytes into a block of 100 bytes/,
  ],
  [
    "free of a block twice",
    async ({ run, takenOne }) => {
      const address = await takenOne(100);
      await run("drop", address);
      await run("drop", address);
    },
    /frees 0x\w+, which malloc in a kernel did not return, or which was freed already/,
  ],
  [
    "free of a buffer",
    async ({ run, blocks }) => await run("drop", blocks),
    /frees 0x\w+, which malloc in a kernel did not return/,
  ],
];

for (const [name, make, message] of faults) {
  test(`${name} is a fault`, async () => {
    const device = heapDevice();
    const error = await assertRejects(() => make(device), CudaError);
    assertEquals(error.code, "cudaErrorIllegalAddress");
    assertMatch(error.message, message);
    device.cuda[Symbol.dispose]();
  });
}

test("operator new without CUDA's headers is refused with the reason", () => {
  using cuda = open({ driver: "software" });
  const ptx = allocating.replaceAll("malloc", "_Znwm").replaceAll("__cuda_syscall_aligned__Znwm", "_Znam_");
  using module = cuda.device(0).loadModule(ptx);
  assertThrows(() => module.kernel("take"), CudaError, "CUDA's headers define new and delete by malloc and free");
});
