/**
 * The programs by which NVIDIA's samples show NVRTC, written anew from what they do, each with the check that the sample
 * makes of its own results.
 *
 * @see https://github.com/NVIDIA/cuda-samples
 */
import { assert, assertEquals } from "@std/assert";
import { randomFor } from "../support/ptx_mutations.ts";
import { testCompiling } from "./compilers.ts";
import { directionNumbers, quasirandomValue } from "./quasirandom_reference.ts";

testCompiling("vectorAdd: C = A + B for 50,000 elements", async (cuda) => {
  const gpu = cuda.device(0);
  const count = 50_000;
  using module = gpu.compile(
    `extern "C" __global__ void vectorAdd(const float* a, const float* b, float* c, int count) {
      const int i = blockDim.x * blockIdx.x + threadIdx.x;
      if (i < count) c[i] = a[i] + b[i] + 0.0f;
    }`,
    { name: "vectorAdd_kernel.cu" },
  );
  using stream = gpu.createStream();
  const pool = gpu.currentPool;
  const random = randomFor("vectorAdd");
  const [a, b] = [0, 1].map(() => Float32Array.from({ length: count }, () => random.below(2 ** 24) / 2 ** 24));
  using deviceA = pool.allocateArray(Float32Array, count, stream);
  using deviceB = pool.allocateArray(Float32Array, count, stream);
  using deviceC = pool.allocateArray(Float32Array, count, stream);
  deviceA.copyFrom(a!);
  deviceB.copyFrom(b!);
  const block = 256;
  module.kernel("vectorAdd").launch(
    { grid: Math.ceil(count / block), block, stream },
    deviceA,
    deviceB,
    deviceC,
    count,
  );
  const c = await deviceC.toTypedArray();
  assert(c.every((value, i) => Math.abs(a![i]! + b![i]! - value) <= 1e-5));
});

testCompiling("matrixMul: a product of matrices in tiles, from a template", async (cuda) => {
  const gpu = cuda.device(0);
  const blockSize = 16;
  using module = gpu.compile(
    `template <int BLOCK_SIZE>
    __global__ void matrixMul(float* C, const float* A, const float* B, int widthA, int widthB) {
      __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
      __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
      const int row = blockIdx.y * BLOCK_SIZE + threadIdx.y, column = blockIdx.x * BLOCK_SIZE + threadIdx.x;
      float sum = 0;
      for (int tile = 0; tile < widthA; tile += BLOCK_SIZE) {
        As[threadIdx.y][threadIdx.x] = A[row * widthA + tile + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(tile + threadIdx.y) * widthB + column];
        __syncthreads();
    #pragma unroll
        for (int k = 0; k < BLOCK_SIZE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
      }
      C[row * widthB + column] = sum;
    }`,
    { name: "matrixMul_kernel.cu", nameExpressions: [`matrixMul<${blockSize}>`] },
  );
  const [heightA, widthA, widthB] = [5 * blockSize, 10 * blockSize, 20 * blockSize];
  const pool = gpu.currentPool;
  using a = pool.allocateArray(Float32Array, heightA * widthA);
  using b = pool.allocateArray(Float32Array, widthA * widthB);
  using c = pool.allocateArray(Float32Array, heightA * widthB);
  a.fill(1);
  const valueB = 0.01;
  b.fill(valueB);
  const kernel = module.kernel(`matrixMul<${blockSize}>`);
  kernel.launch(
    { grid: [widthB / blockSize, heightA / blockSize], block: [blockSize, blockSize] },
    c,
    a,
    b,
    widthA,
    widthB,
  );
  const expected = widthA * valueB;
  for (const value of await c.toTypedArray()) {
    const relativeError = Math.abs(value - expected) / Math.abs(value) / widthA;
    assert(relativeError <= 1e-6, `${value} instead of ${expected}`);
  }
});

testCompiling("clock: each block measures its own time", async (cuda) => {
  const gpu = cuda.device(0);
  const [blocks, threads] = [64, 256];
  using module = gpu.compile(
    `extern "C" __global__ void timedReduction(const float* input, float* output, clock_t* timer) {
      extern __shared__ float shared[];
      const int tid = threadIdx.x, bid = blockIdx.x;
      if (tid == 0) timer[bid] = clock();
      shared[tid] = input[tid];
      shared[tid + blockDim.x] = input[tid + blockDim.x];
      for (int d = blockDim.x; d > 0; d /= 2) {
        __syncthreads();
        if (tid < d) {
          const float first = shared[tid], second = shared[tid + d];
          if (second < first) shared[tid] = second;
        }
      }
      if (tid == 0) output[bid] = shared[0];
      __syncthreads();
      if (tid == 0) timer[bid + gridDim.x] = clock();
    }`,
    { name: "clock_kernel.cu" },
  );
  const pool = gpu.currentPool;
  using input = pool.allocateArray(Float32Array, threads * 2);
  using output = pool.allocateArray(Float32Array, blocks);
  using timer = pool.allocateArray(BigInt64Array, blocks * 2);
  input.copyFrom(Float32Array.from({ length: threads * 2 }, (_, i) => (i * 167 + 5) % 512 - 3));
  const options = { grid: blocks, block: threads, sharedMemoryBytes: 2 * threads * Float32Array.BYTES_PER_ELEMENT };
  module.kernel("timedReduction").launch(options, input, output, timer);
  assertEquals(new Set(await output.toTypedArray()), new Set([-3]));
  const times = await timer.toTypedArray();
  // A clock of 32 bits may start anew between the two.
  const elapsed = Array.from({ length: blocks }, (_, i) => BigInt.asUintN(32, times[i + blocks]! - times[i]!));
  assert(elapsed.every((clocks) => clocks > 0n && clocks < 2n ** 31n), `${elapsed}`);
});

testCompiling("simpleTemplates: one kernel for floats and for ints", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.compile(
    `template <class T> struct SharedMemory;
    template <> struct SharedMemory<int> { static __device__ int* get() { extern __shared__ int ints[]; return ints; } };
    template <> struct SharedMemory<float> {
      static __device__ float* get() { extern __shared__ float floats[]; return floats; }
    };
    template <class T> __global__ void testKernel(const T* input, T* output) {
      T* shared = SharedMemory<T>::get();
      shared[threadIdx.x] = input[threadIdx.x];
      __syncthreads();
      shared[threadIdx.x] = T(blockDim.x) * shared[threadIdx.x];
      __syncthreads();
      output[threadIdx.x] = shared[threadIdx.x];
    }`,
    { name: "simpleTemplates_kernel.cu", nameExpressions: ["testKernel<float>", "testKernel<int>"] },
  );
  const threads = 32;
  const options = { grid: 1, block: threads, sharedMemoryBytes: threads * 4 };
  const multiplied = Array.from({ length: threads }, (_, i) => i * threads);
  using floats = gpu.currentPool.allocateArray(Float32Array, threads);
  floats.copyFrom(Float32Array.from({ length: threads }, (_, i) => i));
  module.kernel("testKernel<float>").launch(options, floats, floats);
  assertEquals([...await floats.toTypedArray()], multiplied);
  using ints = gpu.currentPool.allocateArray(Int32Array, threads);
  ints.copyFrom(Int32Array.from({ length: threads }, (_, i) => i));
  module.kernel("testKernel<int>").launch(options, ints, ints);
  assertEquals([...await ints.toTypedArray()], multiplied);
});

testCompiling("simpleAtomicIntrinsics: each atomic operation on one word", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.compile(
    `extern "C" __global__ void testKernel(int* data) {
      const unsigned tid = blockDim.x * blockIdx.x + threadIdx.x;
      atomicAdd(&data[0], 10);
      atomicSub(&data[1], 10);
      atomicExch(&data[2], tid);
      atomicMax(&data[3], tid);
      atomicMin(&data[4], tid);
      atomicInc((unsigned*)&data[5], 17);
      atomicDec((unsigned*)&data[6], 137);
      atomicCAS(&data[7], tid - 1, tid);
      atomicAnd(&data[8], 2 * tid + 7);
      atomicOr(&data[9], 1 << tid);
      atomicXor(&data[10], tid);
    }`,
    { name: "simpleAtomicIntrinsics_kernel.cuh" },
  );
  const [blocks, threads] = [64, 256];
  const total = blocks * threads;
  using data = gpu.currentPool.allocateArray(Int32Array, 11);
  data.copyFrom(Int32Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0xff));
  module.kernel("testKernel").launch({ grid: blocks, block: threads }, data);
  const result = await data.toTypedArray();
  const each = (apply: (value: number, tid: number) => number, start = 0) =>
    Array.from({ length: total }, (_, tid) => tid).reduce(apply, start);
  assertEquals(result[0], 10 * total);
  assertEquals(result[1], -10 * total);
  assert(result[2]! >= 0 && result[2]! < total, "the last thread that exchanged");
  assertEquals(result[3], total - 1);
  assertEquals(result[4], 0);
  assertEquals(result[5], each((value) => value >= 17 ? 0 : value + 1));
  assertEquals(result[6], each((value) => value === 0 || value > 137 ? 137 : value - 1));
  assert(result[7]! >= 0 && result[7]! < total, "the last thread that found its predecessor");
  assertEquals(result[8], each((value, tid) => value & (2 * tid + 7), 0xff));
  assertEquals(result[9], -1);
  assertEquals(result[10], each((value, tid) => value ^ tid, 0xff));
});

testCompiling(
  "quasirandomGenerator: Niederreiter's sequence, and the inverse of the normal distribution",
  async (cuda) => {
    const gpu = cuda.device(0);
    const [dimensions, resolution, count] = [3, 31, 1 << 14];
    using module = gpu.compile(
      `#define INT_SCALE (1.0f / (float)0x80000001U)
    __constant__ unsigned table[DIMENSIONS][RESOLUTION];

    extern "C" __global__ void quasirandom(float* output, unsigned seed, unsigned count) {
      const unsigned* row = table[threadIdx.y];
      const unsigned stride = blockDim.x * gridDim.x;
      for (unsigned position = blockIdx.x * blockDim.x + threadIdx.x; position < count; position += stride) {
        unsigned result = 0, data = seed + position;
        for (int bit = 0; bit < RESOLUTION; bit++, data >>= 1) if (data & 1) result ^= row[bit];
        output[threadIdx.y * count + position] = (float)(result + 1) * INT_SCALE;
      }
    }

    // Moro's approximation.
    __device__ float inverseNormal(unsigned x) {
      const bool isNegative = x < 0x80000000u;
      const float ft = 1.0f / 4294967296.0f, half = ft / 2;
      float z = isNegative ? 0.5f - (x * ft + half) : 0.5f - ((0xffffffffu - x) * ft + half);
      if (z < 0.42f) {
        const float p = z * z;
        const float above = ((-25.4410605f * p + 41.3911972f) * p - 18.6150006f) * p + 2.50662823f;
        const float below = (((3.13082909f * p - 21.0622410f) * p + 23.0833676f) * p - 8.47351093f) * p + 1.0f;
        z = above / below * z;
      } else {
        const float p = logf(-logf(0.5f - z));
        z = 0.337475482f + p * (0.976169021f + p * (0.160797971f + p * (2.76438810e-2f + p * (3.84057293e-3f +
          p * (3.95189638e-4f + p * (3.21767881e-5f + p * (2.88816736e-7f + p * 3.96031519e-7f)))))));
      }
      return isNegative ? -z : z;
    }

    extern "C" __global__ void inverseCND(float* output, unsigned count) {
      const unsigned distance = 0xffffffffu / (count + 1);
      const unsigned stride = blockDim.x * gridDim.x;
      for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        output[i] = inverseNormal((i + 1) * distance);
      }
    }`,
      {
        name: "quasirandomGenerator_kernel.cu",
        defines: { DIMENSIONS: dimensions, RESOLUTION: resolution },
        nameExpressions: ["&table"],
      },
    );
    const numbers = directionNumbers(dimensions);
    const table = numbers.flatMap((row) => row.slice(0, resolution).map((each) => Number(each >> 32n & 0x7fffffffn)));
    module.getGlobal("&table").copyFrom(Uint32Array.from(table));
    const { kernelNames } = module;
    assertEquals(new Set(kernelNames), new Set(["quasirandom", "inverseCND"]));
    using output = gpu.currentPool.allocateArray(Float32Array, dimensions * count);
    for (const seed of [0, 1_000_003]) {
      module.kernel("quasirandom").launch({ grid: 16, block: [64, dimensions] }, output, seed, count);
      const values = await output.toTypedArray();
      const expected = numbers.flatMap((row) =>
        Array.from({ length: count }, (_, i) => quasirandomValue(row, BigInt(seed + i)))
      );
      assertNorm(values, expected);
      // Each dimension of a digital sequence has one point in each interval, which the reference does not know of.
      for (let row = 0; row < dimensions && seed === 0; row++) {
        const part = values.subarray(row * count, (row + 1) * count);
        assertEquals(new Set(part.map((value) => Math.min(Math.floor(value * 1024), 1023))).size, 1024);
      }
    }
    module.kernel("inverseCND").launch({ grid: 16, block: 128 }, output, count);
    const distance = Math.floor(0xffffffff / (count + 1));
    const expected = Array.from({ length: count }, (_, i) => inverseNormal(((i + 1) * distance + 0.5) / 2 ** 32));
    assertNorm((await output.toTypedArray()).subarray(0, count), expected);
  },
);

/** The samples' own measure: the sum of the differences, relative to the sum of the values. */
function assertNorm(actual: Float32Array, expected: readonly number[]): void {
  const sum = (values: Iterable<number>) => [...values].reduce((total, value) => total + Math.abs(value), 0);
  const norm = sum(expected.map((value, i) => value - actual[i]!)) / sum(expected);
  assert(norm < 1e-6, `an L1 norm of ${norm}`);
}

/** The inverse of the standard normal distribution in double precision, by Newton's method on its integral. */
function inverseNormal(probability: number): number {
  let x = 0;
  for (let step = 0; step < 60; step++) {
    const change = (normal(x) - probability) / (Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI));
    x -= Math.max(-1, Math.min(1, change));
    if (Math.abs(change) < 1e-13) break;
  }
  return x;
}

/** The standard normal distribution: a series that converges for the arguments of the test. */
function normal(x: number): number {
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= x * x / (2 * n + 1);
  return 0.5 + sum * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
}
