// Votes of whole warps, and of the lanes that a branch or a loop holds.
extern "C" __global__ void votes(const unsigned int* in, unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const unsigned int value = in[i];
  unsigned int* row = out + i * 8;
  row[0] = __activemask();
  row[1] = __ballot_sync(0xffffffff, value & 1);
  row[2] = __any_sync(0xffffffff, value % 64 == 5) * 2 + __all_sync(0xffffffff, value < 0xf0000000);
  unsigned int same;
  asm volatile(
      "{ .reg .pred p, q; setp.lt.u32 p, %1, 0x80000000;\n\t"
      "vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }"
      : "=r"(same) : "r"(value));
  row[3] = same;
  if (lane % 4 == 1) {
    row[4] = __ballot_sync(0x22222222, value & 2) + __all_sync(0x22222222, value & 16);
  } else if (lane < 12) {
    row[4] = __ballot_sync(0x00000ddd, value & 4);
    row[5] = __any_sync(0x00000ddd, value & 8);
  }
  unsigned int seen = 0;
  for (unsigned int round = 0; round < lane / 8; round++) {
    const unsigned int staying = 0xffffff00u << (8 * round);
    seen = seen * 3 ^ __ballot_sync(staying, (value >> round) & 1);
  }
  row[6] = seen;
  __syncwarp();
  // The lanes of a branch need not pass it together: only whom the mask may hold is certain, and that it holds its own.
  if (value & 32) {
    const unsigned int active = __activemask();
    row[7] = (active & ~__ballot_sync(active, value & 32)) == 0 && (active >> lane & 1);
  }
}
