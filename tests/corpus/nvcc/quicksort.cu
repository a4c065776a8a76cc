// A recursive sort by each thread, of its own stretch of global memory, and of a copy in local memory.
__device__ void exchange(int& a, int& b) {
  const int kept = a;
  a = b;
  b = kept;
}

__device__ __noinline__ void quicksort(int* items, int count) {
  if (count < 2) return;
  const int pivot = items[count / 2];
  int low = 0, high = count - 1;
  while (low <= high) {
    while (items[low] < pivot) low++;
    while (items[high] > pivot) high--;
    if (low <= high) exchange(items[low++], items[high--]);
  }
  quicksort(items, high + 1);
  quicksort(items + low, count - low);
}

extern "C" __global__ void sort_stretches(int* data, int count, int* sums) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* mine = data + i * count;
  int copy[24];
  for (int item = 0; item < count; item++) copy[item] = mine[item] % 50;
  quicksort(mine, count);
  quicksort(copy, count);
  int sum = 0;
  for (int item = 0; item < count; item++) sum = sum * 3 + copy[item];
  sums[i] = sum;
}
