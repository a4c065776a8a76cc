/** Programs whose blocks work together: by waiting for the whole grid, and in clusters by each other's shared memory. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import { CudaError } from "../../src/support/errors.ts";
import { testCompiling } from "./compilers.ts";

/** The first architecture that has clusters. */
const hopper = 9;

function hasClusters(gpu: CudaDevice): boolean {
  return gpu.computeCapability[0] >= hopper;
}

testCompiling("a grid that waits for all its blocks sums an array in one launch", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.compile(`
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;

    // Each block leaves its sum in partial; after all have, the first block adds those up, in pairs.
    extern "C" __global__ void sum(const double* input, unsigned count, double* partial, double* result) {
      const cg::grid_group grid = cg::this_grid();
      const cg::thread_block block = cg::this_thread_block();
      extern __shared__ double shared[];
      double own = 0;
      for (unsigned i = grid.thread_rank(); i < count; i += grid.size()) own += input[i];
      shared[block.thread_rank()] = own;
      for (unsigned half = block.size() / 2; half > 0; half /= 2) {
        block.sync();
        if (block.thread_rank() < half) shared[block.thread_rank()] += shared[block.thread_rank() + half];
      }
      if (block.thread_rank() == 0) partial[blockIdx.x] = shared[0];
      for (unsigned left = gridDim.x; left > 1; left = (left + 1) / 2) {
        grid.sync();
        const unsigned half = (left + 1) / 2, i = grid.thread_rank();
        if (i < left / 2) partial[i] += partial[i + half];
      }
      if (grid.thread_rank() == 0) *result = partial[0];
    }`);
  const kernel = module.kernel("sum");
  const [block, count] = [256, cuda.driver === "software" ? 100_003 : 1_000_003];
  const sharedMemoryBytes = block * Float64Array.BYTES_PER_ELEMENT;
  // As many blocks as the device runs at a time.
  const grid = kernel.maxActiveBlocksPerMultiprocessor(block, sharedMemoryBytes) *
    gpu.attribute("multiProcessorCount");
  using input = gpu.currentPool.allocateArray(Float64Array, count);
  using partial = gpu.currentPool.allocateArray(Float64Array, grid);
  using result = gpu.currentPool.allocateArray(Float64Array, 1);
  const options = { grid, block, sharedMemoryBytes, cooperative: true };
  // Integers, whose sum is exact in any order.
  input.copyFrom(Float64Array.from({ length: count }, (_, i) => i % 1000));
  const expected = Array.from({ length: count }, (_, i) => i % 1000).reduce((sum, each) => sum + each);
  for (let repetition = 0; repetition < (cuda.driver === "software" ? 2 : 20); repetition++) {
    kernel.launch(options, input, count, partial, result);
    assertEquals([...await result.toTypedArray()], [expected]);
  }
  const tooMany = { ...options, grid: grid + 1 };
  assertThrows(() => kernel.launch(tooMany, input, count, partial, result), CudaError, `at most ${grid} such blocks`);
}, { long: true });

testCompiling("a cluster's blocks count into each other's shared memory", async (cuda) => {
  const gpu = cuda.device(0);
  if (!hasClusters(gpu)) return;
  using module = gpu.compile(`
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;

    // The bins of a histogram are spread over the shared memory of the cluster's blocks.
    extern "C" __global__ void histogram(const unsigned* input, unsigned count, unsigned bins, unsigned* output) {
      extern __shared__ unsigned own[];
      const cg::cluster_group cluster = cg::this_cluster();
      const unsigned perBlock = bins / cluster.num_blocks();
      for (unsigned i = threadIdx.x; i < perBlock; i += blockDim.x) own[i] = 0;
      cluster.sync();
      for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const unsigned bin = input[i] % bins;
        atomicAdd(cluster.map_shared_rank(own, bin / perBlock) + bin % perBlock, 1);
      }
      cluster.sync();
      const unsigned first = cluster.block_rank() * perBlock;
      for (unsigned i = threadIdx.x; i < perBlock; i += blockDim.x) atomicAdd(&output[first + i], own[i]);
    }`);
  const kernel = module.kernel("histogram");
  const [count, bins, block] = [200_000, 4096, 128];
  const cluster = 4;
  using input = gpu.currentPool.allocateArray(Uint32Array, count);
  using output = gpu.currentPool.allocateArray(Uint32Array, bins);
  const options = { grid: 8 * cluster, block, cluster, sharedMemoryBytes: bins / cluster * 4 };
  const values = Uint32Array.from({ length: count }, (_, i) => Math.imul(i, 2654435761) >>> 7);
  const expected = new Uint32Array(bins);
  for (const value of values) expected[value % bins]!++;
  input.copyFrom(values);
  output.fill(0);
  kernel.launch(options, input, count, bins, output);
  assertEquals(await output.toTypedArray(), expected);
  assert(kernel.maxActiveClusters({ block, cluster, sharedMemoryBytes: options.sharedMemoryBytes }) > 0);
}, { long: true, lacking: { clang: "cooperative_groups.h has no clusters for clang" } });
