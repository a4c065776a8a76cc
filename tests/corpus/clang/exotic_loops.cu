// Loops with more than one entry, left and entered by goto, and such that LLVM changes a lot.
#include "device.h"

__device__ __noinline__ uint32 two_entries(uint32 value, int32 rounds) {
  uint32 steps = 0;
  if (value & 1) goto middle;
top:
  value = value * 5 + 1;
  steps += 100;
  if (steps > 5000) goto end;
middle:
  value ^= value >> 3;
  steps++;
  if (value & 2) {
    if (--rounds > 0) goto top;
    goto end;
  }
  value += 7;
  if (rounds-- > 0) goto middle;
end:
  return value ^ steps;
}

__device__ __noinline__ uint32 device_copy(const int32* from, int32* to, int32 count) {
  uint32 sum = 0;
  int32 rounds = (count + 3) / 4;
  switch (count % 4) {
    case 0: do { sum += *to++ = *from++;
    case 3: sum ^= *to++ = *from++;
    case 2: sum += *to++ = *from++;
    case 1: sum ^= *to++ = *from++;
    } while (--rounds > 0);
  }
  return sum;
}

__device__ __noinline__ uint32 machine(const int32* in, int32 count) {
  uint32 state = 0;
  int32 at = 0;
start:
  if (at >= count) return state;
  switch (in[at++] & 3) {
    case 0: goto start;
    case 1: goto odd;
    case 2: state += 3; goto even;
  }
  state ^= 0x77;
odd:
  for (int32 i = 0; i < 4; i++) {
    if ((state + static_cast<uint32>(i)) % 5 == 3) goto even;
    state += static_cast<uint32>(i * at);
  }
  goto start;
even:
  while (true) {
    state = state * 3 + 1;
    if (state & 8) break;
    if (at < count && in[at] < 0) {
      at++;
      goto odd;
    }
    if (++state % 3 == 0) goto start;
  }
  goto start;
}

__device__ __noinline__ uint32 sieve(uint32 limit) {
  bool composite[64] = {};
  uint32 found = 0;
  for (uint32 number = 2; number < limit; number++) {
    if (composite[number]) continue;
    found = found * 31 + number;
    for (uint32 multiple = number * number; multiple < limit; multiple += number) composite[multiple] = true;
  }
  return found;
}

extern "C" __global__ void exotic_loops(const int32* in, uint32* out, int32* copies) {
  const uint32 i = THREAD_INDEX();
  out[i * 4] = two_entries(static_cast<uint32>(in[i]), static_cast<int32>(i));
  out[i * 4 + 1] = device_copy(in + i, copies + i * 16, static_cast<int32>(i % 15 + 1));
  out[i * 4 + 2] = machine(in + i, 20);
  out[i * 4 + 3] = sieve(i * 2);
}
