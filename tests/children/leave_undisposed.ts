// Leaves objects of each kind undisposed, and waits for an event that was never recorded. The report of POOLPASS_DEBUG=1
// goes to standard error.
import { ptx } from "../../kernels/fill.ts";
import { open } from "../../mod.ts";

{
  using cuda = open();
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const allocator = pool.createCachingAllocator();
  const stream = gpu.createStream();
  pool.allocate(64, stream);
  pool.allocateArray(new Float32Array(32), stream);
  allocator.allocate(256, stream);
  await pool.allocateAsync(512, { stream });
  gpu.allocate(1024);
  cuda.allocateHost(2048);
  gpu.loadModule(ptx);
  stream.wait(gpu.createEvent());
  const freed = pool.allocate(4096, stream);
  freed.free();
  try {
    freed.fill(0);
  } catch (error) {
    console.warn((error as Error).message);
  }
}
