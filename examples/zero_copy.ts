/**
 * A kernel that reads and writes the host's memory in place, as NVIDIA's sample simpleZeroCopy: nothing is copied, and
 * nothing is allocated on the device.
 *
 *     deno run --allow-ffi examples/zero_copy.ts [--elements 1048576] [--registered]
 *
 * Each access of the kernel crosses the bus to the host, so this pays for memory that a kernel touches once. The memory
 * is allocated page-locked; with `--registered`, it is memory that exists, which is page-locked where it is.
 *
 * @module
 */
import { type Cuda, type HostBuffer, open } from "../mod.ts";
import { ptx } from "../kernels/saxpy.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";

const usage = "zero_copy [--elements 1048576] [--registered]";
const about = `
Adds two vectors in the host's memory with a kernel, and checks the sums.

--elements <n>  how many numbers each vector has
--registered    register memory that exists instead of allocating page-locked memory
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["elements"], ["registered"]);
  refuseSurplus(positional);
  const elements = parseCount(named.elements ?? String(2 ** 20), { what: "the number of elements", least: 1 });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using module = gpu.loadModule(ptx);
  const create = named.registered ? register : (cuda: Cuda, byteLength: number) => cuda.allocateHost(byteLength);
  using a = create(cuda, elements * Float32Array.BYTES_PER_ELEMENT);
  using b = create(cuda, elements * Float32Array.BYTES_PER_ELEMENT);
  const [x, y] = [new Float32Array(a.buffer), new Float32Array(b.buffer)];
  for (let index = 0; index < elements; index++) [x[index], y[index]] = [index % 1000, index % 7];

  module.kernel("saxpy").launch({ grid: 256, block: 256, stream }, elements, 1, a, b); // b = 1 a + b
  await stream.finished({ signal }); // before that, the host may see only some of the sums
  const wrong = y.findIndex((sum, index) => sum !== index % 1000 + index % 7);
  if (wrong >= 0) throw new Error(`Sum ${wrong} is ${y[wrong]}, not ${wrong % 1000 + wrong % 7}`);
  console.log(`All ${elements} sums are right, in ${named.registered ? "registered" : "page-locked"} memory`);
}

/** Page-locks memory that JavaScript has allocated. Nobody can detach a SharedArrayBuffer meanwhile. */
function register(cuda: Cuda, byteLength: number): HostBuffer {
  return cuda.registerHost(new SharedArrayBuffer(Math.max(byteLength, 4096)));
}

await runProgram("zero_copy", main, { usage, about });
