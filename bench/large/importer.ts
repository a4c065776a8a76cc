/**
 * Maps what `exporter.ts` offers. Answers requests, as `bench/sharing/contract.ts` says.
 *
 *     importer.ts SOCKET
 *
 * - `map`: the nanoseconds of each map, until a kernel could read the memory
 *
 * @module
 */
import process from "node:process";
import { Importer, open } from "../../mod.ts";
import { answerRequests, numberOf, type Request } from "../sharing/contract.ts";

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
await using importer = await Importer.connect(cuda, process.argv[2]!);
const offer = await importer.offer("large");

async function map(request: Request): Promise<number[]> {
  const [warmUp, repetitions] = [numberOf(request, "warmUp", 0), numberOf(request, "repetitions", 1)];
  const times: number[] = [];
  for (let index = 0; index < warmUp + repetitions; index++) {
    const begin = performance.now();
    using buffer = await offer.map({ stream });
    const end = performance.now();
    if (index >= warmUp) times.push((end - begin) * 1e6);
    for (const byteOffset of [0, buffer.byteLength - 1]) {
      const [byte] = buffer.readSync(Uint8Array, { byteOffset, length: 1 });
      if (byte !== 0x5a) throw new Error("other memory was mapped");
    }
  }
  return times;
}

await answerRequests({
  name: "poolpass",
  device: gpu.name,
  uuid: gpu.uuid,
  isSoftware: cuda.driver === "software",
  versions: "",
}, { map });
