// Fuzzes what one process sends to another for cudaMemPoolImportPointer, cudaIpcOpenEventHandle, cudaIpcOpenMemHandle.
//
//     nvcc -o export_fuzz export_fuzz.cu && ./export_fuzz [--random 200] [--seed 1] [--seconds 40]
//
// Handles come from another process, which may be mistaken or hostile. One process makes handles; others open them with
// single bytes, 8-byte fields or all of their 64 bytes changed. Each goes on until it dies, then the next one does.
// Expected: errors, or memory that was exported. On 580.159.04: crashes, hangs and lost contexts.
// Exit code: 0 no process crashed, hung or lost its context, 1 one did, 2 the test could not run.
#include <cuda_runtime.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t memorySize = 64 << 20;
constexpr double setupSeconds = 20, attemptSeconds = 3;
enum Kind { exportData, eventHandle, memoryHandle };

using Handle = cudaMemPoolPtrExportData;  // all three are 64 opaque bytes
static_assert(sizeof(Handle) == 64 && sizeof(cudaIpcEventHandle_t) == 64 && sizeof(cudaIpcMemHandle_t) == 64);

struct Attempt { std::string group; Handle handle; };

// What the processes share. An outcome is the error's number, or one of these.
enum Outcome { untried = -1, crashed = 10'000, hung, lost };
struct Board {
  Handle handles[3];
  volatile int current;
  int outcomes[8192];
};
Board* board;

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "could not run: %s: %s\n", call, cudaGetErrorName(error));
  _exit(2);
}
#define CHECK(call) check(call, #call)

double seconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

pid_t forkChild() {
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) perror("fork"), exit(2);
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

// Sends a descriptor if there is one, else receives one; -1 if the other process ended.
int passDescriptor(int socket, int descriptor = -1) {
  char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
  iovec bytes{&byte, 1};
  msghdr message{};
  message.msg_iov = &bytes, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (descriptor < 0) {
    if (recvmsg(socket, &message, 0) <= 0 || message.msg_controllen == 0) return -1;
    memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  } else {
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    if (sendmsg(socket, &message, 0) < 0) return -1;
  }
  return descriptor;
}

void runExporter(int socket) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  cudaEvent_t event;
  int descriptor;
  void *pooled, *unpooled;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  CHECK(cudaMallocFromPoolAsync(&pooled, memorySize, pool, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  CHECK(cudaMemPoolExportPointer(&board->handles[exportData], pooled));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  CHECK(cudaIpcGetEventHandle(reinterpret_cast<cudaIpcEventHandle_t*>(&board->handles[eventHandle]), event));
  CHECK(cudaMalloc(&unpooled, memorySize));
  CHECK(cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t*>(&board->handles[memoryHandle]), unpooled));
  passDescriptor(socket, descriptor);
  char byte;
  while (read(socket, &byte, 1) > 0) {}
  _exit(0);
}

cudaError_t open(Kind kind, Handle handle, cudaMemPool_t pool) {
  void* memory;
  cudaEvent_t event;
  cudaError_t error;
  if (kind == exportData) {
    error = cudaMemPoolImportPointer(&memory, pool, &handle);
    return error == cudaSuccess ? cudaFreeAsync(memory, nullptr) : error;
  }
  if (kind == eventHandle) {
    error = cudaIpcOpenEventHandle(&event, reinterpret_cast<cudaIpcEventHandle_t&>(handle));
    return error == cudaSuccess ? cudaEventDestroy(event) : error;
  }
  error = cudaIpcOpenMemHandle(&memory, reinterpret_cast<cudaIpcMemHandle_t&>(handle), cudaIpcMemLazyEnablePeerAccess);
  return error == cudaSuccess ? cudaIpcCloseMemHandle(memory) : error;
}

void runImporter(Kind kind, int descriptor, const std::vector<Attempt>& attempts, int next) {
  cudaMemPool_t pool;
  void* own;
  CHECK(cudaMalloc(&own, 4096));
  CHECK(cudaMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor)), cudaMemHandleTypePosixFileDescriptor, 0));
  for (int i = next; i < static_cast<int>(attempts.size()); i++) {
    board->current = i;
    const cudaError_t error = open(kind, attempts[i].handle, pool);
    cudaGetLastError();
    const bool isLost = cudaMemset(own, 0, 4096) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess;
    board->outcomes[i] = isLost ? static_cast<int>(lost) : static_cast<int>(error);
    if (isLost) break;
  }
  _exit(0);
}

// Makes all attempts, in as many processes as it takes; false if a process could not even begin.
bool tryAll(Kind kind, int descriptor, const std::vector<Attempt>& attempts, double limit) {
  const double end = seconds() + limit;
  std::fill_n(board->outcomes, attempts.size(), untried);
  for (int next = 0; next < static_cast<int>(attempts.size()) && seconds() < end; next = board->current + 1) {
    int seen = board->current = next - 1, status = 0;
    const pid_t child = forkChild();
    if (child == 0) runImporter(kind, descriptor, attempts, next);
    bool isHung = false;
    for (double since = seconds(); !isHung && waitpid(child, &status, WNOHANG) == 0; usleep(200)) {
      if (board->current != seen) seen = board->current, since = seconds();
      isHung = seconds() - since > (seen < next ? setupSeconds : attemptSeconds);
    }
    if (isHung) {
      kill(child, SIGKILL);
      for (int i = 0; i < 5000 && waitpid(child, &status, WNOHANG) == 0; i++) usleep(1000);
    }
    if (board->current < next) return false;
    int& outcome = board->outcomes[board->current];
    if (outcome == untried) outcome = isHung ? hung : crashed;
  }
  return true;
}

std::vector<Attempt> attemptsAt(const Handle& handle, int random, std::mt19937_64& numbers) {
  std::vector<Attempt> attempts{{"unchanged", handle}};
  auto with = [&](const std::string& group, int offset, const void* bytes, size_t count) {
    attempts.push_back({group, handle});
    memcpy(attempts.back().handle.reserved + offset, bytes, count);
  };
  for (int byte = 0; byte < 64; byte++) {
    for (int mask : {0x01, 0x80, 0xff}) {
      const unsigned char changed = handle.reserved[byte] ^ mask;
      with("byte " + std::to_string(byte), byte, &changed, 1);
    }
  }
  for (int field = 0; field < 8; field++) {
    for (int i = 0; i < random / 10 + 1; i++) {
      const uint64_t value = i == 0 ? 0 : numbers() >> numbers() % 64;
      with("field " + std::to_string(field), 8 * field, &value, 8);
    }
  }
  for (int i = 0; i < random; i++) {
    uint64_t words[8];
    for (uint64_t& word : words) word = numbers();
    with("random", 0, words, 64);
  }
  for (int byte : {0x00, 0xff}) {
    const std::vector<char> bytes(64, static_cast<char>(byte));
    with(byte ? "all ff" : "all 00", 0, bytes.data(), 64);
  }
  return attempts;
}

const char* nameOf(int outcome) {
  const char* names[] = {"crash", "hang", "context lost"};
  if (outcome == untried) return "not tried";
  return outcome >= crashed ? names[outcome - crashed] : cudaGetErrorName(static_cast<cudaError_t>(outcome));
}

// One line for each run of bytes or fields with the same outcomes; true if something was worse than an error.
bool print(const std::vector<Attempt>& attempts) {
  std::vector<std::pair<std::string, std::map<std::string, int>>> groups;
  bool isPresent = false;
  for (size_t i = 0; i < attempts.size(); i++) {
    const int outcome = board->outcomes[i];
    isPresent |= outcome >= crashed;
    if (groups.empty() || groups.back().first != attempts[i].group) groups.push_back({attempts[i].group, {}});
    groups.back().second[nameOf(outcome)]++;
  }
  auto kindOf = [](const std::string& name) { return name.substr(0, name.find(' ')); };
  for (size_t i = 0, j; i < groups.size(); i = j) {
    const auto& [first, outcomes] = groups[i];
    for (j = i + 1; j < groups.size() && groups[j].second == outcomes && kindOf(groups[j].first) == kindOf(first);) j++;
    const std::string& last = groups[j - 1].first;
    printf("  %-12s", (first + (j > i + 1 ? "-" + last.substr(last.find(' ') + 1) : "")).c_str());
    for (auto& [outcome, count] : outcomes) printf(" %s %d", outcome.c_str(), count);
    puts("");
  }
  return isPresent;
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, double> options{{"--random", 200}, {"--seed", 1}, {"--seconds", 40}};
  for (int i = 1; i + 1 < count; i += 2) options[arguments[i]] = atof(arguments[i + 1]);
  board = static_cast<Board*>(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int sockets[2];
  if (board == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets)) perror("could not run"), exit(2);
  const pid_t exporter = forkChild();
  if (exporter == 0) close(sockets[0]), runExporter(sockets[1]);
  close(sockets[1]);
  const int descriptor = passDescriptor(sockets[0]);
  if (descriptor < 0) return 2;
  std::mt19937_64 numbers(options["--seed"]);
  bool isPresent = false, isRun = true;
  const char* names[] = {"export data", "handle of an event", "handle of memory"};
  for (Kind kind : {exportData, eventHandle, memoryHandle}) {
    const auto attempts = attemptsAt(board->handles[kind], static_cast<int>(options["--random"]), numbers);
    isRun &= tryAll(kind, descriptor, attempts, options["--seconds"]);
    printf("%s; each byte or field: outcome and how often\n", names[kind]);
    isPresent |= print(attempts);
  }
  close(sockets[0]);
  return isPresent ? 1 : isRun ? 0 : 2;
}
