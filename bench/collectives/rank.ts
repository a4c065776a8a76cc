/**
 * A rank that measures all-reduces, in the rounds of `native.cu`.
 *
 *     rank.ts RANK SIZE ID SIZES ITERATIONS
 *
 * ID is that of the communicator in hexadecimal, or `-` for rank 0, which prints it as `{"id"}`. Prints a line of JSON for
 * each size in bytes, `{"byteLength", "microseconds"}`: the median of the rounds.
 *
 * @module
 */
import process from "node:process";
import { Communicator, open } from "../../mod.ts";
import { median } from "../measurement.ts";

const rounds = 7;
const warmUps = 5;
/** Before the first size, so many that the engine has compiled what they take: C++ is compiled already. */
const firstWarmUps = 20_000;
/** Milliseconds in which all must come, and a collective must be done. */
const timeout = 60_000;

const [rankText, sizeText, idText, sizes, iterationsText] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const [rank, size, iterations] = [rankText, sizeText, iterationsText].map(Number) as [number, number, number];
using cuda = open();
const device = cuda.device(rank % cuda.devices.length);
const id = idText === "-" ? Communicator.createId(cuda) : Uint8Array.fromHex(idText);
if (idText === "-") console.log(JSON.stringify({ id: id.toHex() }));
using stream = device.createStream({ nonBlocking: true });
await using communicator = await Communicator.create(device, { id, rank, size, timeout });
for (const [index, byteLength] of sizes.split(",").map(Number).entries()) {
  // As in C++, from cudaMalloc.
  using source = device.allocate(byteLength);
  using target = device.allocate(byteLength);
  source.fill(0, stream);
  const [from, to] = [source.as(Float32Array), target.as(Float32Array)];
  const options = { stream };
  const allReduce = () => communicator.allReduce(from, to, "sum", options);
  const count = Math.floor(Math.max(5, Math.min(iterations, iterations * 2 ** 22 / byteLength)));
  const isFirst = index === 0 && cuda.driver === "cuda" && byteLength <= 4096;
  for (let run = 0; run < (isFirst ? firstWarmUps : warmUps); run++) allReduce();
  stream.synchronize();
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // All ranks have come when this one is done.
    allReduce();
    stream.synchronize();
    const begin = performance.now();
    for (let run = 0; run < count; run++) allReduce();
    stream.synchronize();
    times.push(1000 * (performance.now() - begin) / count);
  }
  if (rank === 0) console.log(JSON.stringify({ byteLength, microseconds: median(times) }));
}
