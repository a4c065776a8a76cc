/**
 * The last rank of two, which has its part of an all-reduce on each of some streams, prints "done", and is killed by
 * itself then. Arguments: the driver's name, the id in hexadecimal, and the number of streams. Prints the handle of memory
 * first.
 *
 * @module
 */
import process from "node:process";
import { Communicator, open } from "../../../mod.ts";

const [driver, id, streamCount] = process.argv.slice(2) as ["software" | "cuda", string, string];
using cuda = open({ driver });
const gpu = cuda.device(driver === "cuda" ? 1 % cuda.devices.length : 0);
using shared = cuda.device(0).allocate(64);
console.log(shared.exportHandle().toHex());
await using communicator = await Communicator.create(gpu, { id: Uint8Array.fromHex(id), rank: 1, size: 2 });
using pool = gpu.createPool();
using stack = new DisposableStack();
const streams = Array.from({ length: Number(streamCount) }, () => {
  return stack.use(gpu.createStream({ nonBlocking: true }));
});
for (const stream of streams) {
  const array = stack.use(pool.allocateArray(Float32Array, 4, stream));
  array.fill(2);
  communicator.allReduce(array, array);
}
for (const stream of streams) stream.synchronize();
console.log("done");
process.kill(process.pid, "SIGKILL");
