// Loads, stores and parameters of every scalar width, with the sign extended or not.

extern "C" __global__ void load_widths(const signed char* s8, const unsigned char* u8, const short* s16,
                                       const unsigned short* u16, const int* s32, const unsigned* u32,
                                       const long long* s64, const unsigned long long* u64, const float* f32,
                                       const double* f64, long long* integers, double* floats, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long* out = integers + 8 * i;
  out[0] = s8[i];
  out[1] = u8[i];
  out[2] = s16[i];
  out[3] = u16[i];
  out[4] = s32[i];
  out[5] = u32[i];
  out[6] = s64[i];
  out[7] = (long long)u64[i];
  floats[2 * i] = f32[i];
  floats[2 * i + 1] = f64[i];
}

extern "C" __global__ void store_widths(const long long* in, signed char* s8, unsigned short* u16, int* s32,
                                        unsigned long long* u64, float* f32, bool* odd, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long value = in[i];
  s8[i] = (signed char)value;
  u16[i] = (unsigned short)value;
  s32[i] = (int)value;
  u64[i] = (unsigned long long)value;
  f32[i] = (float)(short)value;
  odd[i] = value & 1;
}

extern "C" __global__ void scalar_parameters(bool flag, signed char s8, unsigned char u8, short s16, unsigned short u16,
                                             int s32, unsigned u32, long long s64, unsigned long long u64, float f32,
                                             double f64, long long* integers, double* floats) {
  integers[0] = flag;
  integers[1] = s8;
  integers[2] = u8;
  integers[3] = s16;
  integers[4] = u16;
  integers[5] = s32;
  integers[6] = u32;
  integers[7] = s64;
  integers[8] = (long long)u64;
  floats[0] = f32;
  floats[1] = f64;
}
