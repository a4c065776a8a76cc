// Branches through a table of labels, forwards and backwards, which nvcc itself writes for few switches.
extern "C" __global__ void branch_by_index(const unsigned int* in, unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned int value = in[i], steps = 0;
  asm volatile(
      "{ .reg .u32 index; .reg .pred p;\n\t"
      "targets: .branchtargets add_three, halve, triple, again, done, halve;\n\t"
      "again:\n\t"
      "add.u32 %1, %1, 1;\n\t"
      "setp.gt.u32 p, %1, 40;\n\t"
      "@p bra done;\n\t"
      "rem.u32 index, %0, 6;\n\t"
      "xor.b32 %0, %0, %1;\n\t"
      "brx.idx index, targets;\n\t"
      "add_three: add.u32 %0, %0, 3; bra again;\n\t"
      "halve: shr.u32 %0, %0, 1;\n\t"
      "triple: mul.lo.u32 %0, %0, 3; bra.uni again;\n\t"
      "done: }"
      : "+r"(value), "+r"(steps));
  unsigned int chosen;
  asm volatile(
      "{ .reg .u32 index; .reg .pred p;\n\t"
      "and.b32 index, %1, 1;\n\t"
      "setp.lt.u32 p, %1, 64;\n\t"
      "mov.u32 %0, 5;\n\t"
      "pair: .branchtargets first, second;\n\t"
      "@p brx.idx index, pair;\n\t"
      "bra last;\n\t"
      "first: mov.u32 %0, 6; bra last;\n\t"
      "second: mov.u32 %0, 7;\n\t"
      "last: }"
      : "=r"(chosen) : "r"(i));
  out[i * 3] = value;
  out[i * 3 + 1] = steps;
  out[i * 3 + 2] = chosen;
}

extern "C" __global__ void branch_by_block(unsigned int* out) {
  unsigned int result;
  asm volatile(
      "{ tens: .branchtargets ten, twenty, thirty;\n\t"
      "brx.idx.uni %1, tens;\n\t"
      "ten: mov.u32 %0, 10; bra last;\n\t"
      "twenty: mov.u32 %0, 20; bra last;\n\t"
      "thirty: mov.u32 %0, 30;\n\t"
      "last: }"
      : "=r"(result) : "r"(blockIdx.x));
  out[blockIdx.x * blockDim.x + threadIdx.x] = result + threadIdx.x;
}
