import { MemoryPool } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Pools", import.meta.url);

mistake("a handle type with an underscore", ({ gpu }) => {
  gpu.createPool({ handleType: "posix_fd" });
});

mistake("true as the handle type", ({ gpu }) => {
  gpu.createPool({ handleType: true });
});

mistake("a misspelt release threshold", ({ gpu }) => {
  gpu.createPool({ releaseTreshold: Infinity });
});

mistake("ipc_enabled, as in cuda.core", ({ gpu }) => {
  gpu.createPool({ ipc_enabled: true });
});

mistake("a maximum as text", ({ gpu }) => {
  gpu.createPool({ maxSize: "1GB" });
});

mistake("Infinity as the maximum", ({ gpu }) => {
  gpu.createPool({ maxSize: Infinity });
});

mistake("the size as the only argument", ({ gpu }) => {
  gpu.createPool(64 * 2 ** 20);
});

mistake("new MemoryPool", ({ gpu }) => {
  new MemoryPool(gpu);
});

mistake("the release threshold as a bigint", ({ pool }) => {
  pool.releaseThreshold = 2n ** 64n - 1n;
});

mistake("trimTo without a number", ({ pool }) => {
  pool.trimTo();
});

mistake("a reuse policy as a string", ({ pool }) => {
  pool.reuse.allowOpportunistic = "no";
});

mistake("a misspelt reuse policy", ({ pool }) => {
  pool.reuse.opportunistic = false;
});

mistake("all reuse policies replaced", ({ pool }) => {
  pool.reuse = { allowOpportunistic: false };
});

mistake("maxSize changed afterwards", ({ pool }) => {
  pool.maxSize = 2 ** 30;
});

mistake("a release threshold misspelt afterwards", ({ pool }) => {
  pool.releaseTreshold = Infinity;
});

mistake("access in the wrong order", ({ pool, peer }) => {
  pool.setAccess("read", peer);
});

mistake("access without a kind", ({ pool, peer }) => {
  pool.setAccess(peer);
});

mistake("a kind of access that does not exist", ({ pool, peer }) => {
  pool.setAccess(peer, "readwrite");
});

mistake("access for a device number", ({ pool }) => {
  pool.setAccess(1, "read");
});

mistake("access taken from the pool's own device", ({ pool, gpu }) => {
  pool.setAccess(gpu, "none");
});

mistake("the default pool exported", ({ gpu }) => {
  gpu.defaultPool.exportHandle();
});

mistake("a pool disposed before its buffers", ({ pool, buffer }) => {
  buffer.fill(0);
  pool[Symbol.dispose]();
});

mistake("a host pool of a NUMA node that does not exist", ({ cuda }) => {
  cuda.createHostPool({ numaNode: 99 });
});

mistake("a host pool without a stream", ({ cuda }) => {
  cuda.createHostPool({ numaNode: 0 }).allocate(1024);
});

mistake("a misspelt size of slabs", ({ pool }) => {
  pool.createCachingAllocator({ slabSize: 2 ** 20 });
});

mistake("slabs of no bytes", ({ pool }) => {
  pool.createCachingAllocator({ slabByteLength: 0 });
});

mistake("a caching allocator smaller than its slabs", ({ pool, stream }) => {
  pool.createCachingAllocator({ maxSize: 1024 }).allocate(4096, stream);
});

mistake("the slab of a buffer from elsewhere", ({ pool, buffer }) => {
  pool.createCachingAllocator().slabOf(buffer);
});

mistake("more than the pool's maximum", ({ gpu, stream }) => {
  gpu.createPool({ maxSize: 2 ** 20 }).allocate(64 * 2 ** 20, stream);
});

mistake("waiting for memory that nobody frees", async ({ gpu, stream }) => {
  const pool = gpu.createPool({ maxSize: 64 * 2 ** 20 });
  const all = pool.allocate(48 * 2 ** 20, stream);
  const more = await pool.allocateAsync(48 * 2 ** 20, { stream, signal: AbortSignal.timeout(20) });
  more.free();
  all.free();
});

mistake("one type to share a pool by and several", ({ gpu }) => {
  gpu.createPool({ handleType: "posix-fd", handleTypes: ["fabric"] });
});

mistake("several types to share a pool by as text", ({ gpu }) => {
  gpu.createPool({ handleTypes: "posix-fd, fabric" });
});

mistake("a type among several that does not exist", ({ gpu }) => {
  gpu.createPool({ handleTypes: ["posix-fd", "win32"] });
});

mistake("a pool exported as a type that it was not created with", ({ shared }) => {
  shared.exportHandle("fabric");
});

mistake("hardware decompression as a flag", ({ gpu }) => {
  gpu.createPool({ hardwareDecompression: 2 });
});
