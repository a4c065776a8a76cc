// Threads that wait for each other by volatile and atomic loads, in shared and global memory.
#include "device.h"

extern "C" __global__ void volatile_flags(const int32* in, int32* out, volatile int32* mailbox, uint64* tickets) {
  __shared__ volatile int32 turn;
  __shared__ volatile uint8 bytes[32];
  __shared__ int32 total;
  const uint32 thread = __nvvm_read_ptx_sreg_tid_x();
  if (thread == 0) {
    turn = 0;
    total = 1;
  }
  bytes[thread] = static_cast<uint8>(in[thread]);
  __syncthreads();
  // Each in its turn, the last thread first.
  bool done = false;
  while (!done) {
    if (turn == static_cast<int32>(31 - thread)) {
      total = total * 3 + bytes[thread];
      out[thread] = total;
      __nvvm_membar_cta();
      turn = turn + 1;
      done = true;
    }
  }
  __syncthreads();
  if (thread == 7) {
    mailbox[1] = 4711;
    __nvvm_membar_gl();
    mailbox[0] = 1;
  } else if (thread == 20) {
    while (mailbox[0] == 0) {
    }
    mailbox[2] = mailbox[1] + out[0];
  }
  __syncthreads();
  volatile double* number = reinterpret_cast<volatile double*>(tickets + 1);
  if (thread == 1) *number = *number + 0.5;
  __atomic_fetch_add(tickets, 1ULL << (thread & 15), __ATOMIC_RELAXED);
}
