// Pointers that may be into any state space, some chosen where the program runs.
#include "device.h"

struct Entry {
  int32 number;
  uint8 bytes[8];
  int16 pair[2];
};

__constant__ int32 constants[8] = {3, -1, 4, -1, 5, -9, 2, -6};
__device__ int32 globals[8] = {2, 7, 1, 8, 2, 8, 1, 8};

__device__ __noinline__ int32 sum(const int32* numbers, int32 count) {
  int32 total = 0;
  for (int32 i = 0; i < count; i++) total = total * 3 + numbers[i];
  return total;
}

__device__ __noinline__ void change(Entry* entry, int32 by) {
  entry->number += by;
  for (int32 i = 0; i < 8; i++) entry->bytes[i] = static_cast<uint8>(entry->bytes[i] * 7 + by);
  entry->pair[by & 1] = static_cast<int16>(entry->pair[1] - entry->number);
}

extern "C" __global__ void generic_memory(const int32* in, int32* sums, Entry* entries) {
  __shared__ int32 shared[8];
  __shared__ Entry shared_entries[16];
  const uint32 i = THREAD_INDEX();
  const uint32 thread = __nvvm_read_ptx_sreg_tid_x();
  if (thread < 8) shared[thread] = in[thread] ^ 0x55;
  __syncthreads();

  int32 local[8];
  for (int32 item = 0; item < 8; item++) local[item] = in[(i + item) % 16] - item;
  const int32* chosen = local;
  switch (i % 5) {
    case 1: chosen = shared; break;
    case 2: chosen = globals; break;
    case 3: chosen = constants; break;
    case 4: chosen = in; break;
  }
  sums[i] = sum(chosen + i % 3, 5);

  Entry own = {in[i], {1, 2, 3, 4, static_cast<uint8>(i), 6, 7, 8}, {static_cast<int16>(in[i]), 77}};
  shared_entries[thread] = own;
  entries[i] = own;
  Entry* entry = i & 1 ? &own : &shared_entries[thread];
  if (i % 4 == 3) entry = &entries[i];
  change(entry, static_cast<int32>(i));
  change(entry, -5);
  entries[i] = *entry;
}
