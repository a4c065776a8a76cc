import { area, mistake } from "../mistake.ts";

area("Launch options and attributes of kernels", import.meta.url);

mistake("a cluster of too many blocks", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 32, block: 32, cluster: 32 }, 1024, 2.5, x, y);
});

mistake("a grid that is no multiple of the cluster", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: [4, 3], block: 256, cluster: [2, 2] }, 1024, 2.5, x, y);
});

mistake("an empty cluster", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, cluster: 0 }, 1024, 2.5, x, y);
});

mistake("a cluster as dim3", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, cluster: { x: 2, y: 1, z: 1 } }, 1024, 2.5, x, y);
});

mistake("a cluster under CUDA's name", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, clusterDim: 2 }, 1024, 2.5, x, y);
});

mistake("a cooperative launch of more blocks than fit at once", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4096, block: 256, cooperative: true }, 1024, 2.5, x, y);
});

mistake("cooperative as a number", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, cooperative: 1 }, 1024, 2.5, x, y);
});

mistake("cooperative under cuda.core's name", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, is_cooperative: true }, 1024, 2.5, x, y);
});

mistake("a priority with the wrong sign", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, priority: 5 }, 1024, 2.5, x, y);
});

mistake("a priority as a word", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, priority: "high" }, 1024, 2.5, x, y);
});

mistake("a stream for programmaticStreamSerialization", ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, programmaticStreamSerialization: stream }, 1024, 2.5, x, y);
});

mistake("a dependent launch under another name", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, programmaticDependentLaunch: true }, 1024, 2.5, x, y);
});

mistake("a block size for maxPotentialBlockSize", ({ saxpy }) => {
  saxpy.maxPotentialBlockSize(256);
});

mistake("a callback for the shared memory of a block", ({ saxpy }) => {
  saxpy.maxPotentialBlockSize({ sharedMemoryBytes: (threads) => 4 * threads });
});

mistake("a limit of no threads", ({ saxpy }) => {
  saxpy.maxPotentialBlockSize({ blockSizeLimit: 0 });
});

mistake("more shared memory than there is for maxPotentialBlockSize", ({ saxpy }) => {
  saxpy.maxPotentialBlockSize({ sharedMemoryBytes: 2 ** 20 });
});

mistake("clusters of too many blocks counted", ({ saxpy }) => {
  saxpy.maxActiveClusters({ block: 256, cluster: 32 });
});

mistake("clusters counted without a cluster", ({ saxpy }) => {
  saxpy.maxActiveClusters({ block: 256 });
});

mistake("an attribute that there is not", ({ saxpy }) => {
  saxpy.maxRegisters = 32;
});

mistake("a cache configuration that there is not", ({ saxpy }) => {
  saxpy.cacheConfig = "L1";
});

mistake("a cache configuration misspelt", ({ saxpy }) => {
  saxpy.cacheconfig = "l1";
});

mistake("a carve-out in bytes", ({ saxpy }) => {
  saxpy.preferredSharedMemoryCarveout = 65536;
});

mistake("a carve-out under CUDA's name", ({ saxpy }) => {
  saxpy.preferredSharedMemoryCarveout = "cudaSharedmemCarveoutMaxShared";
});

mistake("shared memory asked for as in CuPy", ({ saxpy }) => {
  saxpy.max_dynamic_shared_size_bytes = 100_000;
});

mistake("attributes of a kernel whose module was disposed", ({ saxpy, module }) => {
  module[Symbol.dispose]();
  console.log(saxpy.attributes.registers);
});
