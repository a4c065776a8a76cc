// Training of a small network by gradient descent, for sgd.ts: two inputs, a hidden layer of `hidden` units, one output.
//
//   output = sum over j of  second[j] * max(0, first[2 j] * x + first[2 j + 1] * y + bias[j])  +  offset
//
// The parameters lie one behind the other: 2 * hidden of `first`, `hidden` of `bias`, `hidden` of `second`, `offset`.
// Each sum has one thread and one order, so that the bits of a result do not depend on the device.

// A number from -1 to 1 that depends on the index alone: all processes have the same data without sending any.
__device__ float noise(unsigned int index) {
  index = (index ^ 61) ^ (index >> 16);
  index *= 9;
  index ^= index >> 4;
  index *= 0x27d4eb2d;
  index ^= index >> 15;
  return static_cast<float>(index >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

// What the network is to learn.
__device__ float wanted(float x, float y) { return x * y; }

// Sample first + i of the endless data, for each thread i below n: the error of the network's output, and what each
// hidden unit gives, n * hidden floats.
extern "C" __global__ void forward(const float* parameters, unsigned int hidden, unsigned int first, unsigned int n,
                                   float* units, float* errors) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = noise(2 * (first + i)), y = noise(2 * (first + i) + 1);
  const float *bias = parameters + 2 * hidden, *second = bias + hidden;
  float output = second[hidden];
#pragma unroll 1
  for (unsigned int j = 0; j < hidden; j++) {
    const float unit = fmaxf(0.0f, parameters[2 * j] * x + parameters[2 * j + 1] * y + bias[j]);
    units[i * hidden + j] = unit;
    output += second[j] * unit;
  }
  errors[i] = output - wanted(x, y);
}

// The mean gradient of the squared error over n samples, for each of the 4 * hidden + 1 parameters, and behind them the
// mean squared error itself. A thread for each.
extern "C" __global__ void backward(const float* parameters, unsigned int hidden, unsigned int first, unsigned int n,
                                    const float* units, const float* errors, float* gradient) {
  const unsigned int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p > 4 * hidden + 1) return;
  const float* second = parameters + 3 * hidden;
  float sum = 0.0f;
#pragma unroll 1
  for (unsigned int i = 0; i < n; i++) {
    const float slope = 2.0f * errors[i];
    float term = slope;
    if (p < 3 * hidden) {
      const unsigned int j = p < 2 * hidden ? p / 2 : p - 2 * hidden;
      term = units[i * hidden + j] > 0.0f ? slope * second[j] : 0.0f;
      if (p < 2 * hidden) term *= noise(2 * (first + i) + p % 2);
    } else if (p < 4 * hidden) {
      term = slope * units[i * hidden + p - 3 * hidden];
    } else if (p > 4 * hidden) {
      term = errors[i] * errors[i];
    }
    sum += term;
  }
  gradient[p] = sum / n;
}

// A step against the gradient.
extern "C" __global__ void descend(float* parameters, const float* gradient, float rate, unsigned int n) {
  const unsigned int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < n) parameters[p] -= rate * gradient[p];
}
