// A pseudorandom sequence of allocations. allocation_trace.ts explains it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

struct TraceStep {
  uint32_t slot, stream, byteLength;
};

class AllocationTrace {
public:
  AllocationTrace(size_t stepCount, uint32_t slots, uint32_t streams, uint32_t leastByteLength, uint32_t octaves) {
    while (steps.size() < stepCount) {
      uint32_t slot = random() % slots, stream = random() % streams;
      uint32_t octave = leastByteLength << random() % octaves;
      uint32_t byteLength = octave + random() % octave;
      steps.push_back({slot, stream, byteLength});
      for (uint32_t number : {slot, stream, byteLength}) checksum = checksum * 31 + number;
    }
  }

  std::vector<TraceStep> steps;
  uint32_t checksum = 0;

private:
  uint32_t random() {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  }

  uint32_t state = 1;
};
