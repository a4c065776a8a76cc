// In which state space a generic address lies, and conversions between an address of a space and a generic one.

__constant__ int constants[4] = {5, 6, 7, 8};
__device__ int globals[4] = {1, 2, 3, 4};

__device__ __noinline__ unsigned spaces_of(const void* pointer) {
  return (__isGlobal(pointer) ? 1 : 0) | (__isShared(pointer) ? 2 : 0) | (__isLocal(pointer) ? 4 : 0) |
         (__isConstant(pointer) ? 8 : 0);
}

extern "C" __global__ void predicates(int* buffer, unsigned* out) {
  __shared__ int shared[8];
  volatile int local[4];
  extern __shared__ int dynamic[];
  local[threadIdx.x % 4] = 1;
  const void* pointers[] = {buffer, buffer + 3, globals, shared, shared + 7, dynamic, (const void*)local, constants};
  unsigned spaces = spaces_of(pointers[threadIdx.x % 8]);
  // Whether constants lie in global memory too is the device's business.
  if (threadIdx.x % 8 == 7) spaces &= ~1u;
  out[threadIdx.x] = spaces + 16 * local[threadIdx.x % 4];
}

extern "C" __global__ void conversions(int* buffer, unsigned* out) {
  __shared__ int shared[8];
  int local[2] = {70, 71};
  if (threadIdx.x < 8) shared[threadIdx.x] = 40 + threadIdx.x;
  __syncthreads();
  size_t in_global = __cvta_generic_to_global(buffer);
  size_t in_shared = __cvta_generic_to_shared(shared);
  size_t in_local = __cvta_generic_to_local(local);
  size_t in_constant = __cvta_generic_to_constant(constants);
  int a, b, c, d;
  asm volatile("ld.global.s32 %0, [%1+4];" : "=r"(a) : "l"(in_global));
  asm volatile("ld.shared.s32 %0, [%1+8];" : "=r"(b) : "l"(in_shared));
  asm volatile("ld.local.s32 %0, [%1+4];" : "=r"(c) : "l"(in_local), "l"(local) : "memory");
  asm volatile("ld.const.s32 %0, [%1+12];" : "=r"(d) : "l"(in_constant));
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
  out[4] = *(int*)__cvta_global_to_generic(in_global);
  out[5] = *(int*)__cvta_shared_to_generic(in_shared + 4);
  out[6] = *(int*)__cvta_local_to_generic(in_local);
  out[7] = *(const int*)__cvta_constant_to_generic(in_constant + 4);
  // An address of the shared space fits in 32 bits, and the distances are the same in both.
  out[8] = (unsigned)__cvta_generic_to_shared(shared + 5) - (unsigned)in_shared;
  out[9] = in_shared < 49152;
  out[10] = in_global == (size_t)buffer;
}
