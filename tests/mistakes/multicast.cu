// One kernel of three reduces in the memory of several GPUs at once, which the software device does not have.
extern "C" __global__ void brighten(float* image, float by) { image[threadIdx.x] += by; }

extern "C" __global__ void accumulate(unsigned* total) {
  asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(total), "r"(threadIdx.x) : "memory");
}

extern "C" __global__ void darken(float* image, float by) { image[threadIdx.x] -= by; }
