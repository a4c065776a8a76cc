import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Use after the end", import.meta.url);

mistake("a fill of a buffer that was freed", ({ x }) => {
  x.free();
  x.fill(0);
});

mistake("a copy from a buffer that was freed", ({ x, y }) => {
  y.free();
  x.copyFrom(y);
});

mistake("a buffer freed twice", ({ x }) => {
  x.free();
  x.free();
});

mistake("a part of a buffer freed", ({ x }) => {
  x.subarray(0, 10).free();
});

mistake("a part of a buffer that was freed", ({ x }) => {
  const head = x.subarray(0, 10);
  x.free();
  head.fill(0);
});

mistake("a buffer returned from its using block", ({ pool, stream }) => {
  function ones(length) {
    using array = pool.allocateArray(Float32Array, length, stream);
    array.fill(0);
    return array;
  }
  ones(16).readSync(Float32Array);
});

mistake("a buffer freed on no stream", ({ x }) => {
  x.free(0);
});

mistake("a buffer's stream set to nothing", ({ x }) => {
  x.stream = undefined;
});

mistake("a buffer whose stream was disposed", ({ x, stream }) => {
  stream[Symbol.dispose]();
  x.fill(0);
});

mistake("a launch on a stream that was disposed", ({ saxpy, x, y, stream }) => {
  stream[Symbol.dispose]();
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);
});

mistake("an allocation from a pool that was disposed", ({ pool, stream }) => {
  pool[Symbol.dispose]();
  pool.allocate(1024, stream);
});

mistake("an allocation from an allocator that was disposed", ({ pool, stream }) => {
  const allocator = pool.createCachingAllocator();
  allocator[Symbol.dispose]();
  allocator.allocate(1024, stream);
});

mistake("a record of an event that was disposed", ({ stream, event }) => {
  event[Symbol.dispose]();
  stream.record(event);
});

mistake("a kernel of a module that was disposed", ({ module }) => {
  module[Symbol.dispose]();
  module.kernel("saxpy");
});

mistake("a launch of a kernel whose module was disposed", ({ module, saxpy, x, y }) => {
  module[Symbol.dispose]();
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x, y);
});

mistake("a global of a module freed", ({ userModule }) => {
  userModule.getGlobal("table").free();
});

mistake("a global of a module that was disposed", ({ userModule }) => {
  const table = userModule.getGlobal("table");
  userModule[Symbol.dispose]();
  table.copyFrom(new Float32Array(4));
});

mistake("a device of a Cuda object that was disposed", ({ cuda, gpu }) => {
  cuda[Symbol.dispose]();
  gpu.createStream();
});

mistake("a Cuda object returned from its using block", () => {
  function firstGpu() {
    using cuda = open();
    return cuda.device(0);
  }
  firstGpu().createPool();
});

mistake("using for a device", ({ cuda }) => {
  using gpu = cuda.device(0);
  gpu.synchronize();
});

mistake("buffers that nobody frees", () => {
  using cuda = open();
  using pool = cuda.device(0).createPool();
  for (let step = 0; step < 3; step++) pool.allocate(1024);
});

mistake("cudaMalloc that nobody frees", () => {
  using cuda = open();
  cuda.device(0).allocate(1024);
});
