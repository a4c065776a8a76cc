// Two threads that import the same allocation of another process, and free it, end the process.
//
//     nvcc -o import_in_two_threads import_in_two_threads.cu && ./import_in_two_threads
//
// One process exports a pool and a pointer. In another process, two threads import the pool, import the pointer, free it
// on streams of their own and destroy the pool, 2000 times each. As two Workers of a program do, or two libraries in it,
// neither of which knows of the other.
// Expected: every call succeeds, or returns an error. On 580.159.04: SIGSEGV, or errors for valid calls.
// Exit code: 0 the process did not crash or hang, 1 it did, 2 the test could not run.
#include <cuda_runtime.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

constexpr int rounds = 2000;
constexpr size_t byteLength = 1 << 20;

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  printf("could not run: %s: %s\n", call, cudaGetErrorName(error));
  _exit(2);
}
#define CHECK(call) check(call, #call)

void sendPool(int socket, int descriptor, cudaMemPoolPtrExportData data) {
  iovec part = {&data, sizeof data};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message = {nullptr, 0, &part, 1, control, sizeof control, 0};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (sendmsg(socket, &message, 0) != sizeof data) perror("sendmsg"), _exit(2);
}

int receivePool(int socket, cudaMemPoolPtrExportData* data) {
  iovec part = {data, sizeof *data};
  int descriptor = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)];
  msghdr message = {nullptr, 0, &part, 1, control, sizeof control, 0};
  if (recvmsg(socket, &message, 0) != sizeof *data) perror("recvmsg"), _exit(2);
  memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

// The other process. Errors of its calls are expected once the driver's state is wrong, and only a crash counts.
int importInTwoThreads(int socket) {
  cudaMemPoolPtrExportData data;
  const int descriptor = receivePool(socket, &data);
  CHECK(cudaFree(nullptr));
  auto importAgainAndAgain = [&] {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < rounds; round++) {
      cudaMemPool_t pool;
      void* handle = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
      if (cudaMemPoolImportFromShareableHandle(&pool, handle, cudaMemHandleTypePosixFileDescriptor, 0)) continue;
      cudaMemPoolPtrExportData copy = data;
      void* pointer;
      if (cudaMemPoolImportPointer(&pointer, pool, &copy) == cudaSuccess) {
        cudaFreeAsync(pointer, stream);
        cudaStreamSynchronize(stream);
      }
      cudaMemPoolDestroy(pool);
    }
  };
  std::thread first(importAgainAndAgain), second(importAgainAndAgain);
  first.join();
  second.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) return importInTwoThreads(std::stoi(argv[2]));
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets)) return perror("socketpair"), 2;
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  props.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &props));
  int descriptor;
  CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  void* pointer;
  CHECK(cudaMallocFromPoolAsync(&pointer, byteLength, pool, nullptr));
  CHECK(cudaDeviceSynchronize());
  cudaMemPoolPtrExportData data;
  CHECK(cudaMemPoolExportPointer(&data, pointer));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const std::string socket = std::to_string(sockets[1]);
    execl("/proc/self/exe", "importer", "import", socket.c_str(), nullptr);
    _exit(2);
  }
  close(sockets[1]);
  sendPool(sockets[0], descriptor, data);
  int status = 0;
  for (int tenths = 0; tenths < 300; tenths++) {
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status)) return printf("the process ended with %d\n", WEXITSTATUS(status)), WEXITSTATUS(status);
      return printf("the process was ended by signal %d, %s\n", WTERMSIG(status), strsignal(WTERMSIG(status))), 1;
    }
    usleep(100'000);
  }
  kill(child, SIGKILL);
  return printf("the process hung for 30 s\n"), 1;
}
