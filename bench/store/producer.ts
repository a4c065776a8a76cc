/**
 * Sends frames through a channel, whose exporter an operator may watch. Answers requests, as
 * `bench/sharing/contract.ts` says.
 *
 *     producer.ts SOCKET
 *
 * - `frames`: the nanoseconds for each frame, on average of `milliseconds`
 *
 * @module
 */
import process from "node:process";
import { Exporter, open } from "../../mod.ts";
import { answerRequests, numberOf, type Request } from "../sharing/contract.ts";

const [path] = process.argv.slice(2) as [string];
/** A frame is small, so that messages cost more than its bytes. */
const slotByteLength = 64 * 2 ** 10;
const waitTimeout = 20_000;

using cuda = open();
const device = cuda.device(0);
using stream = device.createStream({ nonBlocking: true });
using pool = device.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
await using exporter = Exporter.listen(path);
await using channel = exporter.createChannel("frames", { pool, slots: 4, slotByteLength, stream });

async function sendFrames(request: Request): Promise<number[]> {
  const milliseconds = numberOf(request, "milliseconds", 1000);
  const begin = performance.now();
  let frames = 0;
  while (performance.now() - begin < milliseconds) {
    const slot = await channel.reserve({ signal: AbortSignal.timeout(waitTimeout) });
    slot.buffer.fill(frames % 256);
    channel.send(slot);
    frames++;
  }
  return [(performance.now() - begin) / frames * 1e6];
}

await answerRequests({
  name: "poolpass",
  device: device.name,
  uuid: device.uuid,
  isSoftware: cuda.driver === "software",
  versions: "",
}, { frames: sendFrames });
