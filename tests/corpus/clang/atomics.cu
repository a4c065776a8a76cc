// Atomic operations: of clang's builtins for the target, and of C.
#include "device.h"

struct Counters {
  int32 sum;
  uint32 most;
  int32 least;
  uint32 bits;
  uint32 ring;
  uint32 down;
  uint32 generic;
  uint32 swapped;
  uint64 sum64;
  uint64 most64;
  uint64 mask64;
  uint64 generic64;
  float single;
  float cas_single;
  double real;
};

__device__ Counters totals = {0, 0, 0x7fffffff, 0, 0, 0, 0, 0, 0, 0, ~0ULL};

__device__ __noinline__ void add_by_swapping(float* to, float value) {
  uint32* word = reinterpret_cast<uint32*>(to);
  uint32 seen = *reinterpret_cast<volatile uint32*>(word);
  while (!__atomic_compare_exchange_n(word, &seen,
                                      __builtin_bit_cast(uint32, __builtin_bit_cast(float, seen) + value), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

__device__ void count(Counters* to, int32 value, uint32 i) {
  __nvvm_atom_add_gen_i(&to->sum, value);
  __nvvm_atom_max_gen_ui(&to->most, value);
  __nvvm_atom_min_gen_i(&to->least, value);
  __nvvm_atom_xor_gen_i(reinterpret_cast<int32*>(&to->bits), value);
  __nvvm_atom_inc_gen_ui(&to->ring, 40);
  __nvvm_atom_dec_gen_ui(&to->down, 50);
  __atomic_fetch_add(&to->generic, value, __ATOMIC_RELAXED);
  __atomic_fetch_sub(&to->generic, 3, __ATOMIC_RELAXED);
  if (i == 5) __atomic_exchange_n(&to->swapped, value, __ATOMIC_RELAXED);
  __nvvm_atom_add_gen_ll(reinterpret_cast<int64*>(&to->sum64), static_cast<int64>(value) << 20);
  __nvvm_atom_max_gen_ull(&to->most64, static_cast<uint64>(value) << 11);
  __nvvm_atom_and_gen_ll(reinterpret_cast<int64*>(&to->mask64), ~(1LL << i % 64));
  __atomic_fetch_or(&to->generic64, 1ULL << value % 64, __ATOMIC_RELAXED);
  __nvvm_atom_add_gen_f(&to->single, static_cast<float>(value & 0xff));
  __nvvm_atom_add_gen_d(&to->real, value * 0.5);
  add_by_swapping(&to->cas_single, static_cast<float>(value & 15));
}

extern "C" __global__ void atomics(const int32* in, Counters* out, int32* slots, int32* seen) {
  __shared__ Counters block;
  const uint32 thread = __nvvm_read_ptx_sreg_tid_x();
  const uint32 i = THREAD_INDEX();
  if (thread == 0) block = out[1 + __nvvm_read_ptx_sreg_ctaid_x()];
  __syncthreads();
  count(&totals, in[i], i);
  count(&block, in[i], i);
  count(out, in[i], i);
  int32* own = &seen[2 * __nvvm_read_ptx_sreg_ctaid_x()];
  __nvvm_atom_cta_add_gen_i(&own[0], 1);
  __nvvm_atom_sys_add_gen_i(&own[0], 2);
  __nvvm_atom_cta_or_gen_i(&own[1], static_cast<int32>(1u << thread));
  slots[__nvvm_atom_add_gen_i(&seen[4], 1)]++;
  __nvvm_membar_gl();
  __syncthreads();
  if (thread == 0) out[1 + __nvvm_read_ptx_sreg_ctaid_x()] = block;
  if (__nvvm_atom_add_gen_i(&seen[5], 1) == 63) out[3] = totals;
}
