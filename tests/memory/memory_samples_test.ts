/**
 * NVIDIA's samples of pools, graphs' memory, host memory and atomics, written anew from what they do, each with the check
 * that the sample makes of its own results.
 *
 * @see https://github.com/NVIDIA/cuda-samples
 */
import { assert, assertEquals } from "@std/assert";
import type { CudaDevice, CudaStream, DeviceArray, MemoryPool } from "../../mod.ts";
import { randomFor } from "../support/ptx_mutations.ts";
import { testOnEachDriver } from "../support/drivers.ts";

/** `vectorAdd(a, b, c, count)`, and `loop(numbers)`: ten kinds of atomic operations of the system's scope. */
const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry vectorAdd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 count)
{
  .reg .pred %p; .reg .u32 %r<6>; .reg .u64 %d<7>; .reg .f32 %f<4>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [count];
  setp.ge.u32 %p, %r4, %r5;
  @%p ret;
  mul.wide.u32 %d4, %r4, 4;
  ld.param.u64 %d1, [a]; add.u64 %d1, %d1, %d4; ld.global.f32 %f1, [%d1];
  ld.param.u64 %d2, [b]; add.u64 %d2, %d2, %d4; ld.global.f32 %f2, [%d2];
  add.f32 %f3, %f1, %f2;
  ld.param.u64 %d3, [c]; add.u64 %d3, %d3, %d4; st.global.f32 [%d3], %f3;
  ret;
}
.visible .entry loop(.param .u64 numbers, .param .u32 loops)
{
  .reg .pred %p; .reg .u32 %r<12>; .reg .u64 %d1;
  ld.param.u64 %d1, [numbers];
  ld.param.u32 %r9, [loops];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
again:
  atom.global.sys.add.u32 %r4, [%d1], 10;
  atom.global.sys.exch.b32 %r4, [%d1+4], %r1;
  atom.global.sys.max.s32 %r4, [%d1+8], %r1;
  atom.global.sys.min.s32 %r4, [%d1+12], %r1;
  atom.global.sys.inc.u32 %r4, [%d1+16], 17;
  atom.global.sys.dec.u32 %r4, [%d1+20], 137;
  sub.u32 %r5, %r1, 1;
  atom.global.sys.cas.b32 %r4, [%d1+24], %r5, %r1;
  shl.b32 %r6, %r1, 1; add.u32 %r6, %r6, 7;
  atom.global.sys.and.b32 %r4, [%d1+28], %r6;
  and.b32 %r7, %r1, 31; mov.u32 %r8, 1; shl.b32 %r8, %r8, %r7;
  atom.global.sys.or.b32 %r4, [%d1+32], %r8;
  atom.global.sys.xor.b32 %r4, [%d1+36], %r1;
  sub.u32 %r9, %r9, 1;
  setp.ne.u32 %p, %r9, 0;
  @%p bra again;
  ret;
}
`;

const count = 10_000, block = 256, grid = Math.ceil(count / block);

function inputs(name: string): readonly [Float32Array, Float32Array] {
  const random = randomFor(name);
  const vector = () => Float32Array.from({ length: count }, () => random.below(2 ** 24) / 2 ** 24);
  return [vector(), vector()];
}

function isSum([a, b]: readonly [Float32Array, Float32Array], c: Float32Array): boolean {
  return c.every((value, index) => value === Math.fround(a[index]! + b[index]!));
}

testOnEachDriver(
  "streamOrderedAllocation: sums in memory of each step, and with a threshold for the pool",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using module = gpu.loadModule(ptx);
    const add = module.kernel("vectorAdd");
    const values = inputs("streamOrderedAllocation");
    using pool = gpu.createPool();
    for (const releaseThreshold of [0, Infinity]) {
      pool.releaseThreshold = releaseThreshold;
      for (let step = 0; step < 5; step++) {
        using a = pool.allocateArray(values[0], stream);
        using b = pool.allocateArray(values[1], stream);
        using c = pool.allocateArray(Float32Array, count, stream);
        add.launch({ grid, block, stream }, a, b, c, count);
        assert(isSum(values, await c.toTypedArray({ stream })));
      }
      await stream.finished();
      pool.usage();
      const { reserved, used } = pool.usage();
      assertEquals(used, 0);
      assertEquals(reserved > 0, releaseThreshold === Infinity, String(reserved));
    }
  },
);

testOnEachDriver("streamOrderedAllocationP2P: a device reads the memory of another one's pool", async (cuda) => {
  const [owner, peer] = [cuda.device(0), cuda.device(1)];
  using pool = owner.createPool();
  using ownStream = owner.createStream();
  using stream = peer.createStream();
  using module = peer.loadModule(ptx);
  const values = inputs("streamOrderedAllocationP2P");
  using a = pool.allocateArray(values[0], ownStream);
  using b = pool.allocateArray(values[1], ownStream);
  pool.setAccess(peer, "read-write");
  using results = peer.createPool();
  using c = results.allocateArray(Float32Array, count, stream);
  stream.wait(ownStream);
  module.kernel("vectorAdd").launch({ grid, block, stream }, a, b, c, count);
  assert(isSum(values, await c.toTypedArray({ stream })));
}, { devices: 2 });

/** Captures a sum in memory that the graph allocates, and frees again. The result goes to `c`. */
function captureSum(
  gpu: CudaDevice,
  { pool, stream, c }: { pool: MemoryPool; stream: CudaStream; c: DeviceArray<Float32Array> },
  values: readonly [Float32Array, Float32Array],
) {
  const module = gpu.loadModule(ptx);
  const addresses: bigint[] = [];
  const graph = stream.capture(() => {
    using a = pool.allocateArray(values[0], stream);
    using b = pool.allocateArray(values[1], stream);
    addresses.push(a.address, b.address);
    module.kernel("vectorAdd").launch({ grid, block, stream }, a, b, c, count);
  });
  module[Symbol.dispose]();
  return { graph, addresses };
}

testOnEachDriver(
  "graphMemoryFootprint: graphs on one stream share memory, which is returned",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream({ nonBlocking: true });
    using pool = gpu.createPool();
    const values = inputs("graphMemoryFootprint");
    using c = pool.allocateArray(Float32Array, count, stream);
    gpu.graphMemory.trim();
    const { reserved: before } = gpu.graphMemory.usage();

    const reservedOf = async (launches: number) => {
      const made = Array.from({ length: launches }, () => captureSum(gpu, { pool, stream, c }, values));
      assertEquals(
        new Set(made.flatMap(({ addresses }) => addresses)).size,
        2 * launches,
        "each has addresses of its own",
      );
      const execs = made.map(({ graph }) => graph.instantiate());
      for (const exec of execs) exec.launch(stream);
      assert(isSum(values, await c.toTypedArray({ stream })));
      const { reserved } = gpu.graphMemory.usage();
      for (const exec of execs) exec[Symbol.dispose]();
      for (const { graph } of made) graph[Symbol.dispose]();
      gpu.graphMemory.trim();
      return reserved - before;
    };
    const one = await reservedOf(1);
    assert(one > 0);
    assertEquals(await reservedOf(3), one, "launches one behind the other use the same memory");
    assertEquals(gpu.graphMemory.usage().reserved, before, "what no graph uses is returned");
  },
);

testOnEachDriver("graphMemoryFootprint: an allocation behind a free has the same address", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  const addresses: bigint[] = [];
  using _graph = stream.capture(() => {
    for (let time = 0; time < 3; time++) {
      using buffer = pool.allocate(2 ** 20, stream);
      addresses.push(buffer.address);
    }
  });
  assertEquals(new Set(addresses).size, 1);
});

testOnEachDriver("simpleZeroCopy: a kernel adds vectors in the host's memory", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using module = gpu.loadModule(ptx);
  const values = inputs("simpleZeroCopy");
  const page = 4096 * Math.ceil(4 * count / 4096);
  for (const isRegistered of [false, true]) {
    const host = () => isRegistered ? cuda.registerHost(new SharedArrayBuffer(page)) : cuda.allocateHost(page);
    using a = host();
    using b = host();
    using c = host();
    const [first, second, sums] = [a, b, c].map(({ buffer }) => new Float32Array(buffer, 0, count));
    first!.set(values[0]);
    second!.set(values[1]);
    module.kernel("vectorAdd").launch({ grid, block, stream }, a, b, c, count);
    await stream.finished();
    assert(isSum(values, sums!.slice()));
  }
});

testOnEachDriver("systemWideAtomics: the host and a kernel change the same numbers", async (cuda) => {
  const gpu = cuda.device(0);
  if (gpu.attribute("concurrentManagedAccess") === 0) return;
  const threads = 256, blocks = 4, loops = 20;
  using stream = gpu.createStream();
  using module = gpu.loadModule(ptx);
  // Over PCI Express, atomic operations of a device on page-locked memory are not atomic for the host.
  using managed = gpu.allocateManaged(4096);
  const numbers = new Int32Array(managed.hostView(), 0, 10);
  numbers[7] = numbers[9] = 0xff;
  module.kernel("loop").launch({ grid: blocks, block: threads, stream }, managed, loops);
  const total = threads * blocks;
  const change = (index: number, next: (old: number) => number) => {
    for (let old = Atomics.load(numbers, index);;) {
      const found = Atomics.compareExchange(numbers, index, old, next(old));
      if (found === old) return;
      old = found;
    }
  };
  for (let id = total; id < total + threads; id++) {
    for (let loop = 0; loop < loops; loop++) {
      Atomics.add(numbers, 0, 10);
      Atomics.exchange(numbers, 1, id);
      change(2, (old) => Math.max(old, id));
      change(3, (old) => Math.min(old, id));
      change(4, (old) => old >= 17 ? 0 : old + 1);
      change(5, (old) => old === 0 || old > 137 ? 137 : old - 1);
      Atomics.compareExchange(numbers, 6, id - 1, id);
      Atomics.and(numbers, 7, 2 * id + 7);
      Atomics.or(numbers, 8, 1 << (id & 31));
      Atomics.xor(numbers, 9, id);
    }
  }
  await stream.finished();
  const all = total + threads;
  assertEquals(numbers[0], 10 * all * loops, "add");
  assert(numbers[1]! >= 0 && numbers[1]! < all, "exchange");
  assertEquals([numbers[2], numbers[3]], [all - 1, 0], "maximum and minimum");
  assert(numbers[4]! >= 0 && numbers[4]! <= 17, "increment");
  assert(numbers[5]! >= 0 && numbers[5]! <= 137, "decrement");
  assert(numbers[6]! >= 0 && numbers[6]! < all, "compare and swap");
  assertEquals(numbers[7]! & ~0xff, 0, "and");
  assertEquals(numbers[8], -1, "or: every bit");
  assertEquals(numbers[9], 0xff, "xor: an even number of times each");
});
