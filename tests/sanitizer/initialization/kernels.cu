// Kernels with mistakes, which are right or wrong by what the memory before them holds and by their arguments.
// kernels.ptx is made by: nvcc -ptx -lineinfo -arch=sm_80 kernels.cu, and has the names of files without their folders.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

struct Padded { char tag; int value; };
struct Fields { unsigned low : 3, middle : 5, high : 24; };

extern "C" {
__global__ void branches(const int* x, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (x[i] > 3) out[i] = 1;
}
__global__ void branchesOnFirst(const int* x, int* out, int n) {
  int i = threadIdx.x;
  if (i < n && x[i] > 3) out[i] = 1;
}
__global__ void scatters(const int* x, int* out) { out[x[threadIdx.x] & 31] = 1; }
__global__ void masks(const int* x, int* out, int mask) { out[x[threadIdx.x] & mask] = 1; }
__global__ void copies(const int* x, int* out) { out[threadIdx.x] = x[threadIdx.x]; }
__global__ void adds(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x] + 1.0f; }
__global__ void copiesVectors(const int4* x, int4* out) { out[threadIdx.x] = x[threadIdx.x]; }
__global__ void reversesInShared(const int* x, int* out, int n) {
  __shared__ int tile[32];
  if (threadIdx.x < n) tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (tile[31 - threadIdx.x] > 3) out[threadIdx.x] = 1;
}
__global__ void usesDynamicShared(int* out, int n) {
  extern __shared__ int dynamic[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic[i] = i;
  __syncthreads();
  if (dynamic[threadIdx.x] > 3) out[threadIdx.x] = 1;
}
__global__ void usesSharedAlone(int* out, int n) {
  __shared__ volatile int own[32];
  if (n > 0) own[threadIdx.x] = n;
  if (own[threadIdx.x] > 3) out[threadIdx.x] = 1;
}
__global__ void indexesLocal(const int* order, int* out, int n) {
  int values[8];
  for (int i = 0; i < n; i++) values[order[i] & 7] = i;
  int sum = 0;
  for (int i = 0; i < 8; i++) sum += values[order[i] & 7];
  if (sum > 3) out[threadIdx.x] = 1;
}
__global__ void comparesStructs(const Padded* a, const Padded* b, int* out, int withPadding) {
  bool same = a->tag == b->tag && a->value == b->value;
  if (withPadding) same = *(const unsigned*) a == *(const unsigned*) b;
  if (same) out[0] = 1;
}
__global__ void setsStruct(Padded* a, int value) {
  Padded made;
  made.tag = 1;
  made.value = value;
  a[threadIdx.x] = made;
}
__global__ void setsField(Fields* fields) { fields[threadIdx.x].low = 5; }
__global__ void readsFields(const Fields* fields, int* out, int middle) {
  Fields own = fields[threadIdx.x];
  if (own.low == 5) out[0] = 1;
  if (middle && own.middle == 5) out[1] = 1;
}
__global__ void readsVector(const float4* x, int* out, int all) {
  float4 own = x[threadIdx.x];
  if (own.x > 1.0f || own.y > 1.0f) out[0] = 1;
  if (all && own.z > 1.0f) out[1] = 1;
}
__global__ void joinsBytes(const unsigned char* x, int* out, unsigned mask) {
  unsigned word = x[0] | x[1] << 8 | x[2] << 16 | x[3] << 24;
  if ((word & mask) == 7) out[0] = 1;
}
__global__ void selects(const int* x, int* out, int wanted) {
  int value = x[threadIdx.x], other = threadIdx.x;
  out[wanted ? value & 7 : other & 7] = 1;
}
__global__ void counts(int* counter, int* out) { out[threadIdx.x] = atomicAdd(counter, 1); }
__global__ void countsUnread(int* counter) { atomicAdd(counter, 1); }
__global__ void exchanges(int* slot, int* out) { out[threadIdx.x] = atomicExch(slot + threadIdx.x, 1); }
__global__ void locks(int* lock, int* out) { if (threadIdx.x == 0) out[0] = atomicCAS(lock, 0, 1); }
__global__ void maximum(const int* x, int* most) { atomicMax(most, x[threadIdx.x]); }
__global__ void countsInShared(int* out, int isCleared) {
  __shared__ int count;
  if (isCleared && threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  __syncthreads();
  out[threadIdx.x] = count;
}
__global__ void iterates(int* buffers, int* out, int n, int first) {
  for (int step = first; step < n; step++) {
    int before = buffers[(step + 1 & 1) * 32 + threadIdx.x];
    if (step > 0 || first == 0) { if (before > 100) out[threadIdx.x] = step; }
    buffers[(step & 1) * 32 + threadIdx.x] = step;
    __syncthreads();
  }
}
__global__ void sumsLanes(const int* x, int* out, int n, int guarded) {
  int value = x[threadIdx.x];
  if (guarded && threadIdx.x >= n) value = 0;
  for (int distance = 16; distance > 0; distance >>= 1) value += __shfl_xor_sync(~0u, value, distance);
  if (value > 3) out[threadIdx.x] = value;
}
__global__ void reducesWarp(const int* x, int* out, int n, int leaves) {
  if (leaves && threadIdx.x >= n) return;
  int sum = threadIdx.x < n ? x[threadIdx.x] : 0;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffff, sum, distance);
  if (threadIdx.x == 0 && sum > 4) out[0] = sum;
}
__global__ void shufflesFrom(const int* x, int* out, int lane) {
  int value = __shfl_sync(~0u, x[threadIdx.x], lane);
  if (value > 4) out[threadIdx.x] = value;
}
__global__ void votes(const int* x, int* out, int n) {
  unsigned ballot = __ballot_sync(~0u, x[threadIdx.x] > 3);
  if (ballot & ((1u << n) - 1)) out[threadIdx.x] = 1;
}
__global__ void votesAny(const int* x, int* out) { if (__any_sync(~0u, x[threadIdx.x] > 3)) out[threadIdx.x] = 1; }
__global__ void matches(const int* x, int* out) {
  if (__match_any_sync(~0u, x[threadIdx.x]) == ~0u) out[threadIdx.x] = 1;
}
__global__ void reduces(const int* x, int* out) { if (__reduce_add_sync(~0u, x[threadIdx.x]) > 3) out[threadIdx.x] = 1; }
__global__ void loops(const int* x, int* out) {
  int sum = 0;
  for (int i = 0; i < (x[0] & 15); i++) sum += i;
  out[threadIdx.x] = sum;
}
__global__ void follows(int* const* pointers, int* out) { out[threadIdx.x] = *pointers[threadIdx.x]; }
__global__ void setsPointers(int** pointers, int* to) { pointers[threadIdx.x] = to + threadIdx.x; }
__device__ __noinline__ int decides(int value, int* out) {
  if (value > 3) out[0] = 1;
  return value;
}
__global__ void calls(const int* x, int* out) { out[threadIdx.x] = decides(x[threadIdx.x], out); }
__device__ __noinline__ int passesOn(int value) { return value * 2 + 1; }
__global__ void callsAndBranches(const int* x, int* out) { if (passesOn(x[threadIdx.x]) > 3) out[threadIdx.x] = 1; }
__device__ __noinline__ void setsMaybe(int* result, int isSet) { if (isSet) *result = 5; }
__global__ void takesResult(int* out, int isSet) {
  int result;
  setsMaybe(&result, isSet);
  if (result > 3) out[threadIdx.x] = 1;
}
__global__ void allocates(int* out, int isSet) {
  int* own = (int*) malloc(128);
  if (isSet) for (int i = 0; i < 32; i++) own[i] = i;
  if (own[threadIdx.x] > 4) out[threadIdx.x] = 1;
  free(own);
}
__global__ void switches(const int* x, int* out) {
  switch (x[threadIdx.x]) {
    case 0: out[0] = 4; break;
    case 1: out[1] = 7; break;
    case 2: out[2] = 1; break;
    case 3: out[9] = 8; break;
    case 4: out[4] = 3; break;
    case 5: out[3] = 9; break;
  }
}
__global__ void comparesHalves(const __half2* x, int* out, int high) {
  __half2 sum = __hadd2(x[threadIdx.x], x[threadIdx.x]);
  if (__low2float(sum) > 1.0f) out[0] = 1;
  if (high && __high2float(sum) > 1.0f) out[1] = 1;
}
__global__ void setsLowHalf(__half* x) { x[2 * threadIdx.x] = __float2half(2.0f); }
__global__ void setsFlag(unsigned* flags) { flags[threadIdx.x] |= 1; }
__global__ void testsFlag(const unsigned* flags, int* out, unsigned flag) { if (flags[threadIdx.x] & flag) out[0] = 1; }
__global__ void shiftsIn(unsigned* words, unsigned value) { words[threadIdx.x] = words[threadIdx.x] << 16 | value; }
__global__ void comparesDoubles(const double* x, int* out) { if (x[threadIdx.x] < 1.0) out[threadIdx.x] = 1; }
__device__ int variable[32];
__device__ int* variablePointer() { return variable; }
__global__ void readsVariable(int* out) { if (variable[threadIdx.x] > 3) out[threadIdx.x] = 1; }
__global__ void setsVariable(const int* x) { variable[threadIdx.x] = x[threadIdx.x]; }
__global__ void copiesAsynchronously(const int* x, int* out) {
  __shared__ int tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  if (tile[31 - threadIdx.x] > 5) out[threadIdx.x] = 1;
}
__global__ void traps(const int* x) { if (x[threadIdx.x] == 0x12345678) __trap(); }
__global__ void divides(const int* x, int* out) { out[threadIdx.x] = 100 / (x[threadIdx.x] | 1); }
__global__ void clamps(const int* x, int* out) { out[min(max(x[threadIdx.x], 0), 7)] = 1; }
__global__ void hides(const int* x, int* out) { out[(x[threadIdx.x] & 8) * 0 + threadIdx.x] = 1; }
__global__ void countsOn(const int* x, int* out) { if (__syncthreads_count(x[threadIdx.x] > 3) > 2) out[threadIdx.x] = 1; }
__global__ void comparesRanges(const unsigned char* x, int* out) {
  unsigned wide = x[0] | 0x100u;
  if (wide > 200) out[0] = 1;
}
}
