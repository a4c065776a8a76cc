import { area, mistake } from "../mistake.ts";

area("Faults of kernels", import.meta.url);

mistake("one element too far", async ({ userModule, x, stream }) => {
  userModule.kernel("scale").launch({ grid: 5, block: 256, stream }, x, 2, 1024); // its condition is i <= n
  await stream.finished();
});

mistake("an array shorter than n", async ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x.subarray(0, 512), y);
  saxpy.launch({ grid: 4, block: 256, stream }, 4096, 2.5, x, y);
  await stream.finished();
});

mistake("n in bytes", async ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 16, block: 256, stream }, x.byteLength, 2.5, x, y);
  await stream.finished();
});

mistake("the null pointer", async ({ saxpy, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, 0n, y);
  await stream.finished();
});

mistake("a misaligned part", async ({ userModule, buffer, stream }) => {
  userModule.kernel("add_quads").launch({ grid: 1, block: 32, stream }, buffer.subarray(4, 1028));
  await stream.finished();
});

mistake("dynamic shared memory forgotten", async ({ userModule, x, y, stream }) => {
  userModule.kernel("block_sums").launch({ grid: 4, block: 256, stream }, x, y, 1024);
  await stream.finished();
});

mistake("dynamic shared memory in elements, not bytes", async ({ userModule, x, y, stream }) => {
  const blockSums = userModule.kernel("block_sums");
  blockSums.launch({ grid: 4, block: 256, stream, sharedMemoryBytes: 256 }, x, y, 1024);
  await stream.finished();
});

mistake("an index past a local array", async ({ userModule, pool, stream }) => {
  const input = pool.allocateArray(Uint8Array, 1024, stream);
  const bins = pool.allocateArray(Uint32Array, 16, stream);
  input.fill(200);
  userModule.kernel("local_histogram").launch({ grid: 1, block: 1, stream }, input, bins, 1024);
  await stream.finished();
});

mistake("a loop that never ends", async ({ userModule, buffer, stream }) => {
  buffer.fill(0);
  userModule.kernel("wait_for").launch({ grid: 1, block: 32, stream }, buffer);
  await stream.finished();
});

mistake("half a block at a barrier", async ({ userModule, buffer, stream }) => {
  buffer.fill(0);
  userModule.kernel("meet_halfway").launch({ grid: 1, block: 64, stream }, buffer);
  await stream.finished();
});

mistake("an assert of the kernel", async ({ userModule, x, stream }) => {
  x.fill(0);
  userModule.kernel("check_positive").launch({ grid: 1, block: 32, stream }, x);
  await stream.finished();
});

mistake("memory that was freed", async ({ saxpy, gpu, y, stream }) => {
  const pool = gpu.createPool();
  const x = pool.allocateArray(Float32Array, 1024, stream);
  const { address } = x;
  x.free();
  await stream.finished();
  pool.trimTo(0);
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, address, y);
  await stream.finished();
});

mistake("memory of a device without access", async ({ cuda, gpu, saxpy, y, stream }) => {
  const other = cuda.device(1);
  const x = other.createPool().allocateArray(Float32Array, 1024, other.defaultStream);
  other.defaultStream.synchronize();
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);
  await gpu.finished();
});

mistake("a call after a fault", async ({ saxpy, y, stream, pool }) => {
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, 0n, y);
  await stream.finished().catch(() => {});
  pool.allocate(1024, stream);
});

mistake("a fault that nobody waits for", ({ saxpy, y, stream, cuda }) => {
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, 0n, y);
  y.free();
  cuda[Symbol.dispose]();
});
