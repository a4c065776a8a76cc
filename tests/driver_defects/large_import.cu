// cudaMemPoolImportPointer crashes for an allocation of more than 4 GiB.
//
//     nvcc -o large_import large_import.cu && ./large_import [MIB...]
//
// For each size, one process allocates that much from an exportable pool and exports it; another one imports it and
// checks every byte. Expected: right bytes, or an error. On 580.159.04: the importer gets SIGSEGV from 5,280 MiB on.
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
#include <vector>

namespace {

struct Request {
  cudaMemPoolPtrExportData data;
  uint64_t words;
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

__device__ uint64_t wordAt(uint64_t index) { return (index + 1) * 0x9e3779b97f4a7c15; }

__global__ void fill(uint64_t* memory, uint64_t words) {
  for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < words; i += gridDim.x * 256ull) memory[i] = wordAt(i);
}

__global__ void compare(const uint64_t* memory, uint64_t words, unsigned long long* wrong) {
  for (uint64_t i = blockIdx.x * 256ull + threadIdx.x; i < words; i += gridDim.x * 256ull) {
    if (memory[i] != wordAt(i)) atomicAdd(wrong, 1);
  }
}

int import(int socket) {
  Request request;
  const int descriptor = receiveRequest(socket, &request);
  cudaMemPool_t pool;
  void* memory;
  unsigned long long *wrong, count = 0;
  CHECK(cudaMalloc(&wrong, sizeof count));
  CHECK(cudaMemset(wrong, 0, sizeof count));
  CHECK(cudaMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor)), cudaMemHandleTypePosixFileDescriptor, 0));
  const cudaError_t error = cudaMemPoolImportPointer(&memory, pool, &request.data);
  if (error != cudaSuccess) {
    printf("refused: %s\n", cudaGetErrorName(error));
    return 0;
  }
  compare<<<1024, 256>>>(static_cast<uint64_t*>(memory), request.words, wrong);
  CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
  if (count > 0) printf("imported, but %llu of %llu words are wrong\n", count, (unsigned long long)request.words);
  else printf("imported, all bytes are right\n");
  CHECK(cudaFreeAsync(memory, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  return count > 0;
}

int share(uint64_t mebibytes) {
  printf("%6llu MiB: ", (unsigned long long)mebibytes);
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  int descriptor;
  void* memory;
  Request request{};
  request.words = mebibytes << 17;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  CHECK(cudaMallocFromPoolAsync(&memory, mebibytes << 20, pool, nullptr));
  fill<<<1024, 256>>>(static_cast<uint64_t*>(memory), request.words);
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaMemPoolExportPointer(&request.data, memory));
  const int result = runImporter(request, descriptor);
  close(descriptor);
  CHECK(cudaFreeAsync(memory, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaMemPoolDestroy(pool));
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count == 3 && !strcmp(arguments[1], "import")) return import(atoi(arguments[2]));
  std::vector<uint64_t> sizes{1, 1024, 4096, 5248, 5376, 16384};
  if (count > 1) sizes.clear();
  for (int i = 1; i < count; i++) sizes.push_back(strtoull(arguments[i], nullptr, 10));
  bool seen[3] = {};
  for (uint64_t size : sizes) seen[share(size)] = true;
  return seen[1] ? 1 : seen[2] ? 2 : 0;
}
