// Structures in shared memory, arrays of threads' own, recursion with arrays, atomics on fields, barriers in loops.
#include <cuda_runtime.h>

struct Node {
  int key;
  short left, right;
  float weight[3];
};
struct Tree {
  Node nodes[64];
  int count;
  unsigned long long mask;
};

__shared__ Tree tree;
__constant__ int steps[4] = {3, 1, 4, 1};
__device__ int launches = 5;

__device__ __noinline__ int depth_of(int node, int* path, int depth) {
  if (node < 0) return depth;
  path[depth & 15] = tree.nodes[node].key;
  const int left = depth_of(tree.nodes[node].left, path, depth + 1);
  const int right = depth_of(tree.nodes[node].right, path, depth + 1);
  return left > right ? left : right;
}

__device__ __noinline__ void insert(int at) {
  int node = 0;
  while (true) {
    short& next = tree.nodes[at].key < tree.nodes[node].key ? tree.nodes[node].left : tree.nodes[node].right;
    if (next < 0) {
      next = static_cast<short>(at);
      return;
    }
    node = next;
  }
}

extern "C" __global__ void shared_structures(const int* x, int* out, float* weights) {
  const int i = threadIdx.x;
  tree.nodes[i] = Node{x[blockIdx.x * 64 + i], -1, -1, {1.0f * i, 2.0f * i, 0.5f * i}};
  if (i == 0) tree.count = 0, tree.mask = 0;
  __syncthreads();
  atomicAdd(&tree.count, steps[i & 3]);
  atomicXor(&tree.mask, 1ull << (i * 7 % 64));
  if (i == 0) {
    for (int k = 1; k < 24; k++) insert(k);
  }
  float total = 0;
  for (int round = 0; round < 3; round++) {
    __syncthreads();
    tree.nodes[(i + round) % 64].weight[round] += tree.nodes[i].weight[(round + 1) % 3] * 0.0f + round;
    __syncthreads();
    total += tree.nodes[i].weight[round];
  }
  weights[blockIdx.x * 64 + i] = total;
  // All lanes call alike: where a recursive call parts them, ptxas's code goes wrong behind it, because it neither brings
  // them together again nor expects them to be apart.
  int path[16];
  for (int k = 0; k < 16; k++) path[k] = k;
  const int depth = depth_of(0, path, i & 3);
  int sum = 0;
  for (int k = 0; k < 16; k++) sum = sum * 31 + path[k];
  int* row = out + (blockIdx.x * 64 + i) * 4;
  row[0] = depth;
  row[1] = sum;
  row[2] = tree.count + launches;
  row[3] = static_cast<int>(tree.mask >> (i & 31));
}
