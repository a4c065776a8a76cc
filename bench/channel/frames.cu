// What the benchmark of channels runs on the device: a frame is written, and read again by another process.

// Of each frame three numbers are kept, all 0 at first: the complement of when its kernel started, so that the earliest
// block has the highest; when it ended, by the clock that all processes of a GPU have in common; and the wrong words.
enum { startComplement, end, wrongWords, numbersOfFrame };

__device__ unsigned long long nanoseconds() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

// Differs in every word from that of all frames before, so that what is stale is seen.
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

// `vectors` of 16 bytes are written. `position` is where the frame's numbers are, counted in frames.
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
