/** Blocks that work together in clusters, on devices that have them. */
import { assertEquals, assertThrows } from "@std/assert";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import { clusterKernels } from "./cluster_kernels.ts";

const upTo = (count: number, valueOf: (index: number) => number) =>
  Array.from({ length: count }, (_, index) => valueOf(index));

/** Declares a test of a kernel on each device with clusters. */
function clusterTest(name: string, body: (gpu: CudaDevice) => Promise<void>): void {
  testOnEachDriver(name, async (cuda) => {
    const gpu = cuda.device(0);
    if (gpu.attribute("clusterLaunch") !== 0) await body(gpu);
  });
}

/** Launches a kernel with a grid and clusters along x, and returns the words that it stores. */
async function stored(
  gpu: CudaDevice,
  name: string,
  { grid, cluster, block = 32, words }: {
    grid: number;
    cluster: number;
    block?: number;
    words: number;
  },
): Promise<number[]> {
  using pool = gpu.createPool();
  using module = gpu.loadModule(clusterKernels);
  using out = pool.allocateArray(Uint32Array, words);
  module.kernel(name).launch({ grid, block, cluster }, out);
  return Array.from(await out.toTypedArray());
}

clusterTest("the registers of clusters say where a block is in its cluster", async (gpu) => {
  using pool = gpu.createPool();
  using module = gpu.loadModule(clusterKernels);
  const grid = [4, 6, 2] as const;
  using out = pool.allocateArray(Uint32Array, 4 * 6 * 2 * 14);
  for (const cluster of [[2, 3, 1], [1, 1, 1], [4, 1, 2], [1, 2, 2]] as const) {
    module.kernel("registers").launch({ grid: [...grid], block: 1, cluster: [...cluster] }, out);
    const expected: number[] = [];
    for (let block = 0; block < 48; block++) {
      const at = [block % 4, Math.floor(block / 4) % 6, Math.floor(block / 24)];
      const within = at.map((index, axis) => index % cluster[axis]!);
      expected.push(...within, ...cluster);
      expected.push(...at.map((index, axis) => Math.floor(index / cluster[axis]!)));
      expected.push(...grid.map((size, axis) => size / cluster[axis]!));
      expected.push(
        within[0]! + cluster[0] * (within[1]! + cluster[1] * within[2]!),
        cluster[0] * cluster[1] * cluster[2],
      );
    }
    assertEquals(Array.from(await out.toTypedArray()), expected, String(cluster));
  }
});

clusterTest("blocks of a cluster load and store in each other's shared memory", async (gpu) => {
  for (const [grid, cluster, block] of [[8, 2, 32], [8, 8, 64], [12, 4, 48], [3, 1, 32]] as const) {
    const words = await stored(gpu, "exchange", { grid, cluster, block, words: grid * block * 5 });
    const expected: number[] = [];
    for (let index = 0; index < grid; index++) {
      const rank = index % cluster, first = index - rank;
      const [next, previous, second] = [1, cluster - 1, 2 * cluster - 2].map((step) => first + (rank + step) % cluster);
      const isOwn = cluster === 1;
      for (let thread = 0; thread < block; thread++) {
        expected.push(
          previous! * 1000 + thread,
          second! * 1000 + thread,
          previous! - first,
          next! - first,
          // Of the block before, only the window of the cluster; and `mapa` of the own rank changes nothing.
          1 + (isOwn ? 2 : 0) + 4 + 8,
        );
      }
    }
    assertEquals(words, expected, `${grid} blocks in clusters of ${cluster}`);
  }
});

clusterTest("all threads of a cluster update the shared memory of one block", async (gpu) => {
  for (const [grid, cluster, block] of [[8, 4, 64], [2, 2, 33]] as const) {
    const words = await stored(gpu, "count", { grid, cluster, block, words: grid * block * 2 });
    const threads = cluster * block;
    assertEquals(
      words,
      upTo(grid * block * 2, (index) => {
        const first = Math.floor(index / 2 / threads) * threads + 1, last = first + threads - 1;
        return index % 2 === 0 ? threads * (first + last) / 2 : last;
      }),
    );
  }
});

clusterTest("st.async stores in the shared memory of another block, which waits for the bytes", async (gpu) => {
  const [grid, cluster, block] = [8, 4, 64];
  const words = await stored(gpu, "stores", { grid, cluster, block, words: grid * block * 2 });
  assertEquals(
    words,
    upTo(grid * block * 2, (index) => {
      const number = index >> 1, at = Math.floor(number / block), rank = at % cluster;
      return (at - rank + (rank + cluster - 1) % cluster) * block + number % block + index % 2 * 7;
    }),
  );
});

clusterTest("threads of all blocks arrive at a barrier in the shared memory of one", async (gpu) => {
  const [grid, cluster, block] = [8, 4, 64];
  const words = await stored(gpu, "arrivals", { grid, cluster, block, words: grid * block });
  for (let first = 0; first < grid; first += cluster) {
    const [least, most] = [first * block, (first + cluster) * block - 1];
    const sum = (least + most) * cluster * block / 2;
    assertEquals(words.slice(least, least + block), upTo(block, () => sum));
  }
});

clusterTest("cp.async.bulk copies to several blocks of a cluster", async (gpu) => {
  using pool = gpu.createPool();
  using module = gpu.loadModule(clusterKernels);
  using given = pool.allocateArray(Uint32Array, 256);
  given.copyFrom(Uint32Array.from({ length: 256 }, (_, index) => index + 1));
  for (const cluster of [1, 2, 4, 8]) {
    using out = pool.allocateArray(Uint32Array, cluster * 256);
    module.kernel("multicast").launch({ grid: cluster, block: 32, cluster }, out, given);
    const expected = upTo(cluster * 256, (index) => {
      const receiver = index >> 8, sender = (index & 255) >> 4;
      const isSent = sender < cluster && (sender % 2 === 0 || receiver % 2 === 0);
      return isSent ? (index & 255) + 1 : 0;
    });
    assertEquals(Array.from(await out.toTypedArray()), expected, `${cluster}`);
  }
});

clusterTest("cp.async.bulk copies from one block's shared memory to another's", async (gpu) => {
  const [grid, cluster, block] = [8, 4, 64];
  const words = await stored(gpu, "copies", { grid, cluster, block, words: grid * block });
  assertEquals(
    words,
    upTo(grid * block, (index) => {
      const at = Math.floor(index / block), rank = at % cluster;
      return (at - rank + (rank + cluster - 1) % cluster) * block + index % block;
    }),
  );
});

clusterTest("barrier.cluster completes phase after phase", async (gpu) => {
  const [grid, cluster, block] = [8, 4, 40];
  const words = await stored(gpu, "phases", { grid, cluster, block, words: grid * block });
  assertEquals(
    words,
    upTo(grid * block, (index) => {
      const at = Math.floor(index / block), rank = at % cluster;
      return (at - rank + (rank + 5 * (cluster - 1)) % cluster) * block + index % block + 15;
    }),
  );
});

clusterTest("a launch may count clusters, by the directive .blocksareclusters", async (gpu) => {
  using pool = gpu.createPool();
  using out = pool.allocateArray(Uint32Array, 4 * 12);
  using module = gpu.loadModule(`.version 9.0
.target sm_90
.address_size 64
.visible .entry count(.param .u64 out) .blocksareclusters .reqntid 4, 1, 1 .reqnctapercluster 2, 1, 1 {
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 4, %r2;
  mul.wide.u32 %rd2, %r3, 4; add.u64 %rd1, %rd1, %rd2;
  mov.u32 %r4, %nctaid.x; mov.u32 %r5, %cluster_ctarank; mad.lo.u32 %r4, %r4, 10, %r5; st.global.u32 [%rd1], %r4;
  ret;
}`);
  for (const block of [4, 1]) {
    out.fill(0);
    // 3 clusters of 2 blocks of 4 threads.
    module.kernel("count").launch({ grid: 3, block }, out);
    assertEquals(
      Array.from(await out.toTypedArray()),
      upTo(48, (index) => index < 24 ? 60 + (index >> 2) % 2 : 0),
      String(block),
    );
  }
});

const header = ".version 8.1\n.target sm_90\n.address_size 64\n";

test("the errors of clusters say what is wrong", () => {
  for (
    const [body, cluster, message] of [
      [
        ".shared .b32 sm; mov.u32 %r1, sm; mapa.shared::cluster.u32 %r1, %r1, 3; ld.shared::cluster.u32 %r2, [%r1]; " +
        "barrier.cluster.arrive; barrier.cluster.wait;",
        2,
        "reads 4 bytes at",
      ],
      [
        ".shared .b32 sm; mov.u32 %r1, sm; mapa.shared::cluster.u32 %r1, %r1, 1; st.shared::cluster.u32 [%r1+4], %r2; " +
        "barrier.cluster.arrive; barrier.cluster.wait;",
        2,
        "right past the 4 bytes of static shared memory",
      ],
      [
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra END; barrier.cluster.arrive; END: barrier.cluster.wait; " +
        "bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait; @!%p1 bra LAST; mov.u32 %r2, %tid.x; " +
        "setp.eq.u32 %p2, %r2, 0; @%p2 bra LAST; bar.sync 1, 64; LAST: barrier.cluster.arrive; barrier.cluster.wait;",
        2,
        "and none can continue",
      ],
    ] as const
  ) {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, threads: 1 })));
    const gpu = cuda.device(0);
    using module = gpu.loadModule(
      `${header}.visible .entry test() { .reg .pred %p<4>; .reg .b32 %r<4>; ${body} ret; }`,
    );
    module.kernel("test").launch({ grid: 2, block: 32, cluster });
    assertThrows(() => gpu.synchronize(), CudaError, message);
  }
});

test("the sizes of clusters are checked as CUDA does", () => {
  using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, threads: 1 })));
  const gpu = cuda.device(0);
  const kernel = (directives: string) =>
    gpu.loadModule(`${header}.visible .entry test() ${directives} { ret; }`).kernel("test");
  const refusal = (directives: string, options: { grid: number; cluster?: number }) =>
    (assertThrows(() => kernel(directives).launch({ block: 32, ...options }), CudaError) as CudaError).code;
  assertEquals(refusal(".reqnctapercluster 2", { grid: 3 }), "cudaErrorInvalidClusterSize");
  assertEquals(refusal(".reqnctapercluster 2", { grid: 4, cluster: 4 }), "cudaErrorInvalidClusterSize");
  assertEquals(refusal(".maxclusterrank 2", { grid: 4, cluster: 4 }), "cudaErrorInvalidClusterSize");
  assertEquals(refusal("", { grid: 32, cluster: 32 }), "cudaErrorInvalidClusterSize");
  kernel(".explicitcluster .reqnctapercluster 2, 1, 1").launch({ grid: 4, block: 32 });
  kernel(".maxclusterrank 2").launch({ grid: 4, block: 32, cluster: 2 });
  kernel("").launch({ grid: 16, block: 32, cluster: 16 });
  gpu.synchronize();
});
