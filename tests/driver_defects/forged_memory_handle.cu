// Memory that another process has exported lies at a wrong address if the offset in its handle was changed, and its
// use loses the context.
//
//     nvcc -o forged_memory_handle forged_memory_handle.cu && ./forged_memory_handle
//
// A handle comes from another process, which may be mistaken or hostile. One process gets the handle of 4 MiB; another
// one opens it with one byte of the offset in it changed (bytes 24 to 31), and then writes to the memory.
// Expected: an error, and a context that works. On 580.159.04: with byte 30 or 31 changed, the context is lost, and
// every later call of the process fails (cudaErrorLaunchFailure).
// Exit code: 0 every context works, 1 one was lost or its process crashed or hung, 2 the test could not run.
#include <cuda_runtime.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Request {
  cudaIpcMemHandle_t handle;
};

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  printf("could not run: %s: %s\n", call, cudaGetErrorName(error));
  _exit(2);
}
#define CHECK(call) check(call, #call)

// Runs this program again as the importer, and returns its exit code, or 1 if it crashed or hung.
int runImporter(const Request& request) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets)) perror("socketpair"), _exit(2);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const std::string socket = std::to_string(sockets[1]);
    execl("/proc/self/exe", "importer", "import", socket.c_str(), nullptr);
    _exit(2);
  }
  close(sockets[1]);
  if (write(sockets[0], &request, sizeof request) != sizeof request) perror("write"), _exit(2);
  int status = 0;
  bool ended = false;
  for (int tenths = 0; !ended && tenths < 100; tenths++) {
    ended = waitpid(child, &status, WNOHANG) == child;
    if (!ended) usleep(100'000);
  }
  if (!ended) kill(child, SIGKILL);
  close(sockets[0]);
  if (ended && WIFEXITED(status)) return WEXITSTATUS(status) < 2 ? WEXITSTATUS(status) : 2;
  if (ended) printf("the importer was ended by signal %d, %s\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else printf("the importer hung for 10 s\n");
  return 1;
}

int import(int socket) {
  Request request;
  if (read(socket, &request, sizeof request) != sizeof request) perror("read"), _exit(2);
  void *own, *memory;
  CHECK(cudaMalloc(&own, 1 << 20));
  CHECK(cudaMemset(own, 1, 1 << 20));
  CHECK(cudaDeviceSynchronize());
  const cudaError_t error = cudaIpcOpenMemHandle(&memory, request.handle, cudaIpcMemLazyEnablePeerAccess);
  cudaGetLastError();
  if (error == cudaSuccess) cudaMemset(memory, 2, 1), cudaDeviceSynchronize(), cudaGetLastError();
  cudaError_t later = cudaMemset(own, 2, 1 << 20);
  if (later == cudaSuccess) later = cudaDeviceSynchronize();
  printf("%s, then cudaMemset of other memory: %s\n", cudaGetErrorName(error), cudaGetErrorName(later));
  fflush(stdout);
  _exit(later != cudaSuccess);
}

}  // namespace

int main(int count, char** arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count == 3 && !strcmp(arguments[1], "import")) return import(atoi(arguments[2]));
  void* memory;
  Request request{};
  CHECK(cudaMalloc(&memory, 4 << 20));
  CHECK(cudaIpcGetMemHandle(&request.handle, memory));
  for (int field = 0; field < 8; field++) {
    uint64_t value;
    memcpy(&value, request.handle.reserved + 8 * field, 8);
    printf("%016llx%c", (unsigned long long)value, field % 4 == 3 ? '\n' : ' ');
  }
  printf("unchanged: ");
  if (runImporter(request) != 0) return 2;
  bool isPresent = false;
  for (int byte = 24; byte < 32; byte++) {
    Request changed = request;
    changed.handle.reserved[byte] ^= 0x80;
    printf("byte %d:   ", byte);
    isPresent |= runImporter(changed) == 1;
  }
  return isPresent;
}
