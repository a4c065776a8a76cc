/**
 * Allocates, launches and frees until it is killed, for a process that reads what it records.
 *
 * @module
 */
import { open } from "../../../mod.ts";
import { ptx } from "../../../kernels/fill.ts";

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool();
using module = gpu.loadModule(ptx);
const fill = module.kernel("fill");
console.log("ready");
for (let round = 0;; round++) {
  using buffer = pool.allocate(1024, stream);
  fill.launch({ grid: 1, block: 256, stream }, buffer, 256n, round);
  buffer.free(stream);
  if (round % 16 === 0) stream.synchronize();
}
