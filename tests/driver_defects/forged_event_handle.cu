// An event crashes the process that opens and queries it if one byte of its handle was changed.
//
//     nvcc -o forged_event_handle forged_event_handle.cu && ./forged_event_handle
//
// A handle comes from another process, which may be mistaken or hostile. One process makes an interprocess event; for
// each of the bytes 16 to 19 of its handle, another process opens the handle with that byte inverted, and queries the event.
// Expected: an error, or an event. On 580.159.04: SIGSEGV for bytes 17, 18 and 19.
// Exit code: 0 no process crashed or hung, 1 one did, 2 the test could not run.
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
  cudaIpcEventHandle_t handle;
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
  cudaEvent_t event;
  CHECK(cudaFree(nullptr));
  const cudaError_t error = cudaIpcOpenEventHandle(&event, request.handle);
  printf("%s", cudaGetErrorName(error));
  fflush(stdout);
  if (error == cudaSuccess) printf(", then cudaEventQuery: %s", cudaGetErrorName(cudaEventQuery(event)));
  printf("\n");
  fflush(stdout);
  _exit(0);
}

}  // namespace

int main(int count, char** arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count == 3 && !strcmp(arguments[1], "import")) return import(atoi(arguments[2]));
  cudaEvent_t event;
  Request request{};
  CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  CHECK(cudaIpcGetEventHandle(&request.handle, event));
  printf("unchanged: ");
  if (runImporter(request) != 0) return 2;
  bool isPresent = false;
  for (int byte = 16; byte < 20; byte++) {
    Request changed = request;
    changed.handle.reserved[byte] = ~changed.handle.reserved[byte];
    printf("byte %d:   ", byte);
    isPresent |= runImporter(changed) == 1;
  }
  return isPresent;
}
