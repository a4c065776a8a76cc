// The channel benchmark in C++: streams wait for events, a socket pair carries control messages, and cudaIpc memory and
// events are shared once and reused.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "frames.cu"

namespace {

constexpr int maximumSlots = 4;
constexpr unsigned block = 256;
constexpr int clockSamples = 50;

void check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "native.cu:%d: %s\n", line, cudaGetErrorString(error));
  exit(1);
}
#define CHECK(call) check(call, __LINE__)

// The same as in job.ts.
struct Job {
  int frames;
  int slots;
  size_t slotByteLength;
  double interval;
  int isHostWaiting;
  unsigned firstFrame;

  unsigned vectors() const { return slotByteLength / sizeof(uint4); }
  unsigned grid() const { return std::min(1024u, (vectors() + block - 1) / block); }
};

struct Frame {
  int slot;
  unsigned number;
};

struct Ring {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t written[maximumSlots];
};

struct ClockSample {
  int64_t before, device, after;
};

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

void sendBytes(int socket, const void *bytes, size_t size) {
  for (auto *at = static_cast<const char *>(bytes); size > 0;) {
    ssize_t sent = write(socket, at, size);
    if (sent <= 0) exit(1);
    at += sent;
    size -= sent;
  }
}

bool receiveBytes(int socket, void *bytes, size_t size) {
  for (auto *at = static_cast<char *>(bytes); size > 0;) {
    ssize_t received = read(socket, at, size);
    if (received <= 0) return false;
    at += received;
    size -= received;
  }
  return true;
}

template <typename T> void sendValue(int socket, const T &value) { sendBytes(socket, &value, sizeof value); }

template <typename T> T receiveValue(int socket) {
  T value;
  if (!receiveBytes(socket, &value, sizeof value)) exit(0);
  return value;
}

unsigned long long *allocateZeros(size_t count, cudaStream_t stream) {
  unsigned long long *numbers;
  CHECK(cudaMallocAsync(&numbers, count * sizeof *numbers, stream));
  CHECK(cudaMemsetAsync(numbers, 0, count * sizeof *numbers, stream));
  return numbers;
}

std::vector<unsigned long long> takeNumbers(unsigned long long *numbers, size_t count, cudaStream_t stream) {
  std::vector<unsigned long long> result(count);
  CHECK(cudaMemcpyAsync(result.data(), numbers, count * sizeof *numbers, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(numbers, stream));
  CHECK(cudaStreamSynchronize(stream));
  return result;
}

std::vector<cudaEvent_t> createEvents(cudaIpcEventHandle_t *handles) {
  std::vector<cudaEvent_t> events(maximumSlots);
  for (int i = 0; i < maximumSlots; i++) {
    CHECK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetEventHandle(&handles[i], events[i]));
  }
  return events;
}

std::vector<cudaEvent_t> openEvents(const cudaIpcEventHandle_t *handles) {
  std::vector<cudaEvent_t> events(maximumSlots);
  for (int i = 0; i < maximumSlots; i++) CHECK(cudaIpcOpenEventHandle(&events[i], handles[i]));
  return events;
}

cudaStream_t createStream() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void consume(int socket) {
  cudaStream_t stream = createStream();
  cudaIpcEventHandle_t handles[maximumSlots];
  std::vector<cudaEvent_t> released = createEvents(handles);
  sendValue(socket, handles);
  Ring ring = receiveValue<Ring>(socket);
  char *memory;
  CHECK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&memory), ring.memory, cudaIpcMemLazyEnablePeerAccess));
  std::vector<cudaEvent_t> written = openEvents(ring.written);
  for (;;) {
    Job job = receiveValue<Job>(socket);
    unsigned long long *numbers = allocateZeros(size_t(job.frames) * numbersOfFrame, stream);
    for (int position = 0; position < job.frames; position++) {
      Frame frame = receiveValue<Frame>(socket);
      CHECK(cudaStreamWaitEvent(stream, written[frame.slot]));
      auto *slot = reinterpret_cast<const uint4 *>(memory + frame.slot * job.slotByteLength);
      read_frame<<<job.grid(), block, 0, stream>>>(slot, job.vectors(), frame.number, numbers, position);
      CHECK(cudaEventRecord(released[frame.slot], stream));
      sendValue(socket, frame.slot);
    }
    std::vector<unsigned long long> read = takeNumbers(numbers, size_t(job.frames) * numbersOfFrame, stream);
    sendBytes(socket, read.data(), read.size() * sizeof read[0]);
  }
}

void sampleClocks(std::vector<ClockSample> &found, cudaStream_t stream) {
  unsigned long long *times = allocateZeros(clockSamples, stream);
  size_t first = found.size();
  for (int position = 0; position < clockSamples; position++) {
    int64_t before = now();
    read_clock<<<1, 1, 0, stream>>>(times, position);
    CHECK(cudaStreamSynchronize(stream));
    found.push_back({before, 0, now()});
  }
  std::vector<unsigned long long> taken = takeNumbers(times, clockSamples, stream);
  for (int position = 0; position < clockSamples; position++) found[first + position].device = taken[position];
}

template <typename Of> void printList(const char *name, size_t count, Of of) {
  printf("\"%s\":[", name);
  for (size_t i = 0; i < count; i++) printf("%s%lld", i == 0 ? "" : ",", static_cast<long long>(of(i)));
  printf("],");
}

void answer(const std::vector<int64_t> &sent, const std::vector<unsigned long long> &written,
            const std::vector<unsigned long long> &read, const std::vector<ClockSample> &found) {
  int64_t hostBase = found[0].before, deviceBase = found[0].device;
  auto startOf = [&](const auto &numbers, size_t i) { return ~numbers[numbersOfFrame * i] - deviceBase; };
  auto endOf = [&](const auto &numbers, size_t i) { return numbers[numbersOfFrame * i + end] - deviceBase; };
  printf("{");
  printList("sent", sent.size(), [&](size_t i) { return sent[i] - hostBase; });
  printList("writeStart", sent.size(), [&](size_t i) { return startOf(written, i); });
  printList("writeEnd", sent.size(), [&](size_t i) { return endOf(written, i); });
  printList("readStart", sent.size(), [&](size_t i) { return startOf(read, i); });
  printList("readEnd", sent.size(), [&](size_t i) { return endOf(read, i); });
  printList("wrongWords", sent.size(), [&](size_t i) { return read[numbersOfFrame * i + wrongWords]; });
  printf("\"clocks\":[");
  for (size_t i = 0; i < found.size(); i++) {
    printf("%s[%lld,%lld,%lld]", i == 0 ? "" : ",", static_cast<long long>(found[i].before - hostBase),
           static_cast<long long>(found[i].device - deviceBase), static_cast<long long>(found[i].after - hostBase));
  }
  printf("]}\n");
  fflush(stdout);
}

void produce(int socket) {
  cudaStream_t stream = createStream();
  Ring ring;
  std::vector<cudaEvent_t> written = createEvents(ring.written);
  cudaIpcEventHandle_t handles[maximumSlots];
  if (!receiveBytes(socket, handles, sizeof handles)) exit(1);
  std::vector<cudaEvent_t> released = openEvents(handles);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  printf("{\"device\":\"%s\",\"isSoftware\":false,\"versions\":\"CUDA %d.%d\"}\n", properties.name,
         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  fflush(stdout);
  char *memory = nullptr;
  Job job;
  while (scanf("%d %d %zu %lf %d %u", &job.frames, &job.slots, &job.slotByteLength, &job.interval, &job.isHostWaiting,
               &job.firstFrame) == 6) {
    if (memory == nullptr) {
      CHECK(cudaMalloc(&memory, maximumSlots * job.slotByteLength));
      CHECK(cudaIpcGetMemHandle(&ring.memory, memory));
      sendValue(socket, ring);
    }
    std::vector<ClockSample> found;
    sampleClocks(found, stream);
    unsigned long long *numbers = allocateZeros(size_t(job.frames) * numbersOfFrame, stream);
    std::vector<int64_t> sent;
    sendValue(socket, job);
    for (int position = 0; position < job.frames; position++) {
      int slot = position;
      if (position >= job.slots) {
        slot = receiveValue<int>(socket);
        CHECK(job.isHostWaiting ? cudaEventSynchronize(released[slot]) : cudaStreamWaitEvent(stream, released[slot]));
      }
      Frame frame = {slot, job.firstFrame + position};
      auto *address = reinterpret_cast<uint4 *>(memory + slot * job.slotByteLength);
      write_frame<<<job.grid(), block, 0, stream>>>(address, job.vectors(), frame.number, numbers, position);
      sent.push_back(now());
      CHECK(cudaEventRecord(written[slot], stream));
      sendValue(socket, frame);
      if (job.interval > 0) usleep(job.interval * 1000);
    }
    for (int i = 0; i < std::min(job.slots, job.frames); i++) receiveValue<int>(socket);
    std::vector<unsigned long long> read(size_t(job.frames) * numbersOfFrame);
    if (!receiveBytes(socket, read.data(), read.size() * sizeof read[0])) exit(1);
    std::vector<unsigned long long> writing = takeNumbers(numbers, read.size(), stream);
    sampleClocks(found, stream);
    answer(sent, writing, read, found);
  }
}

} // namespace

int main() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return 1;
  // The fork comes first, because CUDA does not survive one.
  pid_t child = fork();
  if (child == 0) {
    close(sockets[0]);
    consume(sockets[1]);
    return 0;
  }
  close(sockets[1]);
  produce(sockets[0]);
  close(sockets[0]);
  waitpid(child, nullptr, 0);
  return 0;
}
