// A pool, arrays allocated from it, and a kernel.
import { ptx } from "../../../kernels/saxpy.ts";
import { open } from "../../../mod.ts";

using cuda = open();
const gpu = cuda.device(0);
using pool = gpu.createPool({ releaseThreshold: Infinity });
using x = pool.allocateArray(Float32Array, 3), y = pool.allocateArray(Float32Array, 3);
x.copyFrom(Float32Array.of(1, 2, 3)), y.copyFrom(Float32Array.of(10, 20, 30));
using module = gpu.loadModule(ptx);
const saxpy = module.kernel("saxpy");
saxpy.launch({ grid: 1, block: 32 }, 3, 2, x, y);
console.log((await y.toTypedArray()).join(" "), saxpy.maxActiveBlocksPerMultiprocessor(32) > 0);
