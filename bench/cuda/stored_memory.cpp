// Memory that one process has left for others, in C++ by hand: the driver's virtual memory, whose descriptor is sent over
// a Unix socket. What maps it answers requests with lines of JSON, as bench/sharing/contract.ts says.
//
//   stored_memory serve PATH BYTES   holds memory until standard input ends, and sends its descriptor to whoever asks
//   stored_memory client PATH FILE   answers requests: maps the memory, or reads the file's last bytes to the device
//   stored_memory once PATH          maps the memory, prints a line, and ends
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda.h>

namespace {

// A hanging peer must not hang this process.
constexpr timeval socketTimeout = {20, 0};
constexpr unsigned char content = 0x5a;
// The fastest of those that were tried on an H200 with 16 cores.
constexpr size_t pieceByteLength = 4 << 20;
constexpr int readers = 12;

// The driver is loaded by name: not every machine that has one can link against it.
void *symbol(const char *name) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void *found = dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  return found;
}
#define NAME(function) NAME_EXPANDED(function)
#define NAME_EXPANDED(function) #function
// A function of the driver, looked up once.
#define DRIVER(function)                                                                                               \
  ([] {                                                                                                                \
    static const auto found = reinterpret_cast<decltype(&function)>(symbol(NAME(function)));                           \
    return found;                                                                                                      \
  }())

void check(CUresult result, int line) {
  if (result == CUDA_SUCCESS) return;
  throw std::runtime_error("stored_memory.cpp:" + std::to_string(line) + ": CUDA error " + std::to_string(result));
}
#define CHECK(call) check(call, __LINE__)

[[noreturn]] void fail(const char *what) { throw std::runtime_error(std::string(what) + ": " + strerror(errno)); }

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

sockaddr_un addressOf(const char *path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return address;
}

void setTimeouts(int socket) {
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &socketTimeout, sizeof socketTimeout);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &socketTimeout, sizeof socketTimeout);
}

int connectTo(const char *path) {
  int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = addressOf(path);
  setTimeouts(socket);
  if (connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) fail("connect");
  return socket;
}

// Sends the size of the memory with its descriptor.
bool sendMemory(int socket, int descriptor, uint64_t byteLength) {
  iovec part = {&byteLength, sizeof byteLength};
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
  return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof byteLength;
}

int receiveMemory(int socket, uint64_t &byteLength) {
  iovec part = {&byteLength, sizeof byteLength};
  int descriptor;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof byteLength) fail("no memory was received");
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) throw std::runtime_error("no descriptor was received");
  memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

CUdevice openDevice() {
  CHECK(DRIVER(cuInit)(0));
  CUdevice device;
  CHECK(DRIVER(cuDeviceGet)(&device, 0));
  CUcontext context;
  CHECK(DRIVER(cuDevicePrimaryCtxRetain)(&context, device));
  CHECK(DRIVER(cuCtxSetCurrent)(context));
  return device;
}

struct Mapping {
  CUdeviceptr address;
  size_t byteLength;

  Mapping(CUmemGenericAllocationHandle memory, size_t byteLength, CUmemAccess_flags access) : byteLength(byteLength) {
    CHECK(DRIVER(cuMemAddressReserve)(&address, byteLength, 0, 0, 0));
    CHECK(DRIVER(cuMemMap)(address, byteLength, 0, memory, 0));
    CUmemAccessDesc description = {};
    description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    description.location.id = 0;
    description.flags = access;
    CHECK(DRIVER(cuMemSetAccess)(address, byteLength, &description, 1));
  }
  Mapping(const Mapping &) = delete;
  ~Mapping() {
    DRIVER(cuMemUnmap)(address, byteLength);
    DRIVER(cuMemAddressFree)(address, byteLength);
  }

  // Reads the first and the last byte.
  void verify() const {
    unsigned char bytes[2];
    CHECK(DRIVER(cuMemcpyDtoH)(&bytes[0], address, 1));
    CHECK(DRIVER(cuMemcpyDtoH)(&bytes[1], address + byteLength - 1, 1));
    if (bytes[0] != content || bytes[1] != content) throw std::runtime_error("other memory was mapped");
  }
};

// Asks for the memory and maps it for reading.
Mapping *map(int socket) {
  char request = 0;
  if (send(socket, &request, 1, MSG_NOSIGNAL) != 1) fail("send");
  uint64_t byteLength;
  int descriptor = receiveMemory(socket, byteLength);
  CUmemGenericAllocationHandle memory;
  void *osHandle = reinterpret_cast<void *>(static_cast<intptr_t>(descriptor));
  CHECK(DRIVER(cuMemImportFromShareableHandle)(&memory, osHandle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  auto *mapping = new Mapping(memory, byteLength, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(DRIVER(cuMemRelease)(memory));
  return mapping;
}

void serve(const char *path, size_t wanted) {
  openDevice();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity;
  CHECK(DRIVER(cuMemGetAllocationGranularity)(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  size_t byteLength = (wanted + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle memory;
  CHECK(DRIVER(cuMemCreate)(&memory, byteLength, &properties, 0));
  {
    Mapping mapping(memory, byteLength, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(DRIVER(cuMemsetD8)(mapping.address, content, byteLength));
    CHECK(DRIVER(cuCtxSynchronize)());
  }
  int descriptor;
  CHECK(DRIVER(cuMemExportToShareableHandle)(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = addressOf(path);
  if (bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) fail("bind");
  if (listen(listener, 16) != 0) fail("listen");
  printf("{\"name\":\"C++\"}\n");
  fflush(stdout);
  std::thread([=] {
    for (;;) {
      int client = accept(listener, nullptr, nullptr);
      if (client < 0) return;
      std::thread([=] {
        char request;
        while (read(client, &request, 1) == 1 && sendMemory(client, descriptor, byteLength)) continue;
        close(client);
      }).detach();
    }
  }).detach();
  while (getchar() != EOF) continue;
  unlink(path);
  _exit(0);
}

// Times from the request until a kernel could read the memory.
std::vector<int64_t> measureMapping(const char *path, int warmUp, int repetitions) {
  int socket = connectTo(path);
  std::vector<int64_t> times;
  for (int i = 0; i < warmUp + repetitions; i++) {
    int64_t start = now();
    Mapping *mapping = map(socket);
    int64_t end = now();
    if (i >= warmUp) times.push_back(end - start);
    mapping->verify();
    delete mapping;
  }
  close(socket);
  return times;
}

// Reads a piece of the file after another into page-locked memory, and copies it to the device while the next one is
// read.
void readPieces(CUcontext context, int file, off_t offset, CUdeviceptr target, size_t byteLength,
                std::atomic<size_t> &next) {
  CHECK(DRIVER(cuCtxSetCurrent)(context));
  void *host[2];
  CUevent copied[2];
  for (int i = 0; i < 2; i++) {
    CHECK(DRIVER(cuMemHostAlloc)(&host[i], pieceByteLength, 0));
    CHECK(DRIVER(cuEventCreate)(&copied[i], CU_EVENT_DISABLE_TIMING));
  }
  CUstream stream;
  CHECK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  for (int slot = 0;; slot ^= 1) {
    size_t begin = next.fetch_add(pieceByteLength);
    if (begin >= byteLength) break;
    CHECK(DRIVER(cuEventSynchronize)(copied[slot]));
    size_t length = std::min(pieceByteLength, byteLength - begin);
    for (size_t done = 0; done < length;) {
      ssize_t count = pread(file, static_cast<char *>(host[slot]) + done, length - done, offset + begin + done);
      if (count <= 0) fail("read");
      done += count;
    }
    CHECK(DRIVER(cuMemcpyHtoDAsync)(target + begin, host[slot], length, stream));
    CHECK(DRIVER(cuEventRecord)(copied[slot], stream));
  }
  CHECK(DRIVER(cuStreamSynchronize)(stream));
  for (int i = 0; i < 2; i++) {
    CHECK(DRIVER(cuEventDestroy)(copied[i]));
    CHECK(DRIVER(cuMemFreeHost)(host[i]));
  }
  CHECK(DRIVER(cuStreamDestroy)(stream));
}

std::vector<int64_t> measureLoading(const char *path, size_t byteLength, int repetitions) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) fail("open");
  off_t offset = status.st_size - static_cast<off_t>(byteLength);
  CUcontext context;
  CHECK(DRIVER(cuCtxGetCurrent)(&context));
  CUdeviceptr target;
  CHECK(DRIVER(cuMemAlloc)(&target, byteLength));
  std::vector<int64_t> times;
  for (int i = 0; i < repetitions; i++) {
    int64_t start = now();
    std::atomic<size_t> next = 0;
    std::atomic<bool> hasFailed = false;
    std::vector<std::thread> threads;
    for (int reader = 0; reader < readers; reader++) {
      threads.emplace_back([&] {
        try {
          readPieces(context, file, offset, target, byteLength, next);
        } catch (const std::exception &error) {
          fprintf(stderr, "%s\n", error.what());
          hasFailed = true;
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    if (hasFailed) throw std::runtime_error("the file could not be read to the device");
    times.push_back(now() - start);
  }
  CHECK(DRIVER(cuMemFree)(target));
  close(file);
  return times;
}

// Returns a numeric parameter of a request, or its default.
size_t numberOf(const char *request, const char *name, size_t defaultValue) {
  std::string key = "\"" + std::string(name) + "\":";
  const char *found = strstr(request, key.c_str());
  return found == nullptr ? defaultValue : strtoull(found + key.size(), nullptr, 10);
}

void answer(const std::vector<int64_t> &times) {
  printf("{\"nanoseconds\":[");
  for (size_t i = 0; i < times.size(); i++) printf("%s%lld", i == 0 ? "" : ",", static_cast<long long>(times[i]));
  printf("]}\n");
  fflush(stdout);
}

void answerRequests(const char *path, const char *file) {
  CUdevice device = openDevice();
  char name[256];
  CHECK(DRIVER(cuDeviceGetName)(name, sizeof name, device));
  printf("{\"name\":\"C++\",\"device\":\"%s\",\"isSoftware\":false,\"versions\":\"CUDA %d.%d\","
         "\"works\":[\"map\",\"load\"]}\n",
         name, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  fflush(stdout);
  char request[4096];
  while (fgets(request, sizeof request, stdin) != nullptr) {
    int repetitions = static_cast<int>(numberOf(request, "repetitions", 1));
    if (strstr(request, "\"work\":\"map\"") != nullptr) {
      answer(measureMapping(path, static_cast<int>(numberOf(request, "warmUp", 0)), repetitions));
    } else {
      answer(measureLoading(file, numberOf(request, "byteLength", 0), repetitions));
    }
  }
}

void mapOnce(const char *path) {
  openDevice();
  Mapping *mapping = map(connectTo(path));
  mapping->verify();
  printf("{\"name\":\"C++\"}\n");
  fflush(stdout);
  _exit(0);
}

} // namespace

int main(int count, char **arguments) {
  std::string role = count > 2 ? arguments[1] : "";
  try {
    if (role == "serve" && count == 4) serve(arguments[2], strtoull(arguments[3], nullptr, 10));
    if (role == "client" && count == 4) answerRequests(arguments[2], arguments[3]);
    if (role == "once" && count == 3) mapOnce(arguments[2]);
  } catch (const std::exception &error) {
    printf("{\"error\":\"%s\"}\n", error.what());
    fflush(stdout);
    return 1;
  }
  return 0;
}
