/**
 * A user's first script: allocates, launches a kernel and reads the result.
 *
 * @module
 */
import * as poolpass from "../../mod.ts";
import { ptx } from "../../kernels/saxpy.ts";

const renamed = Object.entries(poolpass).filter(([name, exported]) =>
  typeof exported === "function" && exported.name !== name
).map(([name]) => name);
if (renamed.length > 0) throw new Error(`The package has renamed ${renamed.join(", ")}`);

using cuda = poolpass.open({ driver: "software" });
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool({ handleType: "posix-fd" });
using x = pool.allocateArray(Float32Array, 3, stream);
using y = pool.allocateArray(Float32Array, 3, stream);
x.copyFrom(Float32Array.of(1, 2, 3));
y.copyFrom(Float32Array.of(10, 20, 30));
using module = gpu.loadModule(ptx);
module.kernel("saxpy").launch({ grid: 1, block: 32, stream }, 3, 2, x, y);
console.log(cuda.driver, (await y.toTypedArray()).join(" "));
