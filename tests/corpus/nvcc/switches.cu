// Switches: dense, with cases that fall through and one that leaves the loop around them; and sparse.
extern "C" __global__ void switches(const int* in, int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i];
  int result = 0;
  for (int round = 0; round < 5; round++) {
    switch ((value >> round) & 15) {
      case 0: result += value; break;
      case 1: result ^= 0x1234; break;
      case 2: result = result * 3 + round; break;
      case 3: result -= value >> 3;
      case 4: result += 77; break;
      case 5: result = -result; break;
      case 6: result = result / 3; break;
      case 7: continue;
      case 8: result |= round; break;
      case 9: result <<= 2;
      case 10: result += __popc(result); break;
      case 11: result = __brev(result); break;
      case 13: goto done;
      default: result ^= value * 5;
    }
    result += round * 1000;
  }
done:
  switch (value) {
    case -1000000: result ^= 1; break;
    case -3: result ^= 2; break;
    case 0: result ^= 4; break;
    case 5: result ^= 8; break;
    case 1000: result ^= 16; break;
    case 123456789: result ^= 32; break;
    case 2147483647: result ^= 64; break;
  }
  out[i] = result;
}
