// Measures calls in C++ with the CUDA runtime API. Uses the protocol in contract.ts: requests and answers are lines of
// JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "allocation_trace.h"
#include "kernels.cu"

namespace {

constexpr unsigned block = 256;
constexpr int streamCount = 8;

void check(cudaError_t error, const char *call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error));
}
#define CHECK(call) check(call, #call)

// A request: a line as JSON.stringify writes it, without nested objects.
struct Request {
  std::string line;

  size_t number(const char *name, size_t defaultValue) const {
    const char *value = find(name);
    return value == nullptr ? defaultValue : static_cast<size_t>(strtod(value, nullptr));
  }

  std::string string(const char *name) const {
    const char *value = find(name);
    if (value == nullptr || *value != '"') throw std::runtime_error(std::string("The request has no ") + name);
    return std::string(value + 1, strchr(value + 1, '"'));
  }

private:
  const char *find(const char *name) const {
    std::string key = std::string("\"") + name + "\":";
    size_t at = line.find(key);
    return at == std::string::npos ? nullptr : line.c_str() + at + key.size();
  }
};

using Times = std::vector<double>;
using Work = std::function<Times(const Request &)>;

// Returns the nanoseconds per operation, for each sample. A sample runs batches until they have taken `sampleTime`
// milliseconds, after uncounted batches for `warmUpTime` milliseconds. `prepare` and `settle` are not timed.
template <typename Prepare, typename Run, typename Settle>
Times timeBatches(const Request &request, Prepare prepare, Run run, Settle settle) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::milliseconds;
  size_t batch = request.number("batch", 1), repetitions = request.number("repetitions", 1);
  Milliseconds warmUpTime(request.number("warmUpTime", 0)), sampleTime(request.number("sampleTime", 0));
  auto timeBatch = [&] {
    prepare(batch);
    auto start = Clock::now();
    run(batch);
    auto elapsed = Clock::now() - start;
    settle();
    return elapsed;
  };
  for (auto start = Clock::now(); Clock::now() - start < warmUpTime;) timeBatch();
  Times times;
  while (times.size() < repetitions) {
    Clock::duration elapsed{};
    size_t batches = 0;
    do {
      elapsed += timeBatch();
      batches++;
    } while (elapsed < sampleTime);
    times.push_back(std::chrono::duration<double, std::nano>(elapsed).count() / (batches * batch));
  }
  return times;
}

cudaMemPool_t createPool(int device, cudaMemAllocationHandleType handleType, uint64_t releaseThreshold = UINT64_MAX) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = handleType;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &releaseThreshold));
  return pool;
}

cudaStream_t createStream() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

cudaEvent_t createEvent() {
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

// Memory from a pool, which is freed on its stream.
class Buffer {
public:
  Buffer(cudaMemPool_t pool, size_t size, cudaStream_t stream) : stream(stream) {
    CHECK(cudaMallocFromPoolAsync(&address, size, pool, stream));
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() { cudaFreeAsync(address, stream); }

  template <typename T> T *as() const { return static_cast<T *>(address); }

private:
  void *address;
  cudaStream_t stream;
};

class PinnedBuffer {
public:
  explicit PinnedBuffer(size_t size) {
    CHECK(cudaMallocHost(&address, size));
    memset(address, 1, size);
  }
  PinnedBuffer(const PinnedBuffer &) = delete;
  ~PinnedBuffer() { cudaFreeHost(address); }

  void *address;
};

class Bench {
public:
  Bench() : pool(createPool(0, cudaMemHandleTypeNone)) {
    for (auto &stream : streams) stream = createStream();
    works = {
        {"allocate-free", [this](const Request &request) { return allocateFree(request); }},
        {"allocate-free-random", [this](const Request &request) { return allocateFreeRandom(request); }},
        {"await-loop-querying", [this](const Request &request) {
           return awaitLoop(request, [this] { waitByQuerying(streams[0]); });
         }},
        {"await-loop-synchronizing", [this](const Request &request) {
           return awaitLoop(request, [this] { CHECK(cudaStreamSynchronize(streams[0])); });
         }},
        {"launch-0", [this](const Request &request) {
           return timeCalls(request, [this] { empty_0<<<1, 1, 0, streams[0]>>>(); });
         }},
        {"launch-3", [this](const Request &request) { return launch3(request); }},
        {"launch-12", [this](const Request &request) { return launch12(request); }},
        {"graph-instantiate", [this](const Request &request) { return graphInstantiate(request); }},
        {"graph-launch", [this](const Request &request) { return graphLaunch(request); }},
        {"kernels-launch", [this](const Request &request) { return kernelsLaunch(request); }},
        {"graph-update", [this](const Request &request) { return graphUpdate(request); }},
        {"graph-argument", [this](const Request &request) { return graphArgument(request); }},
        {"event-record", [this](const Request &request) { return eventRecord(request); }},
        {"stream-wait", [this](const Request &request) { return streamWait(request); }},
        {"copy-to-device", [this](const Request &request) { return copyToDevice(request); }},
        {"copy-to-host", [this](const Request &request) { return copyToHost(request); }},
        {"copy-on-device", [this](const Request &request) { return copyOnDevice(request); }},
        {"copy-rows", [this](const Request &request) { return copyRows(request); }},
        {"copy-each", [this](const Request &request) { return copyEach(request); }},
        {"fill-kernel", [this](const Request &request) { return fillKernel(request, pool); }},
        {"copy-kernel", [this](const Request &request) { return copyKernel(request); }},
        {"export-pointer", [this](const Request &request) { return exportPointer(request); }},
        {"import-pointer", [this](const Request &request) { return importPointer(request); }},
        {"free-import", [this](const Request &request) { return freeImport(request); }},
    };
#if CUDART_VERSION >= 12080
    works["copy-batch"] = [this](const Request &request) { return copyBatch(request); };
#endif
    int isPeer = 0, devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices > 1) CHECK(cudaDeviceCanAccessPeer(&isPeer, 0, 1));
    if (!isPeer) return;
    works["peer-copy"] = [this](const Request &request) { return peerCopy(request); };
    works["peer-write"] = [this](const Request &request) { return fillKernel(request, pool1()); };
  }

  std::map<std::string, Work> works;

private:
  void synchronize() {
    for (auto stream : streams) CHECK(cudaStreamSynchronize(stream));
  }

  // Times what calls cost the host, which waits for the GPU between batches, untimed.
  template <typename Call> Times timeCalls(const Request &request, Call call) {
    return timeBatches(
        request, [](size_t) {},
        [&](size_t batch) {
          for (size_t i = 0; i < batch; i++) call();
        },
        [this] {
          CHECK(cudaGetLastError());
          synchronize();
        });
  }

  // Times calls until the GPU has finished them.
  template <typename Call> Times timeUntilDone(const Request &request, Call call) {
    return timeBatches(
        request, [](size_t) {},
        [&](size_t batch) {
          for (size_t i = 0; i < batch; i++) call();
          CHECK(cudaStreamSynchronize(streams[0]));
        },
        [] { CHECK(cudaGetLastError()); });
  }

  Times allocateFree(const Request &request) {
    size_t size = request.number("byteLength", 1), count = request.number("streams", 1);
    return timeBatches(
        request, [](size_t) {},
        [&](size_t batch) {
          for (size_t i = 0; i < batch; i++) {
            cudaStream_t stream = streams[i % count];
            void *address;
            CHECK(cudaMallocFromPoolAsync(&address, size, pool, stream));
            CHECK(cudaFreeAsync(address, stream));
          }
        },
        [this] { synchronize(); });
  }

  // Plays a trace again and again. All memory exists after the first time, which is not timed.
  Times allocateFreeRandom(const Request &request) {
    AllocationTrace trace(request.number("steps", 1), request.number("slots", 1), request.number("streams", 1),
                          request.number("leastByteLength", 1), request.number("octaves", 1));
    if (trace.checksum != request.number("checksum", 0)) {
      throw std::runtime_error("The trace is not the requested one");
    }
    struct Slot {
      void *address = nullptr;
      cudaStream_t stream;
    };
    cudaMemPool_t ownPool = createPool(0, cudaMemHandleTypeNone);
    std::vector<Slot> slots(request.number("slots", 1));
    size_t next = 0;
    auto run = [&](size_t count) {
      for (size_t i = 0; i < count; i++) {
        const TraceStep &step = trace.steps[next];
        Slot &slot = slots[step.slot];
        if (slot.address != nullptr) CHECK(cudaFreeAsync(slot.address, slot.stream));
        slot.stream = streams[step.stream];
        CHECK(cudaMallocFromPoolAsync(&slot.address, step.byteLength, ownPool, slot.stream));
        next = (next + 1) % trace.steps.size();
      }
    };
    run(trace.steps.size());
    synchronize();
    Times times = timeBatches(request, [](size_t) {}, run, [this] { synchronize(); });
    for (const Slot &slot : slots) {
      if (slot.address != nullptr) CHECK(cudaFreeAsync(slot.address, slot.stream));
    }
    synchronize();
    CHECK(cudaMemPoolDestroy(ownPool));
    return times;
  }

  static void waitByQuerying(cudaStream_t stream) {
    cudaError_t status;
    while ((status = cudaStreamQuery(stream)) == cudaErrorNotReady) {
    }
    CHECK(status);
  }

  template <typename Wait> Times awaitLoop(const Request &request, Wait wait) {
    size_t size = request.number("byteLength", 1);
    uint64_t threshold = request.string("releaseThreshold") == "Infinity" ? UINT64_MAX : 0;
    cudaMemPool_t ownPool = createPool(0, cudaMemHandleTypeNone, threshold);
    Times times = timeBatches(
        request, [](size_t) {},
        [&](size_t batch) {
          for (size_t i = 0; i < batch; i++) {
            {
              Buffer buffer(ownPool, size, streams[0]);
              CHECK(cudaMemsetAsync(buffer.as<void>(), 7, size, streams[0]));
            }
            wait();
          }
        },
        [] {});
    synchronize();
    CHECK(cudaMemPoolDestroy(ownPool));
    return times;
  }

  Times launch3(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    return timeCalls(request, [&] { empty_3<<<1, 1, 0, streams[0]>>>(x.as<unsigned>(), 2.5f, 1024); });
  }

  Times launch12(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    auto *a = x.as<unsigned>();
    return timeCalls(request, [&] {
      empty_12<<<1, 1, 0, streams[0]>>>(a, a, a, a, 2.5f, 2.5f, 2.5f, 2.5f, 1024, 1024, 1024, 1024);
    });
  }

  // A graph of kernels that do nothing, one behind the other.
  struct Graph {
    cudaGraph_t graph;

    Graph(const Request &request, cudaStream_t stream, unsigned *x) {
      CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
      for (size_t i = 0; i < request.number("kernels", 1); i++) empty_3<<<1, 1, 0, stream>>>(x, 2.5f, 1024);
      CHECK(cudaStreamEndCapture(stream, &graph));
    }
    Graph(const Graph &) = delete;
    ~Graph() { cudaGraphDestroy(graph); }

    cudaGraphExec_t instantiate() const {
      cudaGraphExec_t exec;
      CHECK(cudaGraphInstantiate(&exec, graph, 0));
      return exec;
    }
  };

  Times graphInstantiate(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    Graph graph(request, streams[0], x.as<unsigned>());
    return timeCalls(request, [&] { CHECK(cudaGraphExecDestroy(graph.instantiate())); });
  }

  Times graphLaunch(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    Graph graph(request, streams[0], x.as<unsigned>());
    cudaGraphExec_t exec = graph.instantiate();
    CHECK(cudaGraphUpload(exec, streams[0]));
    Times times = timeCalls(request, [&] { CHECK(cudaGraphLaunch(exec, streams[0])); });
    CHECK(cudaGraphExecDestroy(exec));
    return times;
  }

  Times kernelsLaunch(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    size_t kernels = request.number("kernels", 1);
    return timeCalls(request, [&] {
      for (size_t i = 0; i < kernels; i++) empty_3<<<1, 1, 0, streams[0]>>>(x.as<unsigned>(), 2.5f, 1024);
    });
  }

  Times graphUpdate(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    Graph graph(request, streams[0], x.as<unsigned>()), other(request, streams[0], x.as<unsigned>());
    cudaGraphExec_t exec = graph.instantiate();
    Times times = timeCalls(request, [&] {
      cudaGraphExecUpdateResultInfo result;
      CHECK(cudaGraphExecUpdate(exec, other.graph, &result));
    });
    CHECK(cudaGraphExecDestroy(exec));
    return times;
  }

  Times graphArgument(const Request &request) {
    Buffer x(pool, 1024, streams[0]);
    Graph graph(request, streams[0], x.as<unsigned>());
    cudaGraphExec_t exec = graph.instantiate();
    std::vector<cudaGraphNode_t> nodes(request.number("kernels", 1));
    size_t count = nodes.size();
    CHECK(cudaGraphGetNodes(graph.graph, nodes.data(), &count));
    unsigned *address = x.as<unsigned>(), length = 1024;
    float a = 0;
    void *arguments[] = {&address, &a, &length};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(empty_3);
    parameters.gridDim = parameters.blockDim = dim3(1);
    parameters.kernelParams = arguments;
    Times times = timeCalls(request, [&] {
      a++;
      for (cudaGraphNode_t node : nodes) CHECK(cudaGraphExecKernelNodeSetParams(exec, node, &parameters));
    });
    CHECK(cudaGraphExecDestroy(exec));
    return times;
  }

  Times eventRecord(const Request &request) {
    static cudaEvent_t event = createEvent();
    return timeCalls(request, [&] { CHECK(cudaEventRecord(event, streams[0])); });
  }

  Times streamWait(const Request &request) {
    static cudaEvent_t event = createEvent();
    CHECK(cudaEventRecord(event, streams[1]));
    return timeCalls(request, [&] { CHECK(cudaStreamWaitEvent(streams[0], event)); });
  }

  // Returns host memory, which is kept from round to round, because allocating it takes long.
  void *hostMemory(const std::string &kind, size_t size) {
    if (kind == "pinned") {
      auto &memory = pinned[size];
      if (memory == nullptr) memory = std::make_unique<PinnedBuffer>(size);
      return memory->address;
    }
    auto &memory = pageable[size];
    memory.resize(size, 1);
    return memory.data();
  }

  Times copyToDevice(const Request &request) {
    size_t size = request.number("byteLength", 1);
    void *host = hostMemory(request.string("memory"), size);
    Buffer to(pool, size, streams[0]);
    return timeBatches(
        request, [](size_t) {},
        [&](size_t batch) {
          for (size_t i = 0; i < batch; i++) {
            CHECK(cudaMemcpyAsync(to.as<void>(), host, size, cudaMemcpyHostToDevice, streams[0]));
            CHECK(cudaStreamSynchronize(streams[0]));
          }
        },
        [] {});
  }

  Times copyToHost(const Request &request) {
    size_t size = request.number("byteLength", 1);
    Buffer from(pool, size, streams[0]);
    auto copy = [&](void *to) {
      CHECK(cudaMemcpyAsync(to, from.as<void>(), size, cudaMemcpyDeviceToHost, streams[0]));
      CHECK(cudaStreamSynchronize(streams[0]));
    };
    if (request.string("memory") == "pinned") {
      void *host = hostMemory("pinned", size);
      return timeBatches(
          request, [](size_t) {},
          [&](size_t batch) {
            for (size_t i = 0; i < batch; i++) copy(host);
          },
          [] {});
    }
    // Each copy gets new memory, which is freed between the batches.
    std::vector<std::unique_ptr<char[]>> results;
    return timeBatches(
        request, [&](size_t batch) { results.reserve(batch); },
        [&](size_t batch) {
          for (size_t i = 0; i < batch; i++) copy(results.emplace_back(new char[size]).get());
        },
        [&] { results.clear(); });
  }

  Times copyOnDevice(const Request &request) {
    size_t size = request.number("byteLength", 1);
    Buffer from(pool, size, streams[0]), to(pool, size, streams[0]);
    return timeUntilDone(request, [&] {
      CHECK(cudaMemcpyAsync(to.as<void>(), from.as<void>(), size, cudaMemcpyDeviceToDevice, streams[0]));
    });
  }

  Times copyRows(const Request &request) {
    const size_t pitch = 1024, width = 256, height = 64;
    Buffer from(pool, pitch * height, streams[0]), to(pool, pitch * height, streams[0]);
    return timeCalls(request, [&] {
      CHECK(cudaMemcpy2DAsync(to.as<char>() + 512, pitch, from.as<char>() + 256, pitch, width, height,
                              cudaMemcpyDeviceToDevice, streams[0]));
    });
  }

  Times copyEach(const Request &request) {
    size_t copies = request.number("copies", 1), size = request.number("byteLength", 1);
    Buffer from(pool, copies * size, streams[0]), to(pool, copies * size, streams[0]);
    return timeCalls(request, [&] {
      for (size_t i = 0; i < copies; i++) {
        CHECK(cudaMemcpyAsync(to.as<char>() + i * size, from.as<char>() + i * size, size, cudaMemcpyDeviceToDevice,
                              streams[0]));
      }
    });
  }

#if CUDART_VERSION >= 12080
  Times copyBatch(const Request &request) {
    size_t copies = request.number("copies", 1), size = request.number("byteLength", 1);
    Buffer from(pool, copies * size, streams[0]), to(pool, copies * size, streams[0]);
    std::vector<size_t> sizes(copies, size);
    cudaMemcpyAttributes attributes = {};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
#if CUDART_VERSION >= 13000
    std::vector<const void *> sources;
    std::vector<void *> targets;
#else
    std::vector<void *> sources, targets;
#endif
    for (size_t i = 0; i < copies; i++) {
      sources.push_back(from.as<char>() + i * size);
      targets.push_back(to.as<char>() + i * size);
    }
    return timeCalls(request, [&] {
#if CUDART_VERSION >= 13000
      CHECK(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), copies, &attributes, &first, 1,
                                 streams[0]));
#else
      size_t failed;
      CHECK(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), copies, &attributes, &first, 1, &failed,
                                 streams[0]));
#endif
    });
  }
#endif

  Times fillKernel(const Request &request, cudaMemPool_t targetPool) {
    size_t size = request.number("byteLength", 16);
    unsigned count = size / sizeof(uint4), grid = (count + block - 1) / block;
    Buffer to(targetPool, size, streams[0]);
    return timeUntilDone(request, [&] { fill_vectors<<<grid, block, 0, streams[0]>>>(to.as<uint4>(), count, 7); });
  }

  Times copyKernel(const Request &request) {
    size_t size = request.number("byteLength", 16);
    unsigned count = size / sizeof(uint4), grid = (count + block - 1) / block;
    Buffer from(pool, size, streams[0]), to(pool, size, streams[0]);
    return timeUntilDone(
        request, [&] { copy_vectors<<<grid, block, 0, streams[0]>>>(to.as<uint4>(), from.as<uint4>(), count); });
  }

  // A shareable pool, which is also imported into this process.
  struct Shared {
    cudaMemPool_t pool, imported;
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<cudaMemPoolPtrExportData> exported;
    std::vector<void *> mapped;

    Shared() : pool(createPool(0, cudaMemHandleTypePosixFileDescriptor)) {
      int descriptor;
      CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
      CHECK(cudaMemPoolImportFromShareableHandle(&imported, reinterpret_cast<void *>(static_cast<intptr_t>(descriptor)),
                                                 cudaMemHandleTypePosixFileDescriptor, 0));
      close(descriptor);
    }

    void allocate(size_t count, size_t size, cudaStream_t stream) {
      for (size_t i = 0; i < count; i++) buffers.push_back(std::make_unique<Buffer>(pool, size, stream));
      exported.resize(count);
      CHECK(cudaStreamSynchronize(stream));
    }

    void exportAll() {
      for (size_t i = 0; i < buffers.size(); i++) {
        CHECK(cudaMemPoolExportPointer(&exported[i], buffers[i]->as<void>()));
      }
    }

    void importAll() {
      mapped.resize(exported.size());
      for (size_t i = 0; i < exported.size(); i++) {
        CHECK(cudaMemPoolImportPointer(&mapped[i], imported, &exported[i]));
      }
    }

    void freeImports(cudaStream_t stream) {
      for (void *address : mapped) CHECK(cudaFreeAsync(address, stream));
      mapped.clear();
    }
  };

  Shared &shared() {
    if (sharedPool == nullptr) sharedPool = std::make_unique<Shared>();
    return *sharedPool;
  }

  Times exportPointer(const Request &request) {
    size_t size = request.number("byteLength", 1);
    return timeBatches(
        request, [&](size_t batch) { shared().allocate(batch, size, streams[0]); },
        [&](size_t) { shared().exportAll(); },
        [&] {
          shared().buffers.clear();
          synchronize();
        });
  }

  Times importPointer(const Request &request) {
    shared().allocate(request.number("batch", 1), request.number("byteLength", 1), streams[0]);
    shared().exportAll();
    Times times = timeBatches(
        request, [](size_t) {}, [&](size_t) { shared().importAll(); },
        [&] {
          shared().freeImports(streams[0]);
          synchronize();
        });
    shared().buffers.clear();
    return times;
  }

  Times freeImport(const Request &request) {
    shared().allocate(request.number("batch", 1), request.number("byteLength", 1), streams[0]);
    shared().exportAll();
    Times times = timeBatches(
        request, [&](size_t) { shared().importAll(); }, [&](size_t) { shared().freeImports(streams[0]); },
        [&] { synchronize(); });
    shared().buffers.clear();
    return times;
  }

  // Returns a pool of the second device, whose memory the first device may write.
  cudaMemPool_t pool1() {
    if (peerPool == nullptr) {
      peerPool = createPool(1, cudaMemHandleTypeNone);
      cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
      CHECK(cudaMemPoolSetAccess(peerPool, &access, 1));
    }
    return peerPool;
  }

  Times peerCopy(const Request &request) {
    size_t size = request.number("byteLength", 1);
    Buffer from(pool, size, streams[0]), to(pool1(), size, streams[0]);
    return timeUntilDone(
        request, [&] { CHECK(cudaMemcpyPeerAsync(to.as<void>(), 1, from.as<void>(), 0, size, streams[0])); });
  }

  cudaMemPool_t pool, peerPool = nullptr;
  cudaStream_t streams[streamCount];
  std::map<size_t, std::unique_ptr<PinnedBuffer>> pinned;
  std::map<size_t, std::vector<char>> pageable;
  std::unique_ptr<Shared> sharedPool;
};

void greet(const Bench &bench) {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  printf("{\"name\":\"C++\",\"device\":\"%s\",\"uuid\":\"GPU-", properties.name);
  for (int i = 0; i < 16; i++) {
    bool isAfterDash = i == 4 || i == 6 || i == 8 || i == 10;
    printf("%s%02x", isAfterDash ? "-" : "", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  printf("\",\"isSoftware\":false,\"versions\":\"CUDA %d.%d, g++ %d\",\"works\":[", CUDART_VERSION / 1000,
         CUDART_VERSION % 1000 / 10, __GNUC__);
  const char *separator = "";
  for (const auto &[name, work] : bench.works) {
    printf("%s\"%s\"", separator, name.c_str());
    separator = ",";
  }
  printf("]}\n");
  fflush(stdout);
}

std::string answer(const Bench &bench, const Request &request) {
  try {
    auto work = bench.works.find(request.string("work"));
    if (work == bench.works.end()) throw std::runtime_error("There is no such workload");
    std::string times;
    for (double time : work->second(request)) times += (times.empty() ? "" : ",") + std::to_string(time);
    return "{\"nanoseconds\":[" + times + "]}";
  } catch (const std::exception &error) {
    return std::string("{\"error\":\"") + error.what() + "\"}";
  }
}

} // namespace

int main() {
  try {
    Bench bench;
    greet(bench);
    for (Request request; std::getline(std::cin, request.line);) {
      printf("%s\n", answer(bench, request).c_str());
      fflush(stdout);
    }
    // Skips the destructors, because the driver shuts down before they would run.
    _exit(0);
  } catch (const std::exception &error) {
    fprintf(stderr, "native.cu: %s\n", error.what());
    return 1;
  }
}
