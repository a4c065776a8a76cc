// Loops with more than one entry: no structured statement gives them.
extern "C" __global__ void irreducible_loops(const unsigned int* in, unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned int value = in[i], steps = 0;
  if (value & 1) goto second;
first:
  value = value * 5 + 1;
  steps++;
  if (value % 16 == 3) goto third;
second:
  value ^= value >> 7;
  if (++steps > 50) goto done;
  if (value & 2) goto first;
third:
  value += steps * steps;
  steps += 2;
  if (steps < 60 && (value & 4)) goto second;
  if (steps < 60) goto first;
done:
  out[i * 2] = value;
  out[i * 2 + 1] = steps;
}

// As an interpreter steps from state to state, with a barrier of its warp in one of the states.
extern "C" __global__ void irreducible_states(const unsigned int* in, unsigned int* out) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned int value = in[i], votes = 0;
  int round = 0;
  if (in[blockIdx.x] & 1) goto vote;
mix:
  value = value * 9 + 7;
vote:
  votes = votes * 3 + __popc(__ballot_sync(0xffffffff, value & 8));
  value = (value >> 1) | (value << 31);
  if (++round == 6) goto done;
  if (votes & 1) goto mix;
  value -= votes;
  goto vote;
done:
  out[i] = value + votes;
}
