// nvcc -arch=compute_90
// Reductions of a warp in one instruction, and of the lanes of a branch.
extern "C" __global__ void warp_reduce(const unsigned int* in, unsigned int* out) {
  const unsigned int i = threadIdx.x, lane = i % 32;
  const unsigned int value = in[i];
  const int signed_value = static_cast<int>(value);
  unsigned int* row = out + i * 10;
  row[0] = __reduce_add_sync(0xffffffff, value);
  row[1] = __reduce_add_sync(0xffffffff, signed_value);
  row[2] = __reduce_min_sync(0xffffffff, value);
  row[3] = __reduce_max_sync(0xffffffff, value);
  row[4] = __reduce_min_sync(0xffffffff, signed_value);
  row[5] = __reduce_max_sync(0xffffffff, signed_value);
  row[6] = __reduce_and_sync(0xffffffff, value | 0x1010);
  row[7] = __reduce_or_sync(0xffffffff, value & 0xff0ff0ff);
  row[8] = __reduce_xor_sync(0xffffffff, value);
  if (lane % 8 == 3) {
    row[9] = __reduce_add_sync(0x08080808, value);
  } else if (lane < 16) {
    row[9] = __reduce_xor_sync(0x0000f7f7, value) ^ __reduce_max_sync(0x0000f7f7, signed_value);
  }
}
