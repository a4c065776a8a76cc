// The kernels of the channel benchmark: one process writes a frame, and another process reads it.

// Three numbers are recorded for each frame, all of them initially 0: the complement of its kernel's start time, so
// that the earliest block has the maximum; the kernel's end time; and the number of wrong words. Times are by
// %globaltimer, which is the same clock for all processes that use a GPU.
enum { startComplement, end, wrongWords, numbersOfFrame };

__device__ unsigned long long nanoseconds() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

// Every word of a frame differs from the same word of all frames before, so that stale words are detected.
__device__ unsigned int word_of(unsigned int index, unsigned int frame) {
  unsigned int mixed = (index ^ frame * 0x9e3779b1u) * 0x85ebca77u;
  return mixed ^ mixed >> 15;
}

__device__ uint4 words_of(unsigned int index, unsigned int frame) {
  unsigned int first = 4 * index;
  return make_uint4(word_of(first, frame), word_of(first + 1, frame), word_of(first + 2, frame),
                    word_of(first + 3, frame));
}

__device__ void note_start(unsigned long long *numbers) {
  if (threadIdx.x == 0) atomicMax(numbers + startComplement, ~nanoseconds());
}

__device__ void note_end(unsigned long long *numbers) {
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(numbers + end, nanoseconds());
}

// Writes `vectors` vectors of 16 bytes. `position` is the index of the frame's numbers.
extern "C" __global__ void write_frame(uint4 *slot, unsigned int vectors, unsigned int frame,
                                       unsigned long long *numbers, unsigned int position) {
  numbers += numbersOfFrame * position;
  note_start(numbers);
  unsigned int step = gridDim.x * blockDim.x;
  for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += step) slot[i] = words_of(i, frame);
  note_end(numbers);
}

extern "C" __global__ void read_frame(const uint4 *slot, unsigned int vectors, unsigned int frame,
                                      unsigned long long *numbers, unsigned int position) {
  numbers += numbersOfFrame * position;
  note_start(numbers);
  unsigned int step = gridDim.x * blockDim.x;
  unsigned int wrong = 0;
  for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += step) {
    uint4 found = slot[i], expected = words_of(i, frame);
    wrong += (found.x != expected.x) + (found.y != expected.y) + (found.z != expected.z) + (found.w != expected.w);
  }
  if (wrong > 0) atomicAdd(numbers + wrongWords, (unsigned long long)wrong);
  note_end(numbers);
}

extern "C" __global__ void read_clock(unsigned long long *times, unsigned int position) {
  times[position] = nanoseconds();
}
