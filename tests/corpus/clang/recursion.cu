// Functions that call themselves and each other; some are weak.
#include "device.h"

struct Node {
  int32 value;
  Node* left;
  Node* right;
};

__device__ __noinline__ uint32 ackermann(uint32 m, uint32 n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ bool is_odd(uint32 n);

__device__ __noinline__ bool is_even(uint32 n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(uint32 n) { return n != 0 && is_even(n - 1); }

template <typename Number>
__device__ __noinline__ Number power(Number base, uint32 exponent) {
  if (exponent == 0) return 1;
  const Number root = power(base, exponent / 2);
  return exponent % 2 ? root * root * base : root * root;
}

__device__ __noinline__ Node* insert(Node* root, Node* node) {
  if (!root) return node;
  if (node->value < root->value) {
    root->left = insert(root->left, node);
  } else {
    root->right = insert(root->right, node);
  }
  return root;
}

__device__ __noinline__ int32* write_in_order(const Node* node, int32* out) {
  if (!node) return out;
  out = write_in_order(node->left, out);
  *out++ = node->value;
  return write_in_order(node->right, out);
}

extern "C" __global__ void recursion(const int32* in, uint64* numbers, int32* sorted) {
  const uint32 i = THREAD_INDEX();
  numbers[i * 3] = ackermann(i % 3, i % 4 / 2);
  numbers[i * 3 + 1] = is_even(i % 8) ? 10 + is_odd(i % 5) : 20 + is_even(i % 5);
  numbers[i * 3 + 2] = power<uint64>(i + 3, i) + power<uint32>(i + 5, i);
  Node nodes[8];
  Node* root = nullptr;
  for (int32 item = 0; item < 8; item++) {
    nodes[item] = {in[i * 8 + item], nullptr, nullptr};
    root = insert(root, &nodes[item]);
  }
  write_in_order(root, sorted + i * 8);
}
