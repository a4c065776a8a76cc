// Pointers of which the compiler cannot know the state space: a function that is not inlined, and a choice at run time.

__constant__ int constants[4] = {11, 22, 33, 44};
__device__ int globals[4] = {1, 2, 3, 4};

__device__ __noinline__ int sum_four(const int* numbers) {
  return numbers[0] + numbers[1] + numbers[2] + numbers[3];
}

__device__ __noinline__ void add_to_four(int* numbers, int addend) {
  for (int i = 0; i < 4; i++) numbers[i] += addend;
}

__device__ __noinline__ void swap(int* a, int* b) {
  int value = *a;
  *a = *b;
  *b = value;
}

extern "C" __global__ void every_space(const int* parameters, int* out) {
  __shared__ int shared[4];
  int local[4];
  int thread = threadIdx.x;
  if (thread < 4) shared[thread] = 100 * thread;
  for (int i = 0; i < 4; i++) local[i] = parameters[i] + thread;
  __syncthreads();
  add_to_four(local, 7);
  swap(&local[0], &local[3]);
  const int* chosen = thread % 4 == 0 ? shared : thread % 4 == 1 ? local : thread % 4 == 2 ? globals : constants;
  out[thread] = sum_four(chosen) + chosen[thread / 4 % 4];
  __syncthreads();
  if (thread == 0) {
    add_to_four(shared, 1);
    swap(&shared[0], &local[1]);
    swap(&local[2], &out[32]);
    out[33] = shared[0];
    out[34] = local[1];
    out[35] = local[2];
    out[36] = sum_four(shared);
  }
}
