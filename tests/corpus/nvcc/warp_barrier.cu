// Warp barriers of all lanes, and of those that a branch or a loop holds.
extern "C" __global__ void warp_barrier(unsigned int* out) {
  __shared__ volatile unsigned int words[64];
  const unsigned int thread = threadIdx.x, lane = thread % 32;
  words[thread] = thread + 1;
  __syncwarp();
  unsigned int value = words[thread ^ 31];
  __syncwarp();
  if (lane < 16) {
    words[thread] = value * 3;
    __syncwarp(0x0000ffff);
    value += words[thread ^ 5];
    __syncwarp(0x0000ffff);
    if (lane < 4) {
      for (unsigned int round = 0; round < 3; round++) {
        words[thread] = value + round;
        __syncwarp(0x0000000f);
        value ^= words[thread ^ 1] << 1;
        __syncwarp(0x0000000f);
      }
    }
  } else {
    words[thread] = value * 7;
    __syncwarp(0xffff0000);
    value += words[thread ^ 9];
    __syncwarp(0xffff0000);
    if (lane % 2 == 0) {
      words[thread] = value;
      __syncwarp(0x55550000);
      value -= words[thread ^ 2];
    }
  }
  __syncwarp();
  words[thread] = value;
  __syncwarp();
  out[thread] = words[(thread & 32) + (lane + 7) % 32] * 2 + value;
}
