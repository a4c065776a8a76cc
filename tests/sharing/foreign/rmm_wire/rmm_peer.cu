// An exporter and an importer in plain CUDA C++ that use RMM's wire format. The programs in examples/ must interoperate
// with them.
//
//   rmm_peer export <target_gpu> <bytes> <socket_path> <writers>     verifies what the writers wrote
//   rmm_peer import <target_gpu> <socket_path> <writer_gpu> [...]
#include <cuda_runtime.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void require(bool holds, char const* what)
{
  if (holds) { return; }
  std::fprintf(stderr, "rmm_peer: %s failed\n", what);
  std::exit(1);
}

#define REQUIRE(expression) require((expression), #expression)
#define CUDA(call) require((call) == cudaSuccess, #call)

static int open_socket()
{
  int const fd = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(fd >= 0);
  // A silent peer must not block this program forever.
  timeval const limit{20, 0};
  REQUIRE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  return fd;
}

static sockaddr_un address_of(char const* path)
{
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(std::strlen(path) < sizeof address.sun_path);
  std::strcpy(address.sun_path, path);
  return address;
}

static void send_all(int fd, void const* bytes, std::size_t count)
{
  auto const* rest = static_cast<char const*>(bytes);
  while (count > 0) {
    ssize_t const sent = send(fd, rest, count, MSG_NOSIGNAL);
    REQUIRE(sent > 0);
    rest += sent;
    count -= static_cast<std::size_t>(sent);
  }
}

static void receive_all(int fd, void* bytes, std::size_t count)
{
  REQUIRE(recv(fd, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count));
}

static void send_descriptor(int fd, int descriptor)
{
  char mark = 'F';
  iovec data{&mark, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov        = &data;
  message.msg_iovlen     = 1;
  message.msg_control    = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header        = CMSG_FIRSTHDR(&message);
  header->cmsg_level     = SOL_SOCKET;
  header->cmsg_type      = SCM_RIGHTS;
  header->cmsg_len       = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  REQUIRE(sendmsg(fd, &message, MSG_NOSIGNAL) == 1);
}

static int receive_descriptor(int fd)
{
  char mark = 0;
  iovec data{&mark, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov        = &data;
  message.msg_iovlen     = 1;
  message.msg_control    = control;
  message.msg_controllen = sizeof control;
  REQUIRE(recvmsg(fd, &message, 0) == 1 && mark == 'F');
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  REQUIRE(header != nullptr && header->cmsg_type == SCM_RIGHTS);
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

__global__ void fill(unsigned char* bytes, std::size_t count, unsigned char value)
{
  std::size_t const stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) { bytes[i] = value; }
}

static unsigned char byte_of(std::size_t writer) { return static_cast<unsigned char>(0x11 * (writer % 4 + 1)); }

static int export_pool(std::int32_t target, std::uint64_t bytes, char const* path, std::size_t writers)
{
  CUDA(cudaSetDevice(target));
  cudaMemPoolProps properties{};
  properties.allocType     = cudaMemAllocationTypePinned;
  properties.handleTypes   = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id   = target;
  cudaMemPool_t pool{};
  CUDA(cudaMemPoolCreate(&pool, &properties));
  cudaStream_t stream{};
  CUDA(cudaStreamCreate(&stream));
  void* memory = nullptr;
  CUDA(cudaMallocFromPoolAsync(&memory, bytes, pool, stream));
  CUDA(cudaStreamSynchronize(stream));
  int descriptor = -1;
  CUDA(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  cudaMemPoolPtrExportData data{};
  CUDA(cudaMemPoolExportPointer(&data, memory));

  int const listener = open_socket();
  auto const address = address_of(path);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0);
  REQUIRE(listen(listener, 1) == 0);
  int const peer = accept(listener, nullptr, nullptr);
  REQUIRE(peer >= 0);
  send_all(peer, &target, sizeof target);
  send_all(peer, &bytes, sizeof bytes);
  send_descriptor(peer, descriptor);
  send_all(peer, &data, sizeof data);
  char done = 0;
  receive_all(peer, &done, 1);
  REQUIRE(done == 'D');
  REQUIRE(unlink(path) == 0);

  std::vector<unsigned char> host(bytes);
  CUDA(cudaMemcpy(host.data(), memory, bytes, cudaMemcpyDeviceToHost));
  std::size_t const slice = bytes / writers;
  for (std::size_t i = 0; i < bytes; ++i) {
    std::size_t const writer = slice == 0 || i / slice >= writers ? writers - 1 : i / slice;
    if (host[i] == byte_of(writer)) { continue; }
    std::fprintf(stderr, "rmm_peer: byte %zu is 0x%02x, where writer %zu writes 0x%02x\n", i, host[i], writer, byte_of(writer));
    return 1;
  }
  std::printf("rmm_peer: all %llu bytes of %zu writers are right\n", static_cast<unsigned long long>(bytes), writers);
  CUDA(cudaFreeAsync(memory, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemPoolDestroy(pool));
  return 0;
}

static int import_pool(std::int32_t target, char const* path, std::vector<int> const& writers)
{
  int const peer     = open_socket();
  auto const address = address_of(path);
  REQUIRE(connect(peer, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0);
  std::int32_t exported = -1;
  std::uint64_t bytes   = 0;
  receive_all(peer, &exported, sizeof exported);
  receive_all(peer, &bytes, sizeof bytes);
  int const descriptor = receive_descriptor(peer);
  cudaMemPoolPtrExportData data{};
  receive_all(peer, &data, sizeof data);
  REQUIRE(exported == target);

  CUDA(cudaSetDevice(target));
  CUDA(cudaFree(nullptr));
  cudaMemPool_t pool{};
  CUDA(cudaMemPoolImportFromShareableHandle(
    &pool, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)), cudaMemHandleTypePosixFileDescriptor, 0));
  close(descriptor);
  void* memory = nullptr;
  CUDA(cudaMemPoolImportPointer(&memory, pool, &data));

  std::uint64_t const slice = bytes / writers.size();
  for (std::size_t writer = 0; writer < writers.size(); ++writer) {
    std::uint64_t const count = writer + 1 == writers.size() ? bytes - writer * slice : slice;
    if (count == 0) { continue; }
    CUDA(cudaSetDevice(writers[writer]));
    unsigned char* local = nullptr;
    CUDA(cudaMalloc(&local, count));
    fill<<<256, 256>>>(local, count, byte_of(writer));
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpyPeerAsync(static_cast<char*>(memory) + writer * slice, target, local, writers[writer], count));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaFree(local));
  }
  CUDA(cudaSetDevice(target));
  CUDA(cudaFreeAsync(memory, nullptr));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemPoolDestroy(pool));
  send_all(peer, "D", 1);
  std::printf("rmm_peer: %zu writers wrote %llu bytes\n", writers.size(), static_cast<unsigned long long>(bytes));
  return 0;
}

int main(int argc, char** argv)
{
  if (argc >= 6 && std::strcmp(argv[1], "export") == 0) {
    return export_pool(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10), argv[4], std::strtoul(argv[5], nullptr, 10));
  }
  if (argc >= 5 && std::strcmp(argv[1], "import") == 0) {
    std::vector<int> writers;
    for (int i = 4; i < argc; ++i) { writers.push_back(std::atoi(argv[i])); }
    return import_pool(std::atoi(argv[2]), argv[3], writers);
  }
  std::fprintf(stderr, "usage: rmm_peer export|import ...\n");
  return 2;
}
