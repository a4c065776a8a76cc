/**
 * Rank 0 calls what rank 1 does not. Arguments: the driver's name, the rank, the id in hexadecimal, and what rank 0
 * calls. Prints "created", and in rank 0 the code of its error. Rank 1 stays until it is killed.
 *
 * @module
 */
import process from "node:process";
import { Communicator, open, type SharingError } from "../../../mod.ts";

const [driver, rankText, id, call] = process.argv.slice(2) as ["software" | "cuda", string, string, string];
const rank = Number(rankText);
using cuda = open({ driver });
const gpu = cuda.device(driver === "cuda" ? rank % cuda.devices.length : 0);
using stream = gpu.createStream({ nonBlocking: true });
using pool = gpu.createPool();
using array = pool.allocateArray(Float32Array, 4, stream);
const options = { id: Uint8Array.fromHex(id), rank, size: 2, timeout: 1500 };
await using communicator = await Communicator.create(gpu, options);
array.fill(rank + 1, stream);
console.log("created");
if (rank === 0) {
  const begin = performance.now();
  try {
    if (call === "send") communicator.send(array, 1, { stream });
    if (call === "receive") communicator.receive(array, 1, { stream });
    if (call === "allToAll") {
      using target = pool.allocateArray(Float32Array, 4, stream);
      communicator.allToAll(array, target, { stream });
      await stream.finished();
    }
    if (call === "allReduce") communicator.allReduce(array, array, "sum", { stream });
    stream.synchronize();
    console.log("no error");
  } catch (error) {
    console.log(
      `${(error as SharingError).code ?? error}, ${performance.now() - begin >= 1400 ? "in time" : "too early"}`,
    );
  }
} else {
  await new Promise(() => setInterval(() => {}, 1000));
}
