/**
 * Computes y = 2.5 x + y for 1024 numbers with a kernel. Read this example first.
 *
 *     deno run --allow-ffi examples/saxpy.ts
 *
 * Prints the first 4 of 1024 numbers. Each x is 1 and each y is 2, so each result is 4.5. Runs on a GPU, or on the software device
 * if there is none.
 *
 * @module
 */
import { open } from "../mod.ts";
import { ptx } from "../kernels/saxpy.ts";

using cuda = open(); // cuda.driver says "cuda" or "software"
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool();
using x = pool.allocateArray(Float32Array, 1024, stream); // freed on its stream at the end of the program
using y = pool.allocateArray(Float32Array, 1024, stream);
x.copyFrom(new Float32Array(1024).fill(1));
y.copyFrom(new Float32Array(1024).fill(2));
using module = gpu.loadModule(ptx); // parameter types come from the PTX
module.kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);
console.log((await y.toTypedArray()).slice(0, 4)); // resolves once the stream has reached the read
