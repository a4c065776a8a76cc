// All-reduces of NCCL as C++ calls them, to compare with the library's: a program with a process for each device, and
// as a shared library a rank in the library's own process.
//
//   native DEVICES SIZES ITERATIONS: prints a line of JSON for each size in bytes, {"byteLength", "microseconds"}, the
//   median of the rounds of rank 0, and for small ones "waitedMicroseconds", if each all-reduce is waited for. Each process
//   waits for the others at each size, as the library's script does.
#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                     \
  do {                                                                  \
    auto result = (call);                                               \
    if (result != 0) {                                                  \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, (int)result); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

static const int rounds = 7;
static const int warmUps = 5;
// In bytes: whether smaller ones are waited for one by one matters.
static const size_t leastLarge = 1 << 20;

// The rank of this process.
static ncclComm_t comm;
static cudaStream_t stream;
static float *source, *target;
static size_t byteLength;

static void repeat(int count) {
  for (int i = 0; i < count; i++) CHECK(ncclAllReduce(source, target, byteLength / 4, ncclFloat32, ncclSum, comm, stream));
  CHECK(cudaStreamSynchronize(stream));
}

extern "C" void createId(ncclUniqueId *id) { CHECK(ncclGetUniqueId(id)); }

extern "C" void createRank(int rank, int size, const ncclUniqueId *id) {
  CHECK(cudaSetDevice(rank));
  CHECK(ncclCommInitRank(&comm, size, *id, rank));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

extern "C" void destroyRank() { CHECK(ncclCommDestroy(comm)); }

// The rounds that follow are with arrays of this size.
extern "C" void begin(size_t size) {
  byteLength = size;
  CHECK(cudaMalloc(&source, byteLength));
  CHECK(cudaMalloc(&target, byteLength));
  CHECK(cudaMemset(source, 0, byteLength));
  repeat(warmUps);
}

// Microseconds of an all-reduce, of which `count` are made `times` times, and waited for.
extern "C" double measureRound(int count, int times) {
  // All ranks have come when this one is done.
  repeat(1);
  auto begin = std::chrono::steady_clock::now();
  for (int time = 0; time < times; time++) repeat(count);
  std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  return time.count() / times / count;
}

extern "C" void end() {
  CHECK(cudaFree(source));
  CHECK(cudaFree(target));
}

static double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

static void run(int rank, int size, const ncclUniqueId &id, const std::vector<size_t> &byteLengths, int iterations) {
  createRank(rank, size, &id);
  for (size_t byteLength : byteLengths) {
    int count = (int)std::max<size_t>(5, std::min<size_t>(iterations, (size_t)iterations * (1 << 22) / byteLength));
    begin(byteLength);
    std::vector<double> times, waitedTimes;
    for (int round = 0; round < rounds; round++) {
      times.push_back(measureRound(count, 1));
      if (byteLength < leastLarge) waitedTimes.push_back(measureRound(1, count));
    }
    end();
    if (rank != 0) continue;
    printf("{\"byteLength\": %zu, \"microseconds\": %.3f", byteLength, median(times));
    if (!waitedTimes.empty()) printf(", \"waitedMicroseconds\": %.3f", median(waitedTimes));
    printf("}\n");
    fflush(stdout);
  }
  destroyRank();
}

int main(int argc, char **argv) {
  int size = atoi(argv[1]), iterations = atoi(argv[3]);
  std::vector<size_t> byteLengths;
  for (char *word = strtok(argv[2], ","); word != nullptr; word = strtok(nullptr, ",")) byteLengths.push_back(atoll(word));
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  // The process that has the id keeps it for the others, which must be there before CUDA is used.
  std::vector<int> pipes;
  int rank = 0, reading = -1;
  for (int other = 1; other < size; other++) {
    int ends[2];
    CHECK(pipe(ends));
    if (fork() == 0) {
      rank = other, reading = ends[0];
      // Whoever kills rank 0, because time is up, means all of them.
      CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL));
      break;
    }
    pipes.push_back(ends[1]);
  }
  ncclUniqueId id;
  if (rank == 0) {
    createId(&id);
    for (int end : pipes) CHECK(write(end, &id, sizeof id) != sizeof id);
  } else CHECK(read(reading, &id, sizeof id) != sizeof id);
  run(rank, size, id, byteLengths, iterations);
  int status, failed = 0;
  while (rank == 0 && wait(&status) > 0) failed |= status;
  return failed != 0;
}
