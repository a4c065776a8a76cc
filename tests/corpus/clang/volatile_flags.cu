// Warps that wait for each other by volatile and atomic loads, in shared and global memory: a thread of each.
#include "device.h"

extern "C" __global__ void volatile_flags(const int32* in, int32* out, volatile int32* mailbox, uint64* tickets) {
  __shared__ volatile int32 turn;
  __shared__ volatile uint8 bytes[32];
  __shared__ int32 total;
  const uint32 warp = __nvvm_read_ptx_sreg_tid_x() / 32;
  const bool is_first = __nvvm_read_ptx_sreg_tid_x() % 32 == 0;
  if (is_first && warp == 0) {
    turn = 0;
    total = 1;
  }
  if (is_first) bytes[warp] = static_cast<uint8>(in[warp]);
  __syncthreads();
  // Each in its turn, the last warp first.
  bool done = !is_first;
  while (!done) {
    if (turn == static_cast<int32>(31 - warp)) {
      total = total * 3 + bytes[warp];
      out[warp] = total;
      __nvvm_membar_cta();
      turn = turn + 1;
      done = true;
    }
  }
  __syncthreads();
  if (is_first && warp == 7) {
    mailbox[1] = 4711;
    __nvvm_membar_gl();
    mailbox[0] = 1;
  } else if (is_first && warp == 20) {
    while (mailbox[0] == 0) {
    }
    mailbox[2] = mailbox[1] + out[0];
  }
  __syncthreads();
  volatile double* number = reinterpret_cast<volatile double*>(tickets + 1);
  if (is_first && warp == 1) *number = *number + 0.5;
  if (is_first) __atomic_fetch_add(tickets, 1ULL << (warp & 15), __ATOMIC_RELAXED);
}
