// Variables with initialisers of every kind: numbers, texts, structs with padding, addresses of each other.
#include "device.h"

struct Record {
  uint8 tag;
  double weight;
  const char* name;
  int16 shorts[3];
  float single;
};

__device__ const char first_name[] = "first";
__constant__ Record records[3] = {
    {1, 0.1, first_name, {-1, 2, -3}, 1.5f},
    {255, -1e300, "second, longer", {}, -0.0f},
    {7, __builtin_inf(), "", {32767}, 1e-40f},
};
__device__ uint64 large = 0xfedcba9876543210ULL;
__device__ uint8 odd_bytes[11] = {1, 2, 3};
__device__ int32 zeros[100];
__device__ int32 numbers[6] = {10, 20, 30, 40, 50, 60};
__device__ int32* inside = numbers;
__device__ int32** through = &inside;
__device__ __int128 wide = static_cast<__int128>(0x123456789abcdefLL) << 64 | 5;
__device__ bool flags[4] = {true, false, true, true};
__device__ float floats[2][2] = {{0.25f, -3.0f}, {3.4028235e38f}};
typedef float Four __attribute__((ext_vector_type(4)));
__device__ Four four = {1.0f, 2.0f, 3.0f, 4.0f};
static __device__ volatile int32 counter = 41;

__device__ int32 length(const char* text) {
  int32 count = 0;
  while (text[count]) count++;
  return count;
}

extern "C" __global__ void initializers(int64* integers, double* doubles) {
  const uint32 i = THREAD_INDEX();
  int64* row = integers + i * 12;
  const Record& record = records[i % 3];
  row[0] = record.tag;
  row[1] = length(record.name);
  row[2] = row[1] ? record.name[i % row[1]] : -1;
  row[3] = record.shorts[0] + record.shorts[1] * 2 + record.shorts[2] * 4;
  row[4] = static_cast<int64>(large >> i);
  row[5] = odd_bytes[i] * 100 + zeros[i * 10];
  row[6] = **through - inside[2] * 3 + inside[4] + numbers[i % 6];
  row[7] = static_cast<int64>(wide >> (i * 8));
  row[8] = flags[i % 4];
  row[9] = counter;
  row[10] = __builtin_bit_cast(int32, record.single);
  row[11] = reinterpret_cast<uint64>(through) - reinterpret_cast<uint64>(&inside);
  doubles[i * 2] = record.weight;
  doubles[i * 2 + 1] = static_cast<double>(floats[i / 2 % 2][i % 2]) + four[i % 4];
}
