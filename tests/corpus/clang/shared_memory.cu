// Shared variables, barriers, and what the threads of a warp tell each other.
#include "device.h"

#define ALL 0xffffffffu

extern "C" __global__ void shared_memory(const int32* in, int32* sums, uint32* warps) {
  __shared__ int32 tile[4][33];
  __shared__ struct {
    uint8 bytes[128];
    int64 total;
  } shared;
  const uint32 thread = __nvvm_read_ptx_sreg_tid_x();
  const uint32 i = THREAD_INDEX();
  const uint32 lane = thread % 32;
  const int32 value = in[i];

  tile[thread / 32][lane] = value;
  shared.bytes[thread] = static_cast<uint8>(value);
  if (thread == 0) shared.total = 0;
  __syncthreads();
  const int32 transposed = tile[thread % 4][thread / 4];
  const uint8 reversed = shared.bytes[127 - thread];

  int32 sum = value;
  for (int32 offset = 16; offset > 0; offset /= 2) sum += __nvvm_shfl_sync_down_i32(ALL, sum, offset, 31);
  if (lane == 0) __nvvm_atom_add_gen_ll(&shared.total, sum);
  __nvvm_bar_sync(1);
  sums[i * 3] = transposed;
  sums[i * 3 + 1] = reversed;
  sums[i * 3 + 2] = static_cast<int32>(shared.total * 3);

  uint32* row = warps + i * 6;
  row[0] = __nvvm_vote_ballot_sync(ALL, value & 1);
  row[1] = __nvvm_vote_any_sync(ALL, value % 64 == 0) | __nvvm_vote_all_sync(ALL, value > -2147483647) << 1 |
           __nvvm_vote_uni_sync(ALL, value & 4) << 2;
  row[2] = __nvvm_match_any_sync_i32(ALL, static_cast<uint32>(value) % 5);
  row[3] = __nvvm_shfl_sync_bfly_i32(ALL, value, 5, 31) ^ __nvvm_shfl_sync_up_i32(ALL, value, 3, 0);
  row[4] = __nvvm_bar0_popc(value & 2);
  row[5] = __nvvm_bar0_and(value != 5) + __nvvm_bar0_or(thread == 5 && value & 1) * 2;
  __nvvm_bar_warp_sync(ALL);
}
