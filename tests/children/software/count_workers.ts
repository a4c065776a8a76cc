// Launches kernels until worker threads were started, or would have been, and prints how many there are.
import { ptx } from "../../../kernels/matrix_multiply.ts";
import { open } from "../../../mod.ts";
import { sharingPolicy, workerCounts } from "../../../src/software/execution/workers/workers.ts";

const size = 128;
using cuda = open({ driver: "software", softwareThreads: 16 });
const gpu = cuda.device(0);
using module = gpu.loadModule(ptx);
using a = gpu.currentPool.allocateArray(Float32Array, size * size);
using b = gpu.currentPool.allocateArray(Float32Array, size * size);
using c = gpu.currentPool.allocateArray(Float32Array, size * size);
const kernel = module.kernel("matrix_multiply");
const begin = performance.now();
while (performance.now() - begin < 5 * sharingPolicy.patienceMilliseconds) {
  kernel.launch({ grid: [size / 16, size / 16], block: [16, 16] }, a, b, c, size, size, size);
  gpu.synchronize();
}
console.log(workerCounts().all);
