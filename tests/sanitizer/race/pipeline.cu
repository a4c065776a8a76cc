// A pipeline of two blocks of a cluster: each copies its half of a stage to both, and both read the whole stage.
// Compiled by `deno run -A tests/sanitizer/race/compile.ts`.
#include <cstdint>

enum Mistake { none, relaxedStart, emptiesOwnOnly, noTail };

constexpr int stages = 2, half = 16, consumers = 32, rounds = 4;

__device__ uint32_t sharedAddress(const void* pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }

__device__ void initialize(uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(count));
}

__device__ void await(uint64_t* barrier, int parity) {
  uint32_t isDone = 0;
  while (isDone == 0) {
    asm volatile(
      "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
      : "=r"(isDone) : "r"(sharedAddress(barrier)), "r"(parity) : "memory");
  }
}

__device__ void expectBytes(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(bytes));
}

__device__ void arriveAt(uint64_t* barrier, uint32_t block) {
  asm volatile(
    "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    ::"r"(sharedAddress(barrier)), "r"(block) : "memory");
}

__device__ void copyToBoth(void* target, const void* source, uint64_t* barrier) {
  asm volatile(
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
    ::"r"(sharedAddress(target)), "l"(source), "n"(4 * half), "r"(sharedAddress(barrier)), "h"((uint16_t)3) : "memory");
}

template <Mistake mistake> __device__ void run(const int* in, int* out) {
  __shared__ __align__(128) int buffer[stages][2 * half];
  __shared__ uint64_t full[stages], empty[stages];
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; stage++) {
      initialize(&full[stage], 1);
      initialize(&empty[stage], 2 * consumers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (mistake == relaxedStart) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  else asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  __syncthreads();
  if (threadIdx.x >= consumers) {
    if (threadIdx.x > consumers) return;
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
      int stage = round % stages;
      await(&empty[stage], round / stages % 2 ^ 1);
      expectBytes(&full[stage], 8 * half);
      copyToBoth(&buffer[stage][rank * half], in + (2 * round + rank) * half, &full[stage]);
    }
    if (mistake == noTail) return;
#pragma unroll 1
    for (int round = rounds; round < rounds + stages; round++) await(&empty[round % stages], round / stages % 2 ^ 1);
    return;
  }
  int sum = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    int stage = round % stages;
    await(&full[stage], round / stages % 2);
    sum += buffer[stage][threadIdx.x];
    if (mistake == emptiesOwnOnly) {
      arriveAt(&empty[stage], rank);
      arriveAt(&empty[stage], rank);
    } else {
      arriveAt(&empty[stage], 0);
      arriveAt(&empty[stage], 1);
    }
  }
  out[blockIdx.x * consumers + threadIdx.x] = sum;
}

#define PIPELINE(mistake) \
  extern "C" __global__ void __cluster_dims__(2) mistake##_pipeline(const int* in, int* out, int) { run<mistake>(in, out); }
PIPELINE(none)
PIPELINE(relaxedStart)
PIPELINE(emptiesOwnOnly)
PIPELINE(noTail)
