// memset and memcpy in device code: of a length known to the compiler, and of one known at run time alone.

struct Record {
  unsigned short head;
  unsigned char body[21];
};

extern "C" __global__ void set_and_copy(const unsigned char* in, unsigned char* out, int length) {
  unsigned char* own = out + 128 * threadIdx.x;
  memset(own, 0xa0 + threadIdx.x, 128);
  memcpy(own + threadIdx.x, in + 2 * threadIdx.x, length);
  memcpy(own + 64, in, 16);
  memset(own + 96 + threadIdx.x, 0, length / 2);
}

extern "C" __global__ void through_local(const unsigned char* in, unsigned char* out, int from) {
  unsigned char buffer[64];
  memset(buffer, 0, sizeof buffer);
  memcpy(buffer + from, in + 64 * threadIdx.x, 40);
  for (int i = 0; i < 64; i++) out[64 * threadIdx.x + i] = buffer[63 - i];
}

extern "C" __global__ void through_shared(const Record* in, Record* out) {
  __shared__ Record records[8];
  memcpy(&records[threadIdx.x], &in[threadIdx.x], sizeof(Record));
  __syncthreads();
  Record record = records[7 - threadIdx.x];
  record.head += record.body[20];
  memset(record.body, record.body[0], 3);
  out[threadIdx.x] = record;
}
