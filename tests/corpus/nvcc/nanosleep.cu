// Sleeping while another thread works, as long as a backoff says, which doubles.
extern "C" __global__ void nanosleep_backoff(unsigned int* out) {
  __shared__ volatile unsigned int ready;
  const unsigned int thread = threadIdx.x;
  if (thread == 0) ready = 0;
  __syncthreads();
  unsigned int result = 0;
  if (thread == 63) {
    __nanosleep(200);
    for (unsigned int i = 0; i < 100; i++) result = result * 3 + i;
    out[64] = result;
    __threadfence_block();
    ready = 1;
  } else {
    unsigned int duration = 8;
    while (ready == 0) {
      __nanosleep(duration);
      if (duration < 256) duration *= 2;
    }
    __threadfence_block();
    result = *static_cast<volatile unsigned int*>(&out[64]);
  }
  __nanosleep(0);
  out[thread] = result + thread;
}
