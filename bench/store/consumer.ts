/**
 * Reads the frames of `producer.ts` until it ends.
 *
 *     consumer.ts SOCKET
 *
 * @module
 */
import process from "node:process";
import { Importer, open } from "../../mod.ts";

using cuda = open();
using stream = cuda.device(0).createStream({ nonBlocking: true });
const signal = AbortSignal.timeout(20_000);
await using importer = await Importer.connect(cuda, process.argv[2]!, { wait: true, signal });
await using frames = await importer.channel("frames", { stream, signal });
for await (const slot of frames) slot.release();
