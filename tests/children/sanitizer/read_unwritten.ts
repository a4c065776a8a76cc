/** Reads memory of which only a part was written, and prints the reports. */
import { open } from "../../../mod.ts";

{
  using cuda = open({
    driver: "software",
    sanitize: ["initialization"],
    onReport: ({ message }) => console.log(message),
  });
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using x = pool.allocate(64, stream);
  x.subarray(0, 20).fill(0, stream);
  await x.subarray(0, 20).read(Uint8Array);
  await x.read(Uint8Array);
  // Between the rows, nothing is read.
  using rows = pool.allocatePitched(Uint8Array, [8, 4], stream);
  rows.region([0, 0], [6, 4]).fill(0);
  await rows.region([1, 0], [5, 4]).read();
  await rows.region([1, 1], [6, 2]).read();
}
console.log("done");
