// Variables of the module in global memory: initialised, arrays, pointers to one another, kept from launch to launch.

struct Node {
  int value;
  Node* next;
};

__device__ int launches = 40;
__device__ unsigned char flags[7] = {1, 2, 3};
__device__ double grid_of_doubles[2][4] = {{1.5, 2.5}, {-3.5, 4.5, 5.5, 6.5}};
__device__ int values[8] = {10, 20, 30, 40, 50, 60, 70, 80};
__device__ int* middle = &values[3];
__device__ int* const ends[2] = {values, values + 7};
__device__ const char* words[3] = {"zero", "one", "two"};
__device__ Node third = {300, 0};
__device__ Node second = {200, &third};
__device__ Node first = {100, &second};
__device__ Node* list = &first;
__device__ unsigned long long untouched;

extern "C" __global__ void read_variables(int* out, double* doubles) {
  int at = 0;
  out[at++] = launches;
  for (int i = 0; i < 7; i++) out[at++] = flags[i];
  out[at++] = middle[-1];
  out[at++] = *middle;
  out[at++] = *ends[0] + *ends[1];
  out[at++] = (int)(ends[1] - ends[0]);
  for (int i = 0; i < 3; i++) {
    for (const char* letter = words[i]; *letter != 0; letter++) out[at++] = *letter;
  }
  for (Node* node = list; node != 0; node = node->next) out[at++] = node->value;
  out[at++] = (int)untouched;
  for (int i = 0; i < 8; i++) doubles[i] = grid_of_doubles[i / 4][i % 4];
}

extern "C" __global__ void change_variables() {
  launches++;
  flags[6] = 66;
  middle++;
  *middle += 5;
  third.next = &first;
  first.next = 0;
  list = &second;
  untouched = 7;
}
