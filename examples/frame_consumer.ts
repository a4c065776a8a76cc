/**
 * Reads the frames of a `frame_producer` and checks each word.
 *
 *     deno run --allow-ffi examples/frame_consumer.ts <socket_path>
 *       --frames <n>  leaves after n frames; without it, at the end of the channel
 *
 * Each slot is released in stream order, right after the copy from it is queued. The producer can then reuse the slot
 * while this process still checks its copy.
 *
 * @module
 */
import { Importer, open } from "../mod.ts";
import { parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";

const name = "consumer";
const usage = "frame_consumer <socket_path> [--frames <n>]";
const about = `
Reads the frames of a frame_producer and checks each word.

--frames <n>  leaves after n frames; without it, at the end of the channel
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional: [socketPath, ...surplus], named } = readArguments(["frames"]);
  if (socketPath === undefined || surplus.length > 0) throw new UsageError("One argument is needed: a socket's path");
  const most = named.frames === undefined
    ? Infinity
    : parseCount(named.frames, { what: "the number of frames", least: 1 });

  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  await using importer = await Importer.connect(cuda, socketPath, { signal, wait: true });
  await using frames = await importer.channel("frames", { stream, signal });
  say(name, `Reading ${frames.slots} slots of ${frames.slotByteLength} bytes from process ${importer.peer.pid}`);
  using copy = pool.allocate(frames.slotByteLength, stream);

  let count = 0;
  let last = 0;
  while (count < most) {
    const slot = await frames.next({ signal });
    if (slot === undefined) break;
    const { sequence, buffer } = slot;
    buffer.copyTo(copy, stream);
    slot.release();
    const words = await copy.read(Uint32Array, { length: Math.floor(frames.slotByteLength / 4), signal });
    const wrong = words.findIndex((word) => word !== sequence);
    if (wrong >= 0) throw new Error(`Word ${wrong} of frame ${sequence} is ${words[wrong]}`);
    count++;
    last = sequence;
  }
  console.log(`${count} frames are right, the last of them frame ${last}`);
}

if (await runProgram(name, main, { usage, about })) say(name, "Cleanup complete");
