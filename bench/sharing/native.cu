// Measures sharing in C++: pointers of a pool are sent over a socket pair, with one export and one import per buffer
// and blocking reads. Answers requests with lines of JSON.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

namespace {

// The same as in poolpass.ts.
constexpr int warmUpOfOne = 500;
constexpr int warmUpOfThousand = 20;
// A hanging peer must not hang this process.
constexpr timeval socketTimeout = {20, 0};

void check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  throw std::runtime_error("native.cu:" + std::to_string(line) + ": " + cudaGetErrorString(error));
}
#define CHECK(call) check(call, __LINE__)

// The importer acknowledges each repetition when the buffers are unmapped. With `mapped`, it also acknowledges that
// they are mapped.
enum class Acknowledge : int32_t { mapped, freed };
// How the importer waits until the buffers are unmapped: by a synchronization, or by querying the stream until it is
// idle.
enum class Waiting : int32_t { synchronize, query };
// Shares `count` buffers together, `repetitions` times.
struct Job {
  int32_t count;
  int32_t repetitions;
  Acknowledge acknowledge;
  Waiting waiting;
};

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

void sendBytes(int socket, const void *bytes, size_t size) {
  for (auto *at = static_cast<const char *>(bytes); size > 0;) {
    ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("the other process no longer reads");
    at += sent;
    size -= sent;
  }
}

bool receiveBytes(int socket, void *bytes, size_t size) {
  for (auto *at = static_cast<char *>(bytes); size > 0;) {
    ssize_t received = read(socket, at, size);
    if (received == 0) return false;
    if (received < 0) throw std::runtime_error("the other process does not answer");
    at += received;
    size -= received;
  }
  return true;
}

template <typename T> void sendValue(int socket, const T &value) { sendBytes(socket, &value, sizeof value); }

template <typename T> T receiveValue(int socket) {
  T value;
  if (!receiveBytes(socket, &value, sizeof value)) throw std::runtime_error("the other process has ended");
  return value;
}

void sendDescriptor(int socket, int descriptor) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) throw std::runtime_error("the pool could not be sent");
}

int receiveDescriptor(int socket) {
  char byte;
  iovec part = {&byte, 1};
  int descriptor;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr *header = recvmsg(socket, &message, 0) == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) throw std::runtime_error("no pool was received");
  memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

cudaStream_t createStream() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

cudaMemPool_t createPool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  uint64_t all = UINT64_MAX;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
  return pool;
}

void waitFor(cudaStream_t stream, Waiting waiting) {
  if (waiting == Waiting::synchronize) return CHECK(cudaStreamSynchronize(stream));
  cudaError_t error;
  do error = cudaStreamQuery(stream);
  while (error == cudaErrorNotReady);
  CHECK(error);
}

// Maps received buffers, acknowledges them, and frees them, until the other process ends.
void import(int socket) {
  cudaStream_t stream = createStream();
  int descriptor = receiveDescriptor(socket);
  cudaMemPool_t pool;
  CHECK(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void *>(static_cast<intptr_t>(descriptor)),
                                             cudaMemHandleTypePosixFileDescriptor, 0));
  close(descriptor);
  Job job;
  while (receiveBytes(socket, &job, sizeof job)) {
    std::vector<void *> buffers(job.count);
    for (int repetition = 0; repetition < job.repetitions; repetition++) {
      for (void *&buffer : buffers) {
        auto data = receiveValue<cudaMemPoolPtrExportData>(socket);
        CHECK(cudaMemPoolImportPointer(&buffer, pool, &data));
      }
      if (job.acknowledge == Acknowledge::mapped) sendValue(socket, char());
      for (void *buffer : buffers) CHECK(cudaFreeAsync(buffer, stream));
      waitFor(stream, job.waiting);
      // The mapping must be freed before the exporter frees the memory.
      sendValue(socket, char());
    }
  }
}

struct Exporter {
  int socket;
  cudaStream_t stream;
  cudaMemPool_t pool;

  explicit Exporter(int socket) : socket(socket), stream(createStream()), pool(createPool()) {
    int descriptor;
    CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    sendDescriptor(socket, descriptor);
    close(descriptor);
  }

  void *allocate(size_t byteLength) {
    void *buffer;
    CHECK(cudaMallocFromPoolAsync(&buffer, byteLength, pool, stream));
    return buffer;
  }

  void share(void *buffer) {
    cudaMemPoolPtrExportData data;
    CHECK(cudaMemPoolExportPointer(&data, buffer));
    sendValue(socket, data);
  }

  // Times from the allocation of a buffer until the other process has mapped and freed it.
  std::vector<int64_t> shareOne(size_t byteLength, int warmUp, int repetitions, Waiting waiting) {
    sendValue(socket, Job{1, warmUp + repetitions, Acknowledge::freed, waiting});
    std::vector<int64_t> times;
    for (int i = 0; i < warmUp + repetitions; i++) {
      int64_t start = now();
      void *buffer = allocate(byteLength);
      CHECK(cudaStreamSynchronize(stream));
      share(buffer);
      receiveValue<char>(socket);
      if (i >= warmUp) times.push_back(now() - start);
      CHECK(cudaFreeAsync(buffer, stream));
    }
    return times;
  }

  // Times from the first export until the other process has mapped all buffers.
  std::vector<int64_t> shareMany(size_t byteLength, int count, int warmUp, int repetitions) {
    sendValue(socket, Job{count, warmUp + repetitions, Acknowledge::mapped, Waiting::synchronize});
    std::vector<int64_t> times;
    std::vector<void *> buffers(count);
    for (int i = 0; i < warmUp + repetitions; i++) {
      for (void *&buffer : buffers) buffer = allocate(byteLength);
      CHECK(cudaStreamSynchronize(stream));
      int64_t start = now();
      for (void *buffer : buffers) share(buffer);
      receiveValue<char>(socket);
      if (i >= warmUp) times.push_back(now() - start);
      receiveValue<char>(socket);
      for (void *buffer : buffers) CHECK(cudaFreeAsync(buffer, stream));
    }
    return times;
  }
};

void greet() {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::string uuid = "GPU";
  for (int i = 0; i < 16; i++) {
    char digits[4];
    bool isFirstOfGroup = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    snprintf(digits, sizeof digits, "%s%02x", isFirstOfGroup ? "-" : "", properties.uuid.bytes[i] & 0xff);
    uuid += digits;
  }
  printf("{\"name\":\"C++\",\"device\":\"%s\",\"uuid\":\"%s\",\"isSoftware\":false,\"versions\":\"CUDA %d.%d\","
         "\"works\":[\"share-one\",\"share-one-asked\",\"share-one-offer\",\"share-thousand\","
         "\"share-thousand-offer\"]}\n",
         properties.name, uuid.c_str(), CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  fflush(stdout);
}

// Returns a numeric parameter of a request, or its default.
size_t numberOf(const char *request, const char *name, size_t defaultValue) {
  std::string key = "\"" + std::string(name) + "\":";
  const char *found = strstr(request, key.c_str());
  return found == nullptr ? defaultValue : strtoull(found + key.size(), nullptr, 10);
}

bool isOf(const char *request, const char *work) {
  return strstr(request, ("\"work\":\"" + std::string(work) + "\"").c_str()) != nullptr;
}

void answer(const std::vector<int64_t> &times) {
  printf("{\"nanoseconds\":[");
  for (size_t i = 0; i < times.size(); i++) printf("%s%lld", i == 0 ? "" : ",", static_cast<long long>(times[i]));
  printf("]}\n");
  fflush(stdout);
}

void answerRequests(Exporter &exporter) {
  greet();
  char request[4096];
  while (fgets(request, sizeof request, stdin) != nullptr) {
    int repetitions = static_cast<int>(numberOf(request, "repetitions", 1));
    bool isPolled = isOf(request, "share-one-asked");
    if (isOf(request, "share-one") || isPolled || isOf(request, "share-one-offer")) {
      int warmUp = static_cast<int>(numberOf(request, "warmUp", warmUpOfOne));
      Waiting waiting = isPolled ? Waiting::query : Waiting::synchronize;
      answer(exporter.shareOne(numberOf(request, "byteLength", 64 << 20), warmUp, repetitions, waiting));
    } else if (isOf(request, "share-thousand") || isOf(request, "share-thousand-offer")) {
      int count = static_cast<int>(numberOf(request, "count", 1000));
      int warmUp = static_cast<int>(numberOf(request, "warmUp", warmUpOfThousand));
      answer(exporter.shareMany(numberOf(request, "byteLength", 64 << 10), count, warmUp, repetitions));
    } else {
      printf("{\"error\":\"there is no such workload\"}\n");
      fflush(stdout);
    }
  }
}

} // namespace

int main() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return 1;
  // The fork comes first, because CUDA does not survive one.
  pid_t child = fork();
  if (child == 0) {
    close(sockets[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      import(sockets[1]);
      _exit(0);
    } catch (const std::exception &error) {
      fprintf(stderr, "the importing process: %s\n", error.what());
      _exit(1);
    }
  }
  close(sockets[1]);
  setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &socketTimeout, sizeof socketTimeout);
  setsockopt(sockets[0], SOL_SOCKET, SO_SNDTIMEO, &socketTimeout, sizeof socketTimeout);
  int result = 0;
  try {
    Exporter exporter(sockets[0]);
    answerRequests(exporter);
  } catch (const std::exception &error) {
    printf("{\"error\":\"%s\"}\n", error.what());
    fflush(stdout);
    result = 1;
  }
  close(sockets[0]);
  if (result != 0) kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return result;
}
