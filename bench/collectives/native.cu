// All-reduces of NCCL as C++ calls them, a process for each device, to compare with the library's.
//
//   native DEVICES SIZES ITERATIONS: prints a line of JSON for each size in bytes, {"byteLength", "microseconds"}, the
//   median of the rounds of rank 0. Each process waits for the others at each size, as the library's script does.
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

static void run(int rank, int size, const ncclUniqueId &id, const std::vector<size_t> &byteLengths, int iterations) {
  CHECK(cudaSetDevice(rank));
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, size, id, rank));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (size_t byteLength : byteLengths) {
    float *source, *target;
    CHECK(cudaMalloc(&source, byteLength));
    CHECK(cudaMalloc(&target, byteLength));
    CHECK(cudaMemset(source, 0, byteLength));
    int count = (int)std::max<size_t>(5, std::min<size_t>(iterations, (size_t)iterations * (1 << 22) / byteLength));
    auto reduce = [&] { CHECK(ncclAllReduce(source, target, byteLength / 4, ncclFloat32, ncclSum, comm, stream)); };
    for (int i = 0; i < 5; i++) reduce();
    CHECK(cudaStreamSynchronize(stream));
    std::vector<double> times;
    for (int round = 0; round < rounds; round++) {
      reduce();
      CHECK(cudaStreamSynchronize(stream));
      auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < count; i++) reduce();
      CHECK(cudaStreamSynchronize(stream));
      std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
      times.push_back(time.count() / count);
    }
    std::sort(times.begin(), times.end());
    if (rank == 0) printf("{\"byteLength\": %zu, \"microseconds\": %.3f}\n", byteLength, times[rounds / 2]);
    if (rank == 0) fflush(stdout);
    CHECK(cudaFree(source));
    CHECK(cudaFree(target));
  }
  CHECK(ncclCommDestroy(comm));
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
    CHECK(ncclGetUniqueId(&id));
    for (int end : pipes) CHECK(write(end, &id, sizeof id) != sizeof id);
  } else CHECK(read(reading, &id, sizeof id) != sizeof id);
  run(rank, size, id, byteLengths, iterations);
  int status, failed = 0;
  while (rank == 0 && wait(&status) > 0) failed |= status;
  return failed != 0;
}
