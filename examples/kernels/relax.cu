// Relaxation of a rod's temperatures until they no longer change, for conditional_graph.ts. The kernels decide
// themselves how often they run: the value of a condition goes to the conditional node of a CUDA graph.

extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned int value);

// One step: each element of `next` between the ends is the mean of its neighbors in `now`. `change` gets the largest
// change as the bits of a float: for numbers that are not negative, these have the order of the numbers.
extern "C" __global__ void relax(float* next, const float* now, unsigned int elements, unsigned int* change) {
  const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= elements) return;
  const bool isEnd = at == 0 || at == elements - 1;
  const float value = isEnd ? now[at] : (now[at - 1] + now[at + 1]) * 0.5f;
  next[at] = value;
  atomicMax(change, __float_as_uint(fabsf(value - now[at])));
}

// Counts the steps, and goes on as long as the largest change is above the tolerance. Launch it with one thread.
extern "C" __global__ void decide(unsigned long long condition, const unsigned int* change, float tolerance,
                                  unsigned int* steps) {
  ++*steps;
  cudaGraphSetConditional(condition, __uint_as_float(*change) > tolerance);
}
