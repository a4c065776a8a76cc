// cudaMemPoolImportPointer crashes or hangs if one field of cudaMemPoolPtrExportData was changed.
//
//     nvcc -o forged_export_data forged_export_data.cu && ./forged_export_data
//
// Export data comes from another process, which may be mistaken or hostile. One process exports 64 MiB;
// for each change of one 8-byte field, another process imports it. Expected: cudaErrorInvalidValue.
// On 580.159.04: SIGSEGV, or a call that never returns.
// Exit code: 0 no importer crashed or hung, 1 one did, 2 the test could not run.
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
  cudaMemPoolPtrExportData data;
};

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  printf("could not run: %s: %s\n", call, cudaGetErrorName(error));
  _exit(2);
}
#define CHECK(call) check(call, #call)

// Sends a request, and the pool's descriptor with it.
void sendRequest(int socket, const Request& request, int descriptor) {
  char control[CMSG_SPACE(sizeof(int))] = {};
  iovec bytes{const_cast<Request*>(&request), sizeof request};
  msghdr message{};
  message.msg_iov = &bytes, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  if (sendmsg(socket, &message, 0) < 0) perror("sendmsg"), _exit(2);
}

int receiveRequest(int socket, Request* request) {
  char control[CMSG_SPACE(sizeof(int))];
  iovec bytes{request, sizeof *request};
  msghdr message{};
  message.msg_iov = &bytes, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, 0) != sizeof *request || !CMSG_FIRSTHDR(&message)) perror("recvmsg"), _exit(2);
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
  return descriptor;
}

// Runs this program again as the importer, and returns its exit code, or 1 if it crashed or hung.
int runImporter(const Request& request, int descriptor) {
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
  sendRequest(sockets[0], request, descriptor);
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

// The fields as 580.159.04 fills them: 0 the exporter's process id, 3 the offset in the pool, 4 the size in bytes, 5 a
// number of the physical memory.
struct Change {
  const char* name;
  int field;
  uint64_t value;
};
const Change changes[] = {
    {"offset 2^40", 3, 1ull << 40},
    {"offset 2^64 - 1", 3, ~0ull},
    {"size 0", 4, 0},
    {"size 8 GiB", 4, 8ull << 30},
    {"size 2^56 + 64 MiB", 4, (1ull << 56) + (64 << 20)},
    {"number of the memory 0", 5, 0},
};

int import(int socket) {
  Request request;
  const int descriptor = receiveRequest(socket, &request);
  cudaMemPool_t pool;
  void* memory;
  CHECK(cudaFree(nullptr));
  CHECK(cudaMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor)), cudaMemHandleTypePosixFileDescriptor, 0));
  printf("%s\n", cudaGetErrorName(cudaMemPoolImportPointer(&memory, pool, &request.data)));
  fflush(stdout);
  _exit(0);
}

}  // namespace

int main(int count, char** arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count == 3 && !strcmp(arguments[1], "import")) return import(atoi(arguments[2]));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  int descriptor;
  void* memory;
  Request request{};
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  CHECK(cudaMallocFromPoolAsync(&memory, 64 << 20, pool, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaMemPoolExportPointer(&request.data, memory));
  printf("%-24s ", "unchanged:");
  if (runImporter(request, descriptor) != 0) return 2;
  bool isPresent = false;
  for (const Change& change : changes) {
    Request changed = request;
    memcpy(changed.data.reserved + 8 * change.field, &change.value, 8);
    printf("%-24s ", (std::string(change.name) + ":").c_str());
    isPresent |= runImporter(changed, descriptor) == 1;
  }
  return isPresent;
}
