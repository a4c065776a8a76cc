// An exporter that speaks RMM's wire and lies: it changes one of the eight u64 of the export data that it sends.
//
//     forging_exporter PATH BYTES FIELD VALUE      the field is 0 to 7, or -1 to change nothing
//
// Serves one importer, prints what that answers, and ends. forged_wire.ts builds and runs it.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const cudaError_t error = call;                                                                                    \
    if (error) return printf("could not run: %s: %s\n", #call, cudaGetErrorName(error)), 2;                            \
  } while (0)

int main(int argc, char** argv) {
  if (argc != 5) return printf("usage: forging_exporter PATH BYTES FIELD VALUE\n"), 2;
  const uint64_t byteLength = strtoull(argv[2], nullptr, 10), value = strtoull(argv[4], nullptr, 10);
  const int field = atoi(argv[3]);
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
  uint64_t words[8];
  cudaMemPoolPtrExportData data;
  CHECK(cudaMemPoolExportPointer(&data, pointer));
  memcpy(words, &data, sizeof words);
  if (field >= 0) words[field] = value;

  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) || listen(listener, 1)) return perror("listen"), 2;
  printf("listening\n");
  fflush(stdout);
  const int client = accept(listener, nullptr, nullptr);
  const int32_t device = 0;
  unsigned char numbers[12];
  memcpy(numbers, &device, 4);
  memcpy(numbers + 4, &byteLength, 8);
  if (write(client, numbers, sizeof numbers) != sizeof numbers) return perror("write"), 2;
  char mark = 'F';
  iovec part = {&mark, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (sendmsg(client, &message, 0) != 1 || write(client, words, sizeof words) != sizeof words) return perror("send"), 2;
  char answer = 0;
  const bool isDone = read(client, &answer, 1) == 1 && answer == 'D';
  printf("%s\n", isDone ? "the importer has used the memory" : "the importer left");
  return 0;
}
