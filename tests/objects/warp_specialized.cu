// A product of matrices by a persistent kernel with specialized warps, in the style of CUTLASS: one warp loads tiles of
// both factors by tensor copies into a pipeline of stages, the others wait for a stage, compute, and release it.
//
// Compiled by nvcc 13.0: nvcc -ptx -arch=sm_90a warp_specialized.cu
#include <cuda.h>
#include <stdint.h>

constexpr int tileM = 32, tileN = 32, tileK = 32, stages = 3, consumers = 128;

struct Shared {
  alignas(1024) float a[stages][tileM][tileK];
  alignas(1024) float b[stages][tileN][tileK];
  alignas(1024) float c[tileM][tileN];
  alignas(8) uint64_t full[stages], empty[stages];
};

__device__ uint32_t address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

__device__ void init(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(count) : "memory");
}

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n"
      "}" ::"r"(address(barrier)), "r"(parity) : "memory");
}

__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

__device__ void expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}

__device__ void load(void* to, const CUtensorMap* map, int x, int y, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          address(to)),
      "l"(map), "r"(x), "r"(y), "r"(address(barrier))
      : "memory");
}

__device__ bool elected() {
  uint32_t chosen;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}" : "=r"(chosen));
  return chosen != 0;
}

// The index of a word in a row of 128 bytes whose pieces of 16 bytes are exchanged.
__device__ int swizzled(int row, int column) { return (column & 3) | ((column >> 2 ^ (row & 7)) << 2); }

extern "C" __global__ void __launch_bounds__(consumers + 128)
multiply(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
         const __grid_constant__ CUtensorMap c, int rows, int columns, int depth) {
  extern __shared__ unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) & ~uintptr_t(1023));
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; stage++) {
      init(&shared.full[stage], 1);
      init(&shared.empty[stage], consumers / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&a) : "memory");
  }
  __syncthreads();
  const int tilesN = (columns + tileN - 1) / tileN, tiles = (rows + tileM - 1) / tileM * tilesN;
  const int steps = (depth + tileK - 1) / tileK;
  int stage = 0;
  uint32_t phase = 0;
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0 && elected()) {
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int step = 0; step < steps; step++) {
          wait(&shared.empty[stage], phase ^ 1);
          expect(&shared.full[stage], sizeof shared.a[0] + sizeof shared.b[0]);
          load(shared.a[stage], &a, step * tileK, tile / tilesN * tileM, &shared.full[stage]);
          load(shared.b[stage], &b, step * tileK, tile % tilesN * tileN, &shared.full[stage]);
          if (++stage == stages) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int thread = threadIdx.x - 128;
  const int row = thread / 8, first = thread % 8;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float sums[2][4] = {};
    for (int step = 0; step < steps; step++) {
      wait(&shared.full[stage], phase);
      for (int k = 0; k < tileK; k++) {
        for (int i = 0; i < 2; i++) {
          const int m = row + 16 * i;
          const float x = shared.a[stage][m][swizzled(m, k)];
          for (int j = 0; j < 4; j++) {
            const int n = first + 8 * j;
            sums[i][j] += x * shared.b[stage][n][swizzled(n, k)];
          }
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(&shared.empty[stage]);
      if (++stage == stages) {
        stage = 0;
        phase ^= 1;
      }
    }
    // The tile before must have been read from shared memory.
    if (thread == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("bar.sync 1, 128;" ::: "memory");
    for (int i = 0; i < 2; i++) {
      for (int j = 0; j < 4; j++) shared.c[row + 16 * i][first + 8 * j] = sums[i][j];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (thread == 0) {
      asm volatile(
          "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
          "cp.async.bulk.commit_group;" ::"l"(&c),
          "r"(tile % tilesN * tileN), "r"(tile / tilesN * tileM), "r"(address(shared.c))
          : "memory");
    }
  }
  if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
