/**
 * A rank of which another one is killed. Arguments: the driver's name, the rank, the size, the id in hexadecimal, the
 * number of the rank that is killed, and the timeout in milliseconds. Prints what it does: the rank that is killed
 * "started", "creating", "created", and "working" after some collectives, of which it makes more until it is killed, or
 * none with "idle" as the last argument. The others print the code of the error that they get, and when (in milliseconds since
 * 1970), and then what those that are left compute together.
 *
 * @module
 */
import process from "node:process";
import { Communicator, type CudaError, open, type SharingError } from "../../../mod.ts";

const [driver, rankText, sizeText, id, lostText, timeout, how] = process.argv.slice(2) as [
  "software" | "cuda",
  string,
  string,
  string,
  string,
  string,
  string?,
];
const [rank, size, lost] = [rankText, sizeText, lostText].map(Number) as [number, number, number];
console.log("started");
using cuda = open({ driver });
const gpu = cuda.device(driver === "cuda" ? rank % cuda.devices.length : 0);
using stream = gpu.createStream({ nonBlocking: true });
using pool = gpu.createPool();
using array = pool.allocateArray(Float32Array, 1024, stream);

function print(error: unknown): void {
  console.log(`${(error as CudaError | SharingError).code ?? error} ${Date.now()}`);
}

async function add(communicator: Communicator, finishes: (count: number) => Promise<void> | void): Promise<number> {
  array.fill(communicator.rank + 1, stream);
  communicator.allReduce(array, array, "sum", { stream });
  await finishes(0);
  return (await array.toTypedArray({ stream }))[1023]!;
}

async function run(): Promise<void> {
  const creating = Communicator.create(gpu, { id: Uint8Array.fromHex(id), rank, size, timeout: Number(timeout) });
  console.log("creating");
  let communicator: Communicator;
  try {
    communicator = await creating;
  } catch (error) {
    print(error);
    return;
  }
  console.log("created");
  let left: Communicator | undefined;
  try {
    for (let count = 0;; count++) {
      if (count === 5 && rank === lost) console.log("working");
      if (count === 5 && rank === lost && how === "idle") await new Promise(() => setInterval(() => {}, 1000));
      // Use each kind of wait in turn.
      const sum = await add(communicator, [() => {}, () => stream.synchronize(), () => stream.finished()][count % 3]!);
      if (sum !== size * (size + 1) / 2) throw new Error(`the sum is ${sum}`);
    }
  } catch (error) {
    print(error);
  }
  try {
    left = await communicator.shrink([lost]);
    console.log(`${left.rank} of ${left.size}: ${await add(left, () => {})}`);
  } catch (error) {
    print(error);
  }
  await left?.[Symbol.asyncDispose]();
  await communicator[Symbol.asyncDispose]();
  console.log("done");
}

await run();
