// Bit fields of structs, read and written in memory and in registers, with sign and without.

struct Fields {
  unsigned low : 3;
  int signed_five : 5;
  unsigned middle : 17;
  unsigned flag : 1;
  int high : 6;
};

struct WideFields {
  unsigned long long first : 20;
  long long second : 33;
  unsigned long long third : 11;
};

extern "C" __global__ void read_fields(const Fields* fields, const WideFields* wides, long long* out) {
  int thread = threadIdx.x;
  Fields value = fields[thread];
  WideFields wide = wides[thread];
  long long* own = out + 8 * thread;
  own[0] = value.low;
  own[1] = value.signed_five;
  own[2] = value.middle;
  own[3] = value.flag;
  own[4] = value.high;
  own[5] = wide.first;
  own[6] = wide.second;
  own[7] = wide.third;
}

extern "C" __global__ void write_fields(Fields* fields, WideFields* wides, const int* numbers) {
  int thread = threadIdx.x;
  int number = numbers[thread];
  fields[thread].low = number;
  fields[thread].signed_five++;
  fields[thread].middle ^= number >> 4;
  fields[thread].flag = number < 0;
  fields[thread].high = fields[thread].signed_five - 1;
  wides[thread].second -= number;
  wides[thread].third = wides[thread].first;
}
