// Every kind of shuffle for every width, with lanes beyond the width too: a row of 64 results for each.
template <int width>
__device__ int* shuffles(int value, int* row) {
  const int lane = threadIdx.x % 32;
  const int amounts[6] = {0, 1, 2, 5, 13, 31};
  for (int amount : amounts) {
    row[0] = __shfl_sync(0xffffffff, value, amount, width);
    row[64] = __shfl_up_sync(0xffffffff, value, amount, width);
    row[128] = __shfl_down_sync(0xffffffff, value, amount, width);
    row[192] = __shfl_xor_sync(0xffffffff, value, amount, width);
    row += 256;
  }
  row[0] = __shfl_sync(0xffffffff, value, -1, width);
  row[64] = __shfl_sync(0xffffffff, value, lane * 3 + 1, width);
  row[128] = __shfl_down_sync(0xffffffff, value, lane % 4, width);
  return row + 192;
}

extern "C" __global__ void shuffle_kinds(const int* in, int* out) {
  const int value = in[threadIdx.x];
  int* row = out + threadIdx.x;
  row = shuffles<2>(value, row);
  row = shuffles<4>(value, row);
  row = shuffles<8>(value, row);
  row = shuffles<16>(value, row);
  shuffles<32>(value, row);
}
